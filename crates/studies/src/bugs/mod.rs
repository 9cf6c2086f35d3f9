//! Published crash-consistency bugs, re-created as small structures, each with its correct twin.
//!
//! They are what the crash checker is held against: it has to find each bug without being told where, and to say nothing of the
//! twins. Like all structures of ours they are generic over [`Env`], so that they run on real memory, recorded, and
//! in the checker. `examples/c/bugs` has their like in C and C++.
//!
//! # How one is written
//! A file per structure. A variant is a value of an enumeration, asked where bug and twin differ and nowhere else. A
//! run makes the structure on an empty space and works on it; each operation is a region, and once that has ended, its
//! effect must survive. The check recovers what a crash left and tells what is wrong. It reads through an
//! [`Arena`], which turns pointers that lead nowhere, and circles, into findings.
//!
//! The twins rest on the contract of [`Space`] alone: words persist in no order but that of flushes and fences, not even
//! in one line.

mod arena;
mod cceh;
mod chain;
mod fair;
mod level;
mod list;
mod log;
mod map;
mod masstree;
mod redo;
mod shadow;
mod undo;

use space::{Env, Space};

use arena::Arena;

/// A structure in one variant.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// The structure's name.
    pub structure: &'static str,
    /// The variant's name: `fixed`, or what is wrong.
    pub variant: &'static str,
    /// Where the bug was published, and what it is.
    pub origin: &'static str,
    program: Program,
}

/// The structures; each has an enumeration of its variants, the correct one first.
#[derive(Clone, Copy, Debug)]
enum Program {
    Cceh(cceh::Variant),
    Chain(chain::Variant),
    Fair(fair::Variant),
    Level(level::Variant),
    List(list::Variant),
    Log(log::Variant),
    Masstree(masstree::Variant),
    Redo(redo::Variant),
    Shadow(shadow::Variant),
    Undo(undo::Variant),
}

/// What a structure can do.
trait Structure: Copy {
    /// Makes the structure on an empty space and works on it. The error is a mistake of the program itself.
    fn run<E: Env>(self, env: &E) -> Result<(), String>;

    /// Recovers a structure that was ready, of whose operations so many had ended.
    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String>;
}

/// Does the same with each structure.
macro_rules! each {
    ($program:expr, $variant:ident => $call:expr) => {
        match $program {
            Program::Cceh($variant) => $call,
            Program::Chain($variant) => $call,
            Program::Fair($variant) => $call,
            Program::Level($variant) => $call,
            Program::List($variant) => $call,
            Program::Log($variant) => $call,
            Program::Masstree($variant) => $call,
            Program::Redo($variant) => $call,
            Program::Shadow($variant) => $call,
            Program::Undo($variant) => $call,
        }
    };
}

impl Bug {
    /// Bytes of space that a run needs.
    pub const BYTES: u64 = 16 << 10;

    /// Whether this is a correct twin.
    #[must_use]
    pub fn is_correct(&self) -> bool {
        self.variant == "fixed"
    }

    /// The correct twin.
    #[must_use]
    pub fn twin(&self) -> Option<&'static Bug> {
        bugs().iter().find(|bug| bug.structure == self.structure && bug.is_correct())
    }

    /// Makes the structure on a space of [`Bug::BYTES`] zeros and works on it.
    ///
    /// # Errors
    /// If the program finds what it did not store: a mistake in the program, or somebody changed the space.
    pub fn run<E: Env>(&self, env: &E) -> Result<(), String> {
        each!(self.program, variant => variant.run(env))
    }

    /// Recovers what a crash left of a run and says what is wrong. `done` is the number of regions that had ended.
    ///
    /// # Errors
    /// What a crash must not have done, in one line.
    pub fn recover_and_check<S: Space>(&self, space: &S, done: u64) -> Result<(), String> {
        match Arena::open(space) {
            Some(arena) => each!(self.program, variant => variant.check(&arena, done)),
            None if done > 0 => Err(format!("{done} operations ended in a structure that is not there")),
            None => Ok(()),
        }
    }
}

/// A line of the registry.
const fn bug(structure: &'static str, variant: &'static str, origin: &'static str, program: Program) -> Bug {
    Bug { structure, variant, origin, program }
}

