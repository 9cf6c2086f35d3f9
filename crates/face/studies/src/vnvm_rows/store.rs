//! Four stores of large records, each with a redo and a write-back worker, in modelled time.
//!
//! Every thread has a clock. The one that is earliest does its next step, which is the library's own, and
//! its clock goes on by what the step takes: memory
//! by bytes, the disk by its queue. Only the order of steps comes from clocks; what is dirty, free, full or
//! written is the protocol's.

use std::sync::Arc;

use ::vnvm::{Mode, Options, Process as Joined, Region, SHARED_BYTES, Sizes, format};
use pmem::Os;
use space::Image;
use workload::load::{Chooser, Distribution};

use super::machine::{COPY, Disk, Process};
use crate::StudyError;

/// Stores at a time.
const STORES: u32 = 4;
/// Bytes of a record, and of a request.
const RECORD: u64 = 64 << 10;
/// All sizes and counts are the source's over this.
pub const SCALE: u64 = 128;
/// Operations of a store.
const OPERATIONS: u64 = 100_000;
/// What a request takes apart from memory: MongoDB's own work. Chosen so that the baseline has the source's
/// speed (A1, A2).
const SERVICE_NS: f64 = 645_000.0;
/// The first store to a page of a private mapping copies it.
const COPY_ON_WRITE_NS: f64 = 1_200.0;
/// How long an idle worker sleeps: 10 us, and the time until it runs again.
const IDLE_NS: f64 = 60_000.0;
/// How long a writer that found the log full waits.
const FULL_NS: f64 = 100_000.0;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Records of a store, in the source.
    pub records: u64,
    pub zipfian: bool,
    /// Percent of reads.
    pub reads: u64,
    /// Bytes of log and cache in the source, and of a cache page here.
    pub log: u64,
    pub cache: u64,
    pub page: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Operations per second of all stores.
    pub per_second: f64,
    /// The same over that of NVM alone.
    pub over_nvm: f64,
    /// Pages that write-back wrote.
    pub pages: f64,
    /// Bytes of records that are served, in the source's size, over the bytes of NVM.
    pub over_memory: f64,
}

/// The time of a request in NVM alone: the service, and one copy of the record.
fn baseline_ns() -> f64 {
    SERVICE_NS + RECORD as f64 / COPY
}

/// Operations per second of one store in NVM alone.
pub fn baseline_per_second() -> f64 {
    1e9 / baseline_ns()
}

struct Store<'m> {
    process: Joined<Process<'m>>,
    region: Arc<Region<Process<'m>>>,
    chooser: Chooser,
    load: Load,
    left: u64,
    /// The open transaction: its number, the record, and bytes that it has written.
    open: Option<(u64, u64, u64)>,
    touched: Vec<bool>,
    /// Clocks of the store, its redo worker and its write-back worker.
    clocks: [f64; 3],
}

