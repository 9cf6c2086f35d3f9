//! Advice as data: by phase, by source line, and the machine that it is for.

use event::SiteId;
use serde::{Deserialize, Serialize};

/// What to do with data after (or while) writing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Write around the cache with non-temporal stores.
    Skip,
    /// Write back after the last store, keep in the cache.
    Clean,
    /// Move down one level after the last store.
    Demote,
    /// Leave the code as it is.
    Nothing,
}

impl Choice {
    /// As reports print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Choice::Skip => "skip",
            Choice::Clean => "clean",
            Choice::Demote => "demote",
            Choice::Nothing => "nothing",
        }
    }
}

/// The machine that the advice is for. Patterns are the program's, gains are the machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Bytes that the memory's device reads or writes at once. Sequential writes can gain only where that is
    /// more than a cache line.
    pub unit_bytes: u64,
    /// Whether stores may stay private to a core until a fence. Early visibility can help only there.
    pub weakly_ordered: bool,
    /// Bytes of its last cache: a program that touches no more has nothing evicted, and what writes
    /// sequentially has no eviction to forestall. 0 if something is known to be evicted, `u64::MAX` if
    /// nothing is.
    pub cache_bytes: u64,
}

/// The advice for a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Its phases, in the order of their first marks; a program without marks is one phase.
    pub phases: Vec<PhaseAdvice>,
}

/// The advice for one phase of a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseAdvice {
    /// The mark's name; `None` for what is before the first mark.
    pub phase: Option<String>,
    /// Stores as a part of its loads and stores, 0 to 1.
    pub store_intensity: f64,
    /// Whether it was judged: it is no preparation, and stores enough. If not, `places` is empty.
    pub judged: bool,
    /// Whether it prepares or examines, so that what it takes counts in no trial. What another phase takes
    /// does, judged or not.
    pub aside: bool,
    /// The places that store most, by function, the function with the most stores first.
    pub places: Vec<PlaceAdvice>,
}

impl Advice {
    /// The places of all phases.
    pub fn places(&self) -> impl Iterator<Item = &PlaceAdvice> {
        self.phases.iter().flat_map(|phase| &phase.places)
    }
}

/// A source line that stores, what it writes, and what it should do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceAdvice {
    /// The function, innermost inlined one.
    pub function: String,
    /// Source file; empty if unknown.
    pub file: String,
    /// Line; 0 if unknown.
    pub line: u32,
    /// One of the code sites of that line.
    pub site: SiteId,
    /// The function's part of the bytes that the phase stores, 0 to 1.
    pub function_share: f64,
    /// The place's part of them.
    pub share: f64,
    /// Part of its bytes that it writes sequentially.
    pub sequential: f64,
    /// Part of its bytes that a fence follows soon.
    pub fenced: f64,
    /// Fewest instructions from a store here to the thread's next fence; `None` if none followed.
    pub fence_distance: Option<u64>,
    /// Part of its lines that is read again while a cache could still have them, 0 to 1.
    pub reread_share: f64,
    /// Whether a trial may skip the cache here, which can be right where the pattern calls for cleaning as
    /// well: the functions that store most read (next to) nothing themselves, so that only a trial tells who
    /// loses more, the readers or the writers.
    pub may_skip: bool,
    /// What it writes, by size of the region, the largest part first.
    pub sizes: Vec<SizeRow>,
    /// What to do.
    pub choice: Choice,
    /// Why, in one sentence.
    pub reason: String,
}

/// Regions of about one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeRow {
    /// Bytes of the largest region of the class.
    pub bytes: u64,
    /// Part of the place's bytes that went to regions of this class.
    pub share: f64,
    /// Instructions until data are read again, on average; `None` if they are not.
    pub reread: Option<u64>,
    /// Instructions until data are written again, on average; `None` if they are not.
    pub rewrite: Option<u64>,
    /// Where one of the regions was allocated, if that is known.
    pub allocated: Option<SiteId>,
}
