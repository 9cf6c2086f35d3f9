//! One measurement: what each thread does, in numbers.

use std::fmt;
use std::str::FromStr;

use machine::{Size, Time};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line: what a single access moves.
pub const LINE: u64 = 64;
/// The longest [`Task::delay`]: beyond it there is no load, and a run is as long as its delays.
const DELAY_MAX: Time = Time::from_ns(100_000_000);
/// The most [`Task::samples`]: all are kept, at some 24 B each.
const SAMPLES_MAX: u64 = 1 << 26;
/// The most that all regions together may have: addresses have 48 bits, and something else has to have room
/// as well.
const FOOTPRINT_MAX: u64 = 1 << 46;

/// One measurement. The same task means the same accesses on real and on modelled memory; the defaults
/// ([`Task::default`]) are those of LATTester.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is measured.
    pub kind: Kind,
    /// What an access does (the writing ones, where `mix` has both).
    pub op: Op,
    /// Where the next access is.
    pub pattern: Pattern,
    /// Bytes of an access, a multiple of 64.
    pub access_size: u64,
    /// From the start of one access to the next of a sequential pattern, a multiple of 64; `None` is the
    /// access size, 0 stays in place.
    pub stride: Option<u64>,
    /// Threads, each on a core of its own.
    pub threads: u32,
    /// Bytes that each thread works in, a multiple of the access size.
    pub region: u64,
    /// Whether all threads work in one region instead of each in its own.
    pub shared: bool,
    /// Between two accesses of a thread (two bursts, if these are longer), 100 ms at most.
    pub delay: Time,
    /// Accesses that a thread does in a row before a delay, 1 or more; load generators like MLC inject their delay between such
    /// batches.
    #[serde(default = "single")]
    pub burst: u32,
    /// Writing accesses after which a store fence waits; 0 for none, as in LATTester's tasks of bandwidth.
    pub fence_every: u64,
    /// Bytes stored before their lines are flushed, at most one access: 64 is after each line.
    pub flush_every: u64,
    /// Reads beside the writes.
    pub mix: Mix,
    /// Neighbouring DIMMs of an interleaved set that each thread keeps to; 0 for all.
    pub dimms: u32,
    /// On which socket the threads run.
    pub locality: Locality,
    /// How a read after a write is done.
    pub raw: Raw,
    /// Timed samples, of those kinds that time each access: 1 to 2^26.
    pub samples: u64,
}

impl Default for Task {
    fn default() -> Self {
        Task {
            kind: Kind::Bandwidth,
            op: Op::Load,
            pattern: Pattern::Sequential,
            access_size: LINE,
            stride: None,
            threads: 1,
            region: 2 << 30,
            shared: false,
            delay: Time::ZERO,
            burst: single(),
            fence_every: 0,
            flush_every: LINE,
            mix: Mix::None,
            dimms: 0,
            locality: Locality::AsGiven,
            raw: Raw::Separate,
            samples: 1 << 20,
        }
    }
}

/// A burst of one access, as in results without bursts.
const fn single() -> u32 {
    1
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Single accesses with nothing else under way: an 8-byte load, or store, flush and full fence, or a
    /// non-temporal store of a line and full fence; a written line is read into the cache before.
    IdleLatency,
    /// Each access timed by itself, with its fence; lines that are stored to through the cache are read into
    /// it before.
    Timed,
    /// Bytes per time.
    Bandwidth,
    /// Accesses of `threads` threads with a delay between them, and the idle latency of one thread more.
    LoadedLatency,
    /// Units of `access_size` bytes: the first half of each in turn is stored and flushed, then the second
    /// half of each.
    BufferProbe,
    /// Lines that are written and then read.
    ReadAfterWrite,
}

/// What an access does to its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// Reads them.
    Load,
    /// Writes them by non-temporal stores.
    Ntstore,
    /// Writes them and leaves them in the cache.
    Store,
    /// Writes them and writes them back.
    #[serde(rename = "store+clwb")]
    StoreClwb,
    /// Reads the first half of them and writes it over the second, as STREAM's copy does.
    Copy,
}

/// Where the next access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A stride further, from the start again behind the region's end.
    Sequential,
    /// Anywhere in the region, at a multiple of the access size.
    Random,
}

/// Reads beside the writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Every access is the task's operation.
    None,
    /// Each thread reads and writes in turn, so many accesses of each.
    Turns {
        /// Reads.
        reads: u32,
        /// Writes.
        writes: u32,
    },
    /// So many of the threads read, the others write.
    Readers(u32),
}

