//! Where rows get their measurements from: the tasks of `measure` and patterns of events, on the modelled
//! machine. What several rows need is measured once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use machine::{Config, Time};
use measure::{Bench, Figures, Kind, Mix, Model, Op, Outcome, Pattern, Task};

use crate::StudyError;
use crate::pattern;

/// One way of accessing memory. Starts as sequential loads of 64 B by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub(crate) machine: &'static str,
    pub(crate) set: Option<(&'static str, &'static str)>,
    pub(crate) op: Op,
    pub(crate) order: Pattern,
    pub(crate) bytes: u64,
    pub(crate) threads: u32,
    pub(crate) readers: u32,
    pub(crate) mix: Option<(u32, u32)>,
    pub(crate) dimms: Option<u32>,
    pub(crate) delay_ns: u64,
    pub(crate) burst: u32,
    pub(crate) region: u64,
    pub(crate) other: bool,
    pub(crate) loaded: bool,
    pub(crate) flush_at_end: bool,
    pub(crate) fenced: bool,
}

impl Access {
    /// On a preset.
    #[must_use]
    pub fn on(machine: &'static str) -> Access {
        Access {
            machine,
            set: None,
            op: Op::Load,
            order: Pattern::Sequential,
            bytes: 64,
            threads: 1,
            readers: 0,
            mix: None,
            dimms: None,
            delay_ns: 0,
            burst: 1,
            region: 2 << 30,
            other: false,
            loaded: false,
            flush_at_end: false,
            fenced: false,
        }
    }

    /// With one value of the preset replaced.
    #[must_use]
    pub fn set(self, key: &'static str, value: &'static str) -> Access {
        Access { set: Some((key, value)), ..self }
    }

    /// What is done.
    #[must_use]
    pub fn op(self, op: Op) -> Access {
        Access { op, ..self }
    }

    /// In which order.
    #[must_use]
    pub fn order(self, order: Pattern) -> Access {
        Access { order, ..self }
    }

    /// Bytes of one access.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Access {
        Access { bytes, ..self }
    }

    /// How many threads.
    #[must_use]
    pub fn threads(self, threads: u32) -> Access {
        Access { threads, ..self }
    }

    /// How many of the threads only load.
    #[must_use]
    pub fn readers(self, readers: u32) -> Access {
        Access { readers, ..self }
    }

    /// Each thread does so many loads, then so many of the other operation, and so on.
    #[must_use]
    pub fn mix(self, loads: u32, others: u32) -> Access {
        Access { mix: Some((loads, others)), ..self }
    }

    /// Each thread goes to so many of the machine's DIMMs, evenly spread over the threads.
    #[must_use]
    pub fn dimms(self, dimms: u32) -> Access {
        Access { dimms: Some(dimms), ..self }
    }

    /// Time between one access and the next, while one thread more measures latencies.
    #[must_use]
    pub fn delay_ns(self, delay_ns: u64) -> Access {
        Access { delay_ns, loaded: true, ..self }
    }

    /// So many accesses in a row, and then the delay.
    #[must_use]
    pub fn burst(self, burst: u32) -> Access {
        Access { burst, ..self }
    }

    /// Bytes that each thread works in.
    #[must_use]
    pub fn region(self, region: u64) -> Access {
        Access { region, ..self }
    }

    /// To the machine's other memory.
    #[must_use]
    pub fn other(self) -> Access {
        Access { other: true, ..self }
    }

    /// Lines are flushed once all of the access is stored, not each after its store.
    #[must_use]
    pub fn flush_at_end(self, flush_at_end: bool) -> Access {
        Access { flush_at_end, ..self }
    }

    /// Each writing access ends with a store fence.
    #[must_use]
    pub fn fenced(self) -> Access {
        Access { fenced: true, ..self }
    }

    fn task(&self) -> Task {
        let mix = match self.mix {
            Some((reads, writes)) => Mix::Turns { reads, writes },
            None if self.readers > 0 => Mix::Readers(self.readers),
            None => Mix::None,
        };
        Task {
            kind: if self.loaded { Kind::LoadedLatency } else { Kind::Bandwidth },
            op: self.op,
            pattern: self.order,
            access_size: self.bytes,
            threads: self.threads,
            delay: Time::from_ns(self.delay_ns),
            burst: self.burst,
            region: self.region,
            flush_every: if self.flush_at_end { self.bytes } else { measure::LINE },
            mix,
            dimms: self.dimms.unwrap_or(0),
            fence_every: u64::from(self.fenced),
            ..Task::default()
        }
    }

    /// Events that give a steady figure: stores that stay in the caches come out of them only once these are
    /// full.
    fn events(&self) -> u64 {
        if self.op == Op::Store { 1 << 20 } else { 1 << 18 }
    }
}

