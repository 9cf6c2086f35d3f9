//! Processes that are killed from outside while they recover what another one left, one after the other, until one gets through. The pools have much
//! to recover: long regions, thousands of words of logs, and files that grew.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use region::{Atomicity, Layout, Ptr};
use strandline::pool::{self, Pool};

/// Sheets that are numbered from 0 on, the newest first, and a field that every eighth region writes all over.
struct Pile;
region::persistent! { Pile:
    struct Root { first: Ptr<Sheet, Pile>, next: u64, field: [u64; FIELD] }
    struct Sheet { number: u64, next: Ptr<Sheet, Pile>, text: [u64; TEXT] }
}
impl Layout for Pile {
    const NAME: &'static str = "pile, 1";
    type Root = Root;
}

/// Words of the field, which no log holds.
const FIELD: usize = 4096;
/// From one word that is written to the next: no two follow each other.
const STRIDE: usize = 1021;
const TEXT: usize = 1022;
/// Sheets of a pile, at most. They are more than fit into the pool when it is made.
const SHEETS: u64 = 600;
/// Regions from one that writes the field to the next.
const WAVE: u64 = 8;
const BYTES: u64 = 4 << 20;
/// Threads that write, in turn: each has a log.
const THREADS: u64 = 4;

/// Puts a sheet on the pile; what is on it before is taken away when it is too high.
fn push<A: Atomicity>(pool: &Pool<Pile, A>) -> u64 {
    let pushed = pool.region(|tx| {
        let root = tx.root();
        let first = Root::first(root);
        let next = Root::next(root);
        let field = Root::field(root);
        let number = tx.get(next);
        let mut below = tx.get(first);
        if number % SHEETS == 0 {
            while let Some(sheet) = below.get() {
                below = tx.get(sheet).next;
                tx.free(sheet)?;
            }
        }
        let sheet = tx.alloc(Sheet { number, next: below, text: [number; TEXT] })?;
        if number % WAVE == 0 {
            (0..FIELD).try_for_each(|at| tx.set(field.element(at * STRIDE % FIELD), number))?;
        }
        tx.set(first, sheet)?;
        tx.set(next, number + 1)?;
        Ok(number)
    });
    pushed.expect("there is room")
}

/// How many sheets were put there.
fn count<A: Atomicity>(pool: &Pool<Pile, A>) -> u64 {
    let Root { first, next, field } = pool.get(pool.root());
    let mut numbers = Vec::new();
    let mut at = first;
    while let Some(sheet) = at.get() {
        let Sheet { number, next, text } = pool.get(sheet);
        assert_eq!(text.iter().find(|word| **word != number), None, "half of sheet {number}");
        numbers.push(number);
        at = next;
    }
    let last = next.saturating_sub(1);
    let expected: Vec<u64> = (last / SHEETS * SHEETS..next).rev().collect();
    assert_eq!(numbers, expected);
    let wave = last / WAVE * WAVE;
    assert_eq!(field.iter().find(|word| **word != wave), None, "half of wave {wave}");
    assert_eq!(pool.blocks().len(), 1 + numbers.len(), "nothing is leaked");
    next
}

/// Names the pool to a child.
const CHILD: &str = "STRANDLINE_TEST_PILE";
/// What a child does: it only opens the pool if this is there.
const OPENS: &str = "STRANDLINE_TEST_OPENS";

/// Tells the parent something past the test harness, which would keep it.
fn tell(text: &str) {
    _ = writeln!(std::io::stderr(), "{text}");
}

/// Opens the pool, and writes to it by several threads without an end.
fn child<A: Atomicity>(path: &Path) {
    tell("opens");
    let (pool, _) = pool::open::<Pile, A>(path).expect("it is whole");
    tell("opened");
    if std::env::var_os(OPENS).is_some() {
        return;
    }
    let pool = pool::growing(pool);
    let turn = Mutex::new(());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let turn = turn.lock().expect("nobody panicked");
                    tell(&format!("done {}", push(&pool)));
                    drop(turn);
                    thread::yield_now();
                }
            });
        }
    });
}

/// A child at work on the pool at `path`.
struct Process {
    child: Child,
    reported: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Process {
    fn start(test: &str, path: &Path, opens: bool) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("this test has a file"));
        command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(CHILD, path);
        if opens {
            command.env(OPENS, "1");
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let mut reported = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let first = reported.next().expect("it tells something").expect("it is text");
        assert_eq!(first, "opens");
        Process { child, reported }
    }

