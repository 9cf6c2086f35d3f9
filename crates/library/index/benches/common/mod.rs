//! Figures in units.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Instant;

use pmem::{Mapped, Os};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};
use space::{Env, Space};

/// The memory that is measured.
pub type Memory = Os<Mapped>;

/// How much to do, and the memory of the unit.
pub struct Bench {
    /// Pairs.
    pub count: u64,
    /// How many times.
    pub turns: u32,
    unit: Mapped,
    units: u64,
}

/// A file in memory, every page of it present.
fn file(bytes: u64) -> Mapped {
    let file = File::from(memfd_create("space", MemfdFlags::CLOEXEC).expect("a file in memory"));
    file.set_len(bytes.next_multiple_of(4096)).expect("room for the file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let space = Mapped::open(&path).expect("the file can be mapped");
    (0..space.len()).step_by(4096).for_each(|page| space.store_u64(page, 0));
    space
}

/// Nanoseconds of processor time of this thread.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

impl Bench {
    /// What the arguments ask for.
    pub fn of_arguments() -> Bench {
        let full = std::env::args().any(|argument| argument == "--bench");
        let (count, turns, units) = if full { (1_000_000, 3, 1 << 18) } else { (2_000, 1, 1 << 8) };
        Bench { count, turns, unit: file(if full { 64 << 20 } else { 1 << 20 }), units }
    }

    /// An environment with so many bytes.
    pub fn memory(&self, bytes: u64) -> Memory {
        Os::new(file(bytes))
    }

    /// Nanoseconds of a unit, now.
    fn unit_ns(&self) -> f64 {
        let lines = self.unit.len() / 64;
        let mut state = 1u64;
        let start = cpu_ns();
        for _ in 0..self.units {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) % lines * 64;
            self.unit.store_u64(at, state);
            self.unit.persist(at, 8);
        }
        (cpu_ns() - start) / self.units as f64
    }

    fn print(&self, what: &str, ns: f64, units: [f64; 2]) {
        let unit = (units[0] + units[1]) / 2.0;
        println!("{what:<28}{:>10.2}{ns:>10.1}{unit:>10.1}", ns / unit);
    }

    /// Prints what the work costs in processor time, an operation.
    pub fn cpu(&self, what: &str, operations: u64, work: impl FnOnce()) {
        let before = self.unit_ns();
        let start = cpu_ns();
        work();
        let ns = (cpu_ns() - start) / operations as f64;
        self.print(what, ns, [before, self.unit_ns()]);
    }

    /// Prints what the work of two threads takes, an operation of either.
    pub fn wall(&self, env: &Memory, what: &str, operations: u64, work: impl Fn(u32) + Sync) {
        let before = self.unit_ns();
        let start = Instant::now();
        env.threads(2, work);
        let ns = start.elapsed().as_nanos() as f64 / operations as f64;
        self.print(what, ns, [before, self.unit_ns()]);
    }
}

/// The numbers below `count` in an order that looks like none.
pub fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    let mut state = seed;
    for at in (1..numbers.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(at, (state >> 33) as usize % (at + 1));
    }
    numbers
}