/// On which socket the threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// From the first core on, wherever the memory is.
    AsGiven,
    /// Where the memory is.
    Near,
    /// On another one.
    Far,
}

/// How lines are written and read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Raw {
    /// All are written, then all are read; writing and reading are timed each.
    Separate,
    /// Each is read right after it was written; both are timed together.
    Combined,
    /// All are written, then all are read, each read needing the one before.
    Chase,
}

impl Task {
    /// The step of a sequential pattern.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.stride.unwrap_or(self.access_size)
    }

    /// Whether its threads write at all.
    #[must_use]
    pub fn writes(&self) -> bool {
        match self.mix {
            Mix::None => self.op != Op::Load,
            Mix::Turns { writes, .. } => writes > 0,
            Mix::Readers(readers) => readers < self.threads,
        }
    }

    /// Bytes that all threads together work in.
    #[must_use]
    pub fn footprint(&self) -> u64 {
        let regions = if self.shared { 1 } else { u64::from(self.threads) };
        let probe = u64::from(self.kind == Kind::LoadedLatency);
        self.region.saturating_mul(regions + probe)
    }

    /// Why no machine can do this; `None` if one can.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let lines = |bytes: u64| bytes.is_multiple_of(LINE);
        if self.access_size == 0 || !lines(self.access_size) {
            return Some(format!(
                "an access of {} B is not of whole lines: use a multiple of 64",
                self.access_size
            ));
        }
        if self.stride.is_some_and(|stride| !lines(stride)) {
            return Some(format!(
                "a stride of {} B is not of whole lines: use a multiple of 64",
                self.step()
            ));
        }
        if self.flush_every == 0 || !lines(self.flush_every) {
            return Some(format!(
                "flushing every {} B is not of whole lines: use a multiple of 64",
                self.flush_every
            ));
        }
        if self.region < self.access_size || !lines(self.region) {
            return Some(format!(
                "a region of {} B has no room for accesses of {} B: use a multiple of 64 not below that",
                self.region, self.access_size
            ));
        }
        if self.burst == 0 {
            return Some("a burst of no accesses: use 1 or more".to_owned());
        }
        if self.threads == 0 {
            return Some("no threads: use 1 or more".to_owned());
        }
        if self.kind == Kind::BufferProbe && !self.access_size.is_multiple_of(2 * LINE) {
            return Some(format!(
                "a unit of {} B has no halves of whole lines: use a multiple of 128",
                self.access_size
            ));
        }
        if self.op == Op::Copy && (self.kind != Kind::Bandwidth || self.mix != Mix::None) {
            return Some(
                "a copy reads and writes by itself: it is for measurements of bandwidth without a mix"
                    .to_owned(),
            );
        }
        if self.op == Op::Copy && !self.access_size.is_multiple_of(2 * LINE) {
            return Some(format!(
                "a copy of {} B has no halves of whole lines: use a multiple of 128",
                self.access_size
            ));
        }
        if self.mix == (Mix::Turns { reads: 0, writes: 0 }) {
            return Some("a mix of 0 reads and 0 writes does nothing".to_owned());
        }
        if self.mix != Mix::None && self.op == Op::Load {
            return Some("a mix needs an operation that writes: ntstore, store or store+clwb".to_owned());
        }
        if self.kind == Kind::ReadAfterWrite && self.op == Op::Load {
            return Some(
                "reading after writing needs an operation that writes: ntstore, store or store+clwb"
                    .to_owned(),
            );
        }
        if matches!(self.mix, Mix::Readers(readers) if readers > self.threads) {
            return Some(format!("more readers than the {} threads", self.threads));
        }
        self.excess()
    }

    /// Which number is beyond what is possible.
    fn excess(&self) -> Option<String> {
        if self.footprint() > FOOTPRINT_MAX {
            return Some(format!(
                "regions of {} for {} threads are more than {}, the most that they may have together",
                Size(self.region),
                self.threads,
                Size(FOOTPRINT_MAX)
            ));
        }
        if self.delay > DELAY_MAX {
            return Some(format!("a delay of {} is too long: use at most {DELAY_MAX}", self.delay));
        }
        if self.samples == 0 || self.samples > SAMPLES_MAX {
            return Some(format!("{} samples can't be had: use 1 to {SAMPLES_MAX}", self.samples));
        }
        match self.mix {
            Mix::Turns { reads, writes } if reads.checked_add(writes).is_none() => Some(format!(
                "a mix of {reads} reads and {writes} writes is too long a turn: use smaller numbers"
            )),
            _ => None,
        }
    }
}

/// A word that names nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is no {what}: use {choices}")]
pub struct WordError {
    word: String,
    what: &'static str,
    choices: String,
}

