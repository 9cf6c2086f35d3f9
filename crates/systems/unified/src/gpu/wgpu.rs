//! The portable backend: Vulkan, Metal or Direct3D through wgpu. Memory is the device's; the CPU copies.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wgpu::{BufferUsages, PollType};

use super::{BUFFERS, WORKGROUP, enough, groups, words};
use crate::accelerator::{foreign, in_range};
use crate::kernel::ROW;
use crate::{Accelerator, Error, Info, Job, Kernel, MemoryKind, Pending, Region};

/// Bytes that are copied out at a time.
const STAGING: usize = 64 << 20;

/// A GPU through wgpu.
pub struct Wgpu {
    info: Info,
    shared: Arc<Shared>,
    pipelines: BTreeMap<Kernel, wgpu::ComputePipeline>,
}

struct Shared {
    name: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    /// The first error that no call was there to return.
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn check(&self) -> Result<(), Error> {
        match &*self.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(reason) => Err(Error::Lost { device: self.name.clone(), reason: reason.clone() }),
        }
    }

    fn fail(&self, reason: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
    }

    fn wait(&self, index: Option<wgpu::SubmissionIndex>) -> Result<(), Error> {
        let poll = PollType::Wait { submission_index: index, timeout: None };
        if let Err(error) = self.device.poll(poll) {
            self.fail(error.to_string());
        }
        self.check()
    }
}

impl Wgpu {
    /// The GPUs there are, real ones first.
    ///
    /// # Errors
    /// If there is none, or none can be opened.
    pub fn open() -> Result<Wgpu, Error> {
        let none = |reason: String| Error::NoDevice { backend: "wgpu", reason };
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let mut adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
        adapters.sort_by_key(|adapter| match adapter.get_info().device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        });
        let adapter = adapters.into_iter().next();
        let adapter = adapter.ok_or_else(|| none("no Vulkan loader, or it knows no device".to_owned()))?;
        let (about, limits) = (adapter.get_info(), adapter.limits());
        enough(
            &about.name,
            &[
                ("storage buffers of a shader", limits.max_storage_buffers_per_shader_stage.into(), BUFFERS),
                (
                    "invocations of a workgroup",
                    limits.max_compute_invocations_per_workgroup.into(),
                    WORKGROUP,
                ),
                ("width of a workgroup", limits.max_compute_workgroup_size_x.into(), WORKGROUP),
                ("workgroups in a row", limits.max_compute_workgroups_per_dimension.into(), ROW.into()),
            ],
        )?;
        let descriptor = wgpu::DeviceDescriptor { required_limits: limits.clone(), ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|error| none(error.to_string()))?;
        let memory = match about.device_type {
            wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu => MemoryKind::Unified,
            _ => MemoryKind::Discrete,
        };
        let info = Info {
            backend: "wgpu",
            device: about.name.clone(),
            driver: format!("{} {} ({:?})", about.driver, about.driver_info, about.backend),
            software: about.device_type == wgpu::DeviceType::Cpu,
            memory,
            memory_bytes: 0,
            region_bytes_max: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            concurrent: false,
            steps_max: super::steps(&about.name),
        };
        let shared = Arc::new(Shared { name: about.name, device, queue, failure: Mutex::new(None) });
        let weak = Arc::downgrade(&shared);
        shared.device.set_device_lost_callback(move |reason, message| {
            // The end of the device itself is no failure.
            if reason != wgpu::DeviceLostReason::Destroyed
                && let Some(shared) = weak.upgrade()
            {
                shared.fail(message);
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Some(shared) = weak.upgrade() {
                shared.fail(error.to_string());
            }
        }));
        let pipelines =
            Kernel::ALL.into_iter().map(|kernel| (kernel, pipeline(&shared.device, kernel))).collect();
        shared.check()?;
        Ok(Wgpu { info, shared, pipelines })
    }
}

fn pipeline(device: &wgpu::Device, kernel: Kernel) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(kernel.name()),
        source: wgpu::ShaderSource::Wgsl(kernel.wgsl().into()),
    });
    let entries: Vec<wgpu::BindGroupLayoutEntry> = (0..=kernel.regions() as u32)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Storage { read_only: binding == 0 },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    let layout =
        device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(kernel.name()),
        layout: Some(&layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    })
}

