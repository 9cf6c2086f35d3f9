//! A program's write-backs from modelled caches, and the estimates beside them.

use event::map::Map;
use event::{Batch, Capabilities, Definition, Event, Op, Sink, SinkError, Source};
use machine::{Config, LINE_BYTES};
use wear::Rates;
use wear::estimate::{Accuracy, Algorithm, BASE_PAGE, Exact, Sampled, accuracy};

use crate::StudyError;

/// Sampling intervals: every store, and the source's choice.
pub const INTERVALS: [u32; 2] = [1, 17];
/// Write-backs of a slice of the run.
const SLICE: u64 = 1024;

/// A part of a run.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// By page: write-backs.
    pub exact: Vec<(u32, u32)>,
    /// By page: write-backs that samples stand for, at the source's interval.
    pub sampled: Vec<(u32, u32)>,
}

/// What a program did to its pages.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Write-backs by page, idle pages of the footprint included.
    pub pages: Rates,
    /// Write-backs of the hottest line of each page.
    pub lines: Rates,
    /// The run in slices.
    pub slices: Vec<Slice>,
    /// By [`INTERVALS`]: the estimate with filters and without, beside the exact counts.
    pub estimates: [[Accuracy; 2]; 2],
    /// Standard deviation of the estimate's error by its mean, at interval 1.
    pub error_spread: f64,
    /// By page that was written: write-backs, the most first.
    pub counts: Vec<u64>,
}

/// The sink of one program.
pub struct Observing {
    exact: Exact,
    samplers: Vec<Sampled>,
    /// By sampler: its counts in the slices that are over.
    taken: [Map<u64, u64>; 2],
    /// Flushes and non-temporal stores are left out: memory that need not survive.
    volatile: bool,
    log: Vec<(u64, u32)>,
    slice: Map<u64, u64>,
    written: u64,
    slices: Vec<Slice>,
    events: Vec<Event>,
}

impl Observing {
    /// Filters as large as the machine's last cache.
    pub fn new(config: &Config, volatile: bool) -> Result<Self, StudyError> {
        let blocks = config.llc.size.0 / LINE_BYTES;
        let sampled = |interval: u32| Sampled::new(Algorithm { interval, blocks, ..Algorithm::of_source() });
        Ok(Observing {
            exact: Exact::new(config)?,
            samplers: INTERVALS.into_iter().map(sampled).collect::<Result<_, _>>()?,
            taken: [Map::default(), Map::default()],
            volatile,
            log: Vec::new(),
            slice: Map::default(),
            written: 0,
            slices: Vec::new(),
            events: Vec::new(),
        })
    }

    fn note(&mut self) {
        for (line, _) in self.log.drain(..) {
            *self.slice.entry(line * LINE_BYTES / BASE_PAGE).or_default() += 1;
            self.written += 1;
        }
        if self.written >= SLICE {
            self.end_slice();
        }
    }

    fn end_slice(&mut self) {
        self.written = 0;
        let list = |counts: Map<u64, u64>| {
            let mut list: Vec<(u32, u32)> = counts
                .into_iter()
                .map(|(page, count)| ((page & u64::from(u32::MAX)) as u32, count as u32))
                .collect();
            list.sort_unstable();
            list
        };
        let mut slice = Slice { exact: list(std::mem::take(&mut self.slice)), sampled: Vec::new() };
        for (taken, sampler) in self.taken.iter_mut().zip(&mut self.samplers) {
            let counts = sampler.take_counts();
            for (&page, &count) in &counts {
                *taken.entry(page).or_default() += count;
            }
            // The last sampler is the source's.
            slice.sampled = list(counts);
        }
        self.slices.push(slice);
    }

    /// The result, over a footprint of so many bytes.
    pub fn into_observed(self, footprint: u64) -> Observed {
        let tally = self.exact.watch().tally();
        let persistent = tally.persistent();
        let mut exact: Map<u64, u64> = Map::default();
        for page in tally.pages(BASE_PAGE, persistent) {
            exact.insert(page.address / BASE_PAGE, page.writes);
        }
        let mut hottest: Map<u64, u32> = Map::default();
        for (line, count) in tally.each_line(persistent) {
            let most = hottest.entry(line * LINE_BYTES / BASE_PAGE).or_default();
            *most = (*most).max(count);
        }
        let parts = (footprint / BASE_PAGE).max(exact.len() as u64);
        let estimate = |at: usize| {
            let factor = f64::from(INTERVALS[at]);
            let naive = self.samplers[at].without_filters();
            [accuracy(&exact, &self.taken[at], factor), accuracy(&exact, naive, factor)]
        };
        let mut counts: Vec<u64> = exact.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        Observed {
            pages: Rates::new(counts.iter().map(|count| *count as f64)).within(parts),
            lines: Rates::new(hottest.values().map(|count| f64::from(*count))).within(parts),
            estimates: [estimate(0), estimate(1)],
            error_spread: spread(&exact, &self.taken[0]),
            slices: self.slices,
            counts,
        }
    }
}

/// Standard deviation of the errors of an estimate, by their mean.
fn spread(exact: &Map<u64, u64>, estimate: &Map<u64, u64>) -> f64 {
    let errors: Vec<f64> = exact
        .iter()
        .map(|(page, count)| (estimate.get(page).copied().unwrap_or(0) as f64 - *count as f64).abs())
        .collect();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let square = errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>();
    (square / errors.len().max(1) as f64).sqrt() / mean
}

impl Sink for Observing {
    fn name(&self) -> &'static str {
        "studies"
    }

    fn needs(&self) -> Capabilities {
        self.exact.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.exact.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.exact.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        if self.volatile {
            let kept = |event: &Event| match event.op {
                Op::Flush { .. } | Op::Fence(_) => None,
                Op::StoreNt { addr, len } => Some(Event { op: Op::Store { addr, len }, ..*event }),
                _ => Some(*event),
            };
            events.extend(batch.events.iter().filter_map(kept));
        } else {
            events.extend_from_slice(batch.events);
        }
        let batch = Batch { events: &events, values: &[], ..batch };
        self.exact.push_logged(batch, &mut self.log)?;
        self.samplers.iter_mut().try_for_each(|sampler| sampler.push(batch))?;
        self.events = events;
        self.note();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.exact.finish_logged(&mut self.log)?;
        self.note();
        self.end_slice();
        Ok(())
    }
}
