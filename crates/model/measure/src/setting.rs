//! Single parameters of a task with a value: what studies vary and users choose.

use std::fmt;

use machine::{Size, Time};

use crate::task::{Locality, Mix, Op, Pattern, Raw, Task};

/// A parameter with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Setting {
    /// [`Task::op`].
    Op(Op),
    /// [`Task::pattern`].
    Pattern(Pattern),
    /// [`Task::access_size`].
    AccessSize(u64),
    /// [`Task::stride`].
    Stride(u64),
    /// [`Task::threads`].
    Threads(u32),
    /// [`Task::region`].
    Region(u64),
    /// [`Task::shared`].
    Shared(bool),
    /// [`Task::delay`].
    Delay(Time),
    /// [`Task::burst`].
    Burst(u32),
    /// [`Task::fence_every`].
    FenceEvery(u64),
    /// [`Task::flush_every`].
    FlushEvery(u64),
    /// [`Task::mix`].
    Mix(Mix),
    /// [`Task::dimms`].
    Dimms(u32),
    /// [`Task::locality`].
    Locality(Locality),
    /// [`Task::raw`].
    Raw(Raw),
    /// [`Task::samples`].
    Samples(u64),
}

/// A value that a parameter can't have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{parameter} {text}: {reason}")]
pub struct SettingError {
    parameter: &'static str,
    text: String,
    reason: String,
}

/// One parameter of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
    /// [`Task::op`].
    Op,
    /// [`Task::pattern`].
    Pattern,
    /// [`Task::access_size`].
    AccessSize,
    /// [`Task::stride`].
    Stride,
    /// [`Task::threads`].
    Threads,
    /// [`Task::region`].
    Region,
    /// [`Task::shared`].
    Shared,
    /// [`Task::delay`].
    Delay,
    /// [`Task::burst`].
    Burst,
    /// [`Task::fence_every`].
    FenceEvery,
    /// [`Task::flush_every`].
    FlushEvery,
    /// [`Task::mix`].
    Mix,
    /// [`Task::dimms`].
    Dimms,
    /// [`Task::locality`].
    Locality,
    /// [`Task::raw`].
    Raw,
    /// [`Task::samples`].
    Samples,
}

impl Parameter {
    /// All of them.
    pub const ALL: [Parameter; 16] = [
        Parameter::Op,
        Parameter::Pattern,
        Parameter::AccessSize,
        Parameter::Stride,
        Parameter::Threads,
        Parameter::Region,
        Parameter::Shared,
        Parameter::Delay,
        Parameter::Burst,
        Parameter::FenceEvery,
        Parameter::FlushEvery,
        Parameter::Mix,
        Parameter::Dimms,
        Parameter::Locality,
        Parameter::Raw,
        Parameter::Samples,
    ];