/// The names of an enum's values, in both directions.
macro_rules! words {
    ($type:ty, $what:literal, $($value:path => $word:literal),+ $(,)?) => {
        impl $type {
            /// All values.
            pub const ALL: &[$type] = &[$($value),+];

            /// Its name on the command line and in files.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($value => $word),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = WordError;

            fn from_str(word: &str) -> Result<Self, WordError> {
                Self::ALL.iter().copied().find(|value| value.name() == word).ok_or_else(|| WordError {
                    word: word.to_owned(),
                    what: $what,
                    choices: Self::ALL.iter().map(|value| value.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

words!(Op, "operation", Op::Load => "load", Op::Ntstore => "ntstore", Op::Store => "store", Op::StoreClwb => "store+clwb",
    Op::Copy => "copy");
words!(Pattern, "pattern", Pattern::Sequential => "sequential", Pattern::Random => "random");
words!(Locality, "place for threads", Locality::AsGiven => "as-given", Locality::Near => "near", Locality::Far => "far");
words!(Raw, "way to read after writing", Raw::Separate => "separate", Raw::Combined => "combined", Raw::Chase => "chase");
words!(Kind, "kind of measurement",
    Kind::IdleLatency => "idle-latency", Kind::Timed => "timed", Kind::Bandwidth => "bandwidth",
    Kind::LoadedLatency => "loaded-latency", Kind::BufferProbe => "buffer-probe",
    Kind::ReadAfterWrite => "read-after-write");

impl fmt::Display for Mix {
    /// `none`, `2:1` (reads:writes), `6r` (readers).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mix::None => f.write_str("none"),
            Mix::Turns { reads, writes } => write!(f, "{reads}:{writes}"),
            Mix::Readers(readers) => write!(f, "{readers}r"),
        }
    }
}

impl FromStr for Mix {
    type Err = WordError;

    fn from_str(word: &str) -> Result<Self, WordError> {
        let parsed = if word == "none" {
            Some(Mix::None)
        } else if let Some(readers) = word.strip_suffix('r') {
            readers.parse().ok().map(Mix::Readers)
        } else {
            word.split_once(':').and_then(|(reads, writes)| {
                Some(Mix::Turns { reads: reads.parse().ok()?, writes: writes.parse().ok()? })
            })
        };
        parsed.ok_or_else(|| WordError {
            word: word.to_owned(),
            what: "mix",
            choices: "none, reads:writes as in 2:1, or readers among the threads as in 6r".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        for op in Op::ALL {
            assert_eq!(op.name().parse(), Ok(*op));
            assert_eq!(serde_json::to_value(op).expect("a word"), op.name());
        }
        for mix in [Mix::None, Mix::Turns { reads: 4, writes: 1 }, Mix::Readers(6)] {
            assert_eq!(mix.to_string().parse(), Ok(mix));
        }
        let refused = "clwb".parse::<Op>().expect_err("no operation");
        assert!(refused.to_string().contains("store+clwb"), "{refused}");
    }

    #[test]
    fn what_can_not_be_done_is_reported() {
        let good = Task::default();
        assert_eq!(good.fault(), None);
        for (bad, part) in [
            (Task { access_size: 96, ..good.clone() }, "96 B"),
            (Task { access_size: 0, ..good.clone() }, "0 B"),
            (Task { stride: Some(8), ..good.clone() }, "stride"),
            (Task { flush_every: 0, ..good.clone() }, "flushing"),
            (Task { region: 64, access_size: 256, ..good.clone() }, "room"),
            (Task { threads: 0, ..good.clone() }, "threads"),
            (Task { kind: Kind::BufferProbe, ..good.clone() }, "halves"),
            (Task { kind: Kind::ReadAfterWrite, ..good.clone() }, "writes"),
            (Task { mix: Mix::Readers(1), ..good.clone() }, "writes"),
            (Task { mix: Mix::Readers(2), op: Op::Store, ..good.clone() }, "readers"),
            (Task { samples: 0, ..good.clone() }, "1 to 67108864"),
            (Task { samples: u64::MAX, ..good.clone() }, "1 to 67108864"),
            (Task { delay: Time::from_ns(480_000_000), ..good.clone() }, "at most 100ms"),
            (Task { region: 1 << 63, threads: 24, ..good.clone() }, "64TiB"),
            (
                Task { mix: Mix::Turns { reads: u32::MAX, writes: 1 }, op: Op::Store, ..good.clone() },
                "smaller",
            ),
        ] {
            let fault = bad.fault().expect("no machine can do this");
            assert!(fault.contains(part), "{fault}");
        }
    }
}
