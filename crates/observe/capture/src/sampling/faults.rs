//! Page faults of any program: how many exactly, and each one's address, kind and call stack as the kernel
//! reports it.
//!
//! The kernel counts all faults of the process and its children. Faults of user mode it also reports, each
//! one or, of programs that fault often, one in [`EVERY`], with weights that sum up to the exact count: a
//! report takes the program about a microsecond, a count a tenth of that. They are reported through the
//! tracepoint `exceptions:page_fault_user`, with the processor's error code, where the user may trace (root;
//! tracing's file system need not be mounted); else through its software event, which does not distinguish
//! reads from writes. Faults that the kernel has itself when it copies to or from a program are counted and
//! not reported.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use event::Site;

use super::bpf::{Mode, Recorder};
use super::perf::{Event, Fault, Record, Ring, Stop};
use super::tracing::{EVERY, tracepoint};
use super::{Tally, decode, launch, open_each, refusal, run, run_while};
use crate::CaptureError;
use crate::symbols::{Image, Resolver};

/// What kind of access faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultCause {
    /// A load from a page that is not there.
    Read,
    /// A store to one.
    Write,
    /// A store to a page that is there and shared or the page of zeros: it is copied.
    Copy,
    /// An instruction.
    Code,
    /// The kernel does not say.
    Unknown,
}

/// What is mapped where a fault was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Backing {
    /// The heap that `brk` extends.
    Heap,
    /// Anonymous mappings, and whatever was not seen being mapped.
    Anonymous,
    /// A stack.
    Stack,
    /// A file.
    File,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSample {
    /// Process.
    pub pid: u32,
    /// Nanoseconds on the monotonic clock.
    pub time: u64,
    /// What was accessed.
    pub address: u64,
    /// How.
    pub cause: FaultCause,
    /// What is there.
    pub backing: Backing,
    /// Index of its call stack in [`FaultRun::stacks`], if it was taken.
    pub stack: Option<usize>,
    /// How many faults it stands for.
    pub weight: u64,
    /// Whether the program had it itself, and not the kernel for it.
    pub user: bool,
}

/// Which faults are reported with their call stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reports {
    /// Each.
    All,
    /// Each of the first 15,000 and of as many in each second; one in [`EVERY`] once there were more. Where the kernel runs our
    /// programs (`bpf.rs`), these are a quarter, and the others are recorded without; else they are counted.
    Budget,
}

/// Faults that are recorded each, at most: a record takes memory. Then one in [`EVERY`] is.
const RECORDED: u64 = 6_000_000;

/// Faults that are reported one by one, and so many more for each second; then one in [`EVERY`].
pub const FIRST: u64 = 15_000;

