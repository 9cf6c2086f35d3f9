//! What is measured: this machine's memory, or a modelled machine's.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use machine::{Config, Size};
use measure::{Bench, Model, Real, RealMemory};
use pmem::probe::{Placement, cpus_of_node};
use serde_json::{Value, json};

use super::MeasureFault;
use crate::profile::host;

/// CPUs that Linux can number.
const CPUS_MAX: usize = 1024;

/// What is measured.
#[derive(Clone, Debug)]
pub enum Memory {
    /// This machine's memory.
    Real {
        /// Which part of it, and on which CPUs.
        memory: RealMemory,
        /// Time of one run; 400 ms if not given.
        runtime: Option<Duration>,
        /// Runs per point, of which the median counts; 3 if not given.
        repeats: Option<u32>,
    },
    /// A modelled machine's.
    Model {
        /// The machine.
        config: Box<Config>,
        /// Simulated events per point; the model's own number if not given.
        events: Option<u64>,
        /// Measure the machine's other memory in place of its persistent one.
        other_memory: bool,
    },
}

impl Memory {
    /// This machine's anonymous memory.
    #[must_use]
    pub fn real() -> Self {
        let memory = RealMemory {
            placement: Placement::Anonymous,
            node: None,
            cpus: Vec::new(),
            interleave: None,
            limit: None,
        };
        Memory::Real { memory, runtime: None, repeats: None }
    }

    /// The persistent memory of a modelled machine.
    #[must_use]
    pub fn model(config: Config) -> Self {
        Memory::Model { config: Box::new(config), events: None, other_memory: false }
    }
}

/// A bench that is ready.
pub enum Target {
    /// This machine's memory.
    Real(Box<Real>),
    /// A modelled machine's.
    Model(Box<Model>),
}

impl Target {
    /// The bench, and everything that its figures depend on.
    pub fn of(memory: &Memory) -> Result<(Target, BTreeMap<String, Value>), MeasureFault> {
        match memory {
            Memory::Real { memory, runtime, repeats } => real(memory, *runtime, *repeats),
            Memory::Model { config, events, other_memory } => {
                let mut model = Model::new(config);
                if let Some(events) = *events {
                    model = model.with_events(events);
                }
                if *other_memory {
                    model = model.of_other_memory();
                }
                let parameters = json!({"machine": config, "events": events, "other_memory": other_memory});
                Ok((Target::Model(Box::new(model)), pairs(parameters)))
            }
        }
    }

    /// What measures.
    pub fn bench(&self) -> &dyn Bench {
        match self {
            Target::Real(real) => &**real,
            Target::Model(model) => &**model,
        }
    }
}

fn real(
    memory: &RealMemory,
    runtime: Option<Duration>,
    repeats: Option<u32>,
) -> Result<(Target, BTreeMap<String, Value>), MeasureFault> {
    let twice = |(at, cpu): &(usize, &usize)| memory.cpus[..*at].contains(cpu);
    if let Some((_, &cpu)) = memory.cpus.iter().enumerate().find(twice) {
        return Err(MeasureFault::CpuTwice { cpu });
    }
    let exists = |cpu: usize| Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    // A number that no kernel knows has an error of its own.
    let missing = memory.cpus.iter().find(|&&cpu| cpu < CPUS_MAX && !exists(cpu));
    if let Some(&cpu) = missing.filter(|_| !online.is_empty()) {
        return Err(MeasureFault::NoCpu { cpu, online: format!("CPUs {}", online.trim()) });
    }
    if let Some(node) = memory.node.filter(|&node| cpus_of_node(node).is_none()) {
        return Err(MeasureFault::NoNode { node });
    }
    let parameters = json!({
        "node": memory.node, "cpus": memory.cpus,
        "interleave": memory.interleave.map(|i| (i.dimms, i.bytes)),
        "memory_limit": memory.limit.map(Size),
        "runtime_ms": runtime.map(|time| time.as_secs_f64() * 1e3),
        "repeat": repeats, "host": host(),
    });
    let mut real = Real::new(memory.clone());
    if runtime.is_some() || repeats.is_some() {
        real = real.with_runtime(runtime.unwrap_or(Real::RUNTIME), repeats.unwrap_or(Real::REPEATS));
    }
    Ok((Target::Real(Box::new(real)), pairs(parameters)))
}

fn pairs(object: Value) -> BTreeMap<String, Value> {
    match object {
        Value::Object(map) => map.into_iter().collect(),
        _ => BTreeMap::new(),
    }
}
