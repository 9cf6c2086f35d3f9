//! A finding in sentences: what was missing, what had survived, why, and what recovery saw.

use event::{SiteId, SiteTable};

use crate::files::{LENGTHS, NAMES};
use crate::{Finding, Missing, Place, Reason, Witness};

impl Finding {
    /// The story: a line per [`Finding::missing`], or one that says that nothing is; a line for the witness, if there is one; what
    /// recovery said.
    #[must_use]
    pub fn story(&self, files: &[String], table: &SiteTable) -> Vec<String> {
        let teller = Teller { files, table, of_files: self.token.platform.is_files() };
        let mut lines: Vec<String> = self.missing.iter().map(|missing| teller.missing(missing)).collect();
        if self.missing.is_empty() {
            lines.push("nothing was missing: the crash came after all that the run stored".to_owned());
        }
        lines.extend(self.witness.map(|witness| teller.witness(witness)));
        lines.push(format!("recovery: {}", self.message));
        lines
    }
}

struct Teller<'a> {
    files: &'a [String],
    table: &'a SiteTable,
    of_files: bool,
}

impl Teller<'_> {
    fn missing(&self, missing: &Missing) -> String {
        let Missing { site, thread, place, bytes, reason } = *missing;
        let (code, why) = (self.table.chain(site), self.why(reason));
        match self.of_files {
            true => {
                let what = self.part_of_file(place);
                format!("{what} by {code} ({bytes} B, thread {}) was not durable: {why}", thread.0)
            }
            false => format!(
                "the store at {code} ({bytes} B at {}, thread {}) was not durable: {why}",
                self.place(place),
                thread.0
            ),
        }
    }

    fn witness(&self, witness: Witness) -> String {
        match witness {
            Witness::Store { site, place, thread } if self.of_files => {
                let what = self.part_of_file(place);
                format!("when {what} by {} (thread {}) was", self.table.chain(site), thread.0)
            }
            Witness::Store { site, place, thread } => format!(
                "when the store at {} (at {}, thread {}) was",
                self.table.chain(site),
                self.place(place),
                thread.0
            ),
            Witness::Ended { region } => format!("when region {region} had ended"),
            Witness::Begun { region } => format!("when region {region} had begun"),
        }
    }

    fn why(&self, reason: Reason) -> String {
        let label = |site: SiteId| self.table.label(site);
        match reason {
            Reason::NotMade => "the crash came before it".to_owned(),
            Reason::FlushedLater(sync) if self.of_files => {
                format!("it is synced only later, at {}", label(sync))
            }
            _ if self.of_files => "no sync covers it".to_owned(),
            Reason::NeverFlushed => "nothing flushes its line".to_owned(),
            Reason::NotFenced(None) => "it went past the cache, and no fence followed".to_owned(),
            Reason::NotFenced(Some(flush)) => {
                format!("it was flushed at {}, but no fence followed", label(flush))
            }
            Reason::FencedLater { flush: None, fence } => {
                format!("it went past the cache, and the fence comes only later, at {}", label(fence))
            }
            Reason::FencedLater { flush: Some(flush), fence } => {
                format!(
                    "it was flushed at {}, but the fence comes only later, at {}",
                    label(flush),
                    label(fence)
                )
            }
            Reason::FlushedLater(flush) => format!("it is flushed only later, at {}", label(flush)),
            Reason::FlushedApart(flush) => {
                format!(
                    "only another thread flushes its line, at {}, and nothing orders that behind the store",
                    label(flush)
                )
            }
            Reason::Unordered => "nothing orders it before what follows".to_owned(),
        }
    }

    fn title(&self, file: u64) -> &str {
        let path =
            usize::try_from(file).ok().and_then(|file| self.files.get(file)).map_or("?", String::as_str);
        path.rsplit('/').next().unwrap_or(path)
    }

    fn place(&self, place: Place) -> String {
        format!("{}+{:#x}", self.title(u64::from(place.file())), place.offset())
    }

    /// What of a file system a place stands for.
    fn part_of_file(&self, place: Place) -> String {
        match place.file() {
            NAMES => "the change of a name".to_owned(),
            LENGTHS => format!("the new length of {}", self.title(place.offset() / 8)),
            file => format!("what was written to {} at {}", self.title(u64::from(file)), place.offset()),
        }
    }
}
