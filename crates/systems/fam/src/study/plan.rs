//! The ratio studies: fabric-attached memory beside a socket under the same load, in one run.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::app::{Access, Load};
use super::migration::{By, Settings, Times, migrate};
use crate::batch;
use crate::{Error, Install, Medium};

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Bytes of a process whose pages come by faults.
    pub bytes: u64,
    /// Bytes of the larger process of which downtime is taken.
    pub large: u64,
    /// Bytes of the store.
    pub store: u64,
    /// Operations of a client of the store.
    pub operations: u64,
    /// Migrations of which each figure is the median.
    pub passes: usize,
    /// No further pass begins that would not end within this time.
    pub enough: Duration,
}

/// Whether `done` passes since `begin` leave time for one more.
#[must_use]
pub fn leaves_time(begin: Instant, done: usize, enough: Duration) -> bool {
    let so_far = begin.elapsed();
    so_far + so_far / done.max(1) as u32 <= enough
}

const UNLIMITED: Duration = Duration::MAX;

impl Sizes {
    /// A minute or two, a few hundred MiB.
    #[must_use]
    pub fn quick() -> Sizes {
        Sizes {
            bytes: 64 << 20,
            large: 256 << 20,
            store: 64 << 20,
            operations: 10_000,
            passes: 1,
            enough: UNLIMITED,
        }
    }

    /// For figures that are published: medians, 1 GiB.
    #[must_use]
    pub fn full() -> Sizes {
        Sizes {
            bytes: 192 << 20,
            large: 1 << 30,
            store: 192 << 20,
            operations: 30_000,
            passes: 3,
            enough: UNLIMITED,
        }
    }

    /// For a table of many comparisons: a pass of each pair, and further ones while there is time.
    #[must_use]
    pub fn row() -> Sizes {
        let enough = Duration::from_secs(8);
        Sizes { bytes: 96 << 20, large: 512 << 20, store: 96 << 20, operations: 20_000, passes: 3, enough }
    }

    /// Only that everything runs.
    #[must_use]
    pub fn tiny() -> Sizes {
        Sizes {
            bytes: 4 << 20,
            large: 8 << 20,
            store: 4 << 20,
            operations: 200,
            passes: 1,
            enough: UNLIMITED,
        }
    }
}

/// The same migration both ways.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// What is run.
    pub name: String,
    /// Its load.
    pub load: Load,
    /// Expiration timer, in milliseconds.
    pub timer_ms: u64,
    /// Through FAM.
    pub fam: Times,
    /// Through a socket.
    pub socket: Times,
}

impl Pair {
    /// How many times as long the socket's downtime is.
    #[must_use]
    pub fn downtime(&self) -> f64 {
        self.socket.downtime_s / self.fam.downtime_s
    }

    /// How many times as long until all pages are there.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.socket.total_s / self.fam.total_s
    }

    /// How many times as long the source is busy.
    #[must_use]
    pub fn busy(&self) -> f64 {
        self.socket.busy_s / self.fam.busy_s
    }

    /// How many times as fast the threads do their operations.
    #[must_use]
    pub fn rate(&self) -> f64 {
        match (self.fam.work_s, self.socket.work_s) {
            (Some(fam), Some(socket)) => socket / fam,
            _ => self.fam.during_per_s / self.socket.during_per_s,
        }
    }
}

/// Pages through faults at full speed.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Which way.
    pub name: String,
    /// MB per second from the first operation to the last page.
    pub mb_per_s: f64,
    /// Times of the migration.
    pub times: Times,
}

/// A group of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Downtime, by size; timer of 0 ms.
    Downtime,
    /// Timer of 100 ms, FAM of 2 GB/s, socket as fast as it is; one thread.
    LongOne,
    /// The same with two threads.
    LongTwo,
    /// Timer of 0 ms: FAM of 2 GB/s, network of 10 Gb/s.
    ShortCapped,
    /// Timer of 0 ms, both as fast as they are.
    Short,
    /// A store under its clients, timer of 150 ms: one client, four.
    StoreLong,
    /// Timer of 3 ms, FAM of 2 GB/s and network of 10 Gb/s.
    StoreCapped,
    /// Timer of 3 ms, both as fast as they are.
    StoreShort,
    /// Two migrations at a time.
    Together,
}

