//! Vulkan itself, for memory that stays mapped while kernels run.
//!
//! Every region is one buffer in host-visible, coherent memory, device-local if there is such memory,
//! mapped from its allocation to its end. CPU threads and kernels may use it at the same time; all access
//! of the CPU is by atomics or before a kernel is submitted and after it has ended. A kernel's command
//! buffer ends with a barrier to the host.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;

use super::{BUFFERS, Limit, WORKGROUP, enough, groups, words};
use crate::accelerator::{foreign, in_range};
use crate::kernel::ROW;
use crate::{Accelerator, Error, Info, Job, Kernel, MemoryKind, Pending, Region};

/// A GPU through Vulkan.
pub struct Vulkan {
    info: Info,
    shared: Arc<Shared>,
    pipelines: BTreeMap<Kernel, Pipeline>,
}

/// What regions and kernels under way keep alive.
struct Shared {
    name: String,
    /// Keeps the loader's library.
    _entry: ash::Entry,
    instance: ash::Instance,
    device: ash::Device,
    queue: Mutex<vk::Queue>,
    family: u32,
    memory_type: u32,
}

#[derive(Clone, Copy)]
struct Pipeline {
    set: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
}

impl Shared {
    fn lost(&self, error: vk::Result) -> Error {
        Error::Lost { device: self.name.clone(), reason: error.to_string() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: all objects of the device belong to structs that hold this one alive, and destroyed them
        // before.
        unsafe {
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
        }
    }
}

fn none(reason: impl std::fmt::Display) -> Error {
    Error::NoDevice { backend: "vulkan", reason: reason.to_string() }
}

/// A chosen device, before it is opened.
struct Found {
    physical: vk::PhysicalDevice,
    properties: vk::PhysicalDeviceProperties,
    family: u32,
    memory_type: u32,
    memory: MemoryKind,
    heap: u64,
}

impl Vulkan {
    /// Opens the best device that has memory which the CPU can map: a real GPU before a software one.
    ///
    /// # Errors
    /// If there is no loader or no such device.
    pub fn open() -> Result<Vulkan, Error> {
        // SAFETY: the loader's library is an ordinary one whose initialisers have no preconditions.
        let entry = unsafe { ash::Entry::load() }.map_err(none)?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_1);
        let create = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `create` and what it points to live until the call returns.
        let instance = unsafe { entry.create_instance(&create, None) }.map_err(none)?;
        let found = match find(&instance) {
            Ok(found) => found,
            Err(error) => {
                // SAFETY: nothing was made of it.
                unsafe { instance.destroy_instance(None) };
                return Err(error);
            }
        };
        let (name, limits) = (info(&instance, &found).device, limits(&found.properties.limits));
        if let Err(error) = enough(&name, &limits) {
            // SAFETY: nothing was made of it.
            unsafe { instance.destroy_instance(None) };
            return Err(error);
        }
        let queues =
            [vk::DeviceQueueCreateInfo::default().queue_family_index(found.family).queue_priorities(&[1.0])];
        let create = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
        // SAFETY: the physical device is this instance's, the family one of its own.
        let device = match unsafe { instance.create_device(found.physical, &create, None) } {
            Ok(device) => device,
            Err(error) => {
                // SAFETY: nothing else was made of it.
                unsafe { instance.destroy_instance(None) };
                return Err(none(error));
            }
        };
        // SAFETY: the queue was asked for above.
        let queue = unsafe { device.get_device_queue(found.family, 0) };
        let info = info(&instance, &found);
        let shared = Arc::new(Shared {
            name: info.device.clone(),
            _entry: entry,
            instance,
            device,
            queue: Mutex::new(queue),
            family: found.family,
            memory_type: found.memory_type,
        });
        let mut vulkan = Vulkan { info, shared, pipelines: BTreeMap::new() };
        for kernel in Kernel::ALL {
            let pipeline = pipeline(&vulkan.shared, kernel)?;
            vulkan.pipelines.insert(kernel, pipeline);
        }
        Ok(vulkan)
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        for pipeline in self.pipelines.values() {
            // SAFETY: they are this device's; kernels under way have a reference to `Shared` only, so the
            // device is idle before its pipelines go.
            unsafe {
                let _queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
                self.shared.device.device_wait_idle().ok();
                self.shared.device.destroy_pipeline(pipeline.pipeline, None);
                self.shared.device.destroy_pipeline_layout(pipeline.layout, None);
                self.shared.device.destroy_descriptor_set_layout(pipeline.set, None);
            }
        }
    }
}

