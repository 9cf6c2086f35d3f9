//! What is wrong, told so that a person can mend it.

use event::{SiteId, SiteTable, ThreadId};

use crate::files::{LENGTHS, NAMES};
use crate::{Place, Token};

/// Why a missing store need not have survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing ever flushes its line behind it.
    NeverFlushed,
    /// It was flushed here (unknown site: stored past the cache), but no fence of that thread came before the crash.
    NotFenced(SiteId),
    /// It is flushed, but only here, and the crash came before.
    FlushedLater(SiteId),
    /// Nothing orders it before what survived.
    Unordered,
    /// It had not been made: nothing else was missing, and the crash came right before it.
    NotMade,
}

/// Stores of one piece of code that the image lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The code.
    pub site: SiteId,
    /// Who stored.
    pub thread: ThreadId,
    /// The first byte of the first of them.
    pub place: Place,
    /// Bytes missing.
    pub bytes: u64,
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
        /// The word.
        place: Place,
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
        sites(self) == sites(other) && self.has_message_like(&other.message)
    }

    /// Whether the message differs from ours in numbers at most.
    pub(crate) fn has_message_like(&self, message: &str) -> bool {
        is_like(&self.message, message)
    }

    /// The story: what was missing, what had survived, why, and what recovery saw.
    #[must_use]
    pub fn story(&self, files: &[String], table: &SiteTable) -> Vec<String> {
        if self.token.platform.is_files() {
            return self.story_of_files(files, table);
        }
        let label = |site| table.label(site);
        let file = |place: Place| {
            let name = files.get(usize::from(place.file())).map_or("?", String::as_str);
            format!("{}+{:#x}", name.rsplit('/').next().unwrap_or(name), place.offset())
        };
        let mut lines = Vec::new();
        for missing in &self.missing {
            lines.push(format!(
                "the store at {} ({} B at {}, thread {}) was not durable: {}",
                label(missing.site),
                missing.bytes,
                file(missing.place),
                missing.thread.0,
                match missing.reason {
                    Reason::NeverFlushed => "nothing flushes its line".to_owned(),
                    Reason::NotFenced(SiteId::UNKNOWN) =>
                        "it went past the cache, and no fence followed".to_owned(),
                    Reason::NotFenced(flush) =>
                        format!("it was flushed at {}, but no fence followed", label(flush)),
                    Reason::FlushedLater(flush) => format!("it is flushed only later, at {}", label(flush)),
                    Reason::NotMade => "the crash came before it".to_owned(),
                    Reason::Unordered => "nothing orders it before what follows".to_owned(),
                },
            ));
        }
        if self.missing.is_empty() {
            lines.push("no store was missing".to_owned());
        }
        match self.witness {
            Some(Witness::Store { site, place, thread }) => lines.push(format!(
                "when the store at {} (at {}, thread {}) was",
                label(site),
                file(place),
                thread.0
            )),
            Some(Witness::Ended { region }) => lines.push(format!("when region {region} had ended")),
            Some(Witness::Begun { region }) => lines.push(format!("when region {region} had begun")),
            None => {}
        }
        lines.push(format!("recovery: {}", self.message));
        lines
    }
}

impl Finding {
    fn story_of_files(&self, files: &[String], table: &SiteTable) -> Vec<String> {
        let label = |site| table.label(site);
        let title = |file: u64| {
            let path = files.get(file as usize).map_or("?", String::as_str);
            path.rsplit('/').next().unwrap_or(path)
        };
        let what = |place: Place| match place.file() {
            NAMES => "the change of a name".to_owned(),
            LENGTHS => format!("the new length of {}", title(place.offset() / 8)),
            file => format!("what was written to {} at {}", title(u64::from(file)), place.offset()),
        };
        let mut lines = Vec::new();
        for missing in &self.missing {
            lines.push(format!(
                "{} by {} ({} B, thread {}) was not durable: {}",
                what(missing.place),
                label(missing.site),
                missing.bytes,
                missing.thread.0,
                match missing.reason {
                    Reason::FlushedLater(sync) => format!("it is synced only later, at {}", label(sync)),
                    Reason::NotMade => "the crash came before it".to_owned(),
                    _ => "no sync covers it".to_owned(),
                },
            ));
        }
        if self.missing.is_empty() {
            lines.push("nothing was missing".to_owned());
        }
        match self.witness {
            Some(Witness::Store { site, place, thread }) => {
                lines.push(format!("when {} by {} (thread {}) was", what(place), label(site), thread.0));
            }
            Some(Witness::Ended { region }) => lines.push(format!("when region {region} had ended")),
            Some(Witness::Begun { region }) => lines.push(format!("when region {region} had begun")),
            None => {}
        }
        lines.push(format!("recovery: {}", self.message));
        lines
    }
}

/// Whether two messages differ in numbers at most.
pub(crate) fn is_like(a: &str, b: &str) -> bool {
    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|letter: char| !letter.is_alphabetic()).filter(|word| word.len() > 1 && *word != "0x")
    }
    words(a).eq(words(b))
}
