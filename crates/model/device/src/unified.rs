//! A memory that cores and an accelerator share: one cache, one bandwidth, and a directory that knows who
//! read a line last.
//!
//! A line that is in the cache because the other agent read it has to be granted anew: that costs a message
//! and occupies the directory, as false sharing does, although nobody writes. Two copies of the data avoid
//! it, at the price of the cache.

use crate::cache::{Cache, Modulo};
use crate::{Replacement, Rng, Time};

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agent {
    /// A core.
    #[default]
    Cpu,
    /// The accelerator.
    Accelerator,
}

/// The numbers of a shared memory.
#[derive(Clone, Copy, Debug)]
pub struct UnifiedTiming {
    /// From request to data out of memory.
    pub latency: Time,
    /// The same out of the cache.
    pub hit: Time,
    /// How long memory is busy with a line.
    pub line: Time,
    /// How long the directory is busy with granting a line to the other agent.
    pub grant: Time,
    /// Sets of the cache, a power of two.
    pub sets: usize,
    /// Its ways.
    pub ways: usize,
}

impl Default for UnifiedTiming {
    /// A wide low-power memory of some 200 GB/s at random lines, and 64 MiB of cache.
    fn default() -> UnifiedTiming {
        UnifiedTiming {
            latency: Time::from_ns(130),
            hit: Time::from_ns(40),
            line: Time(Time::from_ns(1).0 * 3 / 10),
            grant: Time::from_ns(2),
            sets: 1 << 16,
            ways: 16,
        }
    }
}

/// The memory.
#[derive(Debug)]
pub struct UnifiedMemory {
    timing: UnifiedTiming,
    cache: Cache<Agent, Modulo>,
    memory_free: Time,
    directory_free: Time,
    granted: u64,
}

impl UnifiedMemory {
    /// An empty one.
    #[must_use]
    pub fn new(timing: UnifiedTiming) -> UnifiedMemory {
        let cache = Cache::new(timing.sets.max(1), timing.ways.max(1), Replacement::Lru, Rng::new(1));
        UnifiedMemory { timing, cache, memory_free: Time::ZERO, directory_free: Time::ZERO, granted: 0 }
    }

    /// Lines that changed from one agent to the other.
    #[must_use]
    pub fn granted(&self) -> u64 {
        self.granted
    }

    /// `agent` reads `line` at `at`; requests come in ascending order of time, nearly. Returns when it has
    /// the data.
    pub fn read(&mut self, agent: Agent, at: Time, line: u64) -> Time {
        if let Some(slot) = self.cache.find(line) {
            self.cache.touch(slot);
            let last = std::mem::replace(&mut self.cache.slots[slot].item, agent);
            if last == agent {
                return at + self.timing.hit;
            }
            self.granted += 1;
            let begun = at.max(self.directory_free);
            self.directory_free = begun + self.timing.grant;
            // The grant goes to the other agent and back.
            return self.directory_free + self.timing.hit + self.timing.hit;
        }
        self.cache.insert(line, agent);
        let begun = at.max(self.memory_free);
        self.memory_free = begun + self.timing.line;
        begun + self.timing.latency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_slow_then_fast_then_granted() {
        let timing = UnifiedTiming::default();
        let mut memory = UnifiedMemory::new(timing);
        assert_eq!(memory.read(Agent::Cpu, Time::ZERO, 7), timing.latency);
        let later = Time::from_ns(1000);
        assert_eq!(memory.read(Agent::Cpu, later, 7), later + timing.hit);
        assert_eq!(memory.read(Agent::Accelerator, later, 7), later + timing.grant + timing.hit + timing.hit);
        assert_eq!(memory.granted(), 1);
    }

    #[test]
    fn memory_serves_one_line_after_another() {
        let timing = UnifiedTiming { line: Time::from_ns(3), ..UnifiedTiming::default() };
        let mut memory = UnifiedMemory::new(timing);
        let last = (0..100).map(|line| memory.read(Agent::Accelerator, Time::ZERO, line)).last();
        assert_eq!(last, Some(Time::from_ns(297) + timing.latency));
    }
}