/// A latency without load.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub deviation_ns: f64,
}

/// Latencies of stores in a hot region.
#[derive(Clone, Copy, Debug)]
pub struct Tail {
    /// Median.
    pub common_us: f64,
    /// 99.99th percentile.
    pub p9999_us: f64,
    /// 99.999th percentile.
    pub p99999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Share of those over 5 us and ten times the median.
    pub slow_share: f64,
}

/// What an access came to.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Bandwidth in GB/s, reads and writes together.
    pub gbps: f64,
    /// Effective write ratio; NaN, which no check accepts, if nothing was written to media.
    pub ewr: f64,
    /// Mean latency beside the load, in ns; NaN if the access is without a delay.
    pub latency_ns: f64,
}

/// Events of an idle latency: 30,000 samples and more.
const IDLE_EVENTS: u64 = 1 << 17;
/// Timed stores in a hot region: some fifteen stalls at one in 16,000.
const TAIL_SAMPLES: u64 = 1 << 18;
/// Events of the half-line probe.
const PROBE_EVENTS: u64 = 1 << 17;

/// A measurement that somebody may be at work on.
type Entry<T> = Arc<Mutex<Option<T>>>;

/// Measures on the modelled machines. Threads may share one.
#[derive(Default)]
pub struct Lab {
    seed: Option<u64>,
    tasks: Mutex<BTreeMap<String, Entry<Figures>>>,
    patterns: Mutex<BTreeMap<String, Entry<pattern::Run>>>,
    stores: Mutex<BTreeMap<String, Entry<Arc<Vec<crate::kv::Thread>>>>>,
    wear: Mutex<BTreeMap<String, Entry<Arc<crate::wear_rows::Observed>>>>,
    trees: Mutex<BTreeMap<String, Entry<Arc<crate::index::Taken>>>>,
    programs: Mutex<BTreeMap<String, Entry<Arc<crate::sfr_rows::Taken>>>>,
    recordings: Mutex<BTreeMap<String, Entry<Arc<crate::designs::Recording>>>>,
    transactions: Mutex<BTreeMap<String, Entry<crate::designs::Ran>>>,
    truths: Mutex<BTreeMap<String, Entry<Arc<crate::tmc::Truth>>>>,
    doing: Mutex<String>,
}

