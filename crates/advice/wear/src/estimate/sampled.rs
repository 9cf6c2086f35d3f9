//! Estimates from samples of stores: Algorithm 1 of Gogte's thesis.
//!
//! Every n-th store of a thread is a sample, as a performance unit takes them. Two Bloom filters stand for
//! the lines that are dirty in the caches: a sample whose block is in neither is taken for the store that
//! dirtied the line, so for one write-back to come. The filters take turns, so that old blocks are forgotten.
//! Without filters every sample counts.

use event::map::Map;
use event::{Batch, Capabilities, Event, Op, Sink, SinkError};
use machine::LINE_BYTES;
use serde::{Deserialize, Serialize};

use super::{BASE_PAGE, Bloom};

/// When the filters change roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Swap {
    /// After as many blocks that were in neither filter as one holds, as the algorithm is printed.
    Misses,
    /// When as many blocks went into the active filter, as the text says.
    Insertions,
}

/// The choices that the source leaves open, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Algorithm {
    /// Every so many-th store is a sample: a prime, so that loops do not hide from it, or 1.
    pub interval: u32,
    /// Blocks that a filter holds; as many as the last cache has lines.
    pub blocks: u64,
    /// Bits per block.
    pub bits: f64,
    /// Hashes per block.
    pub hashes: u32,
    /// When the filters change roles.
    pub swap: Swap,
    /// Whether each process has filters of its own. Addresses are virtual.
    pub per_process: bool,
}

/// Choices that can't be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AlgorithmError {
    /// A number that hides loops.
    #[error(
        "a sampling interval of {0} is no prime, so loops of that period hide; use 1, 2, 3, 5, 7, 11, 13, 17"
    )]
    NoPrime(u32),
    /// A filter that holds nothing, or too much.
    #[error("a filter of {blocks} blocks of {bits} bits: use 1 to 2^32 blocks and 1 to 64 bits")]
    Filter {
        /// Blocks.
        blocks: u64,
        /// Bits of each.
        bits: f64,
    },
}

impl Algorithm {
    /// The source's: every 17th store, filters of 700,000 blocks.
    #[must_use]
    pub fn of_source() -> Self {
        Algorithm {
            interval: 17,
            blocks: 700_000,
            bits: 9.6,
            hashes: 7,
            swap: Swap::Misses,
            per_process: true,
        }
    }

    /// Refuses what can't work.
    ///
    /// # Errors
    /// If the interval is not prime or the filters have no sensible size.
    pub fn check(&self) -> Result<(), AlgorithmError> {
        let divisors = 2..=self.interval.isqrt();
        if self.interval == 0 || divisors.into_iter().any(|divisor| self.interval.is_multiple_of(divisor)) {
            return Err(AlgorithmError::NoPrime(self.interval));
        }
        let Algorithm { blocks, bits, .. } = *self;
        if !(1..=1 << 32).contains(&blocks) || !(1.0..=64.0).contains(&bits) {
            return Err(AlgorithmError::Filter { blocks, bits });
        }
        Ok(())
    }
}

/// The filters of an address space.
#[derive(Clone, Debug)]
struct Filters {
    pair: [Bloom; 2],
    active: usize,
    misses: u64,
}

impl Filters {
    fn new(algorithm: &Algorithm) -> Self {
        let filter = || Bloom::new(algorithm.blocks, algorithm.bits, algorithm.hashes);
        Filters { pair: [filter(), filter()], active: 0, misses: 0 }
    }

    /// A sample stored to `block`. Whether the line was clean, as far as one can tell.
    fn store(&mut self, block: u64, algorithm: &Algorithm) -> bool {
        let missed = !self.pair[0].contains(block) && !self.pair[1].contains(block);
        self.misses += u64::from(missed);
        self.pair[self.active].insert(block);
        let full = match algorithm.swap {
            Swap::Misses => self.misses >= algorithm.blocks,
            Swap::Insertions => self.pair[self.active].inserted() >= algorithm.blocks,
        };
        if full {
            self.misses = 0;
            self.active = 1 - self.active;
            self.pair[self.active].clear();
        }
        missed
    }
}

/// The estimate, as a sink of events.
#[derive(Clone, Debug)]
pub struct Sampled {
    algorithm: Algorithm,
    filters: Map<u32, Filters>,
    /// By thread: stores until the next sample, and its process.
    threads: Vec<(u32, u32)>,
    counts: Map<u64, u64>,
    naive: Map<u64, u64>,
    stores: u64,
    samples: u64,
}

impl Sampled {
    /// With these choices.
    ///
    /// # Errors
    /// If they can't work.
    pub fn new(algorithm: Algorithm) -> Result<Self, AlgorithmError> {
        algorithm.check()?;
        Ok(Sampled {
            algorithm,
            filters: Map::default(),
            threads: Vec::new(),
            counts: Map::default(),
            naive: Map::default(),
            stores: 0,
            samples: 0,
        })
    }