impl Accelerator for Wgpu {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, count: usize) -> Result<Arc<dyn Region>, Error> {
        self.shared.check()?;
        let bytes = (count as u64).saturating_mul(4);
        if bytes > self.info.region_bytes_max {
            return Err(Error::Limit {
                device: self.info.device.clone(),
                limit: "the largest region",
                has: self.info.region_bytes_max,
                needs: bytes,
            });
        }
        let scopes =
            [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal]
                .map(|filter| self.shared.device.push_error_scope(filter));
        let buffer = self.shared.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes.max(4),
            usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        for scope in scopes.into_iter().rev() {
            if let Some(error) = pollster::block_on(scope.pop()) {
                let (device, reason) = (self.info.device.clone(), error.to_string());
                return Err(Error::OutOfMemory { device, bytes, reason });
            }
        }
        Ok(Arc::new(Memory { shared: self.shared.clone(), buffer, count }))
    }

    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error> {
        job.check()?;
        self.shared.check()?;
        let device = &self.shared.device;
        let parameters = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: 64,
            usage: BufferUsages::STORAGE | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        self.shared.queue.write_buffer(&parameters, 0, bytemuck::cast_slice(&words(&job)));
        let mut entries = vec![wgpu::BindGroupEntry { binding: 0, resource: parameters.as_entire_binding() }];
        for (number, region) in job.regions.iter().enumerate() {
            let memory = region.as_any().downcast_ref::<Memory>();
            let memory = memory.filter(|memory| Arc::ptr_eq(&memory.shared, &self.shared));
            let memory = memory.ok_or_else(foreign)?;
            let resource = memory.buffer.as_entire_binding();
            entries.push(wgpu::BindGroupEntry { binding: number as u32 + 1, resource });
        }
        let Some(pipeline) = self.pipelines.get(&job.kernel) else { return Err(foreign()) };
        let layout = pipeline.get_bind_group_layout(0);
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &layout,
            entries: &entries,
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &group, &[]);
            let (x, y) = groups(&job);
            pass.dispatch_workgroups(x, y, 1);
        }
        let index = self.shared.queue.submit([encoder.finish()]);
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        self.shared.queue.on_submitted_work_done(move || flag.store(true, Ordering::Release));
        self.shared.check()?;
        Ok(Box::new(Submitted { shared: self.shared.clone(), index, ended }))
    }
}

struct Submitted {
    shared: Arc<Shared>,
    index: wgpu::SubmissionIndex,
    ended: Arc<AtomicBool>,
}

impl Pending for Submitted {
    fn done(&mut self) -> Result<bool, Error> {
        if let Err(error) = self.shared.device.poll(PollType::Poll) {
            self.shared.fail(error.to_string());
        }
        self.shared.check()?;
        Ok(self.ended.load(Ordering::Acquire))
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.shared.wait(Some(self.index.clone()))
    }
}

struct Memory {
    shared: Arc<Shared>,
    buffer: wgpu::Buffer,
    count: usize,
}

impl Region for Memory {
    fn words(&self) -> usize {
        self.count
    }

    fn write(&self, at: usize, data: &[u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        for (number, piece) in data.chunks(STAGING / 4).enumerate() {
            let offset = (at + number * (STAGING / 4)) as u64 * 4;
            self.shared.queue.write_buffer(&self.buffer, offset, bytemuck::cast_slice(piece));
            // So that the staging memory of one piece is free before the next.
            self.shared.queue.submit([]);
            self.shared.wait(None)?;
        }
        self.shared.check()
    }

    fn read(&self, at: usize, data: &mut [u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        let Shared { device, queue, .. } = &*self.shared;
        for (number, piece) in data.chunks_mut(STAGING / 4).enumerate() {
            self.shared.check()?;
            let bytes = piece.len() as u64 * 4;
            let staging = device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes,
                usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
            let offset = (at + number * (STAGING / 4)) as u64 * 4;
            encoder.copy_buffer_to_buffer(&self.buffer, offset, &staging, 0, bytes);
            let index = queue.submit([encoder.finish()]);
            staging.map_async(wgpu::MapMode::Read, .., |_| {});
            self.shared.wait(Some(index))?;
            match staging.get_mapped_range(..) {
                Ok(view) => piece.copy_from_slice(bytemuck::cast_slice(&view)),
                Err(error) => self.shared.fail(error.to_string()),
            }
            staging.unmap();
        }
        self.shared.check()
    }

    fn mapped(&self) -> Option<&[AtomicU32]> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
