//! Tasks on the memory of this machine.

mod accesses;
mod passes;

use std::time::Duration;

use pmem::probe::{self, Clock, Pages, Placed, Placement, Request, TeamError};
use space::Space;

use crate::figures::{Figures, Latency, Outcome, timed};
use crate::offsets::{Interleave, Offsets};
use crate::task::{Kind, LINE, Locality, Task};
use crate::{Bench, MeasureError};
use accesses::{Measured, Plan};

/// Share of a run's time that is spent on warming up before it.
const WARM_SHARE: u32 = 8;
/// A timer's step below this is not worth mentioning: the processor's own jitter is larger.
const TIMER_STEP_NS: f64 = 2.0;
/// Seed of the offsets.
const SEED: u64 = 1;

/// Which memory of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealMemory {
    /// Anonymous, a file, a DAX device.
    pub placement: Placement,
    /// The NUMA node that anonymous memory is taken from.
    pub node: Option<u32>,
    /// CPUs that threads run on, one each, in this order; empty for all that the process may use.
    pub cpus: Vec<usize>,
    /// How addresses are spread over DIMMs, if that is known and the memory's addresses are the device's own.
    pub interleave: Option<Interleave>,
    /// Bytes to use at most; `None` is half of what is free.
    pub limit: Option<u64>,
}

impl Default for RealMemory {
    fn default() -> Self {
        RealMemory {
            placement: Placement::Anonymous,
            node: None,
            cpus: Vec::new(),
            interleave: None,
            limit: None,
        }
    }
}

/// This machine as a bench.
#[derive(Debug)]
pub struct Real {
    memory: RealMemory,
    runtime: Duration,
    repeats: u32,
    clock: Clock,
    /// Kept from task to task, because touching gigabytes takes longer than measuring.
    placed: Option<(Option<u32>, Placed)>,
    /// Whether single accesses were timed.
    timed: bool,
}

impl Real {
    /// Time of one run if nobody says.
    pub const RUNTIME: Duration = Duration::from_millis(400);
    /// Runs of which the median counts.
    pub const REPEATS: u32 = 3;

    /// Calibrates the clock; memory is taken at the first task.
    #[must_use]
    pub fn new(memory: RealMemory) -> Real {
        Real {
            memory,
            runtime: Self::RUNTIME,
            repeats: Self::REPEATS,
            clock: Clock::calibrate(),
            placed: None,
            timed: false,
        }
    }

    /// Runs for so long, so many times; the median run counts. The default is [`Real::REPEATS`] times
    /// [`Real::RUNTIME`].
    #[must_use]
    pub fn with_runtime(mut self, runtime: Duration, repeats: u32) -> Real {
        self.runtime = runtime;
        self.repeats = repeats.max(1);
        self
    }

    fn cpus(&self, locality: Locality) -> Result<Vec<usize>, String> {
        let all = if self.memory.cpus.is_empty() { probe::cpus() } else { self.memory.cpus.clone() };
        if locality == Locality::AsGiven {
            return Ok(all);
        }
        let home = probe::cpus_of_node(self.home()).ok_or("the kernel reports no NUMA nodes")?;
        let near = locality == Locality::Near;
        let cpus: Vec<usize> = all.into_iter().filter(|cpu| home.contains(cpu) == near).collect();
        match (cpus.is_empty(), near) {
            (false, _) => Ok(cpus),
            (true, true) => Err(format!("no CPU to run on is on NUMA node {}", self.home())),
            (true, false) => Err(format!("every CPU is on NUMA node {}: nothing is far", self.home())),
        }
    }

    fn home(&self) -> u32 {
        self.memory.node.unwrap_or(0)
    }

