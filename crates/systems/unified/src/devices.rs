//! Which devices there are, and the choice of one by name.

use std::sync::Arc;

use serde::Serialize;

use crate::gpu::{Cuda, Vulkan, Wgpu};
use crate::{Accelerator, Batch, BatchOptions, Error, Info};

/// A backend, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The software accelerator.
    Batch,
    /// A GPU through wgpu.
    Wgpu,
    /// A GPU through Vulkan with mapped memory.
    Vulkan,
    /// An NVIDIA GPU.
    Cuda,
    /// The first GPU of CUDA, Vulkan and wgpu that there is.
    Gpu,
}

/// A backend without a device.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// Which.
    pub backend: &'static str,
    /// Why.
    pub reason: String,
}

/// The devices of this machine.
#[derive(Clone, Debug, Serialize)]
pub struct Devices {
    /// What there is, the software accelerator first.
    pub devices: Vec<Info>,
    /// What there is not.
    pub absent: Vec<Absent>,
}

impl Choice {
    /// All, by name.
    pub const ALL: [(&'static str, Choice); 5] = [
        ("batch", Choice::Batch),
        ("gpu", Choice::Gpu),
        ("vulkan", Choice::Vulkan),
        ("wgpu", Choice::Wgpu),
        ("cuda", Choice::Cuda),
    ];

    /// The backend with a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Choice> {
        Choice::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, choice)| choice)
    }

    /// Opens it; the software accelerator with these options.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn open(self, options: BatchOptions) -> Result<Arc<dyn Accelerator>, Error> {
        Ok(match self {
            Choice::Batch => Arc::new(Batch::new(options)),
            Choice::Wgpu => Arc::new(Wgpu::open()?),
            Choice::Vulkan => Arc::new(Vulkan::open()?),
            Choice::Cuda => Arc::new(Cuda::open()?),
            Choice::Gpu => {
                return Choice::Cuda
                    .open(options)
                    .or_else(|_| Choice::Vulkan.open(options))
                    .or_else(|_| Choice::Wgpu.open(options));
            }
        })
    }
}

impl Devices {
    /// Looks for all.
    #[must_use]
    pub fn find() -> Devices {
        let mut found = Devices { devices: Vec::new(), absent: Vec::new() };
        for (name, choice) in Choice::ALL.into_iter().filter(|(_, choice)| *choice != Choice::Gpu) {
            match choice.open(BatchOptions::default()) {
                Ok(device) => found.devices.push(device.info().clone()),
                Err(Error::NoDevice { reason, .. }) => found.absent.push(Absent { backend: name, reason }),
                Err(error) => found.absent.push(Absent { backend: name, reason: error.to_string() }),
            }
        }
        found
    }
}
