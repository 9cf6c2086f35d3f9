//! What is wrong or needless about persistence, from events alone.
//!
//! The checker needs the values of stores and someone who judges images. The lints need neither: they follow each line of persistent
//! memory from its store to its flush to the fence. A lint is a suspicion with a code site; only the checker
//! shows whether a crash there does harm.
//!
//! | lint | when |
//! |---|---|
//! | never flushed | a store through the cache whose line nobody flushed from then to the end of the run |
//! | not fenced | a flush or non-temporal store behind which its thread fenced neither before its region ended nor before the run did |
//! | redundant flush | a flush of a line without unflushed stores: never stored to, or flushed by the same thread since |
//! | redundant fence | an `sfence` whose thread has flushed and made no non-temporal store since its fence before |
//! | flushed pointer | a flush of memory that is not persistent, where a word holds an address in persistent memory: the flush names that word, or what stands at that address is unflushed (needs values) |
//! | volatile flush | any other flush of memory that is not persistent |
//! | volatile pointer | an 8-byte store of an address of live allocated memory that is not persistent (needs values) |
//! | outside a region | a store while its thread is in no region, after the first region of the run began |
//!
//! The rules are those of x86 with ADR; `msync` and `fsync` count as flushes with a fence.
//!
//! # In doubt for the program
//! A line that another thread flushed last may be flushed again: who relies on another's store can't know of the other's fence.
//! Locked instructions are never called needless, nor a fence behind one, nor `mfence`, which orders loads as well. Phases
//! promise nothing about durability, so only the ends of regions ask for a fence. Pointers to the stack are not found, because nothing says where
//! stacks are.
//!
//! What the source did not see is not known: a line that only unobserved code stored to looks as if nobody did.
//!
//! # One cause
//! `pm_persist(&node, sizeof *node)` flushes a local variable, and nothing of the node: each store to the
//! node is never flushed. These stores are named by the lint of the flush and by no lint of their own, and
//! what is found in crash images because of them is one finding ([`explain`]).
//!
//! # The guidelines
//! `advise` has rules for flushes of clean lines and idle fences, too. Those are about time: they hold against the modelled
//! machine, work in bounded memory on every run, and speak up from a share of the traffic on. The lints are about crashes: they follow every line,
//! so their memory grows with the lines stored to, and report each place once it happens a single time.

mod explain;
mod lines;
mod volatile;
mod watch;

use std::collections::BTreeSet;

use event::{SiteId, SiteTable};

use crate::Place;

pub use explain::explain;
pub use watch::Lints;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A flush of a pointer into persistent memory, in place of what it points to.
    FlushedPointer,
    /// A store whose line is never flushed.
    NeverFlushed,
    /// A store that was flushed, or was non-temporal, and was not fenced.
    NotFenced,
    /// An address of memory that does not survive, in memory that does.
    VolatilePointer,
    /// A store outside of any region, in a run that has regions.
    OutsideRegion,
    /// A flush of memory that does not survive.
    VolatileFlush,
    /// A flush of a line that holds nothing unflushed.
    RedundantFlush,
    /// A fence with nothing to order.
    RedundantFence,
}

impl Kind {
    /// All of them, the dangerous ones first.
    pub const ALL: [Kind; 8] = [
        Kind::FlushedPointer,
        Kind::NeverFlushed,
        Kind::NotFenced,
        Kind::VolatilePointer,
        Kind::OutsideRegion,
        Kind::VolatileFlush,
        Kind::RedundantFlush,
        Kind::RedundantFence,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::FlushedPointer => "flushed-pointer",
            Kind::NeverFlushed => "never-flushed",
            Kind::NotFenced => "not-fenced",
            Kind::VolatilePointer => "volatile-pointer",
            Kind::OutsideRegion => "outside-region",
            Kind::VolatileFlush => "volatile-flush",
            Kind::RedundantFlush => "redundant-flush",
            Kind::RedundantFence => "redundant-fence",
        }
    }

    /// Whether a crash may lose data or leave what means nothing. The rest loses time, or may be meant: programs whose regions are
    /// operations move data between them, too.
    #[must_use]
    pub fn is_danger(self) -> bool {
        matches!(self, Kind::FlushedPointer | Kind::NeverFlushed | Kind::NotFenced | Kind::VolatilePointer)
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::FlushedPointer => {
                "flush what the pointer points to: give the flush the pointer's value, not its address"
            }
            Kind::NeverFlushed => "flush the line after the store, and fence before anything relies on it",
            Kind::NotFenced => {
                "fence (`sfence`) behind the flush or non-temporal store, before anything relies on it"
            }
            Kind::VolatilePointer => {
                "store an offset into the persistent file instead of an address, or keep the pointer in memory that does not survive"
            }
            Kind::OutsideRegion => "move the store into a region, or mark the region that it belongs to",
            Kind::VolatileFlush => {
                "drop the flush: it makes nothing durable; or look whether it was meant for another address"
            }
            Kind::RedundantFlush => "drop the flush, or flush only lines that were stored to since",
            Kind::RedundantFence => "drop the fence, or move it behind the flush that it was meant for",
        }
    }
}

