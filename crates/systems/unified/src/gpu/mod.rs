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

/// Storage buffers of the kernel that has the most: parameters and four regions.
const BUFFERS: u64 = 5;
/// Invocations of a workgroup.
const WORKGROUP: u64 = 64;

/// A limit of a device: its name, what the device has, what kernels need.
type Limit = (&'static str, u64, u64);

/// Refuses a device of which a limit is below what kernels need.
fn enough(device: &str, limits: &[Limit]) -> Result<(), crate::Error> {
    match limits.iter().find(|(_, has, needs)| has < needs) {
        None => Ok(()),
        Some(&(limit, has, needs)) => {
            Err(crate::Error::Limit { device: device.to_owned(), limit, has, needs })
        }
    }
}

/// Steps of loops that an invocation may take. Mesa's software driver ends all loops of an invocation after
/// 65535, without an error; other devices get a bound that keeps a kernel well below the seconds after
/// which a watchdog ends it.
fn steps(device: &str) -> u32 {
    if device.contains("llvmpipe") { 60_000 } else { 1 << 22 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_lacks_a_limit_is_refused_by_its_name() {
        enough("a device", &[("storage buffers of a shader", 5, BUFFERS)]).expect("enough");
        let limits =
            [("invocations of a workgroup", 64, WORKGROUP), ("storage buffers of a shader", 4, BUFFERS)];
        let error = enough("a device", &limits).expect_err("one is missing").to_string();
        assert!(error.contains("a device: storage buffers of a shader is 4, 5 needed"), "{error}");
        assert!(error.contains("--on batch"), "{error}");
    }
}