    /// Why this machine can't do `task`.
    fn obstacle(&self, task: &Task) -> Option<String> {
        if task.dimms > 0 && self.memory.interleave.is_none() {
            return Some(
                "which DIMM an address is on is not known: measure a DAX device and say how it is interleaved".to_owned(),
            );
        }
        let cpus = match self.cpus(task.locality) {
            Ok(cpus) => cpus.len(),
            Err(reason) => return Some(reason),
        };
        let needed = task.threads as usize + usize::from(task.kind == Kind::LoadedLatency);
        (needed > cpus).then(|| format!("{needed} threads need as many CPUs; here are {cpus}"))
    }

    /// `task` with regions for which there is memory; `None` if there is not enough for a single access.
    fn fitted(&self, task: &Task) -> Option<Task> {
        let limit =
            self.memory.limit.or_else(|| probe::free_bytes().map(|bytes| bytes / 2)).unwrap_or(u64::MAX);
        let held = self.placed.as_ref().map_or(0, |(_, placed)| placed.memory.len());
        let (limit, needed) = (limit.max(held), Offsets::reach(task, self.memory.interleave));
        if needed <= limit {
            return Some(task.clone());
        }
        let regions = task.footprint() / task.region;
        let slack = needed - task.footprint();
        let region = limit.checked_sub(slack)? / regions;
        let region = region - region % task.access_size;
        (region > 0).then(|| Task { region, ..task.clone() })
    }

    /// Memory for `task`.
    fn place(&mut self, task: &Task) -> Result<(), MeasureError> {
        let len = Offsets::reach(task, self.memory.interleave);
        let node = if task.locality == Locality::AsGiven { self.memory.node } else { Some(self.home()) };
        if matches!(&self.placed, Some((on, placed)) if *on == node && placed.memory.len() >= len) {
            return Ok(());
        }
        // First give back, then take: there may not be room for both.
        self.placed = None;
        let node = node.filter(|_| self.memory.placement == Placement::Anonymous);
        let placed = probe::place(&Request { placement: self.memory.placement.clone(), len, node })?;
        self.placed = Some((node, placed));
        Ok(())
    }

    fn figures(&self, task: &Task, placed: &Placed) -> Result<Figures, TeamError> {
        let cpus = self.cpus(task.locality).unwrap_or_default();
        let interleave = self.memory.interleave;
        let plan = Plan { task, memory: &placed.memory, clock: &self.clock, interleave, seed: SEED };
        match task.kind {
            Kind::Bandwidth | Kind::LoadedLatency => self.bandwidth(&plan, &cpus),
            Kind::IdleLatency | Kind::Timed => {
                if task.kind == Kind::IdleLatency {
                    placed.memory.evict(0, task.region);
                }
                let samples = probe::on_cpus(&cpus[..1], |_| plan.samples(task.samples))?.concat();
                Ok(timed(&samples, plan.sample_bytes(), task.writes()))
            }
            Kind::BufferProbe => {
                let mut runs = probe::on_cpus(&cpus[..1], |_| passes::buffer_probe(&plan, self.runtime))?;
                Ok(runs.pop().unwrap_or_default())
            }
            Kind::ReadAfterWrite => {
                let mut runs = probe::on_cpus(&cpus[..1], |_| passes::read_after_write(&plan, self.runtime))?;
                Ok(runs.pop().unwrap_or_default())
            }
        }
    }

    /// The median of the runs by their rate.
    fn bandwidth(&self, plan: &Plan<'_>, cpus: &[usize]) -> Result<Figures, TeamError> {
        let probes = plan.task.kind == Kind::LoadedLatency;
        let team = &cpus[..plan.task.threads as usize + usize::from(probes)];
        let mut runs = Vec::new();
        for _ in 0..self.repeats {
            runs.push(self.one_run(plan, team, probes)?);
        }
        runs.sort_by(|a, b| a.gb_per_s.unwrap_or(0.0).total_cmp(&b.gb_per_s.unwrap_or(0.0)));
        let rates: Vec<f64> = runs.iter().filter_map(|run| run.gb_per_s).collect();
        let range = rates.first().copied().zip(rates.last().copied());
        let mut median = runs.swap_remove(runs.len() / 2);
        median.gb_per_s_range = range.filter(|_| self.repeats > 1);
        Ok(median)
    }

