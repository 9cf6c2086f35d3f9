//! What the machine measured: plain numbers, ready to be printed, compared and stored.

use serde::{Deserialize, Serialize};

use crate::Traffic;

/// Everything a run of the machine produced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Name of the machine description.
    pub machine: String,
    /// Bytes of the device's internal unit (256 for 3D XPoint).
    pub unit_bytes: u32,
    /// DIMMs per memory.
    pub dimms: u32,
    /// Threads that ran.
    pub threads: u32,
    /// The cache levels from the core outwards, all cores added up.
    pub caches: Vec<CacheFigures>,
    /// Memory that the program mapped as persistent.
    pub persistent: MemoryFigures,
    /// All other memory, modelled as if it were on a device of the same kind.
    pub volatile: MemoryFigures,
    /// Whether the program mapped any persistent range.
    pub mapped_persistent: bool,
    /// Per code site, indexed by `SiteId`.
    pub sites: Vec<SiteFigures>,
    /// Traffic over the run, in at most 512 slices of equal event counts.
    pub timeline: Vec<Slice>,
    /// Bytes of non-temporal stores that still wait in the cores' write-combining buffers.
    pub held_nt_bytes: u64,
}

impl Figures {
    /// The memory that the run is about: the persistent ranges if there are any, else all memory.
    #[must_use]
    pub fn focus(&self) -> &MemoryFigures {
        if self.mapped_persistent { &self.persistent } else { &self.volatile }
    }

    /// A site's part in the memory that the run is about.
    #[must_use]
    pub fn site_focus<'a>(&self, site: &'a SiteFigures) -> &'a SiteMemory {
        if self.mapped_persistent { &site.persistent } else { &site.volatile }
    }
}

/// One cache level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// `L1`, `L2`, `LLC`.
    pub level: String,
    /// Accesses that found their line.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Lines pushed out by others, clean or dirty.
    pub evictions: u64,
    /// Dirty lines handed to the next level, whatever the reason.
    pub writebacks: u64,
    /// Lines taken away because another core wanted them.
    pub invalidations: u64,
    /// Misses that another core's cache answered, so that memory was not asked (last level only).
    pub forwards: u64,
    /// Bytes in lines that are dirty at this level when the figures are taken.
    pub held_dirty_bytes: u64,
}

/// One memory: a controller and its DIMMs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryFigures {
    /// All DIMMs together.
    pub total: Traffic,
    /// Each DIMM.
    pub per_dimm: Vec<Traffic>,
    /// Per DIMM: how many threads wrote at least 1 % of its bytes.
    pub writers_per_dimm: Vec<u32>,
    /// Writes to a DIMM while the write before it on the same DIMM came from another thread and
    /// another 4 KiB page: streams that compete for the write-combining buffer.
    pub page_collisions: u64,
    /// Media writes by the number of bytes that were new in them; bucket `i` holds sizes of
    /// `64 * (i + 1)` bytes.
    pub media_write_fill: Vec<u64>,
    /// Controller writes of less than a whole 64 B line (non-temporal stores that did not fill theirs);
    /// each is a transfer of 64 B all the same.
    pub partial_line_writes: u64,
    /// Bytes that the controller wrote and that still wait in the devices' buffers for their media write.
    pub held_dirty_bytes: u64,
}

/// One code site's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteFigures {
    /// Loads executed.
    pub loads: u64,
    /// Stores executed, non-temporal ones included.
    pub stores: u64,
    /// Bytes stored.
    pub store_bytes: u64,
    /// Of these, with non-temporal stores.
    pub nt_bytes: u64,
    /// Flushes executed.
    pub flushes: u64,
    /// Flushes that found no dirty line in any cache.
    pub clean_flushes: u64,
    /// In persistent memory.
    pub persistent: SiteMemory,
    /// In all other memory.
    pub volatile: SiteMemory,
}

/// What one site caused at one memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteMemory {
    /// Bytes read from the device because this site missed.
    pub read_bytes: u64,
    /// Bytes that reached the device and that this site had stored last.
    pub controller_write_bytes: u64,
    /// Of these, written back by eviction rather than by a flush or a non-temporal store.
    pub evicted_bytes: u64,
    /// This site's share of the media bytes written for them (by bytes contributed to each unit).
    pub media_write_bytes: u64,
    /// Of these, in units that were written with less than the whole unit new.
    pub partial_media_bytes: u64,
}

/// A slice of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Events up to the slice's end.
    pub events: u64,
    /// Nanoseconds of the recorded run at its end, 0 if the source has no clock.
    pub time_ns: u64,
    /// Traffic in the slice, persistent memory.
    pub persistent: Traffic,
    /// Traffic in the slice, other memory.
    pub volatile: Traffic,
}