    /// Its name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Parameter::Op => "op",
            Parameter::Pattern => "pattern",
            Parameter::AccessSize => "access-size",
            Parameter::Stride => "stride",
            Parameter::Threads => "threads",
            Parameter::Region => "region",
            Parameter::Shared => "shared",
            Parameter::Delay => "delay",
            Parameter::Burst => "burst",
            Parameter::FenceEvery => "fence-every",
            Parameter::FlushEvery => "flush-every",
            Parameter::Mix => "mix",
            Parameter::Dimms => "dimms",
            Parameter::Locality => "locality",
            Parameter::Raw => "raw",
            Parameter::Samples => "samples",
        }
    }

    /// Whether another value of it could change what `task` measures.
    #[must_use]
    pub fn matters_to(self, task: &Task) -> bool {
        use crate::task::Kind::{BufferProbe, IdleLatency, ReadAfterWrite, Timed};
        let threaded = !matches!(task.kind, IdleLatency | Timed | BufferProbe | ReadAfterWrite);
        match self {
            Parameter::Region | Parameter::Locality => true,
            Parameter::Op | Parameter::Pattern => task.kind != BufferProbe,
            Parameter::AccessSize => !matches!(task.kind, IdleLatency | ReadAfterWrite),
            Parameter::Stride => {
                !matches!(task.kind, BufferProbe | ReadAfterWrite) && task.pattern == Pattern::Sequential
            }
            Parameter::Threads | Parameter::Shared | Parameter::Delay | Parameter::Mix => threaded,
            Parameter::Burst => threaded && task.delay > Time::ZERO,
            Parameter::Dimms => !matches!(task.kind, BufferProbe | ReadAfterWrite),
            Parameter::FenceEvery => (threaded || task.kind == Timed) && task.writes(),
            Parameter::FlushEvery => (threaded || task.kind == Timed) && task.op == Op::StoreClwb,
            Parameter::Raw => task.kind == ReadAfterWrite,
            Parameter::Samples => matches!(task.kind, IdleLatency | Timed),
        }
    }

    /// The parameter set to what `text` says.
    ///
    /// # Errors
    /// If it says nothing that the parameter can be.
    pub fn parse(self, text: &str) -> Result<Setting, SettingError> {
        fn to<T: std::str::FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error: T::Err| error.to_string())
        }
        /// `0` needs no unit.
        fn size(text: &str) -> Result<u64, String> {
            if text == "0" { Ok(0) } else { to::<Size>(text).map(|size| size.0) }
        }
        let setting = match self {
            Parameter::Op => to(text).map(Setting::Op),
            Parameter::Pattern => to(text).map(Setting::Pattern),
            Parameter::AccessSize => size(text).map(Setting::AccessSize),
            Parameter::Stride => size(text).map(Setting::Stride),
            Parameter::Threads => to(text).map(Setting::Threads),
            Parameter::Region => size(text).map(Setting::Region),
            Parameter::Shared => to(text).map(Setting::Shared),
            Parameter::Delay if text == "0" => Ok(Setting::Delay(Time::ZERO)),
            Parameter::Delay => to(text).map(Setting::Delay),
            Parameter::Burst => to(text).map(Setting::Burst),
            Parameter::FenceEvery => to(text).map(Setting::FenceEvery),
            Parameter::FlushEvery => size(text).map(Setting::FlushEvery),
            Parameter::Mix => to(text).map(Setting::Mix),
            Parameter::Dimms => to(text).map(Setting::Dimms),
            Parameter::Locality => to(text).map(Setting::Locality),
            Parameter::Raw => to(text).map(Setting::Raw),
            Parameter::Samples => to(text).map(Setting::Samples),
        };
        setting.map_err(|reason| SettingError { parameter: self.name(), text: text.to_owned(), reason })
    }
}

impl Setting {
    /// Which parameter it sets.
    #[must_use]
    pub fn parameter(self) -> Parameter {
        match self {
            Setting::Op(_) => Parameter::Op,
            Setting::Pattern(_) => Parameter::Pattern,
            Setting::AccessSize(_) => Parameter::AccessSize,
            Setting::Stride(_) => Parameter::Stride,
            Setting::Threads(_) => Parameter::Threads,
            Setting::Region(_) => Parameter::Region,
            Setting::Shared(_) => Parameter::Shared,
            Setting::Delay(_) => Parameter::Delay,
            Setting::Burst(_) => Parameter::Burst,
            Setting::FenceEvery(_) => Parameter::FenceEvery,
            Setting::FlushEvery(_) => Parameter::FlushEvery,
            Setting::Mix(_) => Parameter::Mix,
            Setting::Dimms(_) => Parameter::Dimms,
            Setting::Locality(_) => Parameter::Locality,
            Setting::Raw(_) => Parameter::Raw,
            Setting::Samples(_) => Parameter::Samples,
        }
    }

    /// Sets it.
    pub fn apply(self, task: &mut Task) {
        match self {
            Setting::Op(op) => task.op = op,
            Setting::Pattern(pattern) => task.pattern = pattern,
            Setting::AccessSize(bytes) => task.access_size = bytes,
            Setting::Stride(bytes) => task.stride = Some(bytes),
            Setting::Threads(threads) => task.threads = threads,
            Setting::Region(bytes) => task.region = bytes,
            Setting::Shared(shared) => task.shared = shared,
            Setting::Delay(delay) => task.delay = delay,
            Setting::Burst(accesses) => task.burst = accesses,
            Setting::FenceEvery(accesses) => task.fence_every = accesses,
            Setting::FlushEvery(bytes) => task.flush_every = bytes,
            Setting::Mix(mix) => task.mix = mix,
            Setting::Dimms(dimms) => task.dimms = dimms,
            Setting::Locality(locality) => task.locality = locality,
            Setting::Raw(raw) => task.raw = raw,
            Setting::Samples(samples) => task.samples = samples,
        }
    }

