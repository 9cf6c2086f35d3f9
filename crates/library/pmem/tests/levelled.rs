//! A levelled space: pages change frames while threads use them, across openings, and under kills.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pmem::levelled::{Frames, Shape};
use pmem::{LevelError, Levelled, Mapped};
use proptest::prelude::*;
use space::{Image, Space};

const PAGE: u64 = 4096;

/// A file in memory, so that the kernel holds writers; removed with this value.
struct InMemory(PathBuf);

impl InMemory {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/dev/shm/strandline-levelled-{name}-{}", std::process::id()));
        std::fs::remove_file(&path).ok();
        InMemory(path)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

/// Threads count in words of their own, and read what they wrote, while pages move. No count is lost.
fn counts_survive(space: &Levelled, rounds: u64) {
    let (pages, stop) = (space.shape().pages, AtomicBool::new(false));
    let sums: Vec<u64> = thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|me| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut count = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        let word = (count % pages) * space.shape().page + 8 * me;
                        let before = space.load_u64(word);
                        assert_eq!(before, count / pages, "page {}, thread {me}", count % pages);
                        space.store_u64(word, before + 1);
                        assert_eq!(space.load_u64(word), before + 1);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for round in 0..rounds {
            if round % 2 == 0 {
                space
                    .exchange(round % pages, (round + 1 + round / pages % (pages - 1)) % pages)
                    .unwrap_or_else(|error| {
                        stop.store(true, Ordering::Relaxed);
                        panic!("{error}")
                    });
            } else {
                space.shuffle(4).expect("a shuffle");
            }
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).collect()
    });
    for (me, sum) in (0..).zip(sums) {
        let words = (0..pages).map(|page| space.load_u64(page * space.shape().page + 8 * me));
        assert_eq!(words.sum::<u64>(), sum, "thread {me}");
    }
}

#[test]
fn no_store_is_lost_while_pages_move() {
    let file = InMemory::new("moves");
    let space = Levelled::create(&file.0, PAGE, 13).expect("a space");
    counts_survive(&space, 400);
    assert!(space.moves() > 800);
    let mut frames: Vec<u64> = (0..13).map(|page| space.frame_of(page)).collect();
    assert_ne!(frames, (0..13).collect::<Vec<_>>());
    frames.sort_unstable();
    frames.dedup();
    assert_eq!(frames.len(), 13);
}

#[test]
fn large_pages_move_as_well() {
    let file = InMemory::new("large");
    let space = Levelled::create(&file.0, 2 << 20, 3).expect("a space");
    assert!(space.address().is_multiple_of(2 << 20));
    counts_survive(&space, 8);
}

#[test]
fn on_an_ordinary_file_stores_take_a_lock() {
    let folder = tempfile::tempdir().expect("a folder");
    let space = Levelled::create(&folder.path().join("space"), PAGE, 5).expect("a space");
    counts_survive(&space, 40);
}

#[test]
fn contents_are_there_when_the_space_is_opened_again() {
    let file = InMemory::new("again");
    let space = Levelled::create(&file.0, PAGE, 7).expect("a space");
    (0..7).for_each(|page| space.store_u64(page * PAGE + 16, 100 + page));
    while space.shuffle(3).expect("a shuffle").left > 0 {}
    let frames: Vec<u64> = (0..7).map(|page| space.frame_of(page)).collect();
    drop(space);
    let space = Levelled::open(&file.0).expect("the space");
    for page in 0..7 {
        assert_eq!(
            (space.load_u64(page * PAGE + 16), space.frame_of(page)),
            (100 + page, frames[page as usize])
        );
    }
}

#[test]
fn what_is_damaged_is_refused_by_name() {
    let file = InMemory::new("damaged");
    drop(Levelled::create(&file.0, PAGE, 4).expect("a space"));
    let shape = Shape { page: PAGE, pages: 4 };
    let damage = |offset: u64, value: u64| {
        let raw = Mapped::open(&file.0).expect("the file");
        let before = raw.load_u64(offset);
        raw.store_u64(offset, value);
        drop(raw);
        let error = Levelled::open(&file.0).expect_err("damage");
        Mapped::open(&file.0).expect("the file").store_u64(offset, before);
        error
    };
    for (what, error) in [
        ("magic", damage(0, 7)),
        ("size", damage(8, 8192)),
        ("checksum", damage(24, 1)),
        ("a frame twice", damage(shape.entry(1), 2)),
        ("no frame", damage(shape.entry(3), 99)),
    ] {
        let named = matches!(error, LevelError::Foreign { .. } | LevelError::Damaged { .. });
        assert!(named && error.to_string().contains("offset"), "{what}: {error}");
    }
    Levelled::open(&file.0).expect("all damage was undone");
    for (page, pages) in [(1000, 4), (4096, 1), (2 << 30, 2)] {
        let error = Levelled::create(Path::new("/nowhere/at/all"), page, pages).expect_err("no shape");
        assert!(matches!(error, LevelError::Shape { .. }), "{error}");
    }
}