/// The best device.
fn find(instance: &ash::Instance) -> Result<Found, Error> {
    // SAFETY: the instance is alive.
    let devices = unsafe { instance.enumerate_physical_devices() }.map_err(none)?;
    let mut all: Vec<Found> = devices.into_iter().filter_map(|device| look(instance, device)).collect();
    all.sort_by_key(|found| match found.properties.device_type {
        vk::PhysicalDeviceType::DISCRETE_GPU => 0,
        vk::PhysicalDeviceType::INTEGRATED_GPU => 1,
        vk::PhysicalDeviceType::CPU => 3,
        _ => 2,
    });
    all.into_iter().next().ok_or_else(|| none("no device with compute and memory that the CPU can map"))
}

/// A device, if it has compute and coherent, host-visible memory.
fn look(instance: &ash::Instance, physical: vk::PhysicalDevice) -> Option<Found> {
    // SAFETY: the device is this instance's.
    let (properties, memory, families) = unsafe {
        (
            instance.get_physical_device_properties(physical),
            instance.get_physical_device_memory_properties(physical),
            instance.get_physical_device_queue_family_properties(physical),
        )
    };
    let family = families.iter().position(|family| family.queue_flags.contains(vk::QueueFlags::COMPUTE))?;
    let mapped = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let local = mapped | vk::MemoryPropertyFlags::DEVICE_LOCAL;
    let types = memory.memory_types_as_slice();
    let with = |flags| types.iter().position(|one| one.property_flags.contains(flags));
    // Cached memory is much faster to read for the CPU.
    let chosen = with(local | vk::MemoryPropertyFlags::HOST_CACHED).or(with(local)).or(with(mapped))?;
    let heaps = memory.memory_heaps_as_slice();
    let all_local = heaps.iter().all(|heap| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    let kind = if all_local {
        MemoryKind::Unified
    } else if types[chosen].property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL) {
        MemoryKind::HostVisible
    } else {
        MemoryKind::Discrete
    };
    Some(Found {
        physical,
        properties,
        family: u32::try_from(family).ok()?,
        memory_type: u32::try_from(chosen).ok()?,
        memory: kind,
        heap: heaps.get(types[chosen].heap_index as usize)?.size,
    })
}

/// What kernels need, of which Vulkan promises less (four storage buffers) or just as much.
fn limits(has: &vk::PhysicalDeviceLimits) -> [Limit; 6] {
    let [x, ..] = has.max_compute_work_group_size;
    let [columns, rows, _] = has.max_compute_work_group_count;
    [
        ("storage buffers of a shader", has.max_per_stage_descriptor_storage_buffers.into(), BUFFERS),
        ("storage buffers of all shaders", has.max_descriptor_set_storage_buffers.into(), BUFFERS),
        ("invocations of a workgroup", has.max_compute_work_group_invocations.into(), WORKGROUP),
        ("width of a workgroup", x.into(), WORKGROUP),
        ("workgroups in a row", columns.into(), ROW.into()),
        ("rows of workgroups", rows.into(), (1u64 << 31).div_ceil(WORKGROUP * u64::from(ROW))),
    ]
}