/// A place in the code with one thing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// What.
    pub kind: Kind,
    /// The store, flush or fence.
    pub site: SiteId,
    /// How often.
    pub count: u64,
    /// Bytes stored or flushed; 0 for fences.
    pub bytes: u64,
    /// Where the first of them was, of a flushed pointer where it points to; fences have no place.
    pub example: Option<Place>,
    /// The flush behind which a fence is missing.
    pub flush: Option<SiteId>,
    /// The stores that the flush of a pointer was meant for and that are never flushed: code, and first byte
    /// by line.
    pub missed: Vec<(SiteId, Place)>,
}

/// Code that a description names.
const NAMED: usize = 3;

impl Lint {
    /// The code of [`Lint::missed`], each once.
    pub fn missed_code(&self) -> impl Iterator<Item = SiteId> {
        let sites: BTreeSet<SiteId> = self.missed.iter().map(|&(site, _)| site).collect();
        sites.into_iter()
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn describe(&self, files: &[String], table: &SiteTable) -> String {
        let Lint { count, bytes, .. } = self;
        let site = table.chain(self.site);
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let place = self.example.map_or_else(String::new, |place| {
            let name = files.get(usize::from(place.file())).map_or("?", String::as_str);
            let name = name.rsplit('/').next().unwrap_or(name);
            format!(" ({bytes} B, first at {name}+{:#x})", place.offset())
        });
        match (self.kind, self.flush) {
            (Kind::FlushedPointer, _) => {
                let missed: Vec<String> = self.missed_code().map(|site| table.label(site)).collect();
                let missed = match missed.len() {
                    0 => String::new(),
                    _ => format!("; never flushed: what {} stores there", listed(&missed)),
                };
                format!("{site} flushes a pointer, not what it points to{place}, {times}{missed}")
            }
            (Kind::VolatileFlush, _) => format!("{site} flushes memory that does not survive, {times}"),
            (Kind::NeverFlushed, _) => format!("what {site} stores{place} is never flushed, {times}"),
            (Kind::NotFenced, Some(flush)) => {
                format!(
                    "what {site} stores{place} is flushed at {}, but not fenced, {times}",
                    table.chain(flush)
                )
            }
            (Kind::NotFenced, None) => {
                format!("what {site} stores non-temporally{place} is not fenced, {times}")
            }
            (Kind::VolatilePointer, _) => {
                format!("{site} stores the address of memory that does not survive{place}, {times}")
            }
            (Kind::OutsideRegion, _) => format!("{site} stores outside of any region{place}, {times}"),
            (Kind::RedundantFlush, _) => {
                format!("{site} flushes a line that holds nothing unflushed{place}, {times}")
            }
            (Kind::RedundantFence, _) => format!("{site} fences with nothing to order, {times}"),
        }
    }
}

/// `a`, `a and b`, `a, b, c and 2 others`.
fn listed(names: &[String]) -> String {
    let (named, others) = names.split_at(names.len().min(NAMED));
    match (named.split_last(), others.len()) {
        (Some((last, before)), 0) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        (_, 0) => named.join(", "),
        (_, others) => format!("{} and {others} more", named.join(", ")),
    }
}
