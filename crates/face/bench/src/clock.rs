//! Times of this process.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// What something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// CPU time of all threads, nanoseconds.
    pub cpu_ns: u64,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
}

impl Spent {
    /// What `work` takes, of all threads of the process.
    pub fn by<R>(work: impl FnOnce() -> R) -> (R, Spent) {
        let begin = (now(ClockId::ProcessCPUTime), now(ClockId::Monotonic));
        let result = work();
        let cpu_ns = now(ClockId::ProcessCPUTime).saturating_sub(begin.0);
        (result, Spent { cpu_ns, wall_ns: now(ClockId::Monotonic).saturating_sub(begin.1) })
    }

    pub fn add(&mut self, other: Spent) {
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
    }
}

/// What `work` takes of this thread's CPU time, nanoseconds.
pub fn thread_cpu_ns(work: impl FnOnce()) -> u64 {
    let begin = now(ClockId::ThreadCPUTime);
    work();
    now(ClockId::ThreadCPUTime).saturating_sub(begin)
}

fn now(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    u64::try_from(tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(tv_nsec).unwrap_or(0)
}