impl Part {
    /// All, in the order of their numbers.
    pub const ALL: [Part; 9] = [
        Part::Downtime,
        Part::LongOne,
        Part::LongTwo,
        Part::ShortCapped,
        Part::Short,
        Part::StoreLong,
        Part::StoreCapped,
        Part::StoreShort,
        Part::Together,
    ];
}

struct Runner<'a> {
    folder: &'a Path,
    sizes: Sizes,
}

const PAGE_COPY: Install = Install::Copy { grain: 4096 };
const FAST: (By, By) = (By::Fam(Medium::DRAM, PAGE_COPY), By::Socket(Medium::DRAM));
const CAPPED: (By, By) = (By::Fam(Medium::PCM, PAGE_COPY), By::Socket(Medium::ETHERNET_10G));
/// As the source pairs them in its long-timer table.
const MIXED: (By, By) = (By::Fam(Medium::PCM, PAGE_COPY), By::Socket(Medium::DRAM));

/// Compares both ways; the folder is in memory (`/dev/shm`), with room for the largest process.
///
/// # Errors
/// The system refuses something (userfaultfd, room, open files); pages at a target were not the source's.
pub fn pairs(folder: &Path, sizes: Sizes, part: Part) -> Result<Vec<Pair>, Error> {
    let runner = Runner { folder, sizes };
    let grid = |access, threads| Load { bytes: sizes.bytes, access, threads, work_ns: 3000, operations: 0 };
    let both = |threads| {
        [("sweep", grid(Access::Sweep, threads)), ("random", grid(Access::Random, threads))].to_vec()
    };
    let large = |bytes| Load { bytes, ..grid(Access::Sweep, 1) };
    // A request and its answer take a client 30 us; four clients keep the server four times as busy.
    let client = |clients: u64| Load {
        bytes: sizes.store,
        access: Access::Records,
        threads: 1,
        work_ns: 30_000 / clients,
        operations: sizes.operations,
    };
    let stores = || [("one client", client(1)), ("four clients", client(4))].to_vec();
    let (loads, by, timer_ms): (Vec<(&str, Load)>, _, _) = match part {
        Part::Downtime => (vec![("small", large(sizes.bytes)), ("large", large(sizes.large))], FAST, 0),
        Part::LongOne => (both(1), MIXED, 100),
        Part::LongTwo => (both(2), MIXED, 100),
        Part::ShortCapped => (both(1), CAPPED, 0),
        Part::Short => (both(1), FAST, 0),
        Part::StoreLong => (stores(), FAST, 150),
        Part::StoreCapped => (stores(), CAPPED, 3),
        Part::StoreShort => (stores(), FAST, 3),
        Part::Together => return runner.together(grid(Access::Sweep, 1), FAST, 1),
    };
    loads.iter().map(|(name, load)| runner.pair(name, *load, by, timer_ms)).collect()
}

/// Random access at full speed, no push.
///
/// # Errors
/// As [`pairs`].
pub fn faults(folder: &Path, sizes: Sizes) -> Result<Vec<Rate>, Error> {
    Runner { folder, sizes }.faults()
}

