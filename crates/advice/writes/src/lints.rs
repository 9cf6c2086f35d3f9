//! The sink that holds calls against what a crash may keep.

use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};

use event::{
    Batch, Capabilities, Definition, Note, Op, Sink, SinkError, SiteId, SiteTable, Source, ThreadId,
};

use crate::entries::{Entries, Named};
use crate::files::{Files, folder, text};
use crate::kind::{Finding, Kind};
use crate::lengths::Window;
use crate::ranges::Ranges;

/// Bytes of the smallest unit that a device writes whole.
const SECTOR: u64 = 512;
/// Bytes of a write that switches from one version to another, at most.
const SWITCH: u64 = 4096;

/// What is known of a file.
#[derive(Clone, Debug, Default)]
struct File {
    is_folder: bool,
    len: u64,
    /// Bytes that are not synced, and who wrote last.
    dirty: Ranges,
    writer: Option<SiteId>,
    /// Length at the last sync, or before the run.
    durable: u64,
    /// When it was synced last, counted in events; who did it.
    synced: u64,
    syncer: Option<SiteId>,
    /// Whether it was synced in this run.
    ever_synced: bool,
    window: Window,
    /// What was durable and is written over; since when, and by whom.
    over: Ranges,
    over_since: u64,
    over_by: Option<SiteId>,
    /// Whether it was emptied while it held something durable.
    emptied: Option<(SiteId, u64)>,
    /// What was written before the last sync, elsewhere than what is written over now.
    before: Ranges,
    /// A version that was written over, unless a switch follows.
    suspect: Option<(Finding, Ranges)>,
    /// What a sync that failed had not made durable: bytes, its call, its error.
    lost: Option<(Ranges, SiteId, String)>,
    /// The last write with `O_DIRECT` that is not synced, and its bytes.
    direct: Option<(SiteId, u64)>,
}

/// A sink that finds what [`Kind`] lists.
#[derive(Debug, Default)]
pub struct Lints {
    table: SiteTable,
    names: Files,
    files: BTreeMap<usize, File>,
    entries: Entries,
    found: BTreeMap<(Kind, SiteId), Finding>,
    /// Events so far.
    now: u64,
    /// The last syncs that made bytes durable, of two different files: when, which.
    syncs: [(u64, usize); 2],
    any_sync: bool,
    first_change: Option<(SiteId, String)>,
    /// Writes that go past the page cache, by thread: which file comes next.
    direct: HashMap<ThreadId, String>,
}

impl Lints {
    /// A fresh sink. `before` are the ordinary files that were there before the run, with their lengths.
    #[must_use]
    pub fn new(before: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut lints = Lints { now: 1, ..Lints::default() };
        for (path, len) in before {
            let number = lints.names.create(&path);
            lints.files.insert(number, File { len, durable: len, ..File::default() });
        }
        lints
    }

    /// Code sites and names.
    #[must_use]
    pub fn table(&self) -> &SiteTable {
        &self.table
    }

