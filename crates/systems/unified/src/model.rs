//! CPU and accelerator on a modelled unified memory, in virtual time: the shapes of co-execution without
//! the hardware.
//!
//! Every agent (a CPU core with a bounded number of lookups in flight, an accelerator with many) takes
//! lines from one [`device::UnifiedMemory`], which has one cache and one bandwidth for all. The machine's
//! numbers are guesses (a wide low-power memory, cores of ordinary width), made with the source's claims
//! known. What comes out is a shape.

use device::{Agent, Time, UnifiedMemory, UnifiedTiming};

use crate::Mix;

/// A machine with one memory.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The memory.
    pub memory: UnifiedTiming,
    /// What a lookup costs a core beside memory.
    pub lookup: Time,
    /// Lookups that a core overlaps by itself.
    pub window: usize,
    /// Lines that a core has in flight at most, prefetches included.
    pub fills: usize,
    /// What a launch of a kernel costs.
    pub launch: Time,
    /// Lookups that the accelerator has in flight.
    pub in_flight: usize,
    /// What a lookup costs a lane of the accelerator beside memory.
    pub lane: Time,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            memory: UnifiedTiming::default(),
            lookup: Time::from_ns(12),
            window: 3,
            fills: 16,
            launch: Time::from_ns(50_000),
            in_flight: 2048,
            lane: Time::from_ns(200),
        }
    }
}

/// A load on the machine.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Lines of the table.
    pub lines: u64,
    /// Cores that look up.
    pub cores: usize,
    /// How far ahead they prefetch.
    pub ahead: usize,
    /// Workers that submit batches; on the accelerator they share its lanes.
    pub submitters: usize,
    /// Keys of a batch.
    pub batch: usize,
    /// Whether CPU and accelerator have a copy each.
    pub copies: bool,
    /// Virtual time that it runs.
    pub runtime: Time,
}

/// Lookups per microsecond, and how long a batch takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rates {
    /// By cores.
    pub cpu: f64,
    /// By the accelerator.
    pub accelerator: f64,
    /// Mean microseconds of a batch, 0 without batches.
    pub batch_us: f64,
}

impl Rates {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.cpu + self.accelerator
    }
}

/// A place for one lookup in flight.
struct Slot {
    agent: Agent,
    /// When it takes its next lookup.
    free: Time,
    /// The core or submitter that it belongs to.
    owner: usize,
}

impl Machine {
    /// Runs a load to the end of its time.
    #[must_use]
    pub fn run(&self, load: &Load, seed: u64) -> Rates {
        let mut memory = UnifiedMemory::new(self.memory);
        let mut random = Mix::seeded(seed);
        let overlapped = (self.window + load.ahead).min(self.fills).max(1);
        // Empty batches keep nobody busy.
        let submitters = if load.batch == 0 { 0 } else { load.submitters };
        let lanes = self.in_flight.min(load.batch.saturating_mul(submitters.max(1))) / submitters.max(1);
        let mut slots = Vec::new();
        for owner in 0..load.cores {
            slots.extend((0..overlapped).map(|_| Slot { agent: Agent::Cpu, free: Time::ZERO, owner }));
        }
        for owner in 0..submitters {
            slots.extend((0..lanes.max(1)).map(|_| Slot {
                agent: Agent::Accelerator,
                free: self.launch,
                owner,
            }));
        }
        // When a core's instructions are free again, and the rest of each submitter's batch with its start.
        let mut issue = vec![Time::ZERO; load.cores];
        let mut batches = vec![(load.batch, Time::ZERO, self.launch); submitters];
        let (mut cpu, mut accelerator, mut ended, mut waited) = (0u64, 0u64, 0u64, 0.0);
        let mut queue: std::collections::BinaryHeap<std::cmp::Reverse<(Time, usize)>> =
            slots.iter().enumerate().map(|(number, slot)| std::cmp::Reverse((slot.free, number))).collect();
        while let Some(std::cmp::Reverse((at, number))) = queue.pop() {
            if at >= load.runtime {
                break;
            }
            let slot = &mut slots[number];
            let line = random.below(load.lines.max(1));
            let line = if load.copies && slot.agent == Agent::Accelerator { line + load.lines } else { line };
            let done = match slot.agent {
                Agent::Cpu => {
                    let begun = at.max(issue[slot.owner]);
                    issue[slot.owner] = begun + self.lookup;
                    cpu += 1;
                    memory.read(Agent::Cpu, begun, line)
                }
                Agent::Accelerator => {
                    let (left, start, last) = &mut batches[slot.owner];
                    if *left == 0 {
                        // The next launch begins when the last lookup of this batch has ended.
                        waited += last.since(*start).ns() / 1000.0;
                        ended += 1;
                        (*left, *start) = (load.batch, *last);
                        *last += self.launch;
                    }
                    let begun = at.max(*start + self.launch);
                    *left -= 1;
                    accelerator += 1;
                    let done = memory.read(Agent::Accelerator, begun, line) + self.lane;
                    *last = done.max(*last);
                    done
                }
            };
            slot.free = done;
            queue.push(std::cmp::Reverse((done, number)));
        }
        let microseconds = load.runtime.ns() / 1000.0;
        Rates {
            cpu: cpu as f64 / microseconds,
            accelerator: accelerator as f64 / microseconds,
            batch_us: waited / (ended.max(1)) as f64,
        }
    }
}

