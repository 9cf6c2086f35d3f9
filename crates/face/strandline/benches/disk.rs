//! What a failure-atomic region costs on an ordinary file, where each fence waits for the disk: in units of
//! what a database would do, which is to overwrite 4 KiB of a file and `fdatasync`, and in syncs.
//!
//! `cargo bench -p strandline --bench disk [-- FOLDER]` measures in a folder on a disk (the temporary
//! directory if none is named); `cargo test` runs the same on a few regions. Unit and row run in turns, and
//! what counts is the median over the turns of their ratio, because a disk's speed changes from minute to
//! minute. Of several threads each has a region of its own on words of its own, as often as the unit is
//! repeated; the figure is for each region of all of them: they share syncs (group commit).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use region::{Atomicity, Layout, Ptr};
use space::Env;
use strandline::pool::{self, Domain, Pool};

/// Bytes of the pool.
const BYTES: u64 = 32 << 20;
/// Words of a thread's object: a page for each of 64 words.
const WORDS: usize = 64 * PAGE;
/// Words of a page.
const PAGE: usize = 512;
/// Threads, at most.
const THREADS: usize = 8;

struct Bench;
region::persistent! { Bench:
    struct Root { objects: [Ptr<Object, Bench>; THREADS] }
}
impl Layout for Bench {
    const NAME: &'static str = "bench";
    type Root = Root;
}
type Object = [u64; WORDS];

/// How much to do.
#[derive(Clone, Copy)]
struct Size {
    /// Regions of a turn, of each thread.
    regions: u64,
    turns: u64,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full { Size { regions: 100, turns: 15 } } else { Size { regions: 3, turns: 2 } };
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    // Under `cargo test` an argument is the name of a test.
    let place = named.filter(|_| full).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = tempfile::tempdir_in(&place).expect("a folder to measure in");
    let unit = Unit::new(&folder.path().join("unit"));
    println!("{:<48}{:>10}{:>20}", "for each region", "units", "syncs");
    let rows = |name| match name {
        "redo" => vec![(1, 1, 1), (16, 1, 1), (64, 1, 1), (1, 2, 1), (1, 4, 1), (1, 8, 1), (16, 8, 1)],
        // A fence for each word.
        "undo" => vec![(1, 1, 1)],
        "group" => vec![(1, 1, 1), (1, 4, 1), (1, 8, 1), (1, 1, 16), (1, 8, 16), (16, 8, 16)],
        _ => vec![(1, 1, 1), (16, 1, 1)],
    };
    let measured =
        region::for_each_engine!(sound [A => measure::<A>(folder.path(), &unit, size, &rows(A::NAME))]);
    if measured.contains(&false) {
        println!("skipped: {} is not on a disk with a page cache; name a folder", place.display());
    }
}

/// Measures regions over so many words, each in a page of its own, by so many threads, which wait at every so
/// many regions. Not if nothing there waits for a disk.
fn measure<A: Atomicity>(folder: &Path, unit: &Unit, size: Size, rows: &[(usize, usize, u64)]) -> bool {
    let pool = pool::create::<Bench, A>(&folder.join(A::NAME), BYTES).expect("some disk");
    if pool::durability(&pool).domain != Domain::Sync {
        return false;
    }
    // Blocks of the disk that were only reserved would cost more the first time.
    pool.env().space().prefault(0, BYTES).expect("the disk works");
    let made = pool.region(|tx| {
        let mut objects = [Ptr::NULL; THREADS];
        for object in &mut objects {
            *object = tx.alloc([0; WORDS])?;
        }
        tx.set(tx.root(), Root { objects })?;
        Ok(objects)
    });
    let objects = made.expect("there is room");
    for &(words, threads, every) in rows {
        let (mut ratios, before) = (Vec::new(), pool::syncs(&pool));
        for turn in 0..size.turns {
            let by_hand = seconds(|| unit.run(size, turn));
            let ours = seconds(|| {
                pool.env().threads(threads as u32, |thread| {
                    run(&pool, objects[thread as usize], words, size.regions, every);
                });
            });
            ratios.push(ours / by_hand / threads as f64);
        }
        let regions = size.turns * size.regions * threads as u64;
        let syncs = (pool::syncs(&pool) - before) as f64 / regions as f64;
        let waits = if every == 1 { String::new() } else { format!(", wait every {every}") };
        let what = format!("{}, {words} words, {threads} threads{waits}", A::NAME);
        println!("{what:<48}{:>10.2}{syncs:>20.2}", median(ratios));
    }
    true
}

/// Regions, each of which sets so many words of the object. Waits at every so many, and for the last.
fn run<A: Atomicity>(
    pool: &Pool<Bench, A>,
    object: Ptr<Object, Bench>,
    words: usize,
    regions: u64,
    every: u64,
) {
    for number in 0..regions {
        let within = number as usize % PAGE;
        let done = pool.region_async(|tx| {
            (0..words).try_for_each(|at| tx.set(object.element(at * PAGE + within), number))
        });
        let ((), ticket) = done.expect("the disk works");
        if (number + 1).is_multiple_of(every) || number + 1 == regions {
            pool.wait(ticket).expect("the disk works");
        }
    }
}

/// What a database does: a page over an old one, and wait.
struct Unit(File);

impl Unit {
    fn new(path: &Path) -> Unit {
        let file = File::create_new(path).expect("a new file");
        file.write_all_at(&vec![1; BYTES as usize], 0).expect("some disk");
        file.sync_all().expect("the disk works");
        Unit(file)
    }

    fn run(&self, size: Size, turn: u64) {
        for number in 0..size.regions {
            let at = (turn * size.regions + number) * 4096 % BYTES;
            self.0.write_all_at(&[number as u8; 4096], at).expect("room is there");
            self.0.sync_data().expect("the disk works");
        }
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
