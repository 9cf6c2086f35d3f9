//! The list of all bugs, with where each was published.

use super::{Bug, Program, cceh, chain, fair, level, list, log, masstree, redo, shadow, undo};

/// A line of the registry.
const fn bug(structure: &'static str, variant: &'static str, origin: &'static str, program: Program) -> Bug {
    Bug { structure, variant, origin, program }
}

pub(super) const BUGS: &[Bug] = &[
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