    /// What was found, as if the run ended now: by kind, then by how often.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = self.found.clone();
        let mut add = |finding: Finding| note(&mut found, finding);
        for (path, named) in self.entries.left().filter(|(_, named)| named.wanted) {
            add(folder_not_synced(path, named));
        }
        for (&number, file) in &self.files {
            if let Some((suspect, _)) = &file.suspect {
                add(suspect.clone());
            }
            if let (Some(emptied), false) = (file.emptied, self.any_sync) {
                add(self.overwritten(number, emptied.0, emptied.1, 0, file.syncer));
            }
            if let Some((site, bytes)) = file.direct {
                add(Finding { bytes, ..self.finding(Kind::DirectNotSynced, site, number) });
            }
        }
        if let (Some((site, path)), false) = (&self.first_change, self.any_sync) {
            add(Finding { path: path.clone(), ..self.finding(Kind::NeverSynced, *site, usize::MAX) });
        }
        // Other addresses may be the same code to a reader.
        let mut named: BTreeMap<(Kind, String), Finding> = BTreeMap::new();
        for finding in found.into_values() {
            match named.entry((finding.kind, self.table.chain(finding.site))) {
                Entry::Occupied(mut same) => same.get_mut().count += finding.count,
                Entry::Vacant(free) => drop(free.insert(finding)),
            }
        }
        let mut found: Vec<Finding> = named.into_values().collect();
        found.sort_by_key(|finding| (finding.kind, std::cmp::Reverse(finding.count), finding.site));
        found
    }

    fn finding(&self, kind: Kind, site: SiteId, file: usize) -> Finding {
        let path = self.names.path(file).to_owned();
        Finding { kind, site, other: None, path, detail: String::new(), offset: 0, bytes: 0, count: 1 }
    }

    fn overwritten(&self, file: usize, site: SiteId, bytes: u64, offset: u64, by: Option<SiteId>) -> Finding {
        Finding { bytes, offset, other: by, ..self.finding(Kind::OverwrittenInPlace, site, file) }
    }

    fn note(&mut self, finding: Finding) {
        note(&mut self.found, finding);
    }

    fn file(&mut self, path: &str) -> usize {
        let number = self.names.at(path);
        self.files.entry(number).or_default();
        number
    }

    fn state(&mut self, number: usize) -> &mut File {
        self.files.entry(number).or_default()
    }

    fn changed(&mut self, site: SiteId, path: &str) {
        self.first_change.get_or_insert_with(|| (site, path.to_owned()));
    }

    fn event(&mut self, thread: ThreadId, site: SiteId, op: Op, bytes: &[u8]) {
        self.now += 1;
        let text = |name| text(&self.table, name);
        match op {
            Op::FileWrite { file, offset, .. } => {
                let path = text(file);
                self.write(thread, site, &path, offset, bytes);
            }
            Op::FileTruncate { file, len } => {
                let path = text(file);
                self.truncate(site, &path, len);
            }
            Op::FileSync { file, .. } => {
                let path = text(file);
                self.sync(thread, site, &path, None);
            }
            Op::FileRangeSync { file, offset, len, .. } => {
                let path = text(file);
                self.sync(thread, site, &path, Some((offset, offset + u64::from(len))));
            }
            Op::FilesSync { .. } => {
                let numbers: Vec<usize> = self.files.keys().copied().collect();
                for number in numbers {
                    self.contents_synced(thread, site, number, None);
                }
                self.any_sync = true;
                let durable = self.entries.folder_synced(None);
                self.names_durable(durable);
            }
            Op::Phase { name } => {
                if let Some(note) = Note::of(name, &self.table) {
                    self.noted(thread, site, note);
                }
            }
            Op::RegionEnd { region } => self.said(thread, site, region),
            op => self.renames(thread, site, op),
        }
    }

    /// An operation on names.
    fn renames(&mut self, thread: ThreadId, site: SiteId, op: Op) {
        let text = |name| text(&self.table, name);
        match op {
            Op::FileCreate { file, folder } => {
                let path = text(file);
                let number = self.names.create(&path);
                self.files.insert(number, File { is_folder: folder, ..File::default() });
                self.named(thread, site, &path, number, false);
            }
            Op::Unlink { file } => {
                let path = text(file);
                self.entries.remove(&path);
                if let Some(number) = self.names.unlink(&path)
                    && let Some(file) = self.files.get_mut(&number)
                {
                    // Nobody counts on it any more.
                    (file.lost, file.direct, file.suspect, file.emptied) = (None, None, None, None);
                }
            }
            Op::Rename { from, to } => {
                let (from, to) = (text(from), text(to));
                self.rename(thread, site, &from, &to);
            }
            Op::Exchange { from, to } => {
                let (from, to) = (text(from), text(to));
                for (path, new) in [(&from, &to), (&to, &from)] {
                    let number = self.file(path);
                    self.before_contents(site, number, new);
                }
                self.names.exchange(&from, &to);
            }
            Op::Link { from, to } => {
                let (from, to) = (text(from), text(to));
                let number = self.names.link(&from, &to);
                self.before_contents(site, number, &to);
                let wanted = self.state(number).ever_synced;
                self.named(thread, site, &to, number, wanted);
            }
            _ => {}
        }
    }

    fn named(&mut self, thread: ThreadId, site: SiteId, path: &str, file: usize, wanted: bool) {
        self.changed(site, path);
        self.entries.give(path, Named { site, thread, file, wanted, acknowledged: false });
    }

    fn write(&mut self, thread: ThreadId, site: SiteId, path: &str, offset: u64, bytes: &[u8]) {
        self.changed(site, path);
        let number = self.file(path);
        let direct = self.direct.remove(&thread).is_some_and(|direct| direct == path);
        let now = self.now;
        let file = self.state(number);
        let len = bytes.len() as u64;
        let end = offset + len;
        file.dirty.insert(offset, end);
        file.writer = Some(site);
        file.len = file.len.max(end);
        if offset < file.durable {
            if file.over.is_empty() {
                (file.over_since, file.over_by) = (now, Some(site));
            }
            file.over.insert(offset, end.min(file.durable));
        }
        file.window.write(offset, bytes, site);
        if let Some((lost, ..)) = &mut file.lost {
            lost.remove(offset, end);
        }
        if direct {
            file.direct = Some((site, len));
        }
    }

    fn truncate(&mut self, site: SiteId, path: &str, len: u64) {
        self.changed(site, path);
        let number = self.file(path);
        let (now, held) = (self.now, self.state(number).durable);
        if len == 0 && held > 0 {
            self.dropped(site, number);
        }
        let file = self.state(number);
        file.dirty.remove(len, u64::MAX);
        if len > file.len {
            file.dirty.insert(file.len, len);
            file.writer = Some(site);
        }
        file.len = len;
        if len == 0 {
            if held > 0 {
                file.emptied = Some((site, held));
                file.over_since = now;
            }
            (file.over, file.lost, file.direct, file.suspect) = Default::default();
            file.window = Window::default();
        }
        file.durable = file.durable.min(len);
    }

    /// A file is emptied: what was written since its last sync is to replace it.
    fn dropped(&mut self, site: SiteId, number: usize) {
        let since = self.files.get(&number).map_or(0, |file| file.synced);
        let other = self.files.iter().find(|&(&other, file)| {
            other != number && !file.is_folder && file.writer.is_some() && !file.dirty.is_empty() && since > 0
        });
        let Some((&other, file)) = other else { return };
        let finding = Finding {
            detail: self.names.path(other).to_owned(),
            bytes: file.dirty.bytes(),
            other: file.writer,
            ..self.finding(Kind::DroppedEarly, site, number)
        };
        self.note(finding);
    }

    fn rename(&mut self, thread: ThreadId, site: SiteId, from: &str, to: &str) {
        let number = self.file(from);
        let early = self.before_contents(site, number, to);
        self.entries.remove(from);
        self.entries.remove(to);
        let (_, replaced) = self.names.rename(from, to);
        if let Some(file) =
            replaced.filter(|&replaced| replaced != number).and_then(|old| self.files.get_mut(&old))
        {
            (file.lost, file.direct, file.suspect, file.emptied) = (None, None, None, None);
        }
        // What is found already is not found twice.
        let wanted = !early && self.state(number).ever_synced;
        self.named(thread, site, to, number, wanted);
    }

    /// A name is given to a file that may not be synced; whether that is so.
    fn before_contents(&mut self, site: SiteId, number: usize, to: &str) -> bool {
        let Some(file) = self.files.get(&number).filter(|file| !file.is_folder) else { return false };
        let bytes = file.dirty.bytes();
        let finding = match (&file.lost, file.direct) {
            (Some((lost, failed, error)), _) if !lost.is_empty() => {
                let finding = self.finding(Kind::FailedSyncIgnored, site, number);
                Finding { other: Some(*failed), detail: error.clone(), ..finding }
            }
            (_, Some((writer, bytes))) => {
                Finding { bytes, other: Some(site), ..self.finding(Kind::DirectNotSynced, writer, number) }
            }
            _ if bytes > 0 => {
                let finding = self.finding(Kind::RenameBeforeContents, site, number);
                Finding { bytes, other: file.writer, detail: to.to_owned(), ..finding }
            }
            _ => return false,
        };
        self.note(finding);
        if let Some(file) = self.files.get_mut(&number) {
            file.direct = None;
        }
        true
    }

    fn sync(&mut self, thread: ThreadId, site: SiteId, path: &str, range: Option<(u64, u64)>) {
        self.any_sync = true;
        let number = self.file(path);
        if self.state(number).is_folder || self.names.is_folder(path) {
            self.entries.synced(number, path);
            let durable = self.entries.folder_synced(Some(path));
            self.names_durable(durable);
            return;
        }
        self.contents_synced(thread, site, number, range);
        self.entries.synced(number, path);
    }

    /// Names are durable now; of those that the program counted on before, something is to be said.
    fn names_durable(&mut self, durable: Vec<(String, Named)>) {
        for (path, named) in durable.iter().filter(|(_, named)| named.wanted && named.acknowledged) {
            self.note(folder_not_synced(path, named));
        }
    }

    fn contents_synced(&mut self, _: ThreadId, site: SiteId, number: usize, range: Option<(u64, u64)>) {
        let now = self.now;
        let latest = self.syncs;
        let Some(file) = self.files.get_mut(&number).filter(|file| !file.is_folder) else { return };
        let mut found = Vec::new();
        if let Some((lost, failed, error)) = &file.lost {
            if !lost.is_empty() {
                found.push((Kind::FailedSyncIgnored, site, Some(*failed), error.clone(), 0, lost.bytes()));
            }
            file.lost = None;
        }
        let dirty = synced(&mut file.dirty, range);
        file.direct = None;
        file.ever_synced = true;
        if dirty.is_empty() {
            return;
        }
        if let Some(length) = file.window.sync() {
            let (site, at, bytes) = (length.site, length.offset, length.bytes);
            found.push((Kind::LengthBeforeContents, site, length.covered, String::new(), at, bytes));
        }
        // What another file, or another part of this one, made durable before may bring the old or the new back.
        let elsewhere = latest
            .iter()
            .any(|&(when, other)| other != number && when > file.synced && when < file.over_since);
        let own = !file.before.is_empty() && !overlap(&file.before, &file.over);
        // A short write may have said that what stands here does not count any more.
        let given_up = !file.before.is_empty() && file.before.bytes() <= SECTOR;
        let suspect = file.suspect.take();
        let switch = |over: &Ranges| dirty.bytes() <= SWITCH && !overlap(&dirty, over);
        let mut kept: Option<Finding> = None;
        if let Some((suspect, over)) = suspect
            && !switch(&over)
        {
            kept = Some(suspect);
        }
        let over = file.over.take();
        let emptied = file.emptied.take();
        let next = if let (Some((site, held)), false) = (emptied, elsewhere) {
            Some((site, held, 0, Ranges::default()))
        } else if over.blocks(SECTOR) > 1 && !elsewhere && !own && !given_up && emptied.is_none() {
            let from = over.iter().next().map_or(0, |(from, _)| from);
            file.over_by.map(|site| (site, over.bytes(), from, over))
        } else {
            None
        };
        let syncer = file.syncer;
        file.before = dirty;
        (file.synced, file.syncer, file.durable) = (now, Some(site), file.len);
        if self.syncs[0].1 != number {
            self.syncs[1] = self.syncs[0];
        }
        self.syncs[0] = (now, number);
        for (kind, site, other, detail, offset, bytes) in found {
            let finding = Finding { other, detail, offset, bytes, ..self.finding(kind, site, number) };
            self.note(finding);
        }
        if let Some(kept) = kept {
            self.note(kept);
        }
        if let Some((site, bytes, offset, over)) = next {
            let finding = self.overwritten(number, site, bytes, offset, syncer);
            // A rewritten file has no other part that could switch to it.
            match over.is_empty() {
                true => self.note(finding),
                false => self.state(number).suspect = Some((finding, over)),
            }
        }
    }

    fn noted(&mut self, thread: ThreadId, site: SiteId, note: Note) {
        match note {
            Note::Direct { path } => drop(self.direct.insert(thread, path)),
            Note::Unaligned { path, what } => {
                let number = self.file(&path);
                let finding = self.finding(Kind::DirectUnaligned, site, number);
                self.note(Finding { detail: what, ..finding });
            }
            Note::SyncFailed { path, error } => {
                self.any_sync = true;
                let number = self.file(&path);
                let file = self.state(number);
                let lost = file.dirty.take();
                if !lost.is_empty() {
                    file.lost = Some((lost, site, error));
                }
            }
        }
    }

    /// A thread has printed or acknowledged something.
    fn said(&mut self, thread: ThreadId, site: SiteId, region: u64) {
        const FAILURES: [&str; 8] = ["err", "fail", "can't", "cannot", "could not", "unable", "eio", "i/o"];
        let said = event::printed(region, &self.table).or_else(|| event::acked(region, &self.table));
        let Some(said) = said else { return };
        let said = String::from_utf8_lossy(&said).to_lowercase();
        self.entries.said(thread);
        if FAILURES.iter().any(|word| said.contains(word)) {
            return;
        }
        let lost = self.files.iter().filter_map(|(&number, file)| {
            let (lost, failed, error) = file.lost.as_ref()?;
            (!lost.is_empty()).then(|| (number, *failed, error.clone()))
        });
        let lost: Vec<_> = lost.collect();
        for (number, failed, error) in lost {
            let finding = self.finding(Kind::FailedSyncIgnored, site, number);
            self.note(Finding { other: Some(failed), detail: error, ..finding });
        }
    }
}