/// A program's faults.
#[derive(Clone, Debug)]
pub struct FaultRun {
    /// Faults without reading from a disk, exact, kernel mode and children included.
    pub minor: u64,
    /// Faults that read from a disk, exact.
    pub major: u64,
    /// Every fault that was reported. The weights sum up to all faults of user mode, those of kernel mode included where
    /// they are `recorded`, but for those that were lost.
    pub samples: Vec<FaultSample>,
    /// From when on one of [`EVERY`] was reported with its call stack, on the monotonic clock.
    pub sampled_from: Option<u64>,
    /// Call stacks, the innermost frame first. Callers are as frame pointers lead, and may be missing.
    pub stacks: Vec<Vec<Site>>,
    /// Faults that the kernel could not report, its ring being full.
    pub lost: u64,
    /// Whether the kernel distinguishes reads and writes; else the faulting instruction's opcode says it, where it could be
    /// read, and a store to a shared page counts as a write.
    pub kinds: bool,
    /// Whether programs in the kernel recorded them; else it reported them.
    pub recorded: bool,
    /// Processes that forked: the new one, its parent, when on the monotonic clock.
    pub forks: Vec<(u32, u32, u64)>,
    /// Processor time in user and in kernel mode, children included.
    pub cpu: (Duration, Duration),
    /// How the program ended.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Runs a program and takes its faults, and those of its children. With
/// `stdout_to_stderr` it prints where its caller's messages go. `environment` is added to its own.
///
/// # Errors
/// [`CaptureError::NotPermitted`] or [`CaptureError::NoSampling`] if the kernel does not let us; the
/// program has not run then. Others if the program can't be run.
pub fn sample_faults(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    reports: Reports,
    stdout_to_stderr: bool,
) -> Result<FaultRun, CaptureError> {
    let mut command = launch(command, stdout_to_stderr)?;
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let recorder = Recorder::new(false).and_then(|recorder| Ok((recorder, open_each(Event::Maps, 1)?)));
    match recorder {
        Ok((recorder, rings)) => record_faults(command, &recorder, rings, reports),
        Err(_) => report_faults(command, reports),
    }
}

/// By programs in the kernel, which record each fault.
fn record_faults(
    command: Command,
    recorder: &Recorder,
    mut rings: Vec<Ring>,
    reports: Reports,
) -> Result<FaultRun, CaptureError> {
    let mut seen = Faults { recorded: true, ..Faults::default() };
    let (mut mode, mut all) = (Mode::Stacks, 0u64);
    let before = usage();
    let (status, elapsed) = run_while(command, None, || {
        rings.iter_mut().for_each(|ring| ring.drain(|record| seen.take(record)));
        recorder.drain(|fault| {
            all += 1;
            seen.take(Record::Fault(fault));
        });
        let wanted = match reports {
            _ if all > RECORDED => Mode::Few,
            Reports::Budget if seen.spent() => Mode::Each,
            _ => mode,
        };
        if wanted != mode && recorder.record(wanted).is_ok() {
            mode = wanted;
            seen.sampled_from.get_or_insert_with(monotonic);
        }
    })?;
    let after = usage();
    let counted = recorder.counted().map_err(refusal)?;
    seen.finish(|cause| {
        (0..).zip(&counted).filter(|(code, _)| self::cause(Some(*code)) == cause).map(|(_, n)| n).sum()
    });
    seen.tally.lost += recorder.lost().map_err(refusal)?;
    if recorder.strangers().map_err(refusal)? > 0 {
        seen.tally.lost += 1;
    }
    Ok(seen.into_run((&before, &after), status, elapsed, true))
}

/// By the kernel's reports.
fn report_faults(command: Command, reports: Reports) -> Result<FaultRun, CaptureError> {
    let tracepoint = tracepoint();
    let open = |tracepoint| -> io::Result<(Vec<Ring>, Vec<Ring>)> {
        let event = |maps| Event::Faults { tracepoint, maps };
        match reports {
            Reports::All => Ok((Vec::new(), open_each(event(true), 1)?)),
            // What is mapped is reported by the event that goes on to the end.
            Reports::Budget => Ok((open_each(event(false), 1)?, open_each(event(true), EVERY)?)),
        }
    };
    let by_tracepoint = tracepoint.and_then(|id| open(Some(id)).ok());
    let kinds = by_tracepoint.is_some();
    let (mut rings, last) = match by_tracepoint {
        Some(rings) => rings,
        None => open(None).map_err(refusal)?,
    };
    let stops: Vec<Stop> = rings.iter().map(Ring::stop).collect::<Result<_, _>>().map_err(refusal)?;
    let first = rings.len();
    rings.extend(last);
    let mut seen = Faults { stops, one_count: true, ..Faults::default() };
    let before = usage();
    let (status, elapsed) = run(command, None, &mut rings, |record| seen.take(record))?;
    let after = usage();
    let counted = rings[first..].iter().filter_map(|ring| ring.count().ok()).sum();
    seen.finish(|_| counted);
    if !kinds {
        seen.decode();
    }
    Ok(seen.into_run((&before, &after), status, elapsed, kinds))
}

struct Usage {
    minor: u64,
    major: u64,
    user: Duration,
    system: Duration,
}

/// Of children that ended.
fn usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: room for the numbers, which are filled; zeros are numbers, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Usage {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
    }
}

/// Records wait for so many nanoseconds: processors' rings are read one after the other, and what was mapped
/// has to be known.
const WAITS: u64 = 500_000_000;

