//! What a fence costs that reaches the disk, in units of what a database would do: overwrite 4 KiB of a file and `fdatasync`.
//!
//! `cargo bench -p pmem --bench synced [-- FOLDER]` measures in a folder on a disk (the temporary directory if none is named);
//! `cargo test -p pmem` runs the same on a few operations. Unit and row run in turns, and what counts is the median over the
//! turns of their ratio, because a disk's speed changes from minute to minute.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use persistency::Domain;
use pmem::{Mapped, Synced};
use space::Space;

/// How much to do.
struct Size {
    /// Bytes of each file.
    bytes: u64,
    /// Durable operations of a turn.
    operations: u64,
    /// Turns of each side.
    turns: u64,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full {
        Size { bytes: 32 << 20, operations: 100, turns: 15 }
    } else {
        Size { bytes: 1 << 20, operations: 3, turns: 2 }
    };
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    // Under `cargo test` an argument is the name of a test.
    let place = named.filter(|_| full).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(&place).expect("a folder to measure in");
    let make =
        |name: &str| Synced::new(Mapped::create(&folder.path().join(name), size.bytes).expect("some disk"));
    let log = make("log");
    if log.memory().durability().domain != Domain::Sync {
        println!("skipped: {} is not on a disk with a page cache; name a folder", place.display());
        return;
    }
    log.prefault(0, size.bytes).expect("the disk works");
    let unit = Unit::new(&folder.path().join("unit"), size.bytes);
    println!("one 4 KiB overwrite + fdatasync: {:.0} us", unit.median_us(&size));
    println!("{:<52}{:>10}{:>18}", "per durable operation", "units", "syncs per fence");
    row(&size, &unit, &log, "append 64 B to a log", 1, |turn| append(&log, &size, turn, 0, 1));
    let fresh = make("fresh");
    row(&size, &unit, &fresh, "append 64 B, each to a page that was only reserved", 1, |turn| {
        append_pages(&fresh, &size, turn)
    });
    row(&size, &unit, &log, "16 lines scattered over the file", 1, |turn| scatter(&log, &size, turn));
    for threads in [2, 4, 8] {
        let what = format!("append 64 B to a log each, {threads} threads");
        row(&size, &unit, &log, &what, threads, |turn| {
            thread::scope(|scope| {
                for index in 0..threads {
                    let (log, size) = (&log, &size);
                    scope.spawn(move || append(log, size, turn, index, threads));
                }
            });
        });
    }
}

/// What a database does: a page over an old one, and wait.
struct Unit(File);

impl Unit {
    fn new(path: &Path, bytes: u64) -> Unit {
        let file = File::create_new(path).expect("a new file");
        file.write_all_at(&vec![1; bytes as usize], 0).expect("some disk");
        file.sync_all().expect("the disk works");
        Unit(file)
    }

    fn run(&self, size: &Size, turn: u64) {
        for i in 0..size.operations {
            let at = (turn * size.operations + i) * 4096 % size.bytes;
            self.0.write_all_at(&[i as u8; 4096], at).expect("room is there");
            self.0.sync_data().expect("the disk works");
        }
    }

    fn median_us(&self, size: &Size) -> f64 {
        let turns =
            (0..size.turns).map(|turn| seconds(|| self.run(size, turn)) / size.operations as f64 * 1e6);
        median(turns.collect())
    }
}

/// Runs unit and row in turns and prints the row.
fn row(size: &Size, unit: &Unit, space: &Synced, what: &str, threads: u64, act: impl Fn(u64)) {
    let (mut ratios, mut fences, before) = (Vec::new(), 0, space.syncs());
    for turn in 0..size.turns {
        let unit_seconds = seconds(|| unit.run(size, turn));
        let fenced = seconds(|| act(turn));
        // As many operations per thread as the unit has, so this is per operation of all of them.
        ratios.push(fenced / unit_seconds / threads as f64);
        fences += size.operations * threads;
    }
    let syncs = (space.syncs() - before) as f64 / fences as f64;
    println!("{what:<52}{:>10.2}{syncs:>18.2}", median(ratios));
}

/// Appends 64 B at a time to this thread's part of the log.
fn append(log: &Synced, size: &Size, turn: u64, index: u64, threads: u64) {
    let part = size.bytes / threads;
    for i in 0..size.operations {
        let at = index * part + (turn * size.operations + i) * 64 % part;
        log.store(at, &black_box([i as u8 + 1; 64]));
        log.persist(at, 64);
    }
}

/// Appends to a page that nobody wrote before, each time.
fn append_pages(log: &Synced, size: &Size, turn: u64) {
    for i in 0..size.operations {
        let at = (turn * size.operations + i) * 4096 % size.bytes;
        log.store(at, &black_box([i as u8 + 1; 64]));
        log.persist(at, 64);
    }
}

/// Stores to 16 lines in as many pages, and makes them durable together.
fn scatter(space: &Synced, size: &Size, turn: u64) {
    for i in 0..size.operations {
        for k in 0..16 {
            let line = (turn * size.operations + i) * 16 + k;
            // A multiplication by an odd number visits every line once before any twice.
            let at = line * 0x9E37_79B1 % (size.bytes / 64) * 64;
            space.store_u64(at, i + 1);
            space.flush(at, 8);
        }
        space.fence();
    }
}

fn seconds(act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
