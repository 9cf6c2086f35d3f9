//! The machine's two memories as a planner sees them: latency without load, bandwidth, latency by load. All are measured on the
//! modelled machine, by threads that read random lines.

use device::Rng;
use event::{Event, FenceKind, NameId, Op, SinkError, SiteId, ThreadId};
use machine::{Config, ConfigError, Next, Program, Simulation, Time};
use serde::Serialize;

const LINE: u64 = device::LINE_BYTES;
/// First byte of either memory, and how far they reach: more than caches hold.
const FAST: u64 = 1 << 32;
const SLOW: u64 = 1 << 62;
const REACH: u64 = 1 << 30;
/// Threads that load a memory, at most, and lines that each reads.
const THREADS: u32 = 16;
const READS: u64 = 1_200;
/// Instructions between two reads of a thread, from no load to all that there is.
const GAPS: [u32; 7] = [40_000, 6_000, 2_500, 1_200, 600, 250, 0];

/// One tier.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tier {
    /// Its name in answers.
    pub name: String,
    /// From the miss in the last level until the line is there, with nothing else under way, in ns.
    pub latency_ns: f64,
    /// Most bytes per ns (GB/s) of reads alone.
    pub read_gbps: f64,
    /// Of non-temporal stores alone.
    pub write_gbps: f64,
    /// Share of the read bandwidth, and the latency at that load by the one without.
    pub loaded: Vec<(f64, f64)>,
}