/// Faults, and what it takes to name their code.
#[derive(Default)]
struct Faults {
    tally: Tally,
    /// What was not yet looked at, and the latest time.
    waiting: Vec<Record>,
    latest: u64,
    looked: u64,
    /// What ends the reports of each fault.
    stops: Vec<Stop>,
    /// Programs in the kernel record them.
    recorded: bool,
    /// What is counted is all faults, not those of a cause.
    one_count: bool,
    /// Faults that were reported each, and when the first was.
    each: u64,
    began: Option<u64>,
    sampled_from: Option<u64>,
    samples: Vec<FaultSample>,
    forks: Vec<(u32, u32, u64)>,
    numbers: HashMap<Vec<Option<(usize, u64)>>, usize>,
    order: Vec<Vec<Option<(usize, u64)>>>,
}

impl Faults {
    /// As it comes, each processor's in order.
    fn take(&mut self, record: Record) {
        let time = record.time();
        self.latest = self.latest.max(time);
        if let Record::Fault(Fault { every: 1, .. }) = record {
            self.each += 1;
            self.began.get_or_insert(time);
            if !self.recorded && self.spent() {
                self.sample();
            }
        }
        self.waiting.push(record);
        if self.latest > self.looked + 2 * WAITS {
            self.look(self.latest - WAITS);
        }
    }

    /// Whether there were too many reports of each fault.
    fn spent(&self) -> bool {
        let after = self.latest.saturating_sub(self.began.unwrap_or(self.latest));
        // Where each is recorded, a call stack is what a report costs, and few say where faults are.
        let each = if self.recorded { 4 * self.each } else { self.each };
        self.sampled_from.is_none() && exhausted(each, after)
    }

    /// From now on one in so many is reported.
    fn sample(&mut self) {
        let stopped = self.stops.iter().all(|stop| stop.stop().is_ok());
        if stopped && !self.stops.is_empty() {
            self.sampled_from = Some(monotonic());
        }
    }

    /// At all that was until then, in its order.
    fn look(&mut self, until: u64) {
        self.waiting.sort_by_key(Record::time);
        let later = self.waiting.partition_point(|record| record.time() <= until);
        let later = self.waiting.split_off(later);
        for record in std::mem::replace(&mut self.waiting, later) {
            self.add(record);
        }
        self.looked = until;
    }

    /// At the rest. Faults that were reported one in so many stand for those that were counted, of their cause if each
    /// cause was.
    fn finish(&mut self, counted: impl Fn(FaultCause) -> u64) {
        self.look(u64::MAX);
        self.samples.sort_by_key(|sample| sample.time);
        // Of each cause: reported each, reported one in so many, and how many of these were given their weight.
        let mut causes: HashMap<FaultCause, [u64; 3]> = HashMap::new();
        let group = |cause| if self.one_count { FaultCause::Unknown } else { cause };
        for sample in &self.samples {
            causes.entry(group(sample.cause)).or_default()[usize::from(sample.weight > 1)] += 1;
        }
        for sample in self.samples.iter_mut().filter(|sample| sample.weight > 1) {
            let Some([each, sampled, at]) = causes.get_mut(&group(sample.cause)) else { continue };
            let rest = counted(sample.cause).saturating_sub(*each).max(*sampled);
            let until = |at: u64| (u128::from(rest) * u128::from(at) / u128::from(*sampled)) as u64;
            sample.weight = until(*at + 1) - until(*at);
            *at += 1;
        }
    }

    fn add(&mut self, record: Record) {
        let Record::Fault(Fault { pid, time, address, code, stack, every }) = record else {
            if let Record::Fork { pid, parent, time } = record
                && pid != parent
            {
                self.forks.push((pid, parent, time));
            }
            self.tally.add(record);
            return;
        };
        if !self.recorded && every > 1 && self.sampled_from.is_none_or(|from| time <= from) {
            return;
        }
        // What is mapped is known from when the program executes; before, the process is ours.
        if self.recorded && !self.tally.maps.contains_key(&pid) {
            return;
        }
        let stack = (!stack.is_empty()).then(|| self.stack(pid, &stack));
        let backing = self.backing(pid, address);
        self.samples.push(FaultSample {
            pid,
            time,
            address,
            cause: cause(code),
            backing,
            stack,
            weight: every,
            // Reported are those of user mode.
            user: !self.recorded || code.is_some_and(|code| code & 4 != 0),
        });
    }