    /// The choices.
    #[must_use]
    pub fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// By page ([`BASE_PAGE`]): write-backs, estimated, in samples.
    #[must_use]
    pub fn counts(&self) -> &Map<u64, u64> {
        &self.counts
    }

    /// The same since the last call, which forgets them: for a rate by interval.
    pub fn take_counts(&mut self) -> Map<u64, u64> {
        std::mem::take(&mut self.counts)
    }

    /// The same as [`Sampled::counts`] if every sample were a write-back.
    #[must_use]
    pub fn without_filters(&self) -> &Map<u64, u64> {
        &self.naive
    }

    /// Stores seen, and samples taken of them.
    #[must_use]
    pub fn samples(&self) -> (u64, u64) {
        (self.stores, self.samples)
    }

    /// A store of a program was sampled, by this or by a processor. Whether it is taken for a write-back to come.
    pub fn sample(&mut self, process: u32, addr: u64) -> bool {
        self.samples += 1;
        let page = addr / BASE_PAGE;
        *self.naive.entry(page).or_default() += 1;
        let key = if self.algorithm.per_process { process } else { 0 };
        let filters = self.filters.entry(key).or_insert_with(|| Filters::new(&self.algorithm));
        let written = filters.store(addr / LINE_BYTES, &self.algorithm);
        if written {
            *self.counts.entry(page).or_default() += 1;
        }
        written
    }

    fn event(&mut self, thread: usize, event: &Event) {
        let (addr, len) = match event.op {
            Op::Store { addr, len } | Op::StoreNt { addr, len } => (addr, len),
            Op::Process { process } => {
                self.threads[thread].1 = process;
                return;
            }
            _ => return,
        };
        if len == 0 {
            return;
        }
        self.stores += 1;
        let (left, process) = &mut self.threads[thread];
        *left -= 1;
        if *left == 0 {
            *left = self.algorithm.interval;
            let process = *process;
            self.sample(process, addr);
        }
    }
}

impl Sink for Sampled {
    fn name(&self) -> &'static str {
        "sampled wear"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::STORES
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let thread = batch.thread.0 as usize;
        if thread >= self.threads.len() {
            if thread >= 1 << 20 {
                return Err(SinkError::Other(format!(
                    "a batch names thread {thread}: the stream is damaged"
                )));
            }
            self.threads.resize(thread + 1, (self.algorithm.interval, 0));
        }
        batch.events.iter().for_each(|event| self.event(thread, event));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{SiteId, ThreadId};

    fn run(algorithm: Algorithm, addresses: impl IntoIterator<Item = u64>) -> Sampled {
        let mut sampled = Sampled::new(algorithm).expect("choices that work");
        let store = |addr| Event { op: Op::Store { addr, len: 8 }, site: SiteId(0), instructions: 1 };
        let events: Vec<Event> = addresses.into_iter().map(store).collect();
        let batch = Batch { thread: ThreadId(3), time_ns: 0, events: &events, values: &[] };
        sampled.push(batch).expect("a batch");
        sampled
    }

    #[test]
    fn a_hot_line_counts_once_and_a_stream_each_time() {
        let every = Algorithm { interval: 1, blocks: 1000, ..Algorithm::of_source() };
        let hot = run(every, std::iter::repeat_n(0x9000, 5000));
        assert_eq!((hot.counts()[&9], hot.without_filters()[&9]), (1, 5000));
        // Ten times through four thousand lines, with filters of a thousand: each line is clean again each
        // time.
        let stream = run(every, (0..40_000u64).map(|at| at % 4000 * 64));
        let sum: u64 = stream.counts().values().sum();
        assert!((38_000..=40_000).contains(&sum), "{sum}");
    }

    #[test]
    fn the_two_triggers_differ_when_blocks_come_back() {
        // The active filter takes blocks that only the other one has.
        let addresses = || (0..60_000u64).map(|at| (at % 1500 + at / 20_000 * 700) * 64);
        let with = |swap| {
            let algorithm = Algorithm { interval: 1, blocks: 1000, swap, ..Algorithm::of_source() };
            run(algorithm, addresses()).counts().values().sum::<u64>()
        };
        assert!(with(Swap::Insertions) > with(Swap::Misses));
    }

    #[test]
    fn every_nth_store_is_a_sample() {
        let sampled = run(Algorithm::of_source(), (0..1700).map(|at| at * 4096));
        assert_eq!(sampled.samples(), (1700, 100));
        for (interval, sound) in [(1, true), (2, true), (15, false), (17, true), (0, false), (49, false)] {
            let algorithm = Algorithm { interval, ..Algorithm::of_source() };
            assert_eq!(algorithm.check().is_ok(), sound, "{interval}");
        }
    }
}
