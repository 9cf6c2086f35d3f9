//! What a failure-atomic region costs, as a ratio to one 8-byte store to a random line that is flushed and fenced.
//!
//! `cargo bench -p strandline --bench regions`. A pool for each engine in `/dev/shm`, one thread, its CPU time. A region sets words on so many
//! random lines of 64 MiB, or of 1 MiB (near), and the log is given up at the end of each turn, so that all flushes that a region owes are in its figure. Beside it, in the same pool:
//! the bare instructions with one fence, and the bare instructions of a redo log with one fence (addresses and values in whole lines that follow each other, stores and flushes in place
//! behind the fence): the floor. And libpmemobj where it is installed, in a process of its
//! own. What is measured in one pool runs in turns, which are shorter than a scheduler's time slice, and the fastest turn of
//! each counts. Behind what a block costs stands by how much two threads get more blocks than one does, by the clock. A row's unit was measured in its own pool, in the same turns: on a virtual machine it can differ twofold between two pools, by where
//! their pages happen to be. All pools, the peer's too, are in huge pages where the kernel makes them, or in
//! small ones with `-- --small-pages`. At the end stands from how many bytes on micro-buffering writes back
//! by non-temporal stores, measured five times. `none` only flushes and fences what it wrote: no crash may
//! come.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

use pmem::{Mapped, Os};
use region::{Atomicity, Layout, MicroBuffer, Options, Pool, Ptr};
use rustix::time::{ClockId, clock_gettime};
use space::{Env, LINE, Space};

const PIECE: usize = 4096;
const PIECES: u64 = 2048;
/// Pieces of 1 MiB.
const NEAR: usize = 32;
/// Words of the bare redo log.
const LOG: usize = 1 << 15;
const LINES: [u64; 4] = [1, 4, 16, 64];

struct Bench;
region::persistent! { Bench:
    struct Root { first: u64 }
}
impl Layout for Bench {
    const NAME: &'static str = "bench";
    type Root = Root;
}

type Piece = [u64; PIECE];
type BenchPool<'e, A> = Pool<&'e Os<Mapped>, Bench, A>;

/// CPU time of this thread.
fn cpu_ns() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

fn timed(count: u64, work: impl FnOnce()) -> f64 {
    let begin = cpu_ns();
    work();
    (cpu_ns() - begin) / count as f64
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Figures by name, one for each turn.
type Figures = BTreeMap<String, Vec<f64>>;

/// A file that is gone afterwards.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let (turns, regions) = if full { (100, 10_000) } else { (1, 200) };
    println!("{}", pmem::isa::Offer::of_this_cpu());
    let mut figures = Figures::new();
    region::for_each_engine!(A => measure::<A>(turns, regions, &mut figures));
    let ours = table(&figures);
    println!(
        "{:<24}{:>10}{:>10}{:>10}{:>10}{:>16}{:>13}{:>10}",
        "units", 1, 4, 16, 64, "alloc, free 64 B", "by 2 threads", "unit, ns"
    );
    for name in region::ENGINES.map(|engine| engine.name) {
        let unit = ours[&format!("{name} unit")];
        let row = |kind: &str| LINES.map(|lines| ours[&format!("{name} {kind}{lines}")] / unit);
        print!("{name:<24}");
        row("").iter().for_each(|ratio| print!("{ratio:>10.2}"));
        let alloc = ours[&format!("{name} alloc")] / unit;
        let gain = 2.0 * ours[&format!("{name} alloc by 1")] / ours[&format!("{name} alloc by 2")];
        println!("{alloc:>16.2}{gain:>13.2}{unit:>10.0}");
        for (kind, title) in
            [("near ", "  near"), ("bare ", "  bare, one fence"), ("log ", "  bare redo, one fence")]
        {
            print!("{title:<24}");
            row(kind).iter().for_each(|ratio| print!("{ratio:>10.2}"));
            println!();
        }
    }
    println!("micro-buffer: non-temporal from, bytes: {:?}", thresholds());
    match full.then(libpmemobj) {
        Some(Ok(peer)) => {
            print!("{:<24}", "libpmemobj");
            LINES.iter().for_each(|lines| print!("{:>10.2}", peer[&lines.to_string()] / peer["unit"]));
            println!("{:>16.2}{:>13}{:>10.0}", peer["alloc"] / peer["unit"], "", peer["unit"]);
        }
        Some(Err(why)) => println!("libpmemobj: skipped: {why}"),
        None => {}
    }
}