impl Store<'_> {
    /// One step of one thread.
    fn step(&mut self, thread: usize, disk: &Disk, record: &[u8]) -> Result<(), StudyError> {
        disk.begin(self.clocks[thread]);
        let took = match thread {
            0 => self.request(record)?,
            1 => {
                let before = self.process.stats();
                let any = self.process.redo_step()?;
                let after = self.process.stats();
                // Each entry is read from the log and stored to the cache; a page that is filled is stored
                // whole.
                let filled = (after.pages_filled - before.pages_filled) * self.load.page;
                let bytes = (after.replayed - before.replayed) * RECORD;
                let memory = (2 * bytes + filled) as f64 / COPY;
                if any { memory + disk.waited() } else { IDLE_NS }
            }
            _ => {
                let pages = self.process.write_back_step(false)?;
                let memory = (pages as u64 * self.load.page) as f64 / COPY;
                if pages > 0 { memory + disk.waited() } else { IDLE_NS }
            }
        };
        self.clocks[thread] += took;
        Ok(())
    }

    fn request(&mut self, bytes: &[u8]) -> Result<f64, StudyError> {
        let records = self.load.records / SCALE;
        let (tid, record, done, began) = match self.open.take() {
            Some((tid, record, done)) => (tid, record, done, 0.0),
            None => {
                let record = self.chooser.below(records);
                if self.chooser.between(1, 100) <= self.load.reads {
                    self.left -= 1;
                    return Ok(baseline_ns());
                }
                (self.process.begin(), record, 0, SERVICE_NS)
            }
        };
        let count =
            self.process.write(tid, &self.region, record * RECORD + done, &bytes[done as usize..])? as u64;
        let logged = began + count as f64 / COPY;
        if done + count < RECORD {
            self.open = Some((tid, record, done + count));
            return Ok(logged + FULL_NS);
        }
        self.process.commit(tid)?;
        self.left -= 1;
        let first = !std::mem::replace(&mut self.touched[record as usize], true);
        let copies = if first { COPY_ON_WRITE_NS * (RECORD / 4096) as f64 } else { 0.0 };
        Ok(logged + RECORD as f64 / COPY + copies)
    }
}

/// Runs a load.
pub fn run(load: Load) -> Result<Figures, StudyError> {
    let sizes = Sizes::new(load.log / SCALE, load.cache / SCALE, load.page)?;
    let (nvm, shared, disk) = (Image::new(sizes.bytes()), Image::new(SHARED_BYTES), Disk::default());
    format(&nvm, sizes)?;
    let options = Options { bypass: false, abort_after_ns: u64::MAX, ..Options::default() };
    let mut stores = Vec::new();
    for slot in 0..STORES {
        let host = Process { env: Os::new(&nvm), shared: &shared, disk: &disk, slot };
        stores.push(Joined::join(host, options)?);
    }
    let distribution = if load.zipfian { Distribution::Zipfian } else { Distribution::Uniform };
    let records = load.records / SCALE;
    let start = |(slot, process): (u64, Joined<_>)| -> Result<Store<'_>, StudyError> {
        let region = process.allocate(slot.to_string().as_ref(), records * RECORD, Mode::Private)?;
        let chooser = Chooser::new(distribution, records, 1 + slot);
        let (touched, clocks) = (vec![false; records as usize], [slot as f64; 3]);
        Ok(Store { process, region, chooser, load, left: OPERATIONS / SCALE, open: None, touched, clocks })
    };
    let mut stores = (0..).zip(stores).map(start).collect::<Result<Vec<_>, _>>()?;
    let record = vec![7; RECORD as usize];
    let mut ends = vec![0.0; stores.len()];
    while let Some((index, thread)) = earliest(&stores) {
        let store = &mut stores[index];
        store.step(thread, &disk, &record)?;
        if store.left == 0 && ends[index] == 0.0 {
            ends[index] = store.clocks[0];
        }
    }
    let mut pages = 0;
    for store in &stores {
        // All logs are replayed before pages are counted, with the trigger at work.
        while store.process.redo_step()? {}
        while store.process.write_back_step(false)? > 0 {}
        pages += store.process.stats().pages_written;
    }
    let per_second: f64 = ends.iter().map(|end| (OPERATIONS / SCALE) as f64 * 1e9 / end).sum();
    let served = (load.records * RECORD * u64::from(STORES)) as f64;
    Ok(Figures {
        per_second,
        over_nvm: per_second / (f64::from(STORES) * baseline_per_second()),
        pages: pages as f64,
        over_memory: served / (load.log + load.cache) as f64,
    })
}

/// The thread that is earliest, of stores that have requests left.
fn earliest(stores: &[Store<'_>]) -> Option<(usize, usize)> {
    let busy = stores.iter().enumerate().filter(|(_, store)| store.left > 0);
    let threads =
        busy.flat_map(|(index, store)| (0..3).map(move |thread| (store.clocks[thread], index, thread)));
    threads.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index, thread)| (index, thread))
}
