//! Page faults of any program: how many exactly, and each one's address, kind and call stack as the kernel
//! reports it.
//!
//! The kernel counts all faults of the process and its children. Faults of user mode it also reports one by
//! one: through the tracepoint `exceptions:page_fault_user`, with the processor's error code, where
//! the user may trace (root; tracing's file system need not be mounted); else through its software event, which does not
//! distinguish reads from writes. Faults that the kernel has itself when it copies to or from a program are
//! counted and not reported.

use std::collections::HashMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use event::Site;

use super::perf::{Event, Fault, Record};
use super::{Tally, decode, launch, open_each, refusal, run};
use crate::CaptureError;
use crate::symbols::{Image, Resolver};

/// Where tracing's file system may be.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

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
    /// Index of its call stack in [`FaultRun::stacks`].
    pub stack: usize,
}

/// A program's faults.
#[derive(Clone, Debug)]
pub struct FaultRun {
    /// Faults without reading from a disk, exact, kernel mode and children included.
    pub minor: u64,
    /// Faults that read from a disk, exact.
    pub major: u64,
    /// Every fault that was reported.
    pub samples: Vec<FaultSample>,
    /// Call stacks, the innermost frame first. Callers are as frame pointers lead, and may be missing.
    pub stacks: Vec<Vec<Site>>,
    /// Faults that the kernel could not report, its ring being full.
    pub lost: u64,
    /// Whether the kernel distinguishes reads and writes; else the faulting instruction's opcode says it, where it could be
    /// read, and a store to a shared page counts as a write.
    pub kinds: bool,
    /// Processes that forked: the new one, its parent, when on the monotonic clock.
    pub forks: Vec<(u32, u32, u64)>,
    /// Processor time in user and in kernel mode, children included.
    pub cpu: (Duration, Duration),
    /// How the program ended.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Runs a program and takes every `every`-th of its faults, and those of its children. With
/// `stdout_to_stderr` it prints where its caller's messages go. `environment` is added to its own.
///
/// # Errors
/// [`CaptureError::NotPermitted`] or [`CaptureError::NoSampling`] if the kernel does not let us; the
/// program has not run then. Others if the program can't be run.
pub fn sample_faults(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    every: u64,
    stdout_to_stderr: bool,
) -> Result<FaultRun, CaptureError> {
    let mut command = launch(command, stdout_to_stderr)?;
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let tracepoint = tracepoint();
    let by_tracepoint = tracepoint.and_then(|id| open_each(Event::Faults(Some(id)), every).ok());
    let kinds = by_tracepoint.is_some();
    let mut rings = match by_tracepoint {
        Some(rings) => rings,
        None => open_each(Event::Faults(None), every).map_err(refusal)?,
    };
    let mut seen = Faults::default();
    let before = usage();
    let (status, elapsed) = run(command, None, &mut rings, |record| seen.add(record))?;
    let after = usage();
    if !kinds {
        seen.decode();
    }
    let stacks = seen.resolve();
    Ok(FaultRun {
        minor: after.minor - before.minor,
        major: after.major - before.major,
        samples: seen.samples,
        forks: seen.forks,
        stacks,
        lost: seen.tally.lost,
        kinds,
        cpu: (after.user - before.user, after.system - before.system),
        status,
        elapsed,
    })
}

/// The tracepoint's number. Where nobody has mounted tracing's file system, a short-lived child of root's mounts it in a mount
/// namespace of its own, reads the number and is gone; nobody else sees the mount.
fn tracepoint() -> Option<u64> {
    const ID: &str = "events/exceptions/page_fault_user/id";
    let read =
        |place: &&str| std::fs::read_to_string(PathBuf::from(place).join(ID)).ok()?.trim().parse().ok();
    TRACING.iter().find_map(read).or_else(|| {
        let mut child = std::process::Command::new("/bin/sh");
        let script = format!("mount -t tracefs nodev {0} && cat {0}/{ID}", TRACING[0]);
        child.args(["-c", &script]).stderr(std::process::Stdio::null());
        // SAFETY: two system calls that touch no memory of ours, in the child between fork and exec.
        unsafe {
            child.pre_exec(|| {
                if libc::unshare(libc::CLONE_NEWNS) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                let flags = libc::MS_REC | libc::MS_PRIVATE;
                let nothing = std::ptr::null();
                // Nothing that is mounted here reaches other namespaces.
                if libc::mount(nothing, c"/".as_ptr(), nothing, flags, nothing.cast()) != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            })
        };
        String::from_utf8(child.output().ok()?.stdout).ok()?.trim().parse().ok()
    })
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

/// Faults, and what it takes to name their code.
#[derive(Default)]
struct Faults {
    tally: Tally,
    samples: Vec<FaultSample>,
    forks: Vec<(u32, u32, u64)>,
    numbers: HashMap<Vec<Option<(usize, u64)>>, usize>,
    order: Vec<Vec<Option<(usize, u64)>>>,
}

impl Faults {
    fn add(&mut self, record: Record) {
        let Record::Fault(Fault { pid, time, address, code, stack }) = record else {
            if let Record::Fork { pid, parent, time } = record
                && pid != parent
            {
                self.forks.push((pid, parent, time));
            }
            self.tally.add(record);
            return;
        };
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
        let backing = self.backing(pid, address);
        self.samples.push(FaultSample { pid, time, address, cause: cause(code), backing, stack });
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
            let Some(Some(place)) = self.order[fault.stack].first().copied() else { continue };
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
        let map =
            |path: &str, start| Record::Map { pid: 1, start, len: 0x1000, offset: 0, path: path.into() };
        for record in
            [map("[heap]", 0x1000), map("/lib/x", 0x2000), map("//anon", 0x2000), map("/lib/x", 0x4000)]
        {
            faults.add(record);
        }
        let of = [0x1000, 0x2000, 0x4000, 0x9000].map(|address| faults.backing(1, address));
        assert_eq!(of, [Backing::Heap, Backing::Anonymous, Backing::File, Backing::Anonymous]);
    }
}