    /// A call stack's number.
    fn stack(&mut self, pid: u32, stack: &[u64]) -> usize {
        let frames: Vec<_> = stack
            .iter()
            .zip(0..)
            // The call is before the address to which it returns.
            .map(|(&at, depth)| self.tally.place(pid, at.saturating_sub(u64::from(depth > 0))))
            .collect();
        let next = self.numbers.len();
        let stack = *self.numbers.entry(frames.clone()).or_insert(next);
        if stack == next {
            self.order.push(frames);
        }
        stack
    }

    fn into_run(
        self,
        usage: (&Usage, &Usage),
        status: Option<ExitStatus>,
        elapsed: Duration,
        kinds: bool,
    ) -> FaultRun {
        let stacks = self.resolve();
        let (before, after) = usage;
        FaultRun {
            minor: after.minor - before.minor,
            major: after.major - before.major,
            samples: self.samples,
            sampled_from: self.sampled_from,
            forks: self.forks,
            stacks,
            lost: self.tally.lost,
            kinds,
            recorded: self.recorded,
            cpu: (after.user - before.user, after.system - before.system),
            status,
            elapsed,
        }
    }

    fn backing(&self, pid: u32, address: u64) -> Backing {
        let Some((file, _)) = self.tally.place(pid, address) else { return Backing::Anonymous };
        match self.tally.files[file].to_str() {
            Some("[heap]") => Backing::Heap,
            Some("[stack]") => Backing::Stack,
            Some(name) if name.starts_with("//anon") || name.starts_with("/dev/zero") => Backing::Anonymous,
            Some(name) if !name.starts_with('/') => Backing::Anonymous,
            _ => Backing::File,
        }
    }

    /// Reads from the faulting instructions what the kernel did not say.
    fn decode(&mut self) {
        let files: Vec<Option<std::fs::File>> =
            self.tally.files.iter().map(|path| std::fs::File::open(path).ok()).collect();
        let mut known: HashMap<(usize, u64), FaultCause> = HashMap::new();
        for fault in &mut self.samples {
            let first = fault.stack.and_then(|stack| self.order[stack].first().copied());
            let Some(Some(place)) = first else { continue };
            fault.cause = *known.entry(place).or_insert_with(|| {
                let mut code = [0; 16];
                let read = files[place.0].as_ref().and_then(|file| file.read_at(&mut code, place.1).ok());
                match decode::stores(&code[..read.unwrap_or(0)]) {
                    Some(true) => FaultCause::Write,
                    Some(false) => FaultCause::Read,
                    None => FaultCause::Unknown,
                }
            });
        }
    }

    fn resolve(&self) -> Vec<Vec<Site>> {
        let images: Vec<Option<Image>> = self.tally.files.iter().map(|path| Image::open(path).ok()).collect();
        let mut resolver = Resolver::default();
        let mut named: HashMap<(usize, u64), Site> = HashMap::new();
        let mut name = |place: &Option<(usize, u64)>| {
            let Some(place) = *place else { return Site::default() };
            let (file, offset) = place;
            let make = || {
                let address =
                    images[file].as_ref().and_then(|image| image.address_of(offset)).unwrap_or(offset);
                resolver.site(&self.tally.files[file], address)
            };
            named.entry(place).or_insert_with(make).clone()
        };
        self.order.iter().map(|stack| stack.iter().map(&mut name).collect()).collect()
    }
}

/// Whether so many reports after so many nanoseconds are too many.
fn exhausted(reports: u64, after: u64) -> bool {
    reports > FIRST + (u128::from(FIRST) * u128::from(after) / 1_000_000_000) as u64
}

fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn cause(code: Option<u64>) -> FaultCause {
    match code {
        None => FaultCause::Unknown,
        Some(code) if code & 1 << 4 != 0 => FaultCause::Code,
        Some(code) if code & 3 == 3 => FaultCause::Copy,
        Some(code) if code & 2 != 0 => FaultCause::Write,
        Some(_) => FaultCause::Read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_code_says_what_faulted() {
        let causes = [4, 6, 7, 20].map(|code| cause(Some(code)));
        assert_eq!(causes, [FaultCause::Read, FaultCause::Write, FaultCause::Copy, FaultCause::Code]);
        assert_eq!(cause(None), FaultCause::Unknown);
    }

    #[test]
    fn a_fault_is_of_the_mapping_that_was_made_last() {
        let mut faults = Faults::default();
        let map = |path: &str, start| Record::Map {
            pid: 1,
            start,
            len: 0x1000,
            offset: 0,
            path: path.into(),
            time: 0,
        };
        for record in
            [map("[heap]", 0x1000), map("/lib/x", 0x2000), map("//anon", 0x2000), map("/lib/x", 0x4000)]
        {
            faults.add(record);
        }
        let of = [0x1000, 0x2000, 0x4000, 0x9000].map(|address| faults.backing(1, address));
        assert_eq!(of, [Backing::Heap, Backing::Anonymous, Backing::File, Backing::Anonymous]);
    }

    fn fault(time: u64, every: u64) -> Record {
        Record::Fault(Fault { pid: 1, time, address: 0x9000, code: Some(6), stack: vec![1], every })
    }

    #[test]
    fn weights_sum_up_to_the_count() {
        let mut faults = Faults { sampled_from: Some(100), one_count: true, ..Faults::default() };
        (90..=100).for_each(|time| faults.take(fault(time, 1)));
        // Those of the time when each was reported do not count twice.
        (0..7).for_each(|at| faults.take(fault(95 + 17 * at, EVERY)));
        faults.finish(|_| 11 + 100);
        let weights: Vec<u64> = faults.samples.iter().map(|sample| sample.weight).collect();
        assert_eq!((weights.len(), weights.iter().sum::<u64>()), (11 + 6, 111));
        assert!(weights[11..].iter().all(|weight| (16..=17).contains(weight)), "{weights:?}");
        let mut few = Faults::default();
        (0..7).for_each(|at| few.take(fault(at, if at % 2 == 0 { 1 } else { EVERY })));
        few.finish(|_| 4);
        assert!(few.samples.len() == 4 && few.samples.iter().all(|sample| sample.weight == 1));
        // Where each cause is counted, its weights sum up to its own count.
        let mut causes = Faults { recorded: true, ..Faults::default() };
        causes.tally.maps.insert(1, Vec::new());
        let read = |time| match fault(time, EVERY) {
            Record::Fault(fault) => Record::Fault(Fault { code: Some(4), ..fault }),
            other => other,
        };
        (0..5).for_each(|time| causes.take(fault(time, 1)));
        (5..9).for_each(|time| causes.take(fault(time, EVERY)));
        (9..12).for_each(|time| causes.take(read(time)));
        causes.finish(|cause| if cause == FaultCause::Read { 50 } else { 75 });
        let of =
            |cause| causes.samples.iter().filter(|one| one.cause == cause).map(|one| one.weight).sum::<u64>();
        assert_eq!((of(FaultCause::Read), of(FaultCause::Write)), (50, 75));
    }

    #[test]
    fn reports_have_a_budget() {
        assert!(!exhausted(FIRST, 0) && exhausted(FIRST + 1, 0));
        assert!(!exhausted(3 * FIRST, 2_000_000_000) && exhausted(3 * FIRST + 1, 2_000_000_000));
    }

    /// A fault is of what was mapped before it, whatever processor's ring was read first.
    #[test]
    fn records_are_looked_at_in_their_order() {
        let mut faults = Faults::default();
        let map = |path: &str, time| Record::Map {
            pid: 1,
            start: 0x9000,
            len: 0x1000,
            offset: 0,
            path: path.into(),
            time,
        };
        for record in [fault(5, 1), fault(15, 1), map("/lib/x", 10), map("[heap]", 1), fault(WAITS * 3, 1)] {
            faults.take(record);
        }
        faults.finish(|_| 3);
        let backing: Vec<Backing> = faults.samples.iter().map(|sample| sample.backing).collect();
        assert_eq!(backing, [Backing::Heap, Backing::File, Backing::File]);
    }
}
