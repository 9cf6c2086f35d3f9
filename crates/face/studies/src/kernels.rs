//! Eleven single-threaded kernels in C, built and run here, with their page faults and their time.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use capture::{Backing, CaptureError, FaultCause, Reports, count_faults, sample_faults};

const SOURCE: &str = include_str!("kernels.c");

/// Their names.
pub(crate) const NAMES: [&str; 11] = [
    "blackscholes",
    "fft",
    "lu",
    "radix",
    "ocean",
    "barnes",
    "canneal",
    "streamcluster",
    "dedup",
    "swaptions",
    "freqmine",
];

/// Why they can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The compiler is absent, or refuses them.
    #[error("the kernels can't be built with `gcc -O2`: {0}")]
    Build(String),
    /// They can't be run.
    #[error(transparent)]
    Run(#[from] CaptureError),
}

/// What a kernel did.
pub(crate) struct Ran {
    /// First stores to anonymous memory; all first uses where the kernel does not distinguish them.
    pub(crate) writes: u64,
    /// First loads from it.
    pub(crate) reads: u64,
    /// Processor time, the median of five runs.
    pub(crate) nanoseconds: f64,
}

/// A folder that goes when it is done with.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> std::io::Result<Folder> {
        // Rows are measured at the same time.
        static MADE: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("strandline-kernels-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(&folder.0)?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn build() -> Result<(Folder, PathBuf), KernelError> {
    let failed = |error: std::io::Error| KernelError::Build(error.to_string());
    let folder = Folder::new().map_err(failed)?;
    let (source, program) = (folder.0.join("kernels.c"), folder.0.join("kernels"));
    fs::write(&source, SOURCE).map_err(failed)?;
    let output = Command::new("gcc").args(["-O2", "-w", "-o"]).args([&program, &source]).arg("-lm").output();
    let output = output.map_err(failed)?;
    if !output.status.success() {
        return Err(KernelError::Build(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    Ok((folder, program))
}

/// Runs them all.
pub(crate) fn all() -> Result<Vec<Ran>, KernelError> {
    let (_folder, program) = build()?;
    NAMES.iter().map(|name| one(&[program.clone().into_os_string(), OsString::from(name)])).collect()
}

fn one(command: &[OsString]) -> Result<Ran, KernelError> {
    let mut times = Vec::new();
    let mut minor = 0;
    for _ in 0..5 {
        let counts = count_faults(command, &[], true)?;
        times.push((counts.cpu.0 + counts.cpu.1).as_nanos() as f64);
        minor = counts.minor;
    }
    times.sort_by(f64::total_cmp);
    let (writes, reads) = match sample_faults(command, &[], Reports::All, true) {
        Ok(run) => {
            let of = |kinds: &[FaultCause]| {
                // The engine completes faults of user mode.
                let anonymous =
                    run.samples.iter().filter(|fault| fault.user && fault.backing != Backing::File);
                anonymous.filter(|fault| kinds.contains(&fault.cause)).count() as u64
            };
            (of(&[FaultCause::Write, FaultCause::Unknown]), of(&[FaultCause::Read]))
        }
        Err(CaptureError::NotPermitted { .. } | CaptureError::NoSampling(_)) => (minor, 0),
        Err(error) => return Err(error.into()),
    };
    Ok(Ran { writes, reads, nanoseconds: times[times.len() / 2] })
}