    fn one_run(&self, plan: &Plan<'_>, team: &[usize], probes: bool) -> Result<Figures, TeamError> {
        let measured = probe::on_cpus(team, |index| {
            let prober = probes && index + 1 == team.len();
            plan.run(index as u32, prober, self.runtime / WARM_SHARE, self.runtime)
        })?;
        let mut figures = Figures::default();
        let (mut rate, mut samples) = (0.0, Vec::new());
        for Measured { read_bytes, write_bytes, seconds, mut latencies } in measured {
            figures.read_bytes += read_bytes;
            figures.write_bytes += write_bytes;
            figures.seconds = figures.seconds.max(seconds);
            rate += (read_bytes + write_bytes) as f64 / seconds.max(1e-9) / 1e9;
            samples.append(&mut latencies);
        }
        figures.gb_per_s = Some(rate);
        figures.latency = Latency::of(&samples);
        Ok(figures)
    }
}

impl Bench for Real {
    fn subject(&self) -> String {
        let what = match &self.memory.placement {
            Placement::Anonymous => "anonymous memory".to_owned(),
            Placement::File(path) => format!("the file {}", path.display()),
            Placement::Device(path) => format!("the device {}", path.display()),
        };
        let node = self.memory.node.map_or(String::new(), |node| format!(" of NUMA node {node}"));
        let seen = probe::conditions(&[]);
        format!("{what}{node}, {}, lines moved by {}", seen.processor, probe::width())
    }

    fn cautions(&self) -> Vec<String> {
        let cpus = self.cpus(Locality::AsGiven).unwrap_or_default();
        let mut cautions = probe::conditions(&cpus).uncontrolled;
        match self.placed.as_ref().map(|(_, placed)| (placed.pages, placed.memory.len())) {
            Some((Pages::Transparent { huge_bytes }, len)) if huge_bytes < len => cautions.push(format!(
                "Only {:.0} % of the memory is in huge pages: the rest pays for TLB misses.",
                100.0 * huge_bytes as f64 / len as f64
            )),
            Some((Pages::Given, _)) => {
                cautions.push(
                    "The pages are as the file system or device has them; small ones pay for TLB misses."
                        .to_owned(),
                );
            }
            _ => {}
        }
        let step = self.clock.step_ns();
        if self.timed && step >= TIMER_STEP_NS {
            cautions.push(format!(
                "The timer advances in steps of {step:.0} ns: times of single accesses differ by multiples of that, and so do \
                 their percentiles. Means are finer."
            ));
        }
        cautions
    }

    fn measure(&mut self, task: &Task) -> Result<Outcome, MeasureError> {
        if let Some(fault) = task.fault() {
            return Err(MeasureError::Task(fault));
        }
        if let Some(obstacle) = self.obstacle(task) {
            return Ok(Outcome::Skipped(obstacle));
        }
        let Some(fitted) = self.fitted(task) else {
            return Ok(Outcome::Skipped("there is not enough free memory for the regions".to_owned()));
        };
        if let Some(obstacle) = Offsets::obstacle(&fitted, self.memory.interleave) {
            return Ok(Outcome::Skipped(obstacle));
        }
        self.place(&fitted)?;
        let Some((_, placed)) = &self.placed else {
            return Ok(Outcome::Skipped("there is no memory".to_owned()));
        };
        let mut figures = self.figures(&fitted, placed)?;
        if let Some(latency) = &mut figures.latency {
            latency.timer_step = Some(self.clock.step_ns());
            self.timed = true;
        }
        figures.region = (fitted.region < task.region).then_some(fitted.region);
        Ok(Outcome::Done(Box::new(figures)))
    }
}

/// Bytes of `lines` lines.
fn bytes_of(lines: u64) -> u64 {
    lines * LINE
}