/// Why tiers can't be measured.
#[derive(Debug, thiserror::Error)]
pub enum TierError {
    /// The description is wrong or lacks timing.
    #[error(transparent)]
    Machine(#[from] ConfigError),
    /// The simulation stopped.
    #[error(transparent)]
    Run(#[from] SinkError),
}

impl Tier {
    /// How many times the latency without load it is at this share of the bandwidth.
    #[must_use]
    pub fn slower_at(&self, share: f64) -> f64 {
        let after = self.loaded.partition_point(|&(at, _)| at <= share);
        match (after.checked_sub(1).map(|at| self.loaded[at]), self.loaded.get(after)) {
            (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (share - x0) / (x1 - x0).max(1e-9),
            (Some((_, last)), None) => last,
            (None, _) => 1.0,
        }
    }

    /// Share of the bandwidth that so many bytes read and written per ns take.
    #[must_use]
    pub fn used(&self, read: f64, written: f64) -> f64 {
        read / self.read_gbps.max(1e-9) + written / self.write_gbps.max(1e-9)
    }
}

/// A machine with two memories: what it calls `other_memory` is fast, its memory slow. A machine with one memory gets the
/// preset `dram`'s as the fast one.
///
/// # Errors
/// If there is no preset `dram`.
pub fn with_two_memories(config: &Config) -> Result<Config, ConfigError> {
    let mut config = config.clone();
    if config.other_memory.is_none() {
        let dram = Config::preset("dram")?;
        config.other_memory =
            Some(machine::OtherMemory { controller: dram.memory.clone(), device: dram.device.clone() });
    }
    Ok(config)
}

/// The machine with so many ways of its last level.
#[must_use]
pub fn with_ways(config: &Config, ways: u32) -> Config {
    let mut config = config.clone();
    config.llc.size.0 = config.llc.size.0 / u64::from(config.llc.ways) * u64::from(ways);
    config.llc.ways = ways;
    if config.llc.replacement == device::Replacement::TreePlru && !ways.is_power_of_two() {
        config.llc.replacement = device::Replacement::Lru;
    }
    config
}

/// Measures both memories of a machine with two.
///
/// # Errors
/// If the description is wrong or has no timing.
pub fn measure(config: &Config) -> Result<[Tier; 2], TierError> {
    let fast = one(config, false, "fast")?;
    let slow = one(config, true, &config.name)?;
    Ok([fast, slow])
}

fn one(config: &Config, slow: bool, name: &str) -> Result<Tier, TierError> {
    let mut points = Vec::new();
    for gap in GAPS {
        points.push(load(config, slow, gap)?);
    }
    let idle = idle(config, slow)?;
    let peak = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let mut loaded: Vec<(f64, f64)> =
        points.iter().map(|&(gbps, latency)| (gbps / peak.max(1e-9), (latency / idle).max(1.0))).collect();
    loaded.sort_by(|one, two| one.0.total_cmp(&two.0));
    // Latency does not fall with load; small differences are chance.
    for at in 1..loaded.len() {
        loaded[at].1 = loaded[at].1.max(loaded[at - 1].1);
    }
    Ok(Tier {
        name: name.to_owned(),
        latency_ns: idle,
        read_gbps: peak,
        write_gbps: writes(config, slow)?,
        loaded,
    })
}

fn idle(config: &Config, slow: bool) -> Result<f64, TierError> {
    let step = move |draw: &mut Rng, events: &mut Vec<Event>| {
        events.push(event(Op::Load { addr: line(draw, slow), len: 8 }, 1));
        events.push(event(Op::Fence(FenceKind::Full), 1));
    };
    let figures = run(config, 1, 2 * READS, step)?;
    Ok(figures.memories[usize::from(slow)].read_latency.mean().unwrap_or_default().ns())
}

/// Bytes per ns, and latency.
fn load(config: &Config, slow: bool, gap: u32) -> Result<(f64, f64), TierError> {
    let step = move |draw: &mut Rng, events: &mut Vec<Event>| {
        events.push(event(Op::Load { addr: line(draw, slow), len: 8 }, gap.max(1)));
    };
    let figures = run(config, THREADS.min(config.cores.count), READS, step)?;
    let memory = &figures.memories[usize::from(slow)];
    let gbps = memory.total.controller_read_bytes as f64 / figures.elapsed.ns().max(1.0);
    Ok((gbps, memory.read_latency.mean().unwrap_or_default().ns()))
}

fn writes(config: &Config, slow: bool) -> Result<f64, TierError> {
    let step = move |draw: &mut Rng, events: &mut Vec<Event>| {
        let addr = line(draw, slow);
        events.push(event(Op::StoreNt { addr, len: LINE as u32 }, 1));
    };
    let figures = run(config, THREADS.min(config.cores.count), 2 * READS, step)?;
    let total = figures.memories[usize::from(slow)].total;
    Ok(total.controller_write_bytes as f64 / figures.elapsed.ns().max(1.0))
}

fn line(draw: &mut Rng, slow: bool) -> u64 {
    let base = if slow { SLOW } else { FAST };
    base + draw.below((REACH / LINE) as usize) as u64 * LINE
}

fn event(op: Op, instructions: u32) -> Event {
    Event { op, site: SiteId::UNKNOWN, instructions }
}

fn run(
    config: &Config,
    threads: u32,
    steps: u64,
    step: impl Fn(&mut Rng, &mut Vec<Event>) + Clone + Send + 'static,
) -> Result<machine::TimedFigures, TierError> {
    let mut simulation = Simulation::new(config)?;
    let thread = |number: u32| {
        let draw = Rng::new(config.seed ^ u64::from(number) << 32);
        let load = Load { draw, left: steps, maps: number == 0, step: step.clone() };
        (ThreadId(number), Box::new(load) as Box<dyn Program>)
    };
    simulation.run((0..threads).map(thread).collect())?;
    Ok(simulation.figures())
}

struct Load<F> {
    draw: Rng,
    left: u64,
    maps: bool,
    step: F,
}

impl<F: Fn(&mut Rng, &mut Vec<Event>) + Send> Program for Load<F> {
    fn next(&mut self, _now: Time, events: &mut Vec<Event>) -> Next {
        if std::mem::take(&mut self.maps) {
            events.push(event(Op::Map { addr: SLOW, len: REACH, name: NameId(0) }, 1));
        }
        let now = self.left.min(64);
        for _ in 0..now {
            (self.step)(&mut self.draw, events);
        }
        self.left -= now;
        if self.left == 0 { Next::Done } else { Next::Run }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn persistent_memory_is_slower_and_narrower_than_dram() {
        let [fast, slow] = measure(&Config::preset("cascade-lake").unwrap()).unwrap();
        assert!(slow.latency_ns > 2.0 * fast.latency_ns, "{fast:?} {slow:?}");
        assert!(slow.read_gbps < fast.read_gbps && slow.write_gbps < fast.write_gbps);
        assert!(slow.slower_at(0.05) < 1.3 && slow.slower_at(1.0) > 1.3, "{:?}", slow.loaded);
    }

    #[test]
    fn a_machine_with_fewer_ways_has_the_same_sets() {
        let config = Config::preset("dram").unwrap();
        let less = with_ways(&config, 2);
        assert_eq!((less.llc.size.0, less.llc.ways), (6 << 20, 2));
        assert!(less.validate().is_ok());
    }
}
