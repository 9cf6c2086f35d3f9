//! Thresholds, with their reasons.

/// When a rule speaks. The defaults are for 3D XPoint; the device's unit is not here, it comes with the
/// machine's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Findings that explain less than this share are not given (0 to 1). Below a fiftieth, nobody
    /// would notice the repair.
    pub share_min: f64,
    /// Traffic rules are silent on runs that wrote fewer bytes to media: start-up noise.
    pub media_bytes_min: u64,
    /// Flush and fence rules are silent if fewer flushes or fences than this did nothing: together they
    /// cost some microseconds.
    pub count_min: u64,
    /// A site with at least this effective write ratio writes well enough, however small its stores:
    /// the buffer merged them.
    pub ewr_good: f64,
    /// Bytes from which a run counts as a transfer. On 3D XPoint a non-temporal store has the lower latency
    /// above 512 B, and in a real object store it won above 1 KiB.
    pub transfer_bytes: u64,
    /// A transfer should go around the cache only if at least this part of what its site stores reaches
    /// the device; otherwise the cache does useful work.
    pub reach_min: f64,
    /// Bytes of other lines dirtied between a line's last store and its flush that make the flush late. When
    /// within 8 MiB a flush happens is irrelevant; beyond, lines have begun to be evicted.
    pub late_flush_bytes: u64,
    /// Non-temporal stores are no remedy for a site if more than this part of what it writes is changed soon:
    /// each change would read its line back. One line of a 4 KiB page.
    pub changed_share_max: f64,
    /// Writers that one DIMM bears. A single DIMM peaks at one to four threads, depending on the operation.
    pub writers_per_dimm: u32,
    /// Part of a DIMM's writes that must come from another thread and another page than the write
    /// before for the writers to count as competing.
    pub collision_share_min: f64,
    /// Sites named per finding.
    pub sites_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            share_min: 0.02,
            media_bytes_min: 64 << 10,
            count_min: 64,
            ewr_good: 0.9,
            transfer_bytes: 1 << 10,
            reach_min: 0.5,
            late_flush_bytes: 8 << 20,
            changed_share_max: 1.0 / 64.0,
            writers_per_dimm: 4,
            collision_share_min: 0.1,
            sites_max: 8,
        }
    }
}
