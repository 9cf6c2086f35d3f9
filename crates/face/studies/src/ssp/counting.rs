//! Writes of a structure's regions, by what they are for: the library's engines themselves, on the counting
//! machine.

use event::{Batch, BlockBatch, Capabilities, Definition, RunSink, Sink, SinkError, SiteId, Source};
use machine::{Config, Machine};
use region::{Atomicity, Geometry, Options, Pool};
use space::sim::{Schedule, run};
use space::{Env, Image, Recorded, Recording};

use workload::transactions::{Structure, scatter};

use crate::StudyError;

/// Bytes of a pool.
const BYTES: u64 = 32 << 20;
/// The place for logs. For SSP, that is 261 spare pages of 4 KiB; the source's machine has four cores with 64
/// entries of a TLB each.
const GEOMETRY: Geometry = Geometry { logs: 8, log_bytes: 176 << 10, chunk_bytes: 64 << 10 };
/// Regions that are counted.
pub(super) const REGIONS: u64 = 20_000;
/// Keys inserted by one region before that.
const AT_ONCE: u64 = 16;

pub(super) use workload::transactions::Keys;

/// Bytes that reached memory, by what they were for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Logs, journals, and what says which part of them counts.
    pub(crate) logging: u64,
    /// What regions wrote, the allocator's bits included.
    pub(crate) data: u64,
    /// Lines brought home from spare pages.
    pub(crate) consolidation: u64,
}

impl Written {
    pub(super) fn total(&self) -> u64 {
        self.logging + self.data + self.consolidation
    }
}

/// What the regions of a structure write with an engine: dirty lines are counted when they reach memory,
/// those that are in the caches at the end included.
pub(super) fn written<S: Structure, A: Atomicity>(
    config: &Config,
    keys: Keys,
) -> Result<Written, StudyError> {
    let filled = run(Image::new(BYTES), &Schedule::walk(0), |env| fill::<S, A, _>(env));
    let image = filled.space;
    filled.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let sink = Counted { machine: Machine::new(config)?, files: Vec::new() };
    let space = Recorded::new(image, sink, &Recording::persistent("studies", "pool"))?;
    let counted = run(space, &Schedule::walk(0), |env| {
        let (pool, _) = Pool::<_, S, A>::open(env)?;
        (0..REGIONS).try_for_each(|number| {
            let key = keys.draw(number, S::KEYS);
            pool.region(|tx| S::update(tx, scatter(key), scatter(!number)))
        })
    });
    counted.result.unwrap_or_else(|failure| panic!("{failure}"))?;
    let (_, sink) = counted.space.finish()?;
    Ok(sink.written())
}

/// Makes a pool in which every other key is.
fn fill<S: Structure, A: Atomicity, E: Env>(env: &E) -> Result<(), region::Error> {
    let pool = Pool::<_, S, A>::create(env, &Options { geometry: Some(GEOMETRY), bytes: None })?;
    let keys = if S::FILLED { S::KEYS } else { 0 };
    for first in (0..keys).step_by(2 * AT_ONCE as usize) {
        pool.region(|tx| {
            let mut keys = (first..first + 2 * AT_ONCE).step_by(2);
            keys.try_for_each(|number| S::update(tx, scatter(number), number))
        })?;
    }
    pool.checkpoint()
}

/// A counting machine, and which file each site is in.
struct Counted {
    machine: Machine,
    files: Vec<String>,
}

impl Counted {
    fn written(mut self) -> Written {
        self.machine.drain();
        let figures = self.machine.figures();
        let mut written = Written::default();
        for (site, file) in figures.sites.iter().zip(&self.files) {
            let bytes = site.persistent.controller_write_bytes;
            let is = |ends: &[&str]| ends.iter().any(|end| file.ends_with(end));
            if is(&["ssp/home.rs"]) {
                written.consolidation += bytes;
            } else if is(&["log/line.rs", "log/ring.rs", "engine/state.rs", "ssp/table.rs"]) {
                written.logging += bytes;
            } else {
                written.data += bytes;
            }
        }
        debug_assert_eq!(written.total(), figures.persistent.total.controller_write_bytes);
        written
    }
}

impl Sink for Counted {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn needs(&self) -> Capabilities {
        self.machine.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.machine.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Site(SiteId(number), site) = definition {
            let file = site.frame().map_or(String::new(), |frame| frame.file.clone());
            self.files.resize(self.files.len().max(number as usize + 1), String::new());
            self.files[number as usize] = file;
        }
        self.machine.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.machine.push(batch)
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.machine.finish()
    }
}

impl RunSink for Counted {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.machine.push_blocks(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use region::{Redo, Ssp, Undo};
    use workload::transactions::Swaps;

    #[test]
    fn what_regions_write_is_kept_apart() {
        let config = Config::preset("table-3.1").expect("a preset");
        let lines = |bytes: u64| bytes / 64 / (REGIONS / 100);
        let of = |Written { logging, data, consolidation }| [logging, data, consolidation].map(lines);
        // A hundred swaps: two words' lines and an end each, two elements' lines.
        let undo = written::<Swaps, Undo>(&config, Keys::Random).expect("it runs");
        assert_eq!(of(undo), [300, 200, 0], "{undo:?}");
        let redo = written::<Swaps, Redo>(&config, Keys::Random).expect("it runs");
        assert_eq!(of(redo), [100, 200, 0], "{redo:?}");
        let ssp = written::<Swaps, Ssp>(&config, Keys::Random).expect("it runs");
        assert!(ssp.data == undo.data && ssp.consolidation > 0 && ssp.consolidation < ssp.data, "{ssp:?}");
    }
}
