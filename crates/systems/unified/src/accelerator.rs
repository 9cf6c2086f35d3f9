//! What every backend offers: memory, kernels, and what is known of the device.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use serde::Serialize;

use crate::{Error, Kernel};

/// Where a device's memory is, as the CPU sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// All of it is the CPU's, too.
    Unified,
    /// The device has its own, and the CPU can map it.
    HostVisible,
    /// The device has its own; data are copied.
    Discrete,
    /// Pages move between both on demand.
    Managed,
}

/// What is known of a device.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// `batch`, `wgpu`, `vulkan` or `cuda`.
    pub backend: &'static str,
    /// Its name.
    pub device: String,
    /// The driver with its version.
    pub driver: String,
    /// Whether it is a processor that acts as a GPU.
    pub software: bool,
    /// Where its memory is.
    pub memory: MemoryKind,
    /// Bytes of its largest heap; 0 if the driver does not say.
    pub memory_bytes: u64,
    /// Bytes of the largest region.
    pub region_bytes_max: u64,
    /// Whether CPU threads may use a region while a kernel runs.
    pub concurrent: bool,
    /// Steps of loops that an invocation may take: some drivers end all its loops after that.
    pub steps_max: u32,
}

/// Words of a device's memory. All access is by relaxed atomics or by copies.
pub trait Region: Send + Sync {
    /// Their number.
    fn words(&self) -> usize;

    /// Copies into it.
    ///
    /// # Errors
    /// If the device is lost, or the range is not within the region.
    fn write(&self, at: usize, data: &[u32]) -> Result<(), Error>;

    /// Copies out of it.
    ///
    /// # Errors
    /// If the device is lost, or the range is not within the region.
    fn read(&self, at: usize, data: &mut [u32]) -> Result<(), Error>;

    /// The words themselves, where the CPU can use them at any time.
    fn mapped(&self) -> Option<&[AtomicU32]>;

    /// CPU threads begin (`1`) or end (`-1`) to use it. Only the software accelerator cares.
    fn used(&self, _change: i32) {}

    /// For the backend that made it.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// A kernel to run.
///
/// Kernels on Vulkan, wgpu and the CPU stay within their regions whatever the parameters say. On CUDA,
/// parameters that name more than a region has make the kernel touch other memory of the device, or lose it.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// Which.
    pub kernel: Kernel,
    /// Its regions, as many as [`Kernel::regions`].
    pub regions: &'a [&'a Arc<dyn Region>],
    /// Its parameters, at most 12.
    pub parameters: &'a [u32],
    /// How many times it is invoked, with numbers from 0.
    pub invocations: u32,
}

impl Job<'_> {
    /// Checks it before it is given to a device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |what, got: String, expected| Err(Error::Request { what, got, expected });
        if self.regions.len() != self.kernel.regions() {
            return wrong("regions of a kernel", self.regions.len().to_string(), "as many as the kernel has");
        }
        if self.parameters.len() > 12 {
            return wrong("parameters of a kernel", self.parameters.len().to_string(), "at most 12");
        }
        if self.invocations > 1 << 31 {
            return wrong("invocations of a kernel", self.invocations.to_string(), "at most 2^31");
        }
        Ok(())
    }
}

/// A kernel that runs.
pub trait Pending: Send {
    /// Whether it has ended. Never blocks.
    ///
    /// # Errors
    /// If the device is lost.
    fn done(&mut self) -> Result<bool, Error>;

    /// Waits until it has ended. What it wrote can be read then.
    ///
    /// # Errors
    /// If the device is lost.
    fn wait(&mut self) -> Result<(), Error>;
}

/// A device that runs kernels.
pub trait Accelerator: Send + Sync {
    /// What is known of it.
    fn info(&self) -> &Info;

    /// Allocates words, all 0.
    ///
    /// # Errors
    /// If there is no room.
    fn allocate(&self, words: usize) -> Result<Arc<dyn Region>, Error>;

    /// Starts a kernel. The regions must not be dropped before it ends; the backend keeps them alive.
    ///
    /// # Errors
    /// If the device is lost or a region is another backend's.
    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error>;

    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// As [`Accelerator::submit`].
    fn run(&self, job: Job<'_>) -> Result<(), Error> {
        if job.invocations == 0 {
            return Ok(());
        }
        self.submit(job)?.wait()
    }

    /// Allocates a region with contents.
    ///
    /// # Errors
    /// If there is no room.
    fn upload(&self, data: &[u32]) -> Result<Arc<dyn Region>, Error> {
        let region = self.allocate(data.len().max(1))?;
        region.write(0, data)?;
        Ok(region)
    }
}

/// Refuses bytes that this computer does not have free: to take them would end the process, not the call.
/// What the kernel does not report is there.
pub(crate) fn room(bytes: u64) -> Result<(), Error> {
    // What is small is not worth the question.
    if bytes < 64 << 20 {
        return Ok(());
    }
    #[cfg(target_os = "linux")]
    let free = pmem::probe::free_bytes();
    #[cfg(not(target_os = "linux"))]
    let free: Option<u64> = None;
    match free.filter(|&free| bytes > free) {
        None => Ok(()),
        Some(free) => {
            let (device, reason) = ("this computer".to_owned(), format!("{free} are free"));
            Err(Error::OutOfMemory { device, bytes, reason })
        }
    }
}

/// A region of another device.
pub(crate) fn foreign() -> Error {
    Error::Request {
        what: "region of a kernel",
        got: "another device's".to_owned(),
        expected: "one that this accelerator allocated",
    }
}

/// Checks a range of words.
pub(crate) fn in_range(at: usize, length: usize, words: usize) -> Result<(), Error> {
    if at.checked_add(length).is_some_and(|end| end <= words) {
        return Ok(());
    }
    Err(Error::Request {
        what: "range of a region",
        got: format!("{length} words from {at} of {words}"),
        expected: "a range within the region",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_computer_has_is_refused_with_what_is_free() {
        room(1 << 20).expect("a small region");
        if cfg!(target_os = "linux") {
            let error = room(1 << 60).expect_err("nobody has it").to_string();
            assert!(error.contains("1152921504606846976 bytes") && error.contains("are free"), "{error}");
        }
    }
}