fn info(instance: &ash::Instance, found: &Found) -> Info {
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
    let version = found.properties.api_version;
    if version >= vk::API_VERSION_1_2 {
        // SAFETY: the device is this instance's; both structs live until the call returns.
        unsafe { instance.get_physical_device_properties2(found.physical, &mut properties) };
    }
    let text = |chars: &[std::ffi::c_char]| {
        let bytes: Vec<u8> = chars.iter().map(|&char| char as u8).chain([0]).collect();
        CStr::from_bytes_until_nul(&bytes).map_or(String::new(), |text| text.to_string_lossy().into_owned())
    };
    let limits = found.properties.limits;
    Info {
        backend: "vulkan",
        device: text(&found.properties.device_name),
        driver: format!(
            "{} {} (Vulkan {}.{})",
            text(&driver.driver_name),
            text(&driver.driver_info),
            vk::api_version_major(version),
            vk::api_version_minor(version)
        ),
        software: found.properties.device_type == vk::PhysicalDeviceType::CPU,
        memory: found.memory,
        memory_bytes: found.heap,
        region_bytes_max: u64::from(limits.max_storage_buffer_range),
        concurrent: true,
        steps_max: super::steps(&text(&found.properties.device_name)),
    }
}

/// SPIR-V of a kernel. Indices out of range are those of the last word.
fn spirv(kernel: Kernel) -> Result<Vec<u32>, String> {
    use naga::back::spv;
    use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
    let module = naga::front::wgsl::parse_str(&kernel.wgsl()).map_err(|error| error.to_string())?;
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
    let valid = validator.validate(&module).map_err(|error| format!("{error:?}"))?;
    let policy = BoundsCheckPolicy::Restrict;
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies { index: policy, buffer: policy, ..Default::default() },
        ..Default::default()
    };
    let entry =
        spv::PipelineOptions { shader_stage: naga::ShaderStage::Compute, entry_point: "main".to_owned() };
    spv::write_vec(&module, &valid, &options, Some(&entry)).map_err(|error| error.to_string())
}

fn pipeline(shared: &Shared, kernel: Kernel) -> Result<Pipeline, Error> {
    let code = spirv(kernel).map_err(|error| none(format!("kernel {}: {error}", kernel.name())))?;
    let bindings: Vec<vk::DescriptorSetLayoutBinding<'_>> = (0..=kernel.regions() as u32)
        .map(|binding| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(binding)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        })
        .collect();
    let device = &shared.device;
    // SAFETY: every create info and what it points to lives until its call returns; the SPIR-V is naga's,
    // validated; the module is destroyed after the pipeline has been made of it.
    unsafe {
        let set = device
            .create_descriptor_set_layout(
                &vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings),
                None,
            )
            .map_err(|error| shared.lost(error))?;
        let sets = [set];
        let layout = device
            .create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default().set_layouts(&sets), None)
            .map_err(|error| shared.lost(error))?;
        let module = device
            .create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None)
            .map_err(|error| shared.lost(error))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        let create = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        let made = device.create_compute_pipelines(vk::PipelineCache::null(), &create, None);
        device.destroy_shader_module(module, None);
        let pipeline = made.map_err(|(_, error)| shared.lost(error))?[0];
        Ok(Pipeline { set, layout, pipeline })
    }
}

impl Vulkan {
    fn memory(&self, count: usize) -> Result<Memory, Error> {
        let bytes = (count as u64).saturating_mul(4).max(4);
        if bytes > self.info.region_bytes_max {
            return Err(Error::Limit {
                device: self.info.device.clone(),
                limit: "the largest region",
                has: self.info.region_bytes_max,
                needs: bytes,
            });
        }
        let full = |error: vk::Result| Error::OutOfMemory {
            device: self.info.device.clone(),
            bytes,
            reason: error.to_string(),
        };
        let device = &self.shared.device;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER;
        // SAFETY: the buffer and the memory are made, bound and mapped here, and destroyed on every
        // failure; the mapping is of the whole memory, which is at least `bytes` long, aligned far beyond
        // 4.
        unsafe {
            let buffer = device
                .create_buffer(&vk::BufferCreateInfo::default().size(bytes).usage(usage), None)
                .map_err(full)?;
            let needs = device.get_buffer_memory_requirements(buffer);
            let allocate = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(self.shared.memory_type);
            if needs.memory_type_bits & (1 << self.shared.memory_type) == 0 {
                device.destroy_buffer(buffer, None);
                return Err(full(vk::Result::ERROR_FEATURE_NOT_PRESENT));
            }
            let memory = match device.allocate_memory(&allocate, None) {
                Ok(memory) => memory,
                Err(error) => {
                    device.destroy_buffer(buffer, None);
                    return Err(full(error));
                }
            };
            let mapped = device
                .bind_buffer_memory(buffer, memory, 0)
                .and_then(|()| device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()));
            let start = match mapped {
                Ok(start) => start.cast::<AtomicU32>(),
                Err(error) => {
                    device.destroy_buffer(buffer, None);
                    device.free_memory(memory, None);
                    return Err(full(error));
                }
            };
            let memory = Memory { shared: self.shared.clone(), buffer, memory, start, count };
            memory.slice().iter().for_each(|word| word.store(0, Ordering::Relaxed));
            Ok(memory)
        }
    }
}

