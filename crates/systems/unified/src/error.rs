//! What can go wrong. After every error the CPU's data are as they were before the call.

/// An error of an accelerator or of what runs on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no device of the kind.
    #[error("no {backend} device: {reason}; `--on batch` runs the same on the CPU")]
    NoDevice {
        /// Which backend.
        backend: &'static str,
        /// What the loader or the driver said.
        reason: String,
    },
    /// A limit of the device is below what is needed.
    #[error("{device}: {limit} is {has}, {needs} needed; use fewer keys, or `--on batch`")]
    Limit {
        /// The device's name.
        device: String,
        /// Which limit.
        limit: &'static str,
        /// What the device has.
        has: u64,
        /// What it takes.
        needs: u64,
    },
    /// The device's memory is exhausted.
    #[error("{device}: no room for {bytes} bytes ({reason}); use fewer keys, or a device with more memory")]
    OutOfMemory {
        /// The device's name.
        device: String,
        /// What was asked for.
        bytes: u64,
        /// What the driver said.
        reason: String,
    },
    /// The device went away, or a kernel failed. What it was to change is undefined on the device.
    #[error("{device} was lost while it worked: {reason}; the CPU's copy is unchanged")]
    Lost {
        /// The device's name.
        device: String,
        /// What the driver said.
        reason: String,
    },
    /// A request that can't be served.
    #[error("{what}: {got}; expected {expected}")]
    Request {
        /// What was given.
        what: &'static str,
        /// Its value.
        got: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The memory of this device is not mapped, so the CPU can't use it directly.
    #[error(
        "{device}: the CPU can't reach its memory while it works; \
         use a copy (approach 3), or `--on vulkan` or `--on batch`"
    )]
    NotMapped {
        /// The device's name.
        device: String,
    },
    /// A litmus test's file.
    #[error("litmus test {name}: {reason}")]
    Litmus {
        /// The test's name.
        name: String,
        /// What is wrong.
        reason: String,
    },
}
