//! A store of records of 64 KiB in mapped files, four instances at a time, as the source has MongoDB's:
//! against the same store with all of it in NVM.
//!
//! A request is a document of 128 fields of 512 bytes. A read takes the record from the mapping and checks
//! each field; a write makes the document and stores all of
//! it, in one transaction. In NVM alone there is neither atomicity nor order, as in the source.

use std::path::Path;
use std::sync::Arc;

use pmem::{Mapped, Os};
use space::{Env, Image, Space};
use vnvm::{Mode, Options, Real, Region, Setup, Sizes, Stats, Vnvm};
use workload::load::{Chooser, Distribution};

use super::contest::{VnvmContest, failed};
use super::results::{RecordRow, VnvmResults};
use crate::Watch;
use crate::clock::{Spent, thread_cpu_ns};
use crate::error::Error;

const FIELDS: usize = 128;
const FIELD: usize = 512;
const RECORD: u64 = (FIELDS * FIELD) as u64;
/// The source's figures.
pub(super) const INSTANCES: u32 = 4;
const OPERATIONS: u64 = 100_000;
const FEW: u64 = 10_000;
const MANY: u64 = 30_000;
const GIB: u64 = 1 << 30;

/// A load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    records: u64,
    distribution: Distribution,
    reads: u64,
    pub(super) operations: u64,
    seed: u64,
    /// CPU time of a request apart from the record, in nanoseconds.
    service_ns: u64,
}

/// Makes a document: each field ends with its check.
fn document(seed: u64, bytes: &mut [u8]) {
    for (number, field) in bytes.as_chunks_mut::<FIELD>().0.iter_mut().enumerate() {
        let (body, end) = field.split_at_mut(FIELD - 8);
        let first = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number as u64;
        for (at, word) in (0_u64..).zip(body.as_chunks_mut::<8>().0) {
            *word = first.wrapping_add(at.wrapping_mul(0xD134_2543_DE82_EF95)).to_le_bytes();
        }
        end.copy_from_slice(&xxhash_rust::xxh3::xxh3_64(body).to_le_bytes());
    }
}

/// Whether each field is whole; an empty record is.
fn is_whole(bytes: &[u8]) -> bool {
    bytes.as_chunks::<FIELD>().0.iter().all(|field| {
        let (body, end) = field.split_at(FIELD - 8);
        end == [0; 8] || xxhash_rust::xxh3::xxh3_64(body).to_le_bytes() == end
    })
}

/// Uses the processor for so long.
fn burn(nanoseconds: u64, bytes: &mut [u8]) {
    let mut used = 0;
    while used < nanoseconds {
        used += thread_cpu_ns(|| document(used, bytes));
    }
}