/// From how many bytes on micro-buffering writes back non-temporally here.
fn thresholds() -> Vec<Result<u64, region::Error>> {
    let file = Gone(PathBuf::from(format!("/dev/shm/strandline-threshold-{}", std::process::id())));
    _ = std::fs::remove_file(&file.0);
    let env = &Os::new(memory(&file.0, 64 << 20));
    let pool = BenchPool::<MicroBuffer>::create(env, &Options::default()).expect("the file is new");
    (0..5).map(|_| pool.measure_threshold()).collect()
}

/// Whether pages are to stay small.
fn small_pages() -> bool {
    std::env::args().any(|argument| argument == "--small-pages")
}

/// A new file in memory, in huge pages where the kernel makes them: with small ones the figures go by where these happen to lie, as the processor waits to
/// find them.
fn memory(path: &Path, bytes: u64) -> Mapped {
    let memory = Mapped::create(path, bytes).expect("there is room in /dev/shm");
    if !small_pages() {
        memory.prefault(0, bytes).expect("there is room in /dev/shm");
    }
    memory
}

fn measure<A: Atomicity>(turns: u64, regions: u64, figures: &mut Figures) {
    let file = Gone(PathBuf::from(format!("/dev/shm/strandline-regions-{}-{}", A::NAME, std::process::id())));
    _ = std::fs::remove_file(&file.0);
    let env = &Os::new(memory(&file.0, 256 << 20));
    let pool = BenchPool::<A>::create(env, &Options::default()).expect("the file is new");
    let pieces: Vec<Ptr<Piece, Bench>> =
        (0..PIECES).map(|_| pool.region(|tx| tx.alloc([0; PIECE])).expect("there is room")).collect();
    // For the bare redo log.
    let log = pool.region(|tx| tx.alloc([0u64; LOG])).expect("there is room").offset();
    let mut head = 0;
    let mut random = Random(88_172_645_463_325_252);
    let mut one_of = |pieces: &[Ptr<Piece, Bench>]| {
        let number = random.next();
        pieces[(number >> 32) as usize % pieces.len()].element(number as usize % (PIECE / 8) * 8)
    };
    let mut note = |name: String, ns| figures.entry(name).or_default().push(ns);
    let space = env.space();
    for _ in 0..turns {
        note(
            format!("{} unit", A::NAME),
            timed(regions, || {
                for n in 0..regions {
                    let at = one_of(&pieces).offset();
                    space.store_u64(at, n);
                    space.persist(at, 8);
                }
            }),
        );
        for lines in LINES {
            let count = regions.div_ceil(lines);
            let bare = timed(count, || {
                for n in 0..count {
                    for _ in 0..lines {
                        let at = one_of(&pieces).offset();
                        space.store_u64(at, n);
                        space.flush(at, 8);
                    }
                    space.fence();
                }
            });
            note(format!("{} bare {lines}", A::NAME), bare);
            let mut places = Vec::new();
            let redo = timed(count, || {
                for n in 0..count {
                    places.clear();
                    places.extend((0..lines).map(|_| one_of(&pieces).offset()));
                    bare_redo(space, log, &mut head, &places, n);
                }
                space.fence();
            });
            note(format!("{} log {lines}", A::NAME), redo);
            for (kind, pieces) in [("", &pieces[..]), ("near ", &pieces[..NEAR])] {
                let ours = timed(count, || {
                    for n in 0..count {
                        let done = pool.region(|tx| (0..lines).try_for_each(|_| tx.set(one_of(pieces), n)));
                        done.expect("there is room");
                    }
                    pool.checkpoint().expect("the memory works");
                });
                note(format!("{} {kind}{lines}", A::NAME), ours);
            }
        }
        let count = regions / 4;
        note(format!("{} alloc", A::NAME), timed(count, || allocate_and_free(&pool, count)));
        for threads in [1, 2] {
            note(format!("{} alloc by {threads}", A::NAME), together(&pool, threads, count));
        }
    }
}