/// Of the process that is killed.
const CHILD: &str = "STRANDLINE_LEVELLED_CHILD";

/// Pages of the file that is written by processes that are killed, and words of a page that are.
const PAGES: u64 = 16;

/// Writes rising numbers into every page, reports each, and exchanges pages all the time, until it is killed.
fn write_until_killed(path: &Path) {
    let space = Levelled::open(path).expect("the space");
    let mut round = space.load_u64(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                space.shuffle(4).expect("a shuffle");
            }
        });
        let mut out = std::io::stdout().lock();
        loop {
            round += 1;
            for page in (0..PAGES).rev() {
                space.store_u64(page * PAGE, round);
                space.store_u64(page * PAGE + PAGE - 8, round ^ page);
            }
            writeln!(out, "{round}").expect("the parent reads");
            out.flush().expect("the parent reads");
        }
    })
}

fn kills(count: u64) {
    let file = InMemory::new("kills");
    drop(Levelled::create(&file.0, PAGE, PAGES).expect("a space"));
    let mut finished = 0;
    for kill in 0..count {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "the_process_that_is_killed", "--nocapture"])
            .env(CHILD, &file.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this test again");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut seen = 0;
        // A different number of rounds each time, so that kills fall everywhere.
        for line in lines.by_ref().map_while(Result::ok) {
            let Ok(round) = line.trim().parse::<u64>() else { continue };
            seen = round;
            if round % (1 + kill % 7) == 0 {
                break;
            }
        }
        child.kill().expect("a running process");
        child.wait().expect("a child");
        let last = lines.map_while(Result::ok).filter_map(|line| line.trim().parse().ok()).max();
        let reported = last.unwrap_or(0).max(seen);
        let space = Levelled::open(&file.0).unwrap_or_else(|error| panic!("after kill {kill}: {error}"));
        finished += u64::from(space.recovered().finished);
        // Page 0 is written last in a round: what it says is on all pages.
        let round = space.load_u64(0);
        assert!(round >= reported, "kill {kill}: {round} after {reported}");
        for page in 0..PAGES {
            let [first, second] = [0, PAGE - 8].map(|at| space.load_u64(page * PAGE + at));
            let ahead = |value: u64| value == round || value == round + 1;
            // The kill may have come between the last two stores of a round.
            let last = page == 0 && second == round - 1 && second >= reported;
            assert!(
                ahead(first) && (last || ahead(second ^ page)),
                "kill {kill}, page {page}: {first} {second} of {round}"
            );
        }
    }
    assert!(count < 500 || finished > 0, "of {count} kills none fell into an exchange");
}

#[test]
fn the_process_that_is_killed() {
    if let Some(path) = std::env::var_os(CHILD) {
        write_until_killed(Path::new(&path));
    }
}

#[test]
fn processes_killed_while_pages_move_lose_nothing() {
    kills(20);
}

#[test]
#[ignore = "minutes; ./test --long"]
fn processes_killed_by_the_thousand_lose_nothing() {
    kills(1000);
}

#[test]
fn an_exchange_that_was_cut_is_finished() {
    let shape = Shape { page: PAGE, pages: 4 };
    let space = Mapped::anonymous(shape.bytes()).expect("memory");
    let mut frames = Frames::create(&space, shape).expect("a table");
    (0..4).for_each(|page| space.store_u64(shape.frame(page), 70 + page));
    frames.begin_exchange(1, 2);
    frames.move_to_spare(1);
    let (frames, recovered) = Frames::open(&space).expect("the table");
    assert!(recovered.finished && !recovered.forgotten);
    let at = |page| space.load_u64(shape.frame(frames.frame_of(page)));
    assert_eq!([0, 1, 2, 3].map(at), [70, 71, 72, 73]);
    assert_eq!([0, 1, 2, 3].map(|page| frames.frame_of(page)), [0, 4, 1, 3]);
    frames.begin_exchange(0, 3);
    let (_, recovered) = Frames::open(&space).expect("the table");
    assert!(recovered.forgotten && !recovered.finished);
}

#[path = "../../../../fuzz/damaged_table.rs"]
mod damaged_table;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever happens to header, journal and table: an error, or every page with its contents.
    #[test]
    fn no_damage_loses_a_page_silently(
        state in 0..damaged_table::STATES,
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..6),
    ) {
        damaged_table::open(state, &damage);
    }

    #[test]
    fn any_bytes_are_refused_or_a_space(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let image = Image::new((bytes.len() as u64).next_multiple_of(8));
        image.store(0, &bytes);
        prop_assert!(Frames::open(&image).is_err());
    }
}