    /// Where it stands on an axis. Words have no position; all of them are at 0. A mix is at the share of its
    /// reads.
    #[must_use]
    pub fn x(self) -> f64 {
        match self {
            Setting::AccessSize(bytes)
            | Setting::Stride(bytes)
            | Setting::Region(bytes)
            | Setting::FlushEvery(bytes) => bytes as f64,
            Setting::Threads(count) | Setting::Dimms(count) | Setting::Burst(count) => f64::from(count),
            Setting::FenceEvery(count) | Setting::Samples(count) => count as f64,
            Setting::Delay(delay) => delay.ns(),
            Setting::Mix(Mix::Turns { reads, writes }) => {
                100.0 * f64::from(reads) / (f64::from(reads) + f64::from(writes)).max(1.0)
            }
            Setting::Mix(Mix::Readers(readers)) => f64::from(readers),
            Setting::Mix(Mix::None)
            | Setting::Op(_)
            | Setting::Pattern(_)
            | Setting::Shared(_)
            | Setting::Locality(_)
            | Setting::Raw(_) => 0.0,
        }
    }

    /// For the name of a curve: as short as it can be understood beside others.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Setting::Threads(1) => "1 thread".to_owned(),
            Setting::Threads(threads) => format!("{threads} threads"),
            Setting::Dimms(0) => "all DIMMs".to_owned(),
            Setting::Dimms(1) => "1 DIMM".to_owned(),
            Setting::Dimms(dimms) => format!("{dimms} DIMMs"),
            Setting::Shared(false) => "own regions".to_owned(),
            Setting::Shared(true) => "one region".to_owned(),
            Setting::FenceEvery(0) => "no fence".to_owned(),
            Setting::FenceEvery(count) => format!("fence every {count}"),
            Setting::FlushEvery(bytes) => format!("flush every {}", Size(bytes)),
            Setting::AccessSize(_) | Setting::Stride(_) | Setting::Region(_) | Setting::Delay(_) => {
                format!("{} {self}", self.parameter().name())
            }
            Setting::Burst(accesses) => format!("bursts of {accesses}"),
            Setting::Samples(samples) => format!("{samples} samples"),
            Setting::Op(_)
            | Setting::Pattern(_)
            | Setting::Mix(_)
            | Setting::Locality(_)
            | Setting::Raw(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Setting {
    /// The value, as [`Parameter::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Setting::Op(op) => op.fmt(f),
            Setting::Pattern(pattern) => pattern.fmt(f),
            Setting::AccessSize(bytes)
            | Setting::Stride(bytes)
            | Setting::Region(bytes)
            | Setting::FlushEvery(bytes) => Size(bytes).fmt(f),
            Setting::Threads(count) | Setting::Dimms(count) | Setting::Burst(count) => count.fmt(f),
            Setting::FenceEvery(count) | Setting::Samples(count) => count.fmt(f),
            Setting::Shared(shared) => shared.fmt(f),
            Setting::Delay(delay) => delay.fmt(f),
            Setting::Mix(mix) => mix.fmt(f),
            Setting::Locality(locality) => locality.fmt(f),
            Setting::Raw(raw) => raw.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_reads_back_from_its_text() {
        for setting in [
            Setting::Op(Op::StoreClwb),
            Setting::Pattern(Pattern::Random),
            Setting::AccessSize(24 << 10),
            Setting::Stride(0),
            Setting::Threads(16),
            Setting::Region(2 << 30),
            Setting::Shared(true),
            Setting::Delay(Time::from_ns(300)),
            Setting::Delay(Time::ZERO),
            Setting::FenceEvery(0),
            Setting::FlushEvery(4096),
            Setting::Mix(Mix::Turns { reads: 2, writes: 1 }),
            Setting::Dimms(3),
            Setting::Locality(Locality::Far),
            Setting::Raw(Raw::Chase),
            Setting::Samples(7),
        ] {
            assert_eq!(setting.parameter().parse(&setting.to_string()), Ok(setting));
        }
        let refused = Parameter::AccessSize.parse("64").expect_err("no unit").to_string();
        assert!(refused.starts_with("--access-size 64: "), "{refused}");
    }
}
