//! One of four processes is killed at a random moment, again and again: nothing that it had committed is
//! lost, nothing of it is there in part, and no other process stops.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vnvm::{Mode, Options, Setup, Sizes, Vnvm, recover_directory};

const PLACE: &str = "VNVM_TEST_PLACE";
const NUMBER: &str = "VNVM_TEST_NUMBER";
const PROCESSES: u64 = 4;
const BYTES: u64 = 64 << 10;
/// Bytes of a process's part of the shared file.
const PART: u64 = 8 << 10;

fn setup() -> Setup {
    Setup::new(Sizes::new(128 * 4096, 32 * 4096, 4096).expect("sizes"))
}

/// Where a transaction stores its number: over several pages.
fn places(number: u64) -> impl Iterator<Item = u64> {
    (0..6).map(move |place| place * 10_000 + number % 3 * 8)
}

/// What the file has of each place's three words: the last number of its third.
fn whole(bytes: &[u8], places: &[u64]) -> Result<u64, String> {
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..][..8].try_into().expect("eight bytes"));
    let mut last = 0;
    for third in 0..3 {
        let numbers: Vec<u64> = places.iter().map(|place| word(place + third * 8)).collect();
        if numbers.iter().any(|number| *number != numbers[0] || (*number != 0 && number % 3 != third)) {
            return Err(format!("in part: {numbers:?}"));
        }
        last = last.max(numbers[0]);
    }
    let seen: Vec<u64> = (0..3).map(|third| word(places[0] + third * 8)).collect();
    if seen.iter().any(|number| *number + 3 <= last && last > 3) {
        return Err(format!("an older one is missing: {seen:?}"));
    }
    Ok(last)
}

const PRIVATE_PLACES: [u64; 6] = [0, 10_000, 20_000, 30_000, 40_000, 50_000];

fn shared_places(me: u64) -> [u64; 3] {
    [me * PART, me * PART + 4000, me * PART + 8000]
}

/// A process: commits numbers to its own file and to its part of the shared one, and writes down what it has
/// committed.
#[test]
fn child() {
    let (Ok(place), Ok(number)) = (env::var(PLACE), env::var(NUMBER)) else { return };
    let (place, me) = (PathBuf::from(place), number.parse::<u64>().expect("a number"));
    let progress = OpenOptions::new().read(true).write(true).open(place.join("progress")).expect("a file");
    let mut word = [0; 8];
    progress.read_exact_at(&mut word, me * 8).expect("it is there");
    let acknowledged = u64::from_le_bytes(word);
    let options = Options { durable_first: me.is_multiple_of(2), ..Options::default() };
    let vnvm = Vnvm::open(&place.join("nvm"), &setup(), options).expect("an NVM");
    let own = vnvm.allocate(&place.join(format!("own-{me}")), BYTES, Mode::Private).expect("a region");
    let shared =
        vnvm.allocate(&place.join("shared"), PROCESSES * PART + 8192, Mode::Shared).expect("a region");
    let mut bytes = vec![0; BYTES as usize];
    own.read(0, &mut bytes);
    let mut last = whole(&bytes, &PRIVATE_PLACES).expect("whole");
    assert!(last >= acknowledged, "{acknowledged} was committed, {last} is there");
    bytes.resize(shared.len() as usize, 0);
    shared.read(0, &mut bytes[..shared.len() as usize]);
    let there = whole(&bytes, &shared_places(me)).expect("whole");
    assert!(there >= acknowledged, "{acknowledged} was committed, {there} is in the shared file");
    let count = |last: u64| {
        let mut tx = vnvm.begin();
        for at in shared_places(me) {
            tx.write(&shared, at + last % 3 * 8, &last.to_le_bytes()).expect("room");
        }
        tx.commit().expect("it is open");
    };
    // It may have been killed between the two commits of a number.
    if there < last {
        count(last);
    }
    loop {
        last += 1;
        let mut tx = vnvm.begin();
        places(last).for_each(|at| tx.write(&own, at, &last.to_le_bytes()).expect("room"));
        tx.commit().expect("it is open");
        count(last);
        progress.write_all_at(&last.to_le_bytes(), me * 8).expect("a file");
        if let Some(failure) = vnvm.failure() {
            panic!("{failure}");
        }
    }
}

fn start(place: &Path, number: u64) -> Child {
    let errors = File::create(place.join(format!("errors-{number}"))).expect("a file");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(PLACE, place).env(NUMBER, number.to_string());
    command.stdout(Stdio::null()).stderr(errors).spawn().expect("a process")
}

fn progress(place: &Path) -> Vec<u64> {
    let bytes = fs::read(place.join("progress")).expect("a file");
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn errors(place: &Path, number: u64) -> String {
    fs::read_to_string(place.join(format!("errors-{number}"))).unwrap_or_default()
}

/// The processes, which end with the test.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// Kills a process that must be alive.
fn kill(place: &Path, number: u64, child: &mut Child) {
    child.kill().expect("it is there");
    let status = child.wait().expect("it was killed");
    let errors = errors(place, number);
    assert_eq!(status.signal(), Some(9), "process {number} ended by itself: {errors}");
}

/// Waits until everybody but one has gone on.
fn others_go_on(place: &Path, killed: u64) {
    let (before, began) = (progress(place), Instant::now());
    let others = |now: &[u64]| {
        (0..PROCESSES as usize).filter(|me| *me as u64 != killed).all(|me| now[me] > before[me])
    };
    while !others(&progress(place)) {
        let errors: Vec<String> = (0..PROCESSES).map(|me| errors(place, me)).collect();
        let now = progress(place);
        assert!(began.elapsed() < Duration::from_secs(20), "stopped: {before:?}, {now:?}, {errors:?}");
        thread::sleep(Duration::from_micros(300));
    }
}

fn kills(count: u64, seed: u64) {
    println!("seed {seed}");
    let folder = tempfile::tempdir_in("/dev/shm").expect("tmpfs");
    let place = folder.path();
    fs::write(place.join("progress"), [0; 8 * PROCESSES as usize]).expect("a file");
    let mut children = Children((0..PROCESSES).map(|number| start(place, number)).collect());
    others_go_on(place, PROCESSES);
    let mut random = seed;
    for _ in 0..count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = random >> 33 & 3;
        thread::sleep(Duration::from_micros(random >> 40 & 8191));
        kill(place, number, &mut children.0[number as usize]);
        others_go_on(place, number);
        children.0[number as usize] = start(place, number);
    }
    others_go_on(place, PROCESSES);
    let acknowledged = progress(place);
    (0..PROCESSES).zip(&mut children.0).for_each(|(number, child)| kill(place, number, child));
    let done = recover_directory(&place.join("nvm"), false).expect("whole");
    assert!(done.found);
    assert!(!recover_directory(&place.join("nvm"), false).expect("whole").found, "it was erased");
    for me in 0..PROCESSES {
        let bytes = fs::read(place.join(format!("own-{me}"))).expect("a file");
        let last = whole(&bytes, &PRIVATE_PLACES).expect("whole");
        assert!(last >= acknowledged[me as usize], "process {me}");
        let bytes = fs::read(place.join("shared")).expect("a file");
        let last = whole(&bytes, &shared_places(me)).expect("whole");
        assert!(last >= acknowledged[me as usize], "process {me} in the shared file");
    }
}

#[test]
fn one_of_four_is_killed() {
    kills(150, 1);
}

#[test]
#[ignore = "10,000 kills take minutes; ./test --long runs them"]
fn one_of_four_is_killed_ten_thousand_times() {
    kills(10_000, 2);
}