/// Runs a load over something that reads and writes records.
fn drive(
    load: &Load,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<(), Error>,
    mut write: impl FnMut(u64, &[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut chooser = Chooser::new(load.distribution, load.records, load.seed);
    let mut bytes = vec![0; RECORD as usize];
    for number in 0..load.operations {
        let record = chooser.below(load.records);
        burn(load.service_ns, &mut bytes);
        if chooser.between(1, 100) <= load.reads {
            read(record, &mut bytes)?;
            if !is_whole(&bytes) {
                return Err(Error::of("vnvm", format!("record {record} is not whole")));
            }
        } else {
            document(load.seed << 32 | number, &mut bytes);
            write(record, &bytes)?;
        }
    }
    Ok(())
}

/// Operations per second of all instances; the first error of one.
fn together(operations: u64, work: impl Fn(u32) -> Result<(), Error> + Sync) -> Result<f64, Error> {
    let env = Os::new(Image::new(8));
    let errors = env.mutex(Vec::new());
    let ((), spent) = Spent::by(|| {
        env.threads(INSTANCES, |instance| {
            if let Err(error) = work(instance) {
                env.lock(&errors).push(error);
            }
        });
    });
    let first = env.lock(&errors).pop();
    match first {
        Some(error) => Err(error),
        None => Ok((operations * u64::from(INSTANCES)) as f64 * 1e9 / spent.wall_ns as f64),
    }
}

/// All in NVM.
fn baseline(load: &Load) -> Result<f64, Error> {
    let nvm =
        (0..INSTANCES).map(|_| Mapped::anonymous(load.records * RECORD)).collect::<Result<Vec<_>, _>>()?;
    nvm.iter().for_each(|nvm| {
        let mut bytes = vec![0; RECORD as usize];
        (0..load.records).for_each(|record| {
            document(record, &mut bytes);
            nvm.store(record * RECORD, &bytes);
        });
    });
    together(load.operations, |instance| {
        let nvm = &nvm[instance as usize];
        let load = Load { seed: load.seed + u64::from(instance), ..*load };
        let read = |record: u64, bytes: &mut [u8]| {
            nvm.load(record * RECORD, bytes);
            Ok(())
        };
        drive(&load, read, |record, bytes| {
            nvm.store(record * RECORD, bytes);
            Ok(())
        })
    })
}

/// Sizes of the NVM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    log: u64,
    cache: u64,
    page: u64,
}

/// One instance.
pub(super) struct Store {
    vnvm: Vnvm,
    region: Arc<Region<Real>>,
    seed: u64,
}

impl Store {
    pub(super) fn open(
        nvm: &Path,
        disk: &Path,
        instance: u32,
        load: &Load,
        memory: Memory,
    ) -> Result<Store, Error> {
        let sizes = Sizes::new(memory.log, memory.cache, memory.page).map_err(failed)?;
        let vnvm = Vnvm::open(nvm, &Setup::new(sizes), Options::default()).map_err(failed)?;
        let file = disk.join(format!("records-{instance}"));
        let region = vnvm.allocate(&file, load.records * RECORD, Mode::Private).map_err(failed)?;
        // As the source's load phase, which stores to the mapping itself, so that the cache begins clean.
        let mut bytes = vec![0; RECORD as usize];
        (0..load.records).for_each(|record| {
            document(record, &mut bytes);
            region.store(record * RECORD, &bytes);
        });
        Ok(Store { vnvm, region, seed: load.seed + u64::from(instance) })
    }

    pub(super) fn run(&self, load: &Load) -> Result<(), Error> {
        let load = Load { seed: self.seed, ..*load };
        let read = |record: u64, bytes: &mut [u8]| {
            self.region.read(record * RECORD, bytes);
            Ok(())
        };
        drive(&load, read, |record, bytes| {
            let mut tx = self.vnvm.begin();
            tx.write(&self.region, record * RECORD, bytes).map_err(failed)?;
            tx.commit().map_err(failed)
        })
    }

    /// Counts as the source does: all logs are replayed, write-back has come to rest.
    pub(super) fn finish(&self) -> Result<Stats, Error> {
        while self.vnvm.process().redo_step().map_err(failed)? {}
        while self.vnvm.process().write_back_step(false).map_err(failed)? > 0 {}
        Ok(self.vnvm.stats())
    }
}

fn ours(contest: &VnvmContest, load: &Load, memory: Memory) -> Result<(f64, Stats), Error> {
    let folder = tempfile::tempdir_in(&contest.nvm).map_err(Error::file("make a folder in", &contest.nvm))?;
    let disk = tempfile::tempdir_in(&contest.disk).map_err(Error::file("make a folder in", &contest.disk))?;
    let open = |instance| Store::open(folder.path(), disk.path(), instance, load, memory);
    let stores = (0..INSTANCES).map(open).collect::<Result<Vec<_>, _>>()?;
    let speed = together(load.operations, |instance| stores[instance as usize].run(load))?;
    let mut all = Stats::default();
    for store in &stores {
        let stats = store.finish()?;
        all.pages_written += stats.pages_written;
        all.written_through += stats.written_through;
        all.starved = stats.starved;
    }
    Ok((speed, all))
}

/// The load and the memory of stores that are processes.
pub(super) fn apart(contest: &VnvmContest) -> (Load, Memory) {
    let load = Load {
        records: contest.count(MANY),
        distribution: Distribution::Zipfian,
        reads: 70,
        operations: contest.count(OPERATIONS),
        seed: contest.seed,
        service_ns: contest.service_ns,
    };
    let memory = Memory { log: contest.scaled(2 * GIB), cache: contest.scaled(4 * GIB), page: 4096 };
    (load, memory)
}

/// What came of a load.
pub(super) fn row(
    study: &str,
    load: &Load,
    memory: Memory,
    speed: f64,
    base: f64,
    stats: &Stats,
) -> RecordRow {
    RecordRow {
        study: study.to_owned(),
        records: load.records,
        distribution: load.distribution.name().to_owned(),
        reads: load.reads,
        log: memory.log,
        cache: memory.cache,
        page: memory.page,
        per_second: speed,
        over_nvm: speed / base,
        pages_written: stats.pages_written,
        written_through: stats.written_through,
    }
}

/// What is varied: cache and log sizes, loads, pages.
fn settings() -> Vec<(&'static str, u64, Distribution, u64, u64, u64, u64)> {
    use Distribution::{Uniform, Zipfian};
    let mut all = Vec::new();
    for (distribution, reads) in [(Zipfian, 5), (Uniform, 5), (Zipfian, 70), (Uniform, 70)] {
        for log in [2 * GIB, GIB / 2, GIB / 8] {
            all.push(("log", MANY, distribution, reads, log, 4 * GIB, 4096));
        }
        for cache in [8 * GIB, 4 * GIB, 2 * GIB, GIB] {
            all.push(("cache", MANY, distribution, reads, 2 * GIB, cache, 4096));
        }
    }
    all.push(("reads", FEW, Uniform, 100, 2 * GIB, 4 * GIB, 4096));
    all.push(("reads", MANY, Uniform, 100, 2 * GIB, 4 * GIB, 4096));
    all.push(("absorbed", FEW, Zipfian, 70, 2 * GIB, 8 * GIB, 4096));
    all.push(("page", MANY, Uniform, 5, 2 * GIB, 4 * GIB, 8192));
    all
}

/// Measures; operations per second in NVM alone under the load of [`apart`], unless it was stopped before.
pub fn measure(
    contest: &VnvmContest,
    watch: &dyn Watch,
    results: &mut VnvmResults,
) -> Result<Option<f64>, Error> {
    let settings = settings();
    let all = settings.len();
    let mut baselines: Vec<((Distribution, u64), f64)> = Vec::new();
    for (step, (study, records, distribution, reads, log, cache, page)) in settings.into_iter().enumerate() {
        watch.step(step, all, &format!("records, {study}"));
        if watch.stopped() {
            return Ok(None);
        }
        let operations = contest.count(OPERATIONS);
        let service_ns = contest.service_ns;
        let records = contest.count(records);
        let load = Load { records, distribution, reads, operations, seed: contest.seed, service_ns };
        // As in the source: NVM alone holds no more than the few.
        let known = baselines.iter().find(|(of, _)| *of == (distribution, reads)).map(|(_, speed)| *speed);
        let base = match known {
            Some(base) => base,
            None => {
                let base = baseline(&Load { records: contest.count(FEW), ..load })?;
                baselines.push(((distribution, reads), base));
                base
            }
        };
        let memory = Memory { log: contest.scaled(log), cache: contest.scaled(cache), page };
        let (speed, stats) = ours(contest, &load, memory)?;
        results.records.push(row(study, &load, memory, speed, base, &stats));
    }
    let of_processes = (Distribution::Zipfian, 70);
    let base = baselines.iter().find(|(of, _)| *of == of_processes).map(|(_, speed)| *speed);
    Ok(base)
}
