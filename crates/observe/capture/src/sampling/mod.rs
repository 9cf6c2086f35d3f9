//! Where a program that was not built with `strandline cc` spends its time.
//!
//! No events can be had from such a program, but its instruction pointer can be sampled by the kernel: by the
//! processor's own unit where there is one (its precise mode, PEBS or IBS, names the very instruction), else
//! by a clock. Children are sampled too. It works for one's own programs where `kernel.perf_event_paranoid`
//! is at most 2; where it does not, [`CaptureError::NotPermitted`] says so.

mod bpf;
mod btf;
mod counted;
mod counters;
mod decode;
mod faults;
mod misses;
mod perf;
mod stores;
mod together;
mod tracing;
mod units;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use event::{Frame, Site};

use crate::CaptureError;
use crate::symbols::{Image, Resolver};
use perf::{Event, Record, Ring};

pub use counted::{Counts, count_faults, time_first_uses, time_mapped};
pub use counters::{CounterRun, ProcessorEvent, count_events};
pub use faults::{Backing, FaultCause, FaultRun, FaultSample, Reports, sample_faults};
pub use misses::{MissRun, memory_sampling, sample_misses};
pub use stores::{StoreRun, sample_stores, store_sampling};
pub use together::{Chase, time_chase, time_populated_use, time_reports, time_upgrades_beside, time_wakes};
pub use tracing::EVERY;

/// Samples per second and processor: a prime, so as not to beat with the program's own rhythm.
const HERTZ: u64 = 1999;

/// Between two looks at the rings: 200,000 faults a second do not fill one meanwhile.
const PAUSE: Duration = Duration::from_millis(4);

/// The source of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// The processor's performance monitoring unit, every so many cycles.
    Cycles,
    /// The kernel's clock.
    CpuClock,
}

/// Where a program spent its time.
#[derive(Clone, Debug)]
pub struct SampleProfile {
    /// The source of the samples.
    pub kind: SampleKind,
    /// Sites with their samples, the most frequent first. Lines of a function are sites of their own.
    pub samples: Vec<(Site, u64)>,
    /// Samples that the kernel could not deliver.
    pub lost: u64,
    /// How the program ended; None if it was stopped because its time was over.
    pub status: Option<ExitStatus>,
    /// How long it was sampled.
    pub elapsed: Duration,
}

impl SampleProfile {
    /// All samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.samples.iter().map(|(_, count)| count).sum()
    }
}

/// Runs a program and samples it and its children, until it ends or for `limit`, when it is stopped with
/// SIGTERM. With `stdout_to_stderr` it prints where its caller's messages go, not among the caller's results.
///
/// # Errors
/// [`CaptureError::NotPermitted`] or [`CaptureError::NoSampling`] if the kernel does not let us; the program
/// has not run then. Others if the program can't be run.
pub fn sample(
    command: &[OsString],
    limit: Option<Duration>,
    stdout_to_stderr: bool,
) -> Result<SampleProfile, CaptureError> {
    let command = launch(command, stdout_to_stderr)?;
    let (kind, mut rings) = open_rings().map_err(refusal)?;
    let mut tally = Tally::default();
    let (status, elapsed) = run(command, limit, &mut rings, |record| tally.add(record))?;
    Ok(SampleProfile { kind, samples: tally.resolve(), lost: tally.lost, status, elapsed })
}

/// What [`sample`] would sample by.
///
/// # Errors
/// Those of [`sample`].
pub fn time_sampling() -> Result<SampleKind, CaptureError> {
    open_rings().map(|(kind, _)| kind).map_err(refusal)
}

/// A program that is to be sampled.
fn launch(command: &[OsString], stdout_to_stderr: bool) -> Result<Command, CaptureError> {
    let (program, arguments) = command.split_first().ok_or(CaptureError::NoCommand)?;
    let mut command = Command::new(program);
    command.args(arguments);
    if stdout_to_stderr {
        command.stdout(io::stderr());
    }
    Ok(command)
}

/// Runs a program to its end or for `limit`, and takes what the rings say.
fn run(
    command: Command,
    limit: Option<Duration>,
    rings: &mut [Ring],
    mut take: impl FnMut(Record),
) -> Result<(Option<ExitStatus>, Duration), CaptureError> {
    run_while(command, limit, || rings.iter_mut().for_each(|ring| ring.drain(&mut take)))
}

/// Runs a program to its end or for `limit`, and calls `drain` all the time and once behind its end.
fn run_while(
    mut command: Command,
    limit: Option<Duration>,
    mut drain: impl FnMut(),
) -> Result<(Option<ExitStatus>, Duration), CaptureError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child =
        command.spawn().map_err(|source| CaptureError::Spawn { program: name.clone(), source })?;
    let started = Instant::now();
    let mut ended = None;
    let status = loop {
        drain();
        if ended.is_some() {
            break ended;
        }
        ended = child.try_wait().map_err(|source| CaptureError::Wait { program: name.clone(), source })?;
        if ended.is_none() && limit.is_some_and(|limit| started.elapsed() > limit) {
            // SAFETY: `kill` touches no memory; the child has not been waited for, so the number is its own.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
            let waited = child.wait();
            waited.map_err(|source| CaptureError::Wait { program: name.clone(), source })?;
            break None;
        }
        std::thread::sleep(PAUSE);
    };
    Ok((status, started.elapsed()))
}

