//! What is wrong, as values; `story.rs` puts it into words.

use event::{SiteId, ThreadId};

use crate::{Ending, Part, Place, Token};

/// Why a missing store need not have survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing ever flushes its line behind it.
    NeverFlushed,
    /// Nothing flushes its line: the flush that was meant for it is here, and flushes a pointer to it. See
    /// [`crate::lint::explain`].
    PointerFlushed(SiteId),
    /// It was flushed here (`None`: a non-temporal store), and nothing ever fences behind that.
    NotFenced(Option<SiteId>),
    /// It was flushed or stored non-temporally, but the fence behind that came only after the crash.
    FencedLater {
        /// The flush; `None` for a non-temporal store.
        flush: Option<SiteId>,
        /// The fence; in a run that checks files, the sync.
        fence: SiteId,
    },
    /// It is flushed (a file: synced), but only here, and the crash came before.
    FlushedLater(SiteId),
    /// It is a file's, and is synced only here: the code, and the number of the file or folder; the crash
    /// came before.
    SyncedLater(SiteId, u16),
    /// Only another thread flushes its line, here, and nothing orders that behind the store.
    FlushedApart(SiteId),
    /// Nothing orders it before what survived.
    Unordered,
    /// It had not been made: nothing else was missing, and the crash came right before it.
    NotMade,
    /// The program relied on it, and had not made it: nothing that it had stored by then holds what recovery
    /// misses, and with this store recovery misses it no more.
    NotStored,
}

/// Stores of one piece of code that the image lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The code.
    pub site: SiteId,
    /// Who stored.
    pub thread: ThreadId,
    /// The first of them, as an index into [`crate::History::atoms`].
    pub atom: u32,
    /// The first byte of the first of them.
    pub place: Place,
    /// Bytes missing; 0 if these are names or lengths.
    pub bytes: u64,
    /// Stores, or calls, that they are of.
    pub count: u64,
    /// Which bytes of a store or call are missing, if there is one and others are not.
    pub part: Option<Part>,
    /// Why it may be missing.
    pub reason: Reason,
}

/// What the program had done when the image became wrong: without it, the same stores may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// This store survived.
    Store {
        /// The code.
        site: SiteId,
        /// A piece of it, as an index into [`crate::History::atoms`].
        atom: u32,
        /// The first byte that survived.
        place: Place,
        /// Which bytes of the store or call survived, if others did not.
        part: Option<Part>,
        /// Who stored.
        thread: ThreadId,
    },
    /// The region had ended: the program relied on its stores.
    Ended {
        /// Its number.
        region: u64,
    },
    /// The region had begun.
    Begun {
        /// Its number.
        region: u64,
    },
}

/// A legal crash image that recovery does not bring into order, shrunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Repeats it.
    pub token: Token,
    /// What the oracle said.
    pub message: String,
    /// In which way it called the image wrong.
    pub ending: Ending,
    /// The fewest stores that the same failure needs to be missing. If it needs none, the thread's next store; empty at the end of the run.
    pub missing: Vec<Missing>,
    /// What had survived or happened.
    pub witness: Option<Witness>,
    /// The fence that would have come next.
    pub next: Option<SiteId>,
    /// Images that failed in this way, at least.
    pub images: u64,
    /// The item behind which the crash may have fallen first.
    pub(crate) crash: usize,
}

impl Finding {
    /// Whether both are about the same code and the same failure: a helper that stores for several callers may be at fault for each.
    #[must_use]
    pub fn is_same(&self, other: &Finding) -> bool {
        self.ending == other.ending && self.is_of_same_code(other) && self.has_message_like(&other.message)
    }

    /// Whether the same code lost stores in both, when the same code's had survived.
    #[must_use]
    pub fn is_of_same_code(&self, other: &Finding) -> bool {
        let sites = |finding: &Finding| {
            let mut sites: Vec<SiteId> = finding.missing.iter().map(|missing| missing.site).collect();
            sites.sort_unstable();
            sites.dedup();
            let witness = match finding.witness {
                Some(Witness::Store { site, .. }) => Some(site),
                _ => None,
            };
            (sites, witness)
        };
        sites(self) == sites(other)
    }

    /// Whether the message differs from ours in numbers at most.
    pub(crate) fn has_message_like(&self, message: &str) -> bool {
        is_like(&self.message, message)
    }
}

/// Whether two messages differ in numbers at most, addresses among them.
pub(crate) fn is_like(a: &str, b: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|letter: char| !letter.is_alphanumeric())
            .filter(|piece| !is_hexadecimal(piece))
            .flat_map(|piece| piece.split(|letter: char| !letter.is_alphabetic()))
            .filter(|word| word.len() > 1)
    }
    fn is_hexadecimal(piece: &str) -> bool {
        let digits = piece.strip_prefix("0x").unwrap_or(piece);
        digits.contains(|letter: char| letter.is_ascii_digit())
            && digits.chars().all(|letter| letter.is_ascii_hexdigit())
            || digits.len() < piece.len()
    }
    words(a).eq(words(b))
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn messages_that_differ_in_numbers_and_addresses_are_alike() {
        assert!(is_like("item 12 is torn at 0x7fa5bc00", "item 7 is torn at 0x7ffde010"));
        assert!(is_like("torn: 7fa5bc00 by pid 218", "torn: 00dead01 by pid 3"));
        assert!(is_like("item12 lost", "item7 lost"));
        assert!(!is_like("the index is torn", "the log is torn"));
        assert!(!is_like("a dead node", "a live node"));
    }
}