/// What a sync of all, or of a range, takes of what is dirty.
fn synced(dirty: &mut Ranges, range: Option<(u64, u64)>) -> Ranges {
    let Some((from, to)) = range else { return dirty.take() };
    let mut taken = dirty.clone();
    taken.remove(0, from);
    taken.remove(to, u64::MAX);
    dirty.remove(from, to);
    taken
}

fn folder_not_synced(path: &str, named: &Named) -> Finding {
    Finding {
        kind: Kind::FolderNotSynced,
        site: named.site,
        other: None,
        path: path.to_owned(),
        detail: folder(path).to_owned(),
        offset: 0,
        bytes: 0,
        count: 1,
    }
}

fn overlap(one: &Ranges, other: &Ranges) -> bool {
    let mut rest = one.clone();
    let before = rest.bytes();
    other.iter().for_each(|(from, to)| rest.remove(from, to));
    rest.bytes() != before
}

fn note(found: &mut BTreeMap<(Kind, SiteId), Finding>, finding: Finding) {
    match found.get_mut(&(finding.kind, finding.site)) {
        Some(same) => {
            same.count += finding.count;
            same.bytes = same.bytes.max(finding.bytes);
        }
        None => drop(found.insert((finding.kind, finding.site), finding)),
    }
}

impl Sink for Lints {
    fn name(&self) -> &'static str {
        "the lints of files"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::FILES | Capabilities::VALUES
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        let missing = self.needs() - source.capabilities;
        match missing.is_empty() {
            true => Ok(()),
            false => {
                Err(SinkError::Lacks { consumer: self.name(), producer: source.producer.clone(), missing })
            }
        }
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.table.define_site(id, site.clone()),
            Definition::Name(id, name) => self.table.define_name(id, name.to_owned()),
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut values = batch.values;
        for event in batch.events {
            let len = event.op.value_len().unwrap_or(0) as usize;
            let (own, rest) = values
                .split_at_checked(len)
                .ok_or_else(|| SinkError::Other("a batch has fewer bytes than its writes say".into()))?;
            values = rest;
            self.event(batch.thread, event.site, event.op, own);
        }
        Ok(())
    }
}
