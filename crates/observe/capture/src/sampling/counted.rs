//! A run of any program, timed, with its page faults counted by the kernel: no permission is needed.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::launch;
use crate::CaptureError;

/// Nanoseconds of each first load of a mapped file, one per `step` bytes.
///
/// # Errors
/// If it can't be mapped.
pub fn time_mapped(file: &std::fs::File, step: usize) -> std::io::Result<Vec<f64>> {
    // SAFETY: bytes that others may change are read one by one, and whatever they are is right.
    let map = unsafe { memmap2::Mmap::map(file)? };
    let each = |at: usize| {
        let began = Instant::now();
        std::hint::black_box(std::hint::black_box(&map[..])[at]);
        began.elapsed().as_nanos() as f64
    };
    Ok((0..map.len()).step_by(step.max(1)).map(each).collect())
}

/// Nanoseconds of the first use of each of so many pages of 4 KiB of fresh memory: of a store with `write`, else of a load.
///
/// # Errors
/// If there is no such memory.
pub fn time_first_uses(pages: usize, write: bool) -> std::io::Result<Vec<f64>> {
    const PAGE: usize = 4096;
    let mut map = memmap2::MmapMut::map_anon(pages.max(1) * PAGE)?;
    // Kernels without huge pages refuse the advice.
    map.advise(memmap2::Advice::NoHugePage).ok();
    let each = |at: usize| {
        let began = Instant::now();
        let page = std::hint::black_box(&mut map[..]);
        if write {
            page[at] = 1;
        } else {
            std::hint::black_box(page[at]);
        }
        began.elapsed().as_nanos() as f64
    };
    Ok((0..pages * PAGE).step_by(PAGE).map(each).collect())
}

/// What the kernel counted of a run, children that were waited for included.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Faults without reading from a disk.
    pub minor: u64,
    /// Faults that read from a disk.
    pub major: u64,
    /// Processor time in user and in kernel mode.
    pub cpu: (Duration, Duration),
    /// Most KiB that a process had in memory.
    pub peak_kib: u64,
    /// From start to end.
    pub elapsed: Duration,
    /// How the program ended.
    pub status: ExitStatus,
}

/// Runs a program with `environment` added to its own. With `stdout_to_stderr` it prints where its caller's messages go.
///
/// # Errors
/// If the program can't be run or waited for.
pub fn count_faults(
    command: &[OsString],
    environment: &[(OsString, OsString)],
    stdout_to_stderr: bool,
) -> Result<Counts, CaptureError> {
    let mut command = launch(command, stdout_to_stderr)?;
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let program = || command.get_program().to_string_lossy().into_owned();
    let name = program();
    let began = Instant::now();
    let child = command.spawn().map_err(|source| CaptureError::Spawn { program: name.clone(), source })?;
    let (status, usage) = loop {
        let mut status = 0;
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: room for a status and the numbers; the child was not waited for, so the process is ours.
        let (done, usage) = unsafe {
            let done = libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, usage.as_mut_ptr());
            (done, usage.assume_init())
        };
        if done >= 0 {
            break (ExitStatus::from_raw(status), usage);
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(CaptureError::Wait { program: name, source: error });
        }
    };
    let elapsed = began.elapsed();
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Ok(Counts {
        minor: usage.ru_minflt as u64,
        major: usage.ru_majflt as u64,
        cpu: (time(usage.ru_utime), time(usage.ru_stime)),
        peak_kib: usage.ru_maxrss as u64,
        elapsed,
        status,
    })
}
