//! Which design a pool runs, and what a study or a test may leave out of it.

use std::fmt::{self, Display};
use std::str::FromStr;

use thiserror::Error;

/// How regions are made failure-atomic; see the crate's head for what differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Design {
    /// An SFR is committed at the release that ends it.
    Coupled,
    /// SFRs are committed by a pruner, which flushes their data.
    Decoupled,
    /// Outermost critical sections, committed by a helper.
    Atlas,
    /// Data is flushed store by store, SFRs are committed by a pruner.
    Strand,
    /// Nothing survives a crash in order: the upper bound of speed.
    None,
}

impl Design {
    /// All of them.
    pub const ALL: [Design; 5] =
        [Design::Coupled, Design::Decoupled, Design::Atlas, Design::Strand, Design::None];

    /// Whether a pruner has to call [`crate::Pool::prune`] from time to time.
    #[must_use]
    pub fn is_pruned(self) -> bool {
        matches!(self, Design::Decoupled | Design::Atlas | Design::Strand)
    }
}

impl Display for Design {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Design::Coupled => "coupled",
            Design::Decoupled => "decoupled",
            Design::Atlas => "atlas",
            Design::Strand => "strand",
            Design::None => "none",
        })
    }
}

/// A design's name that there is not.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no design {0:?}: there are coupled, decoupled, atlas, strand and none")]
pub struct UnknownDesign(String);

impl FromStr for Design {
    type Err = UnknownDesign;

    fn from_str(name: &str) -> Result<Self, UnknownDesign> {
        let known = Design::ALL.into_iter().find(|design| design.to_string() == name);
        known.ok_or_else(|| UnknownDesign(name.to_owned()))
    }
}

/// How much of the logging is done, each with all before it: for the breakdown of its cost. A pool that ran
/// with less than [`Steps::Commit`] can't be recovered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Steps {
    /// Entries are written.
    Log,
    /// Entries are flushed and fenced before the store.
    Flush,
    /// Data is flushed at commit.
    Data,
    /// Heads are moved: all of it.
    #[default]
    Commit,
}

/// A fault for a broken twin: what the sources' designs or careless variants of them get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// The store does not wait for its entry.
    EntryNotFenced,
    /// The head moves without waiting for the data (hazard 8 of the specification).
    NoFenceBeforeCommit,
    /// Recovery undoes one log after the other (hazard 4).
    UndoneByLog,
    /// Recovery undoes from the oldest entry on.
    UndoneForward,
    /// An acquire reads the counter before the operation (hazards 1 and 2).
    CountedBefore,
    /// A freed block is given out at once (hazard 6).
    ReusedEarly,
    /// The pruner ignores what an acquire waits for.
    NotClosed,
    /// The heads of several logs move one by one.
    HeadsOneByOne,
    /// Recovery moves the heads before its writes are durable (hazard 5).
    HeadsBeforeUndo,
    /// The parts of a critical section between inner unlocks are committed apart.
    SectionsApart,
    /// A racing operation in the pool is logged outside its bucket's latch (hazard 2).
    RacingLogged,
    /// Recovery trusts heads that a killed process stored and the caches still hold.
    RecoveredEarly,
}

/// What a pool is created and opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The design of this run; a pool may be opened with another one than last time.
    pub design: Design,
    /// What of the logging is done.
    pub steps: Steps,
    /// For a new pool: the address at which it wants to be mapped, 0 for any. A pool keeps it.
    pub base: u64,
    /// For a new pool: bytes of the root block, zeros, which is there as soon as the pool is; 0 for none.
    pub root: u64,
    /// Name of the layout: what the application that made the pool calls its structures, at most 64 bytes. An
    /// opening with another one fails; an empty one opens any.
    pub layout: String,
    /// Whether an opening fails if what survived is not closed under happens-before. A program with a race in
    /// the pool can bring that about.
    pub strict: bool,
    /// Ends of SFRs that one pruning looks at in each log. Few make each pruning short and commits
    /// many; ATLAS takes all.
    pub at_once: usize,
    /// Whether ATLAS takes its order from locks alone, and a section goes on where it waits for a condition:
    /// as it was published, and unsound for programs that pass data on in other ways. Ours orders atomics and
    /// ends sections at waits.
    pub locks_only: bool,
    /// The fault of a broken twin.
    #[doc(hidden)]
    pub flaw: Option<Flaw>,
}

impl Options {
    /// The defaults for a design.
    #[must_use]
    pub fn new(design: Design) -> Self {
        Options {
            design,
            steps: Steps::Commit,
            base: 0,
            root: 0,
            layout: String::new(),
            strict: false,
            at_once: 1 << 16,
            locks_only: false,
            flaw: None,
        }
    }
}