/// All of them, a structure's correct twin before its bugs.
#[must_use]
pub fn bugs() -> &'static [Bug] {
    const BUGS: &[Bug] = &[
        bug("level", "fixed", "correct", Program::Level(level::Variant::Fixed)),
        bug(
            "level",
            "token-first",
            "Level hashing W7-W16: the token is set before key and value are durable",
            Program::Level(level::Variant::TokenFirst),
        ),
        bug(
            "level",
            "update-loses",
            "Level hashing W22, W23: an update clears the old token and sets the new one by two stores",
            Program::Level(level::Variant::UpdateLoses),
        ),
        bug(
            "level",
            "move-twice",
            "Level hashing W19-W21: an entry that moves is there twice between two token writes",
            Program::Level(level::Variant::MoveTwice),
        ),
        bug("cceh", "fixed", "correct", Program::Cceh(cceh::Variant::Fixed)),
        bug(
            "cceh",
            "depth-first",
            "CCEH W24 (i): the old segment's depth is durable before the directory is doubled",
            Program::Cceh(cceh::Variant::DepthFirst),
        ),
        bug(
            "cceh",
            "pattern-first",
            "CCEH W24 (ii): the old segment's pattern changes before the directory leads to the new one",
            Program::Cceh(cceh::Variant::PatternFirst),
        ),
        bug("fair", "fixed", "correct", Program::Fair(fair::Variant::Fixed)),
        bug(
            "fair",
            "root-split",
            "FAST&FAIR W5: a root that was split and not yet replaced stays a chain of two nodes",
            Program::Fair(fair::Variant::RootSplit),
        ),
        bug(
            "fair",
            "sibling-unflushed",
            "P-Masstree, P-BwTree in kind (Agamotto): a node is linked that was not flushed",
            Program::Fair(fair::Variant::SiblingUnflushed),
        ),
        bug("masstree", "fixed", "correct", Program::Masstree(masstree::Variant::Fixed)),
        bug(
            "masstree",
            "cut-first",
            "P-Masstree W39: a split cuts the old leaf off before the new one can be reached",
            Program::Masstree(masstree::Variant::CutFirst),
        ),
        bug(
            "masstree",
            "no-fence",
            "the permutation is stored behind a flush of the entry without a fence",
            Program::Masstree(masstree::Variant::NoFence),
        ),
        bug("undo", "fixed", "correct", Program::Undo(undo::Variant::Fixed)),
        bug(
            "undo",
            "not-added",
            "PMTest's and XFDetector's patches of PMDK's maps: a range changes that was not added (W40)",
            Program::Undo(undo::Variant::NotAdded),
        ),
        bug(
            "undo",
            "added-after",
            "XFDetector ctree race1: a range is added after it was written",
            Program::Undo(undo::Variant::AddedAfter),
        ),
        bug(
            "undo",
            "entry-unfenced",
            "the log's count covers an entry that is not durable",
            Program::Undo(undo::Variant::EntryUnfenced),
        ),
        bug(
            "undo",
            "emptied-early",
            "PMTest, incomplete transaction: the log is emptied before the changes are durable",
            Program::Undo(undo::Variant::EmptiedEarly),
        ),
        bug("redo", "fixed", "correct", Program::Redo(redo::Variant::Fixed)),
        bug(
            "redo",
            "mark-early",
            "PMDK pull request 4947 in kind: the commit mark may be durable before the log",
            Program::Redo(redo::Variant::MarkEarly),
        ),
        bug(
            "redo",
            "cleared-early",
            "the log is cleared before what it applied is durable",
            Program::Redo(redo::Variant::ClearedEarly),
        ),
        bug("list", "fixed", "correct", Program::List(list::Variant::Fixed)),
        bug(
            "list",
            "one-fence",
            "acquire-release persistency, its counter-example: the tail survives without the link to it",
            Program::List(list::Variant::OneFence),
        ),
        bug(
            "list",
            "outside",
            "the link is made durable after the lock was given up",
            Program::List(list::Variant::Outside),
        ),
        bug("chain", "fixed", "correct", Program::Chain(chain::Variant::Fixed)),
        bug(
            "chain",
            "visible",
            "APEX, SEPH issue 3: another thread builds on what is visible and not yet durable",
            Program::Chain(chain::Variant::Visible),
        ),
        bug("shadow", "fixed", "correct", Program::Shadow(shadow::Variant::Fixed)),
        bug(
            "shadow",
            "meta-early",
            "P-CLHT W31-W33 in kind: the switch to a copy that is not durable",
            Program::Shadow(shadow::Variant::MetaEarly),
        ),
        bug(
            "shadow",
            "in-place",
            "Level hashing W18: what describes the structure is replaced word by word",
            Program::Shadow(shadow::Variant::InPlace),
        ),
        bug("log", "fixed", "correct", Program::Log(log::Variant::Fixed)),
        bug(
            "log",
            "no-fence",
            "WineFS issue 1: no fence between a non-temporal copy and the tail behind it",
            Program::Log(log::Variant::NoFence),
        ),
        bug(
            "log",
            "reused-early",
            "NOVA's log cleaning in kind: room is given out again before the head has durably left it",
            Program::Log(log::Variant::ReusedEarly),
        ),
    ];
    BUGS
}
