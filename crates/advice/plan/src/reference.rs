//! What a reference run came to.

use machine::TimedFigures;
use serde::Serialize;

/// One run with all data on one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reference {
    /// Ways of the last level.
    pub ways: u32,
    /// The tier, 0 for the fast one.
    pub tier: usize,
    /// How long it took, in ns.
    pub elapsed_ns: f64,
    /// Instructions of all threads.
    pub instructions: u64,
    /// Lines read from memory, and written.
    pub reads: f64,
    /// Lines written to memory.
    pub writes: f64,
    /// Mean time from the miss in the last level until the line was there, in ns.
    pub latency_ns: f64,
    /// Memory-level parallelism: reads under way at once, as a mean over the run.
    pub under_way: f64,
}

impl Reference {
    /// Of a run with all data on `tier`; `slow` says which of the machine's memories that is.
    #[must_use]
    pub fn of(figures: &TimedFigures, ways: u32, tier: usize) -> Reference {
        let memory = &figures.memories[usize::from(tier > 0)];
        let line = device::LINE_BYTES as f64;
        let reads = memory.total.controller_read_bytes as f64 / line;
        let latency = memory.read_latency.mean().unwrap_or_default().ns();
        let elapsed = figures.elapsed.ns();
        Reference {
            ways,
            tier,
            elapsed_ns: elapsed,
            instructions: figures.threads.iter().map(|thread| thread.instructions).sum(),
            reads,
            writes: memory.total.controller_write_bytes as f64 / line,
            latency_ns: latency,
            under_way: reads * latency / elapsed.max(1.0),
        }
    }
}
