//! The run as a crash sees it: atoms, barriers, marks, and the order between them.

mod clocks;
mod left;
mod numbers;
mod operation;
mod ranges;
mod recorder;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::files::Bulks;
use event::{NameId, SiteId, SiteTable, ThreadId};

use crate::{Contents, Place, Platform};

pub(crate) use clocks::Clocks;
pub use left::{Difference, Left};
pub(crate) use numbers::Numbers;
pub use operation::{Operation, Part};
pub(crate) use ranges::Ranges;
pub use recorder::Recorder;
pub(crate) use recorder::object;

/// A piece of a store that a crash keeps or loses whole: bytes of one aligned 8-byte word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atom {
    /// The word.
    pub place: Place,
    /// The stored bytes, where they stand in the word.
    pub value: u64,
    /// Which bytes of the word were stored: bit 0 for the lowest.
    pub mask: u8,
    /// By a non-temporal store.
    pub non_temporal: bool,
    /// Survives only together with the other atoms of its store that are in its cell.
    pub(crate) whole: bool,
    /// The code.
    pub site: SiteId,
    /// Who stored.
    pub thread: ThreadId,
    /// Number of the store in the history: atoms of one store have the same.
    pub store: u32,
    /// Which cell it belongs to.
    pub(crate) cell: u64,
    pub(crate) stamp: Stamp,
}

/// Where something stands in the partial order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The thread, or the strand of a thread.
    pub agent: u32,
    /// From 1, per agent.
    pub time: u32,
    /// What the agent knew of the others: index into [`History::segments`].
    pub segment: u32,
}

/// Something behind which a store can survive only if the barrier's atoms did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Barrier {
    /// The code: a fence, a `clflush`, a persist barrier; under eADR the store itself.
    pub site: SiteId,
    /// Whose.
    pub thread: ThreadId,
    /// Atoms demanded, the last one of each cell: those before it in the cell are demanded with it.
    pub(crate) demands: Box<[u32]>,
    /// Whether it demands what no barrier before it in the stream did.
    pub(crate) fresh: bool,
    pub(crate) stamp: Stamp,
}

/// What a [`Mark`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// A failure-atomic region of this number begins.
    Begin(u64),
    /// It ended; from here on the program relies on it.
    End(u64),
    /// A phase of the program begins.
    Phase(NameId),
}

/// Something that the program said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// What.
    pub kind: MarkKind,
    /// Who.
    pub thread: ThreadId,
    pub(crate) stamp: Stamp,
}

/// A line was flushed. It orders nothing by itself; findings mention it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flushed {
    pub line: Place,
    pub thread: ThreadId,
    pub site: SiteId,
    /// The last store to the line that it certainly comes behind, and so all before it.
    pub seen: Option<u32>,
    pub stamp: Stamp,
}

/// One step of the run; the number is that of the atom, barrier, … in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Atom(u32),
    Barrier(u32),
    Mark(u32),
    Flush(u32),
    /// A write that no image lacks.
    Bulk(u32),
}

/// What a crash needs to know of a run: made by a [`Recorder`], read by a [`crate::Checker`].
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(crate) platform: Platform,
    pub(crate) files: Vec<String>,
    /// Ends of the files, as far as they were mapped.
    pub(crate) lengths: Vec<u64>,
    /// How much of files that were cut before the first store to them was left.
    pub(crate) kept: HashMap<String, u64>,
    pub(crate) items: Vec<Item>,
    pub(crate) atoms: Vec<Atom>,
    pub(crate) barriers: Vec<Barrier>,
    pub(crate) marks: Vec<Mark>,
    pub(crate) flushes: Vec<Flushed>,
    /// Per segment: the last time of each agent that its owner knows of.
    pub(crate) segments: Vec<Vec<u32>>,
    pub(crate) agents: u32,
    /// Of files: what each call did, with its first atom.
    pub(crate) calls: Vec<(u32, Operation)>,
    /// Of files, by number of barrier: what was synced, if it is one file or folder.
    pub(crate) synced: Vec<Option<u16>>,
    /// Of files: the paths of names.
    pub(crate) entries: Vec<String>,
    /// Where locks and their like begin that the C library keeps in the files.
    pub(crate) objects: BTreeSet<Place>,
    /// Of files: writes that no image lacks.
    pub(crate) bulks: Arc<Bulks>,
    /// Crash points that were not built.
    pub(crate) left_out: u64,
    /// Steps that choosing the others visited.
    pub(crate) visited: u64,
    pub(crate) table: SiteTable,
}

impl History {
    /// The platform whose rules made the barriers.
    #[must_use]
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// The persistent files, by their number in [`Place::file`].
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// Crash points of a long run that the history leaves out, so that it has room.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// How many steps of the run were visited to choose crash points, each visit counted.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.visited
    }

    /// Bytes of the file that were mapped: its highest mapped offset.
    #[must_use]
    pub fn file_len(&self, file: usize) -> u64 {
        self.lengths.get(file).copied().unwrap_or(0)
    }

    /// Truncates the files in `contents` as the run did before it first stored to them.
    pub fn truncate(&self, contents: &mut Contents) {
        for (name, &len) in &self.kept {
            contents.truncate(name, len);
        }
    }

    /// All atoms, in the order of the stream.
    #[must_use]
    pub fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// All barriers, in the order of the stream.
    #[must_use]
    pub fn barriers(&self) -> &[Barrier] {
        &self.barriers
    }

    /// All marks, in the order of the stream.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Code sites and names.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// Whether `before` is known to come before `after` in every order that the run's synchronisation allows.
    pub(crate) fn precedes(&self, before: Stamp, after: Stamp) -> bool {
        if before.agent == after.agent {
            return before.time < after.time;
        }
        let known = &self.segments[after.segment as usize];
        known.get(before.agent as usize).is_some_and(|&time| time >= before.time)
    }

    pub(crate) fn stamp(&self, item: Item) -> Stamp {
        match item {
            Item::Atom(at) => self.atoms[at as usize].stamp,
            Item::Barrier(at) => self.barriers[at as usize].stamp,
            Item::Mark(at) => self.marks[at as usize].stamp,
            Item::Flush(at) => self.flushes[at as usize].stamp,
            // Nothing asks: no cut reaches over it, and it is no atom.
            Item::Bulk(_) => Stamp { agent: 0, time: 0, segment: 0 },
        }
    }
}
