//! A finding in sentences: what was missing, why, and what had survived.

use event::SiteId;

use crate::files::is_contents;
use crate::{Finding, History, Missing, Operation, Part, Place, Reason, Witness};

impl Finding {
    /// The story: a line per [`Finding::missing`], or one that says that nothing is; and a line for the
    /// witness, if there is one. What recovery said stands above it, as [`Finding::message`].
    #[must_use]
    pub fn story(&self, history: &History) -> Vec<String> {
        let teller = Teller { history };
        let witness = self.witness;
        let mut lines: Vec<String> =
            self.missing.iter().map(|missing| teller.missing(missing, witness)).collect();
        if self.missing.is_empty() {
            lines.push(match self.witness {
                Some(Witness::Ended { .. }) => {
                    "nothing that the run had stored by then holds it, nor does any later store".to_owned()
                }
                _ => "nothing was missing: the crash came after all that the run stored".to_owned(),
            });
        }
        lines.extend(self.witness.map(|witness| teller.witness(witness, &self.missing)));
        lines
    }
}

struct Teller<'a> {
    history: &'a History,
}

/// What a sentence is about, and its verb.
type Subject = (String, &'static str);

impl Teller<'_> {
    fn missing(&self, missing: &Missing, witness: Option<Witness>) -> String {
        let Missing { site, atom, place, bytes, count, part, thread, reason } = *missing;
        let code = self.chain(site);
        if reason == Reason::NotStored {
            let next = "nothing that the run had stored by then holds it; the next store to";
            let (file, at) = self.file_of(atom);
            let what = match self.history.operation(atom).0 {
                Operation::Bytes { .. } => format!("{bytes} B at {at} by {code}"),
                other => format!("{} by {code}", self.call(&other)),
            };
            return format!("{next} {file} is {what} (thread {})", thread.0);
        }
        let why = self.why(reason);
        let of_bytes = bytes > 0;
        if !self.history.platform().is_files() {
            let times = if count > 1 { format!(" in {count} stores") } else { String::new() };
            let place = self.place(place);
            return match part {
                Some(part) => format!(
                    "{} store at {code} (at {place}, thread {}) {} not durable: {why}",
                    bytes_of(part),
                    thread.0,
                    was(part)
                ),
                None => format!(
                    "the store at {code} ({bytes} B{times} at {place}, thread {}) was not durable: {why}",
                    thread.0
                ),
            };
        }
        let (what, verb) = match witness.and_then(|witness| self.split(atom, witness)) {
            Some(change) => self.piece(atom, place, (&change, &self.call(&change))),
            None => self.subject(atom, part, of_bytes),
        };
        let times = if count > 1 { format!(" in {count} calls") } else { String::new() };
        let size = match part {
            None if of_bytes => format!("{bytes} B{times}, "),
            None if count > 1 => format!("the first of {count} calls, "),
            _ => String::new(),
        };
        format!("{what} by {code} ({size}thread {}) {verb} not durable: {why}", thread.0)
    }

    fn witness(&self, witness: Witness, missing: &[Missing]) -> String {
        let (site, atom, place, part, thread) = match witness {
            Witness::Store { site, atom, place, part, thread } => (site, atom, place, part, thread),
            Witness::Ended { region } => {
                let table = &self.history.table;
                let quoted = |text: &[u8]| String::from_utf8_lossy(text).trim_end().to_owned();
                return match (event::printed(region, table), event::acked(region, table)) {
                    (Some(text), _) => format!("when `{}` had been printed", quoted(&text)),
                    (None, Some(text)) => format!("when `{}` had been acknowledged", quoted(&text)),
                    (None, None) => format!("when region {region} had ended"),
                };
            }
            Witness::Begun { region } => return format!("when region {region} had begun"),
        };
        let (_, atoms) = self.history.operation(atom);
        let files = self.history.platform().is_files();
        if let (Some(part), [Missing { atom: lost, part: Some(_), .. }]) = (part, missing)
            && atoms.contains(lost)
        {
            let whole = if files { "write" } else { "store" };
            return format!("when {} of the same {whole} {}", range(part), was(part));
        }
        if let Some(change) = missing.iter().find_map(|missing| self.split(missing.atom, witness)) {
            let same = format!("the same {}", kind_of(&change));
            let (what, verb) = self.piece(atom, place, (&change, &same));
            return format!("when {what} {verb}");
        }
        let code = self.chain(site);
        if files {
            let (what, verb) = self.subject(atom, part, self.history.is_of_contents(atom));
            return format!("when {what} by {code} (thread {}) {verb}", thread.0);
        }
        let (place, thread) = (self.place(place), thread.0);
        match part {
            Some(part) => {
                let (what, verb) = (bytes_of(part), was(part));
                format!("when {what} store at {code} (at {place}, thread {thread}) {verb}")
            }
            None => format!("when the store at {code} (at {place}, thread {thread}) was"),
        }
    }

    /// What an atom of files is a piece of. `of_bytes`: not only a length.
    fn subject(&self, atom: u32, part: Option<Part>, of_bytes: bool) -> Subject {
        let (operation, _) = self.history.operation(atom);
        match (&operation, part) {
            (Operation::Bytes { place, .. }, Some(part)) if of_bytes => {
                let (file, at) = (self.title(u64::from(place.file())), place.offset());
                (format!("{} written to {file} at {at}", bytes_of(part)), was(part))
            }
            (Operation::Bytes { place, .. }, None) if of_bytes => {
                let file = self.title(u64::from(place.file()));
                (format!("what was written to {file} at {}", place.offset()), "was")
            }
            (Operation::Bytes { place, .. }, _) => {
                let file = self.title(u64::from(place.file()));
                (format!("the new length of {file}, {} B,", self.history.atoms[atom as usize].value), "was")
            }
            (other, _) => (self.call(other), "was"),
        }
    }

    /// The change of a length or of names of which this atom was lost while another piece of it, the witness,
    /// survived.
    fn split(&self, lost: u32, witness: Witness) -> Option<Operation> {
        let Witness::Store { atom, .. } = witness else { return None };
        let (operation, atoms) = self.history.operation(lost);
        (!matches!(operation, Operation::Bytes { .. }) && atoms.contains(&atom)).then_some(operation)
    }

    /// A piece of a change: a length, or bytes that were zeroed or moved with it; one of two names.
    fn piece(&self, atom: u32, place: Place, (operation, change): (&Operation, &str)) -> Subject {
        let value = self.history.atoms[atom as usize].value;
        if is_contents(place) {
            let what = if value == 0 { "zeros" } else { "bytes" };
            return (format!("{what} that {change} leaves at {}", place.offset()), "were");
        }
        let what = match operation {
            Operation::Length { .. } => return (format!("the length that {change} sets"), "was"),
            _ if value == 0 => "the removal of the old name",
            _ if kind_of(operation) == "exchange" => "one of the names",
            _ => "the new name",
        };
        (format!("{what} in {change}"), "was")
    }

    /// A call that changed a length or names.
    fn call(&self, operation: &Operation) -> String {
        match operation {
            Operation::Length { file, from, to } => {
                let what = kind_of(operation);
                format!("the {what} of {} from {from} to {to} B", self.title(u64::from(*file)))
            }
            Operation::Names(text) => text.clone(),
            Operation::Bytes { .. } => "the write".to_owned(),
        }
    }

    /// The file that an atom is about, and where in it its operation begins.
    fn file_of(&self, atom: u32) -> (String, u64) {
        let place = match self.history.operation(atom).0 {
            Operation::Bytes { place, .. } => place,
            Operation::Length { file, .. } => Place::new(file, 0),
            Operation::Names(_) => return ("a folder".to_owned(), 0),
        };
        (self.title(u64::from(place.file())).to_owned(), place.offset())
    }

    fn why(&self, reason: Reason) -> String {
        let chain = |site: SiteId| self.chain(site);
        match reason {
            Reason::NotMade | Reason::NotStored => "the crash came before it".to_owned(),
            Reason::SyncedLater(sync, file) => {
                format!("{} is synced only later, at {}", self.title(u64::from(file)), chain(sync))
            }
            Reason::FlushedLater(sync) if self.history.platform().is_files() => {
                format!("it is synced only later, at {}", chain(sync))
            }
            _ if self.history.platform().is_files() => "no sync covers it".to_owned(),
            Reason::NeverFlushed => "nothing flushes its line".to_owned(),
            Reason::PointerFlushed(flush) => {
                format!("{} flushes a pointer to it in its place", chain(flush))
            }
            Reason::NotFenced(None) => "it was stored non-temporally, and no fence followed".to_owned(),
            Reason::NotFenced(Some(flush)) => {
                format!("it was flushed at {}, but no fence followed", chain(flush))
            }
            Reason::FencedLater { flush: None, fence } => {
                format!("it was stored non-temporally, and the fence comes only later, at {}", chain(fence))
            }
            Reason::FencedLater { flush: Some(flush), fence } => {
                format!(
                    "it was flushed at {}, but the fence comes only later, at {}",
                    chain(flush),
                    chain(fence)
                )
            }
            Reason::FlushedLater(flush) => format!("it is flushed only later, at {}", chain(flush)),
            Reason::FlushedApart(flush) => {
                format!(
                    "only another thread flushes its line, at {}, and nothing orders that behind the store",
                    chain(flush)
                )
            }
            Reason::Unordered => "nothing orders it before what follows".to_owned(),
        }
    }

    fn chain(&self, site: SiteId) -> String {
        self.history.table().chain(site)
    }

    fn title(&self, file: u64) -> &str {
        let path = usize::try_from(file).ok().and_then(|file| self.history.files().get(file));
        let path = path.map_or("?", String::as_str);
        path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
    }

    fn place(&self, place: Place) -> String {
        format!("{}+{:#x}", self.title(u64::from(place.file())), place.offset())
    }
}