/// Measures under `key`, unless that was done before; who asks while another is at it waits.
fn once<T: Clone>(
    all: &Mutex<BTreeMap<String, Entry<T>>>,
    key: String,
    measure: impl FnOnce() -> Result<T, StudyError>,
) -> Result<T, StudyError> {
    let entry = Arc::clone(all.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
    let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
    match &*entry {
        Some(known) => Ok(known.clone()),
        None => measure().map(|measured| entry.insert(measured).clone()),
    }
}

impl Lab {
    /// With the machines' own seeds, or with this one.
    #[must_use]
    pub fn new(seed: Option<u64>) -> Lab {
        Lab { seed, ..Lab::default() }
    }

    /// A row that takes long says what it does now.
    pub(crate) fn doing(&self, what: &str) {
        what.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What a row that takes long does now; empty if none has said so.
    #[must_use]
    pub fn is_doing(&self) -> String {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// `machine` is a preset, and behind it, separated by spaces, what is different: `key=value`.
    pub(crate) fn config(&self, machine: &str, set: Option<(&str, &str)>) -> Result<Config, StudyError> {
        let mut words = machine.split_whitespace();
        let preset = words.next().unwrap_or_default();
        let changes: Vec<_> = words.filter_map(|word| word.split_once('=')).chain(set).collect();
        let mut config = Config::preset(preset)?.with_timed_overrides(&changes)?;
        config.seed = self.seed.unwrap_or(config.seed);
        Ok(config)
    }

    /// Carries out a task with about so many events.
    fn task(
        &self,
        machine: &str,
        set: Option<(&str, &str)>,
        other: bool,
        task: &Task,
        events: u64,
    ) -> Result<Figures, StudyError> {
        once(&self.tasks, format!("{machine} {set:?} {other} {events} {task:?}"), || {
            let model = Model::new(&self.config(machine, set)?).with_events(events);
            let mut model = if other { model.of_other_memory() } else { model };
            match model.measure(task)? {
                Outcome::Done(figures) => Ok(*figures),
                Outcome::Skipped(reason) => Err(StudyError::Skipped { machine: machine.to_owned(), reason }),
            }
        })
    }

    /// The latency of the access by one thread, with nothing else under way.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn idle(&self, access: &Access) -> Result<Idle, StudyError> {
        let task = Task { kind: Kind::IdleLatency, ..access.task() };
        let latency = self
            .task(access.machine, access.set, access.other, &task, IDLE_EVENTS)?
            .latency
            .unwrap_or_default();
        Ok(Idle { mean_ns: latency.mean, deviation_ns: latency.deviation })
    }

    fn idle_latency(&self, access: &Access) -> Result<measure::Latency, StudyError> {
        let task = Task { kind: Kind::IdleLatency, ..access.task() };
        let latency = self.task(access.machine, access.set, access.other, &task, IDLE_EVENTS)?.latency;
        Ok(latency.unwrap_or_default())
    }

    /// The median of the latency without load, in ns.
    pub(crate) fn median(&self, access: &Access) -> Result<f64, StudyError> {
        self.idle_latency(access).map(|latency| latency.p50)
    }

    /// How far the 99.9th percentile of the latency without load is above its median, in ns.
    pub(crate) fn idle_tail(&self, access: &Access) -> Result<f64, StudyError> {
        self.idle_latency(access).map(|latency| latency.p999 - latency.p50)
    }

    /// Latencies of ntstores of 256 B and their fences in a hot region of so many bytes.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn tail(&self, machine: &str, region: u64) -> Result<Tail, StudyError> {
        let task = Task {
            kind: Kind::Timed,
            op: Op::Ntstore,
            access_size: 256,
            region,
            samples: TAIL_SAMPLES,
            fence_every: 1,
            ..Task::default()
        };
        let figures = self.task(machine, None, false, &task, TAIL_SAMPLES * 8)?;
        let latency = figures.latency.unwrap_or_default();
        let stalls = figures.stalls.map_or(0, |stalls| stalls.count);
        // Counts far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        let slow_share = stalls as f64 / latency.samples.max(1) as f64;
        Ok(Tail {
            common_us: latency.p50 / 1e3,
            p9999_us: latency.p9999 / 1e3,
            p99999_us: latency.p99999 / 1e3,
            max_us: latency.max / 1e3,
            slow_share,
        })
    }

    /// Bandwidth of the access, and the mean latency of one thread more beside it if there is a delay.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn run(&self, access: &Access) -> Result<Sample, StudyError> {
        let figures = self.task(access.machine, access.set, access.other, &access.task(), access.events())?;
        Ok(Sample {
            gbps: figures.gb_per_s.unwrap_or(f64::NAN),
            ewr: figures.ewr.unwrap_or(f64::NAN),
            latency_ns: figures.latency.map_or(f64::NAN, |latency| latency.mean),
        })
    }

    /// Mean time of a single access of one thread, its fence included.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn timed(&self, access: &Access) -> Result<f64, StudyError> {
        let task = Task { kind: Kind::Timed, ..access.fenced().task() };
        let latency = self.task(access.machine, access.set, access.other, &task, access.events())?.latency;
        Ok(latency.map_or(f64::NAN, |latency| latency.mean))
    }

    /// Write amplification of the half-line probe in a region of so many bytes.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn probe(&self, machine: &str, region: u64) -> Result<f64, StudyError> {
        let task =
            Task { kind: Kind::BufferProbe, op: Op::StoreClwb, access_size: 256, region, ..Task::default() };
        let figures = self.task(machine, None, false, &task, PROBE_EVENTS)?;
        Ok(figures.write_amplification.unwrap_or(f64::NAN))
    }

    /// What a program wears, observed by `observe` unless that was done before.
    pub(crate) fn wear(
        &self,
        name: &str,
        observe: impl FnOnce() -> Result<crate::wear_rows::Observed, StudyError>,
    ) -> Result<Arc<crate::wear_rows::Observed>, StudyError> {
        once(&self.wear, name.to_owned(), || observe().map(Arc::new))
    }

    /// What transactions came to on a design, measured by `measure` unless that was done before. Measurements of one name are the
    /// same.
    pub(crate) fn transactions(
        &self,
        name: String,
        measure: impl FnOnce() -> Result<crate::designs::Ran, StudyError>,
    ) -> Result<crate::designs::Ran, StudyError> {
        once(&self.transactions, name, measure)
    }

    /// Transactions recorded by `record`, unless that was done before.
    pub(crate) fn recording(
        &self,
        name: String,
        record: impl FnOnce() -> Result<crate::designs::Recording, StudyError>,
    ) -> Result<Arc<crate::designs::Recording>, StudyError> {
        once(&self.recordings, name, || record().map(Arc::new))
    }

    /// What threads do to a store, recorded by `record` unless that was done before. Recordings of one name
    /// are the same.
    pub(crate) fn store(
        &self,
        name: String,
        record: impl FnOnce() -> Result<Vec<crate::kv::Thread>, StudyError>,
    ) -> Result<Arc<Vec<crate::kv::Thread>>, StudyError> {
        once(&self.stores, name, || record().map(Arc::new))
    }

    /// All configurations of a program, simulated by `measure` unless that was done before.
    pub(crate) fn truth(
        &self,
        name: String,
        measure: impl FnOnce() -> Result<crate::tmc::Truth, StudyError>,
    ) -> Result<Arc<crate::tmc::Truth>, StudyError> {
        once(&self.truths, name, || measure().map(Arc::new))
    }

    /// What threads do to a tree, recorded by `record` unless that was done before.
    pub(crate) fn tree(
        &self,
        name: String,
        record: impl FnOnce() -> Result<crate::index::Taken, StudyError>,
    ) -> Result<Arc<crate::index::Taken>, StudyError> {
        once(&self.trees, name, || record().map(Arc::new))
    }

    /// What threads with locks do to their pool, recorded by `record` unless that was done before.
    pub(crate) fn programs(
        &self,
        name: String,
        record: impl FnOnce() -> Result<crate::sfr_rows::Taken, StudyError>,
    ) -> Result<Arc<crate::sfr_rows::Taken>, StudyError> {
        once(&self.programs, name, || record().map(Arc::new))
    }

    /// As [`Lab::pattern`], of threads that are not always to be had.
    pub(crate) fn try_pattern(
        &self,
        name: &str,
        machine: &str,
        threads: impl FnOnce() -> Result<Vec<pattern::Pattern>, StudyError>,
    ) -> Result<pattern::Run, StudyError> {
        once(&self.patterns, format!("{name} {machine}"), || {
            pattern::run(&self.config(machine, None)?, threads()?)
        })
    }

    /// Runs threads of a pattern. Runs of the same name, parameters and machine are the same.
    ///
    /// # Errors
    /// If the machine can't.
    pub fn pattern(
        &self,
        name: &str,
        parameters: &[u64],
        machine: &str,
        threads: impl FnOnce() -> Vec<pattern::Pattern>,
    ) -> Result<pattern::Run, StudyError> {
        once(&self.patterns, format!("{name} {parameters:?} {machine}"), || {
            pattern::run(&self.config(machine, None)?, threads())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_not_measured_again() {
        let all = Mutex::default();
        let measure = |value: u32| once(&all, "key".to_owned(), || Ok(value)).unwrap();
        assert_eq!((measure(1), measure(2)), (1, 1));
        assert!(
            once(&all, "other".to_owned(), || Err(StudyError::Unknown {
                asked: String::new(),
                sources: String::new()
            }))
            .is_err()
        );
        assert_eq!(once(&all, "other".to_owned(), || Ok(3)).unwrap(), 3, "a failure is not kept");
    }
}