/// A ring per processor, of the best event there is. It belongs to this thread, samples nothing as long as
/// that executes no program, and is inherited by the children, which do.
fn open_rings() -> io::Result<(SampleKind, Vec<Ring>)> {
    if let Ok(rings) = open_each(Event::Cycles, HERTZ) {
        return Ok((SampleKind::Cycles, rings));
    }
    Ok((SampleKind::CpuClock, open_each(Event::CpuClock, HERTZ)?))
}

/// A ring per processor.
fn open_each(event: Event, rate: u64) -> io::Result<Vec<Ring>> {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let processors = processors(&online).unwrap_or_else(|| vec![0]);
    processors.iter().map(|&cpu| Ring::open(event, cpu, rate)).collect()
}

/// The numbers in a list like `0-2,5`.
fn processors(list: &str) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?);
    }
    Some(all)
}

fn refusal(error: io::Error) -> CaptureError {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            CaptureError::NotPermitted {
                level: level.map_or("unknown".into(), |level| level.trim().to_owned()),
            }
        }
        _ => CaptureError::NoSampling(error),
    }
}

/// A mapped file of a process.
#[derive(Clone)]
struct Mapped {
    start: u64,
    len: u64,
    offset: u64,
    file: usize,
}

/// Samples by process and address, and what it takes to name them.
#[derive(Default)]
struct Tally {
    maps: HashMap<u32, Vec<Mapped>>,
    files: Vec<PathBuf>,
    /// By file and offset.
    by_place: HashMap<(usize, u64), u64>,
    elsewhere: u64,
    lost: u64,
}

impl Tally {
    fn add(&mut self, record: Record) {
        match record {
            Record::Sample { pid, address, .. } => match self.place(pid, address) {
                Some(place) => *self.by_place.entry(place).or_default() += 1,
                None => self.elsewhere += 1,
            },
            Record::Map { pid, start, len, offset, path, .. } => {
                let path = PathBuf::from(OsStr::from_bytes(&path));
                let known = self.files.iter().position(|file| *file == path);
                let file = known.unwrap_or_else(|| {
                    self.files.push(path);
                    self.files.len() - 1
                });
                self.maps.entry(pid).or_default().push(Mapped { start, len, offset, file });
            }
            Record::Fork { pid, parent, .. } if pid != parent => {
                let inherited = self.maps.get(&parent).cloned().unwrap_or_default();
                self.maps.insert(pid, inherited);
            }
            Record::Fork { .. } | Record::Fault(_) => {}
            Record::Lost(count) => self.lost += count,
        }
    }

    /// The file and the offset in it that a process has mapped there.
    fn place(&self, pid: u32, address: u64) -> Option<(usize, u64)> {
        let inside = |map: &&Mapped| address.wrapping_sub(map.start) < map.len;
        let map = self.maps.get(&pid)?.iter().rev().find(inside)?;
        Some((map.file, address - map.start + map.offset))
    }

    /// Names for the places; places of the same line together.
    fn resolve(&self) -> Vec<(Site, u64)> {
        let images: Vec<Option<Image>> = self.files.iter().map(|path| Image::open(path).ok()).collect();
        let mut resolver = Resolver::default();
        let mut by_frames: HashMap<(Vec<Frame>, String), (Site, u64)> = HashMap::new();
        let mut places: Vec<_> = self.by_place.iter().collect();
        places.sort_unstable();
        for (&(file, offset), &count) in places {
            let address = images[file].as_ref().and_then(|image| image.address_of(offset)).unwrap_or(offset);
            let site = resolver.site(&self.files[file], address);
            let key = (site.frames.clone(), site.module.clone());
            by_frames.entry(key).or_insert((site, 0)).1 += count;
        }
        let mut samples: Vec<(Site, u64)> = by_frames.into_values().collect();
        if self.elsewhere > 0 {
            samples.push((Site::default(), self.elsewhere));
        }
        samples.sort_by(|(a, m), (b, n)| {
            n.cmp(m).then_with(|| (&a.module, a.address).cmp(&(&b.module, b.address)))
        });
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_processors_is_read() {
        assert_eq!(processors("0-2,5,8-9\n"), Some(vec![0, 1, 2, 5, 8, 9]));
        assert_eq!(processors(""), None);
    }

    #[test]
    fn samples_go_to_the_file_that_was_mapped_last_and_children_inherit() {
        let mut tally = Tally::default();
        let map = |path: &str, start| Record::Map {
            pid: 1,
            start,
            len: 0x1000,
            offset: 0x4000,
            path: path.into(),
            time: 0,
        };
        tally.add(map("/a", 0x1000));
        tally.add(map("/b", 0x8000));
        tally.add(map("/a", 0x8000));
        tally.add(Record::Fork { pid: 2, parent: 1, time: 0 });
        tally.add(Record::Sample { pid: 2, address: 0x8010, data: None });
        tally.add(Record::Sample { pid: 1, address: 0x1010, data: None });
        tally.add(Record::Sample { pid: 3, address: 0x1010, data: None });
        tally.add(Record::Lost(5));
        assert_eq!(tally.by_place, HashMap::from([((0, 0x4010), 2)]));
        assert_eq!((tally.elsewhere, tally.lost), (1, 5));
        let samples = tally.resolve();
        assert_eq!(samples[0].0.module, "a");
        assert_eq!(samples.iter().map(|(_, count)| count).sum::<u64>(), 3);
    }
}