/// What a change of a file's length or of names is called.
fn kind_of(change: &Operation) -> &str {
    match change {
        Operation::Length { from, to, .. } if to < from => "truncation",
        Operation::Length { .. } => "extension",
        Operation::Names(text) => text.split(' ').nth(1).unwrap_or("call"),
        Operation::Bytes { .. } => "write",
    }
}

/// `bytes 512 to 1999 of the 2000 B`.
fn bytes_of(part: Part) -> String {
    format!("{} of the {} B", range(part), part.of)
}

fn range(part: Part) -> String {
    let Part { from, to, bytes, .. } = part;
    match bytes {
        1 => format!("byte {from}"),
        _ if bytes == to - from => format!("bytes {from} to {}", to - 1),
        _ => format!("{bytes} of bytes {from} to {}", to - 1),
    }
}

fn was(part: Part) -> &'static str {
    if part.bytes == 1 { "was" } else { "were" }
}

impl History {
    /// What an atom is a piece of, in words, if that is a change of a file's length or of names: `the rename
    /// of `a` to `b``.
    #[must_use]
    pub fn change(&self, atom: u32) -> Option<String> {
        match self.operation(atom).0 {
            Operation::Bytes { .. } => None,
            other => Some(Teller { history: self }.call(&other)),
        }
    }
}