/// A device with memory of its own behind a link, or a unified one without: what a job over data costs.
#[derive(Clone, Copy, Debug)]
pub struct Transfers {
    /// Bytes per nanosecond of the device's memory that a kernel reaches.
    pub memory: f64,
    /// Bytes per nanosecond over the link in one direction; infinite for unified memory.
    pub link: f64,
    /// Bytes of the device's memory.
    pub capacity: u64,
    /// Bytes of a page that moves on demand, and the nanoseconds of its fault.
    pub page: (u64, f64),
}

/// Nanoseconds of a job.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Of moving data.
    pub moved: f64,
    /// Of kernels.
    pub worked: f64,
}

impl Transfers {
    /// A job that reads `input` bytes from the CPU, passes over `traffic` bytes in all, and gives `output`
    /// bytes back.
    #[must_use]
    pub fn copied(&self, input: u64, traffic: u64, output: u64) -> Cost {
        Cost { moved: (input + output) as f64 / self.link, worked: traffic as f64 / self.memory }
    }

    /// The same with pages that move on demand, over a working set that is streamed again and again: if it
    /// does not fit, the least recently used page is always the next one needed, so all traffic crosses the
    /// link, written pages twice.
    #[must_use]
    pub fn managed(&self, working_set: u64, traffic: u64, written: u64) -> Cost {
        let pages = |bytes: u64| bytes as f64 / self.page.0 as f64 * self.page.1;
        let worked = traffic as f64 / self.memory;
        if working_set <= self.capacity {
            return Cost { moved: working_set as f64 / self.link + pages(working_set), worked };
        }
        Cost { moved: (traffic + written) as f64 / self.link + pages(traffic), worked }
    }
}

impl Cost {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.moved + self.worked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: Load = Load {
        lines: 1 << 24,
        cores: 1,
        ahead: 0,
        submitters: 0,
        batch: 10_000,
        copies: false,
        runtime: Time::from_ns(100_000),
    };

    #[test]
    fn prefetches_raise_a_cores_rate_until_it_issues_all_the_time() {
        let machine = Machine::default();
        let rate = |ahead| machine.run(&Load { ahead, ..LOAD }, 1).cpu;
        assert!(rate(13) > 2.0 * rate(0));
        // 12 ns each.
        assert!((0.9..=1.01).contains(&(rate(32) * 0.012)), "{}", rate(32));
    }

    #[test]
    fn a_launch_is_paid_once_per_batch() {
        let machine = Machine::default();
        let rate = |batch| {
            machine
                .run(&Load { cores: 0, submitters: 1, batch, runtime: Time::from_ns(2_000_000), ..LOAD }, 1)
        };
        let (small, large) = (rate(1000), rate(100_000));
        assert!(small.batch_us > 50.0 && small.batch_us < 60.0, "{small:?}");
        assert!(large.accelerator > 5.0 * small.accelerator);
    }

    #[test]
    fn empty_batches_keep_nobody_busy() {
        let rates = Machine::default().run(&Load { submitters: 2, batch: 0, ..LOAD }, 1);
        assert!(rates.accelerator == 0.0 && rates.cpu > 0.0, "{rates:?}");
    }

    #[test]
    fn what_does_not_fit_crosses_the_link_in_every_pass() {
        let device = Transfers { memory: 300.0, link: 10.0, capacity: 1000, page: (64, 0.0) };
        assert!((device.managed(1000, 4000, 2000).moved - 100.0).abs() < 1e-9);
        assert!((device.managed(1001, 4000, 2000).moved - 600.0).abs() < 1e-9);
    }
}