impl Accelerator for Vulkan {
    fn info(&self) -> &Info {
        &self.info
    }

    fn allocate(&self, count: usize) -> Result<Arc<dyn Region>, Error> {
        Ok(Arc::new(self.memory(count)?))
    }

    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error> {
        job.check()?;
        let Some(&pipeline) = self.pipelines.get(&job.kernel) else { return Err(foreign()) };
        let parameters = self.memory(16)?;
        parameters.write(0, &words(&job))?;
        let mut buffers = vec![parameters.buffer];
        for region in job.regions {
            match region.as_any().downcast_ref::<Memory>() {
                Some(memory) if Arc::ptr_eq(&memory.shared, &self.shared) => buffers.push(memory.buffer),
                _ => return Err(foreign()),
            }
        }
        let mut running = Running {
            shared: self.shared.clone(),
            _regions: job.regions.iter().map(|&region| region.clone()).collect(),
            _parameters: parameters,
            descriptors: vk::DescriptorPool::null(),
            commands: vk::CommandPool::null(),
            fence: vk::Fence::null(),
            submitted: false,
        };
        running.start(pipeline, &buffers, groups(&job)).map_err(|error| self.shared.lost(error))?;
        Ok(Box::new(running))
    }
}

/// A kernel under way, with all that it uses.
struct Running {
    shared: Arc<Shared>,
    _regions: Vec<Arc<dyn Region>>,
    _parameters: Memory,
    descriptors: vk::DescriptorPool,
    commands: vk::CommandPool,
    fence: vk::Fence,
    submitted: bool,
}