    /// Kills it; what it reported that was not read yet.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().expect("it runs, or nobody has waited for it");
        self.child.wait().expect("it ran");
        self.reported.map_while(Result::ok).collect()
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end.max(1)
    }
}

/// What became of processes that were killed.
#[derive(Debug, Default)]
struct Kills {
    /// While they opened the pool.
    opening: u64,
    /// Of these: when they had changed the file.
    recovering: u64,
    /// Later.
    later: u64,
    /// Pools that had grown.
    grown: u64,
}

/// Has processes write to a pool, kills them, and kills those that open it then; `rounds` times.
fn killed<A: Atomicity>(test: &str, folder: &Path, rounds: u64) -> Kills {
    if let Some(path) = std::env::var_os(CHILD) {
        child::<A>(Path::new(&path));
        return Kills::default();
    }
    let path = folder.join(format!("strandline-recovering-{}-{}", A::NAME, std::process::id()));
    let (mut random, mut kills) = (Random(A::NUMBER.into()), Kills::default());
    // How long it takes to open the pool, as far as is known.
    let mut longest = Duration::from_millis(5);
    let mut before = 0;
    for round in 0..rounds {
        if round % 12 == 0 {
            _ = std::fs::remove_file(&path);
            drop(pool::create::<Pile, A>(&path, BYTES).expect("there is room"));
            before = 0;
        }
        let mut writer = Process::start(test, &path, false);
        let wanted = random.below(200) as usize;
        let mut lines: Vec<String> = writer.reported.by_ref().take(wanted).map_while(Result::ok).collect();
        thread::sleep(Duration::from_micros(random.below(4000)));
        lines.extend(writer.kill());
        let numbers = lines.iter().filter_map(|line| line.strip_prefix("done ")?.parse::<u64>().ok());
        let reported = numbers.max().map_or(before, |number| number + 1);
        // Until one gets through, or some were killed.
        for _ in 0..1 + random.below(6) {
            let left = std::fs::read(&path).expect("it is there");
            let begun = Instant::now();
            let mut opener = Process::start(test, &path, true);
            let span = random.below(longest.as_micros() as u64 * 5 / 4);
            if span > 0 {
                thread::sleep(Duration::from_micros(span));
            } else {
                // To know how long it takes.
                _ = opener.reported.next();
                longest = (longest + begun.elapsed()) / 2;
            }
            if opener.kill().iter().any(|line| line == "opened") || span == 0 {
                kills.later += 1;
                break;
            }
            kills.opening += 1;
            kills.recovering += u64::from(std::fs::read(&path).expect("it is there") != left);
        }
        let begun = Instant::now();
        let (pool, _) = pool::open::<Pile, A>(&path).expect("it can be recovered");
        longest = (3 * longest + begun.elapsed()) / 4;
        let found = count(&pool);
        assert!(
            (reported..=reported + 1).contains(&found),
            "{}: {reported} were reported, {found} are there; last reported: {:?}",
            A::NAME,
            lines.last()
        );
        kills.grown += u64::from(pool.header().bytes > BYTES);
        before = found;
    }
    std::fs::remove_file(&path).expect("it is ours");
    println!("{}: {kills:?}", A::NAME);
    kills
}

#[test]
fn a_process_that_is_killed_while_it_recovers_loses_nothing() {
    let test = "recovering::a_process_that_is_killed_while_it_recovers_loses_nothing";
    each_engine(test, Path::new("/dev/shm"), 6);
}

#[test]
#[ignore = "takes minutes"]
fn recovery_is_killed_thousands_of_times() {
    let test = "recovering::recovery_is_killed_thousands_of_times";
    for kills in each_engine(test, Path::new("/dev/shm"), 600) {
        assert!(kills.recovering > 100 && kills.grown > 100, "{kills:?}");
    }
}

/// [`killed`] by one engine.
type Run = fn(&str, &Path, u64) -> Kills;

/// By each engine; a child does what its own one asks for.
fn each_engine(test: &str, folder: &Path, rounds: u64) -> Vec<Kills> {
    let path = std::env::var(CHILD).unwrap_or_default();
    let all = region::for_each_engine!(sound [A => (<A as Atomicity>::NAME, killed::<A> as Run)]);
    let wanted = all.into_iter().filter(|(name, _)| path.is_empty() || path.contains(&format!("-{name}-")));
    wanted.map(|(_, killed)| killed(test, folder, rounds)).collect()
}