impl Runner<'_> {
    fn pair(&self, name: &str, load: Load, by: (By, By), timer_ms: u64) -> Result<Pair, Error> {
        let (mut fam, mut socket) = (Vec::new(), Vec::new());
        let begin = Instant::now();
        for pass in 1..=self.sizes.passes {
            fam.push(self.one(load, by.0, timer_ms, 0)?);
            socket.push(self.one(load, by.1, timer_ms, 0)?);
            if !leaves_time(begin, pass, self.sizes.enough) {
                break;
            }
        }
        Ok(Pair { name: name.to_owned(), load, timer_ms, fam: middle(fam), socket: middle(socket) })
    }

    fn one(&self, load: Load, by: By, timer_ms: u64, number: usize) -> Result<Times, Error> {
        let name = format!("strandline-study-{}-{number}", std::process::id());
        let timer = Duration::from_millis(timer_ms);
        migrate(&Settings { load, by, timer, prefetch: Vec::new(), fam: self.folder, name: &name })
    }

    /// Two migrations at the same time, each way.
    fn together(&self, load: Load, by: (By, By), timer_ms: u64) -> Result<Vec<Pair>, Error> {
        let both = |by: By| -> Result<Vec<Times>, Error> {
            std::thread::scope(|scope| {
                let running: Vec<_> =
                    (0..2).map(|number| scope.spawn(move || self.one(load, by, timer_ms, number))).collect();
                let lost = || Error::Protocol("a migration's thread ended early".into());
                running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost()))).collect()
            })
        };
        let (fam, socket) = (both(by.0)?, both(by.1)?);
        let names = ["first of two", "second of two"];
        let pairs = names.iter().zip(fam.into_iter().zip(socket));
        Ok(pairs
            .map(|(name, (fam, socket))| Pair { name: (*name).to_owned(), load, timer_ms, fam, socket })
            .collect())
    }

    fn faults(&self) -> Result<Vec<Rate>, Error> {
        let load =
            Load { bytes: self.sizes.bytes, access: Access::Random, threads: 1, work_ns: 0, operations: 0 };
        let ways = [
            ("FAM, a page at a fault", By::Fam(Medium::DRAM, PAGE_COPY)),
            ("FAM, 64 KiB at a fault", By::Fam(Medium::DRAM, Install::Copy { grain: 64 << 10 })),
            ("FAM, mapped", By::Fam(Medium::DRAM, Install::Map)),
            ("socket, a page at a fault", By::Socket(Medium::DRAM)),
        ];
        let rates = ways.into_iter().map(|(name, by)| {
            let all: Result<Vec<Times>, Error> =
                (0..self.sizes.passes).map(|_| self.one(load, by, 2000, 0)).collect();
            let times = middle(all?);
            Ok(Rate { name: name.to_owned(), mb_per_s: load.bytes as f64 / times.resume_s / 1e6, times })
        });
        rates.collect()
    }
}

/// The one with the middle total time.
fn middle(mut all: Vec<Times>) -> Times {
    all.sort_unstable_by(|a, b| a.total_s.total_cmp(&b.total_s));
    let middle = all.len() / 2;
    all.into_iter().nth(middle).unwrap_or_default()
}

/// The study of dumps and stores.
#[derive(Clone, Debug, Serialize)]
pub struct Writes {
    /// Dumps of one range, and of many, by size.
    pub dumps: Vec<batch::Dumps>,
    /// Amounts stored, by size.
    pub stores: Vec<batch::Stores>,
    /// Files written, by bytes per call.
    pub calls: Vec<batch::Calls>,
}

/// Measures ways of writing memory out, up to `bytes`.
///
/// # Errors
/// The folder can't be written or is full.
pub fn writes(folder: &Path, bytes: u64, passes: usize) -> Result<Writes, Error> {
    Ok(Writes {
        dumps: dumps(folder, bytes, passes)?,
        stores: stores(folder, bytes, passes * 3)?,
        calls: calls(folder, bytes / 2, passes)?,
    })
}

/// Dumps of one range, and of many, up to `bytes`.
///
/// # Errors
/// The folder can't be written or is full.
pub fn dumps(folder: &Path, bytes: u64, passes: usize) -> Result<Vec<batch::Dumps>, Error> {
    let all = [(bytes / 4, 1), (bytes, 1), (bytes / 4, 40), (bytes, 40)];
    all.into_iter().map(|(bytes, ranges)| batch::dumps(folder, bytes, ranges, passes)).collect()
}

/// Stores of 64 KiB, 1 MiB, and `bytes`: more than caches hold, where memory is to be measured.
///
/// # Errors
/// The folder can't be written or is full.
pub fn stores(folder: &Path, bytes: u64, passes: usize) -> Result<Vec<batch::Stores>, Error> {
    [1 << 16, 1 << 20, bytes].into_iter().map(|amount| batch::stores(folder, amount, passes)).collect()
}

/// Files of `bytes`, by bytes per call.
///
/// # Errors
/// The folder can't be written or is full.
pub fn calls(folder: &Path, bytes: u64, passes: usize) -> Result<Vec<batch::Calls>, Error> {
    let by_call = [1 << 10, 1 << 14, 1 << 17, 1 << 19, 1 << 21, 1 << 24];
    by_call.into_iter().map(|call| batch::calls(folder, bytes.max(call), call, passes)).collect()
}
