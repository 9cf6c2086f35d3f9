//! What is wrong or needless about persistence, from events alone.
//!
//! The checker needs the values of stores and someone who judges images. The lints need neither: they follow each line of persistent
//! memory from its store to its flush to the fence. What they find is a suspicion with a place; whether a crash at
//! that place does harm only the checker can tell.
//!
//! | lint | when |
//! |---|---|
//! | never flushed | a store through the cache whose line nobody flushed from then to the end of the run |
//! | not fenced | a flush or non-temporal store behind which its thread fenced neither before its region ended nor before the run did |
//! | redundant flush | a flush of a line without unflushed stores: never stored to, or flushed by the same thread since |
//! | redundant fence | an `sfence` whose thread has flushed and stored past the cache nothing since its fence before |
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
//! # The guidelines
//! `advise` has rules for flushes of clean lines and idle fences, too. Those are about time: they hold against the modelled
//! machine, work in bounded memory on every run, and speak up from a share of the traffic on. The lints are about crashes: they follow every line,
//! so their memory grows with the lines stored to, and report each place once it happens a single time.

mod lines;
mod watch;

use event::{Frame, Site, SiteId, SiteTable};

use crate::Place;

pub use watch::Lints;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A store whose line is never flushed.
    NeverFlushed,
    /// A store that was flushed, or went past the cache, and was not fenced.
    NotFenced,
    /// An address of memory that does not survive, in memory that does.
    VolatilePointer,
    /// A store outside of any region, in a run that has regions.
    OutsideRegion,
    /// A flush of a line that holds nothing unflushed.
    RedundantFlush,
    /// A fence with nothing to order.
    RedundantFence,
}

impl Kind {
    /// All of them, the dangerous ones first.
    pub const ALL: [Kind; 6] = [
        Kind::NeverFlushed,
        Kind::NotFenced,
        Kind::VolatilePointer,
        Kind::OutsideRegion,
        Kind::RedundantFlush,
        Kind::RedundantFence,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::NeverFlushed => "never-flushed",
            Kind::NotFenced => "not-fenced",
            Kind::VolatilePointer => "volatile-pointer",
            Kind::OutsideRegion => "outside-region",
            Kind::RedundantFlush => "redundant-flush",
            Kind::RedundantFence => "redundant-fence",
        }
    }

    /// Whether a crash may lose data or leave what means nothing. The rest loses time, or may be meant: programs whose regions are
    /// operations move data between them, too.
    #[must_use]
    pub fn is_danger(self) -> bool {
        matches!(self, Kind::NeverFlushed | Kind::NotFenced | Kind::VolatilePointer)
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Kind::NeverFlushed => "flush the line after the store, and fence before anything relies on it",
            Kind::NotFenced => {
                "fence (`sfence`) behind the flush or non-temporal store, before anything relies on it"
            }
            Kind::VolatilePointer => {
                "store an offset into the persistent file instead of an address, or keep the pointer in memory that does not survive"
            }
            Kind::OutsideRegion => "move the store into a region, or mark the region that it belongs to",
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
    /// Where the first of them was; fences have no place.
    pub example: Option<Place>,
    /// The flush behind which a fence is missing.
    pub flush: Option<SiteId>,
}

impl Lint {
    /// What is wrong, in one line.
    #[must_use]
    pub fn tell(&self, files: &[String], table: &SiteTable) -> String {
        let Lint { count, bytes, .. } = self;
        let library = table.site(self.site).and_then(Site::frame).is_some_and(Frame::is_library);
        let site = if library { table.chain(self.site) } else { table.label(self.site) };
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let place = self.example.map_or_else(String::new, |place| {
            let name = files.get(usize::from(place.file())).map_or("?", String::as_str);
            let name = name.rsplit('/').next().unwrap_or(name);
            format!(" ({bytes} B, first at {name}+{:#x})", place.offset())
        });
        match (self.kind, self.flush) {
            (Kind::NeverFlushed, _) => format!("what {site} stores{place} is never flushed, {times}"),
            (Kind::NotFenced, Some(flush)) => {
                format!(
                    "what {site} stores{place} is flushed at {}, but not fenced, {times}",
                    table.label(flush)
                )
            }
            (Kind::NotFenced, None) => {
                format!("what {site} stores past the cache{place} is not fenced, {times}")
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
