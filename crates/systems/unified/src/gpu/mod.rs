//! GPUs: through wgpu wherever there is one, through Vulkan itself where CPU threads are to use the memory
//! while a kernel runs, through CUDA where its driver is installed.

mod cuda;
mod vulkan;
mod wgpu;

pub use cuda::Cuda;
pub use vulkan::Vulkan;
pub use wgpu::Wgpu;

/// Workgroups of a dispatch in rows and columns.
fn groups(job: &crate::Job<'_>) -> (u32, u32) {
    let groups = job.invocations.div_ceil(job.kernel.workgroup()).max(1);
    (groups.min(crate::kernel::ROW), groups.div_ceil(crate::kernel::ROW))
}

/// The parameters of a job as kernels read them.
fn words(job: &crate::Job<'_>) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = job.invocations;
    words[1..=job.parameters.len()].copy_from_slice(job.parameters);
    words
}

/// A region of another backend.
fn foreign() -> crate::Error {
    crate::Error::Request {
        what: "region of a kernel",
        got: "another backend's".to_owned(),
        expected: "one that this accelerator allocated",
    }
}

/// Steps of loops that an invocation may take. Mesa's software driver ends all loops of an invocation after
/// 65535, without an error; other devices get a bound that keeps a kernel well below the seconds after
/// which a watchdog ends it.
fn steps(device: &str) -> u32 {
    if device.contains("llvmpipe") { 60_000 } else { 1 << 22 }
}