impl Running {
    fn start(
        &mut self,
        with: Pipeline,
        buffers: &[vk::Buffer],
        groups: (u32, u32),
    ) -> Result<(), vk::Result> {
        let device = &self.shared.device;
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(buffers.len() as u32)];
        let pool = vk::DescriptorPoolCreateInfo::default().max_sets(1).pool_sizes(&sizes);
        let infos: Vec<[vk::DescriptorBufferInfo; 1]> = buffers
            .iter()
            .map(|&buffer| [vk::DescriptorBufferInfo::default().buffer(buffer).range(vk::WHOLE_SIZE)])
            .collect();
        // SAFETY: all handles are this device's and alive until this struct ends, which waits for the
        // fence; each info and what it points to lives until its call returns; the queue is locked while it
        // is submitted to.
        unsafe {
            self.descriptors = device.create_descriptor_pool(&pool, None)?;
            let layouts = [with.set];
            let allocate = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(self.descriptors)
                .set_layouts(&layouts);
            let set = device.allocate_descriptor_sets(&allocate)?[0];
            let writes: Vec<vk::WriteDescriptorSet<'_>> = (0u32..)
                .zip(&infos)
                .map(|(binding, info)| {
                    vk::WriteDescriptorSet::default()
                        .dst_set(set)
                        .dst_binding(binding)
                        .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                        .buffer_info(info)
                })
                .collect();
            device.update_descriptor_sets(&writes, &[]);
            let pool = vk::CommandPoolCreateInfo::default().queue_family_index(self.shared.family);
            self.commands = device.create_command_pool(&pool, None)?;
            let allocate = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.commands)
                .level(vk::CommandBufferLevel::PRIMARY)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&allocate)?;
            let buffer = commands[0];
            device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default())?;
            let point = vk::PipelineBindPoint::COMPUTE;
            device.cmd_bind_pipeline(buffer, point, with.pipeline);
            device.cmd_bind_descriptor_sets(buffer, point, with.layout, 0, &[set], &[]);
            // What an earlier kernel wrote is this one's to read.
            let both = vk::AccessFlags::SHADER_READ | vk::AccessFlags::SHADER_WRITE;
            let before = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                .dst_access_mask(both)];
            let compute = vk::PipelineStageFlags::COMPUTE_SHADER;
            let no = vk::DependencyFlags::empty();
            device.cmd_pipeline_barrier(buffer, compute, compute, no, &before, &[], &[]);
            device.cmd_dispatch(buffer, groups.0, groups.1, 1);
            let after = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                .dst_access_mask(vk::AccessFlags::HOST_READ)];
            device.cmd_pipeline_barrier(buffer, compute, vk::PipelineStageFlags::HOST, no, &after, &[], &[]);
            device.end_command_buffer(buffer)?;
            self.fence = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            let submits = [vk::SubmitInfo::default().command_buffers(&commands)];
            let queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
            device.queue_submit(*queue, &submits, self.fence)?;
        }
        self.submitted = true;
        Ok(())
    }
}

impl Pending for Running {
    fn done(&mut self) -> Result<bool, Error> {
        // SAFETY: the fence is this device's.
        unsafe { self.shared.device.get_fence_status(self.fence) }.map_err(|error| self.shared.lost(error))
    }

    fn wait(&mut self) -> Result<(), Error> {
        // SAFETY: the fence is this device's.
        unsafe { self.shared.device.wait_for_fences(&[self.fence], true, u64::MAX) }
            .map_err(|error| self.shared.lost(error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let device = &self.shared.device;
        // SAFETY: what was submitted has ended (or the device is lost, which ends it) before its objects
        // go; null handles may be destroyed.
        unsafe {
            if self.submitted {
                device.wait_for_fences(&[self.fence], true, u64::MAX).ok();
            }
            device.destroy_fence(self.fence, None);
            device.destroy_command_pool(self.commands, None);
            device.destroy_descriptor_pool(self.descriptors, None);
        }
    }
}

/// A buffer whose memory is mapped as long as it lives.
struct Memory {
    shared: Arc<Shared>,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    start: *const AtomicU32,
    count: usize,
}

// SAFETY: the mapping is memory like any other, and all access to it is by atomics.
unsafe impl Send for Memory {}
// SAFETY: as above; Vulkan's handles are numbers, used under its rules of external synchronisation.
unsafe impl Sync for Memory {}

impl Memory {
    fn slice(&self) -> &[AtomicU32] {
        // SAFETY: `count` words from `start` are mapped as long as this struct lives. The device may change
        // them, which atomics allow for.
        unsafe { std::slice::from_raw_parts(self.start, self.count) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: kernels that use the buffer hold the region alive; freeing memory unmaps it.
        unsafe {
            self.shared.device.destroy_buffer(self.buffer, None);
            self.shared.device.free_memory(self.memory, None);
        }
    }
}

impl Region for Memory {
    fn words(&self) -> usize {
        self.count
    }

    fn write(&self, at: usize, data: &[u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        for (word, &value) in self.slice()[at..].iter().zip(data) {
            word.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    fn read(&self, at: usize, data: &mut [u32]) -> Result<(), Error> {
        in_range(at, data.len(), self.count)?;
        for (value, word) in data.iter_mut().zip(&self.slice()[at..]) {
            *value = word.load(Ordering::Relaxed);
        }
        Ok(())
    }

    fn mapped(&self) -> Option<&[AtomicU32]> {
        Some(self.slice())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