/// The least that a redo log asks for: the record, made durable, and then the stores, for whose flushes the next fence waits.
fn bare_redo(space: &Mapped, log: u64, head: &mut u64, places: &[u64], value: u64) {
    let bytes = (16 * places.len() as u64).next_multiple_of(LINE);
    if *head + bytes > 8 * LOG as u64 {
        *head = 0;
    }
    let from = log + *head;
    if space.nt_is_sooner() {
        for (at, places) in (from..).step_by(LINE as usize).zip(places.chunks(4)) {
            let mut line = [[0; 8]; 8];
            for (entry, place) in line.as_chunks_mut().0.iter_mut().zip(places) {
                *entry = [place.to_le_bytes(), value.to_le_bytes()];
            }
            space.store_nt(at, line.as_flattened());
        }
    } else {
        for (at, &place) in (from..).step_by(16).zip(places) {
            space.store_u64(at, place);
            space.store_u64(at + 8, value);
        }
        space.flush(from, bytes);
    }
    *head += bytes;
    space.fence();
    for &place in places {
        space.store_u64(place, value);
        space.flush(place, 8);
    }
}

/// One region takes a block, the next one gives it back.
fn allocate_and_free<A: Atomicity>(pool: &BenchPool<'_, A>, count: u64) {
    for n in 0..count {
        let block = pool.region(|tx| tx.alloc([n; 8])).expect("there is room");
        pool.region(|tx| tx.free(block)).expect("it is there");
    }
}

/// The same by so many threads at once: nanoseconds by the clock until the last one is done, for each block of one of them.
fn together<A: Atomicity>(pool: &BenchPool<'_, A>, threads: u32, count: u64) -> f64 {
    let ready = Barrier::new(threads as usize);
    let longest = Mutex::new(0f64);
    pool.env().threads(threads, |_| {
        ready.wait();
        let begin = Instant::now();
        allocate_and_free(pool, count);
        let each = begin.elapsed().as_secs_f64() * 1e9 / count as f64;
        let mut longest = longest.lock().expect("nobody panicked");
        *longest = longest.max(each);
    });
    longest.into_inner().expect("nobody panicked")
}

/// The fastest turn of each figure.
fn table(figures: &Figures) -> BTreeMap<String, f64> {
    let fastest = |turns: &Vec<f64>| turns.iter().copied().fold(f64::INFINITY, f64::min);
    figures.iter().map(|(name, turns)| (name.clone(), fastest(turns))).collect()
}

/// The peer's figures.
fn libpmemobj() -> Result<BTreeMap<String, f64>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/regions.c");
    let program = Gone(std::env::temp_dir().join(format!("strandline-regions-{}", std::process::id())));
    let built = Command::new("cc").args(["-O2", "-o"]).arg(&program.0).arg(source).arg("-lpmemobj").output();
    match built {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            return Err(String::from_utf8_lossy(&output.stderr)
                .lines()
                .next()
                .unwrap_or("cc failed")
                .to_owned());
        }
        Err(error) => return Err(format!("cc: {error}")),
    }
    let pool = Gone(PathBuf::from(format!("/dev/shm/strandline-pmemobj-{}", std::process::id())));
    let mut run = Command::new(&program.0);
    run.arg(&pool.0).args(small_pages().then_some("small")).env("PMEM_IS_PMEM_FORCE", "1");
    let output = run.output().map_err(|error| error.to_string())?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("{}", output.status));
    }
    let mut figures = Figures::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some((name, ns)) = line.split_once(' ').and_then(|(name, ns)| Some((name, ns.parse().ok()?))) {
            figures.entry(name.to_owned()).or_default().push(ns);
        }
    }
    Ok(table(&figures))
}
