//! Thresholds, with their reasons.

/// When a rule speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Findings that explain less than this share are not given (0 to 1).
    pub share_min: f64,
    /// Accesses below which nothing is said: start-up noise.
    pub accesses_min: u64,
    /// Times that a line would move between threads that run side by side: handing data over once is no fault.
    pub switches_min: u64,
    /// Part of a fetched line's bytes that is good use.
    pub used_min: f64,
    /// Lines that a rule about lines must have seen.
    pub lines_min: u64,
    /// Part of a site's stored bytes that must be dead.
    pub dead_min: f64,
    /// Accesses within which a block that is freed lived too short.
    pub short_life: u64,
    /// Blocks that a rule about allocations must have seen.
    pub blocks_min: u64,
    /// TLB misses per access that cost something: one in fifty at 20 cycles or more each.
    pub tlb_misses_min: f64,
    /// Bytes and ways of the first-level cache.
    pub l1_bytes: u64,
    /// Its ways.
    pub l1_ways: usize,
    /// Entries of the last-level TLB for 4 KiB pages.
    pub tlb_entries: usize,
    /// Whether the system puts ordinary memory on large pages by itself, so that to ask for them is no remedy.
    pub huge_pages: bool,
    /// Nodes that memory is spread over, and cores of all of them together.
    pub nodes: u32,
    /// These.
    pub cores: u32,
    /// What a walk of the page tables takes, and a block from the allocator and back to it, nanoseconds; 0 if not known.
    pub walk_ns: f64,
    /// The latter.
    pub alloc_ns: f64,
    /// Whether memory is slower than DRAM, which there may be beside it.
    pub slow_memory: bool,
    /// Bytes live at most below which nobody cares how long blocks live.
    pub peak_min: u64,
    /// Sites named per finding.
    pub sites_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            share_min: 0.02,
            accesses_min: 20_000,
            switches_min: 64,
            used_min: 0.5,
            lines_min: 4096,
            dead_min: 0.5,
            short_life: 256,
            blocks_min: 1000,
            tlb_misses_min: 0.02,
            l1_bytes: 32 << 10,
            l1_ways: 8,
            tlb_entries: 1536,
            huge_pages: false,
            nodes: 1,
            cores: 1,
            walk_ns: 0.0,
            alloc_ns: 0.0,
            slow_memory: false,
            peak_min: 1 << 20,
            sites_max: 8,
        }
    }
}
