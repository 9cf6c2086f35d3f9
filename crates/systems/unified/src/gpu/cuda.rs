//! CUDA through its driver, loaded at run time. Kernels are the WGSL ones by hand in CUDA C
//! (`kernels/cuda.cu`), compiled by NVRTC. Nothing here has run on a GPU: see docs/unified.md.
#![allow(unsafe_code)]

use std::any::Any;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg, sys,
};

use super::words;
use crate::accelerator::{foreign, in_range};
use crate::{Accelerator, Error, Info, Job, Kernel, MemoryKind, Pending, Region};

/// An NVIDIA GPU.
pub struct Cuda {
    info: Info,
    stream: Arc<CudaStream>,
    functions: Vec<(Kernel, CudaFunction)>,
}

fn none(reason: impl std::fmt::Display) -> Error {
    Error::NoDevice { backend: "cuda", reason: reason.to_string() }
}

impl Cuda {
    /// Opens the first GPU.
    ///
    /// # Errors
    /// If neither driver nor compiler (NVRTC) is installed, or there is no GPU.
    pub fn open() -> Result<Cuda, Error> {
        // SAFETY: looks for libraries by name; their initialisers have no preconditions.
        let (driver, compiler) = unsafe { (sys::is_culib_present(), cudarc::nvrtc::sys::is_culib_present()) };
        if !driver {
            return Err(none("libcuda.so is not installed"));
        }
        if !compiler {
            return Err(none("libnvrtc.so is not installed"));
        }
        let context = CudaContext::new(0).map_err(none)?;
        let name = context.name().map_err(none)?;
        let memory = context.total_mem().map_err(none)? as u64;
        let code = cudarc::nvrtc::compile_ptx(include_str!("../../kernels/cuda.cu")).map_err(none)?;
        let module = context.load_module(code).map_err(none)?;
        let mut functions = Vec::new();
        for kernel in Kernel::ALL {
            functions.push((kernel, module.load_function(kernel.name()).map_err(none)?));
        }
        let info = Info {
            backend: "cuda",
            device: name,
            driver: "CUDA driver".to_owned(),
            software: false,
            memory: MemoryKind::Discrete,
            memory_bytes: memory,
            region_bytes_max: memory,
            concurrent: false,
            steps_max: u32::MAX,
        };
        Ok(Cuda { info, stream: context.default_stream(), functions })
    }

    fn lost(&self, error: impl std::fmt::Display) -> Error {
        Error::Lost { device: self.info.device.clone(), reason: error.to_string() }
    }
}

impl Accelerator for Cuda {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, count: usize) -> Result<Arc<dyn Region>, Error> {
        let slice = self.stream.alloc_zeros::<u32>(count.max(1)).map_err(|error| Error::OutOfMemory {
            device: self.info.device.clone(),
            bytes: (count as u64).saturating_mul(4),
            reason: error.to_string(),
        })?;
        let device = self.info.device.clone();
        Ok(Arc::new(Memory { device, stream: self.stream.clone(), slice: Mutex::new(slice), count }))
    }

    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error> {
        job.check()?;
        let parameters = self.stream.clone_htod(&words(&job)).map_err(|error| self.lost(error))?;
        let mut memories = Vec::new();
        for region in job.regions {
            memories.push(region.as_any().downcast_ref::<Memory>().ok_or_else(foreign)?);
        }
        let slices: Vec<_> = memories
            .iter()
            .map(|memory| memory.slice.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        let found = self.functions.iter().find(|(kernel, _)| *kernel == job.kernel);
        let (_, function) = found.ok_or_else(foreign)?;
        let mut launch = self.stream.launch_builder(function);
        launch.arg(&parameters);
        for slice in &slices {
            launch.arg(&**slice);
        }
        let config = LaunchConfig {
            grid_dim: (job.invocations.div_ceil(job.kernel.workgroup()).max(1), 1, 1),
            block_dim: (job.kernel.workgroup(), 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the function takes a pointer to parameters and one to each region, as `Kernel::regions`
        // says; regions are as long as the callers of a kernel make them, which is what every other backend
        // checks by itself.
        unsafe { launch.launch(config) }.map_err(|error| self.lost(error))?;
        let event = self.stream.record_event(None).map_err(|error| self.lost(error))?;
        let _regions = job.regions.iter().map(|&region| region.clone()).collect();
        Ok(Box::new(Launched { device: self.info.device.clone(), event, _regions, _parameters: parameters }))
    }
}

struct Launched {
    device: String,
    event: CudaEvent,
    _regions: Vec<Arc<dyn Region>>,
    _parameters: CudaSlice<u32>,
}

impl Pending for Launched {
    fn done(&mut self) -> Result<bool, Error> {
        Ok(self.event.is_complete())
    }

    fn wait(&mut self) -> Result<(), Error> {
        let lost = |error: cudarc::driver::DriverError| Error::Lost {
            device: self.device.clone(),
            reason: error.to_string(),
        };
        self.event.synchronize().map_err(lost)
    }
}

struct Memory {
    device: String,
    stream: Arc<CudaStream>,
    slice: Mutex<CudaSlice<u32>>,
    count: usize,
}

impl Memory {
    fn lost(&self, error: impl std::fmt::Display) -> Error {
        Error::Lost { device: self.device.clone(), reason: error.to_string() }
    }
}

impl Region for Memory {
    fn words(&self) -> usize {
        self.count
    }

    fn write(&self, at: usize, data: &[u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        if data.is_empty() {
            return Ok(());
        }
        let mut slice = self.slice.lock().unwrap_or_else(PoisonError::into_inner);
        let mut part = slice.slice_mut(at..at + data.len());
        self.stream.memcpy_htod(data, &mut part).map_err(|error| self.lost(error))?;
        self.stream.synchronize().map_err(|error| self.lost(error))
    }

    fn read(&self, at: usize, data: &mut [u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        if data.is_empty() {
            return Ok(());
        }
        let slice = self.slice.lock().unwrap_or_else(PoisonError::into_inner);
        let part = slice.slice(at..at + data.len());
        self.stream.memcpy_dtoh(&part, data).map_err(|error| self.lost(error))?;
        self.stream.synchronize().map_err(|error| self.lost(error))
    }

    fn mapped(&self) -> Option<&[AtomicU32]> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
