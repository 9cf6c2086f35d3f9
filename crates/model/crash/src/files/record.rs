//! From events to the steps of a run, and to its history.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use event::{
    Batch, Capabilities, Definition, Event, NameId, Op, Sink, SinkError, SiteId, SiteTable, ThreadId,
};

use super::build::Builder;
use super::bulk::Bytes;
use super::disk::{Disk, Entry, Tree, special, words};
use super::names::{Change, Kind, Names, Renamed, TooMany};
use super::steps::{About, Step, What};
use crate::history::{Ranges, object};
use crate::{Contents, History, MarkKind, Place, Platform};

/// See [`FilesRecorder::with_room`].
const ROOM: u64 = 16 << 20;
/// Steps after which somebody is asked whether building is to go on.
const ASKED: usize = 1024;

/// A sink that makes a [`FilesRun`] of a stream with [`Capabilities::FILES`] and values.
#[derive(Debug)]
pub struct FilesRecorder {
    platform: Platform,
    names: Names,
    paths: HashMap<NameId, String>,
    ranges: Ranges,
    /// Who stored to a word of a mapping last, and who of the others was the last to read it since (or else the writer).
    writers: HashMap<Place, (ThreadId, ThreadId)>,
    /// What files held before the run, by their number.
    before: HashMap<u16, Arc<Vec<u8>>>,
    steps: Vec<Step>,
    bytes: Bytes,
    /// So many bytes of writes are cut into atoms.
    room: u64,
    /// Where locks and their like begin that the C library keeps in mapped files.
    objects: BTreeSet<Place>,
    table: SiteTable,
}

/// A run as a crash of a file system sees it.
#[derive(Clone, Debug)]
pub struct FilesRun {
    /// For a [`crate::Checker`].
    pub history: History,
    /// What the words were when the run began; for the checker, too.
    pub contents: Contents,
    /// The disk when the run began, to which an oracle applies the changes of an image.
    pub disk: Disk,
}

impl FilesRecorder {
    /// A recorder for the rules of `platform`, which is one for files, of a run that found `before`.
    ///
    /// # Errors
    /// When the platform is one of memory, or there are more than some 65,000 files.
    pub fn new(platform: Platform, before: Tree) -> Result<Self, SinkError> {
        if !platform.is_files() {
            return Err(SinkError::Other(format!(
                "platform {platform} is one of memory; for files there are posix, ext4, ext4-writeback, xfs, \
                 btrfs and zfs"
            )));
        }
        let mut recorder = FilesRecorder {
            platform,
            names: Names::new(),
            paths: HashMap::new(),
            ranges: Ranges::default(),
            writers: HashMap::new(),
            before: HashMap::new(),
            steps: Vec::new(),
            bytes: Bytes::default(),
            room: ROOM,
            objects: BTreeSet::new(),
            table: SiteTable::default(),
        };
        recorder.found(before).map_err(too_many)?;
        Ok(recorder)
    }

    /// Of a run that writes more than so many bytes, crash points are chosen that need no more to be followed
    /// word by word.
    #[must_use]
    pub fn with_room(mut self, bytes: u64) -> Self {
        self.room = bytes;
        self
    }

    fn found(&mut self, before: Tree) -> Result<(), TooMany> {
        let mut again = Vec::new();
        for (path, entry) in before {
            match entry {
                Entry::Folder => drop(self.names.known(&path, Kind::Folder)?),
                Entry::File(bytes) => {
                    let file = self.names.known(&path, Kind::File)?;
                    self.before.insert(file, Arc::new(bytes));
                }
                Entry::Link(to) => self.names.known_link(&path, to)?,
                Entry::Again(of) => again.push((path, of)),
            }
        }
        again.into_iter().try_for_each(|(path, of)| self.names.known_again(&path, &of))
    }

    /// What was pushed so far.
    #[must_use]
    pub fn into_run(self) -> FilesRun {
        self.into_run_while(&|| true).expect("nobody stops it")
    }

    /// As [`FilesRecorder::into_run`]; none if `go_on` no longer wants it, which is asked again and again.
    #[must_use]
    pub fn into_run_while(self, go_on: &dyn Fn() -> bool) -> Option<FilesRun> {
        let FilesRecorder { platform, names, before, steps, bytes, room, objects, table, .. } = self;
        let mut contents = Contents::default();
        let [entries, lengths] = special(&names.titles);
        contents.insert(entries, words(names.entries.iter().map(|entry| entry.before)));
        let length = |file: usize| before.get(&(file as u16)).map_or(0, |bytes| bytes.len() as u64);
        contents.insert(lengths, words((0..names.titles.len()).map(length)));
        for (&file, bytes) in &before {
            contents.share(&names.titles[usize::from(file)], bytes.clone());
        }
        let mut builder = Builder::new(platform, &names, &before, &steps, bytes, room);
        for some in steps.chunks(ASKED) {
            if !go_on() {
                return None;
            }
            some.iter().for_each(|step| builder.step(step));
        }
        let history = History { objects, ..builder.into_history(names.titles.clone(), table) };
        let entries = names.entries.into_iter().map(|entry| (entry.folder, entry.name)).collect();
        let disk =
            Disk::new(entries, names.titles, names.targets, contents.clone(), Arc::clone(&history.bulks));
        Some(FilesRun { history, disk, contents })
    }

    fn path(&self, name: NameId) -> String {
        self.paths.get(&name).cloned().unwrap_or_else(|| format!("/file {}", name.0))
    }

    fn file(&mut self, name: NameId) -> Result<u16, TooMany> {
        let path = self.path(name);
        self.names.known(&path, Kind::File)
    }

    /// The step that a change of names is, if anything changed.
    fn named(found: Option<(u16, Option<Change>)>, about: About) -> Option<What> {
        let (file, change) = found?;
        Some(What::Names { changes: vec![change?], about, files: vec![file] })
    }

    fn renamed(found: Option<Renamed>, about: impl Fn(&Renamed) -> About) -> Option<What> {
        let found = found?;
        let about = about(&found);
        let files = std::iter::once(found.file).chain(found.other).collect();
        Some(What::Names { changes: found.changes.to_vec(), about, files })
    }

    /// What an operation does to names, if it is one on names and does anything.
    fn names(&mut self, op: Op) -> Result<Option<What>, TooMany> {
        let kind = |folder| if folder { Kind::Folder } else { Kind::File };
        Ok(match op {
            Op::FileCreate { file, folder } => {
                let path = self.path(file);
                Self::named(self.names.create(&path, kind(folder))?, About::Made)
            }
            Op::Symlink { file, target } => {
                let (path, to) = (self.path(file), self.path(target));
                Self::named(self.names.symlink(&path, to)?, About::Made)
            }
            Op::Link { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                Self::named(self.names.link(&from, &to)?, About::Name)
            }
            Op::Unlink { file } => {
                let path = self.path(file);
                let removed = self.names.remove(&path)?;
                Self::named(removed.map(|(file, change)| (file, Some(change))), About::Name)
            }
            Op::Rename { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                let replaces = |renamed: &Renamed| renamed.other.map_or(About::Name, |_| About::Replaces);
                Self::renamed(self.names.rename(&from, &to)?, replaces)
            }
            Op::Exchange { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                Self::renamed(self.names.exchange(&from, &to)?, |_| About::Name)
            }
            _ => None,
        })
    }

    /// `fsync` or `fdatasync` of a file or folder.
    fn sync(&mut self, file: NameId, data_only: bool) -> Result<Option<What>, TooMany> {
        let path = self.path(file);
        Ok(self.names.find(&path)?.map(|found| match found {
            (folder, Kind::Folder) => What::SyncFolder { folder },
            (file, _) => What::Sync { file, data_only },
        }))
    }

    /// What an event that has no bytes does, if it is of interest.
    fn what(&mut self, thread: ThreadId, op: Op) -> Result<Option<What>, TooMany> {
        Ok(Some(match op {
            Op::Map { addr, len, name } => {
                let file = self.file(name)?;
                self.ranges.map(thread, addr, len, Place::new(file, 0));
                return Ok(None);
            }
            Op::MapOffset { addr, offset } => {
                self.ranges.relocate(thread, addr, offset);
                return Ok(None);
            }
            Op::Unmap { addr, len } => {
                self.ranges.unmap(thread, addr, len);
                return Ok(None);
            }
            Op::Spawn { child, .. } => {
                self.ranges.spawn(thread, child);
                What::Synchronise(op)
            }
            Op::Process { process } => {
                self.ranges.enter(thread, process);
                return Ok(None);
            }
            Op::FileRangeSync { file, offset, len, data_only } => {
                What::SyncRange { file: self.file(file)?, from: offset, len: u64::from(len), data_only }
            }
            Op::FileTruncate { file, len } => What::Truncate { file: self.file(file)?, len },
            Op::FileSync { file, data_only } => return self.sync(file, data_only),
            Op::FileCollapse { file, offset, len } => {
                What::Shift { file: self.file(file)?, offset, len, insert: false }
            }
            Op::FileInsert { file, offset, len } => {
                What::Shift { file: self.file(file)?, offset, len, insert: true }
            }
            Op::FilesSync { .. } => What::SyncAll,
            Op::FileCreate { .. }
            | Op::Symlink { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::Rename { .. }
            | Op::Exchange { .. } => return self.names(op),
            Op::RegionBegin { region } => What::Mark(MarkKind::Begin(region)),
            Op::RegionEnd { region } => What::Mark(MarkKind::End(region)),
            Op::Phase { name } => What::Mark(MarkKind::Phase(name)),
            Op::ThreadStart { .. } => What::Synchronise(op),
            Op::Acquire { .. }
            | Op::Release { .. }
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::ThreadEnd { .. }
            | Op::Join { .. } => What::Synchronise(self.ranges.placed(thread, op)),
            // Caches and strands are nothing to a file system. The rest was carried out by the caller.
            Op::Load { .. }
            | Op::Store { .. }
            | Op::StoreNt { .. }
            | Op::Flush { .. }
            | Op::Demote { .. }
            | Op::Prefetch { .. }
            | Op::Context
            | Op::Fence(_)
            | Op::Strand(_)
            | Op::Alloc { .. }
            | Op::Free { .. }
            | Op::MapSync { .. }
            | Op::FileWrite { .. } => return Ok(None),
        }))
    }

    fn event(&mut self, thread: ThreadId, event: &Event, values: &mut &[u8]) -> Result<(), SinkError> {
        let site = event.site;
        match event.op {
            Op::MapSync { addr, len } => {
                for (place, len) in self.ranges.places(thread, addr, len) {
                    let (file, from) = (place.file(), place.offset());
                    let what = What::SyncRange { file, from, len, data_only: true };
                    self.steps.push(Step { thread, site, what });
                }
                return Ok(());
            }
            Op::Load { addr, len } => {
                self.load(thread, site, addr, len);
                return Ok(());
            }
            _ => {}
        }
        let Some(len) = event.op.value_len() else {
            let what = self.what(thread, event.op).map_err(too_many)?;
            self.steps.extend(what.map(|what| Step { thread, site, what }));
            return Ok(());
        };
        let (value, rest) = values.split_at_checked(len as usize).ok_or_else(|| {
            SinkError::Other("a batch has fewer bytes than its stores and writes say".into())
        })?;
        *values = rest;
        match event.op {
            Op::FileWrite { file, offset, .. } => {
                let file = self.file(file).map_err(too_many)?;
                let bytes = self.keep(value)?;
                self.steps.push(Step { thread, site, what: What::Write { file, offset, bytes } });
            }
            Op::Store { addr, .. } | Op::StoreNt { addr, .. } => {
                // What lies outside of all files is nobody's here.
                let mut value = value;
                for (place, len) in self.ranges.places(thread, addr, value.len() as u64) {
                    let (piece, rest) = value.split_at(len as usize);
                    value = rest;
                    for word in (place.word().0..place.0 + len).step_by(8) {
                        self.writers.insert(Place(word), (thread, thread));
                    }
                    let bytes = self.keep(piece)?;
                    let (file, offset) = (place.file(), place.offset());
                    self.steps.push(Step { thread, site, what: What::Store { file, offset, bytes } });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes what the thread reads that another one stored to a mapping: it comes behind that.
    fn load(&mut self, thread: ThreadId, site: SiteId, addr: u64, len: u32) {
        if self.writers.is_empty() {
            return;
        }
        let Some((place, mapped)) = self.ranges.place(thread, addr) else { return };
        for word in (place.word().0..place.0 + u64::from(len).min(mapped)).step_by(8) {
            if let Some((writer, reader)) = self.writers.get_mut(&Place(word))
                && *writer != thread
                && *reader != thread
            {
                *reader = thread;
                self.steps.push(Step { thread, site, what: What::Read { place: Place(word) } });
            }
        }
    }

    fn keep(&mut self, value: &[u8]) -> Result<std::ops::Range<usize>, SinkError> {
        let kept = self.bytes.keep(value);
        kept.map_err(|error| {
            SinkError::Other(format!("what the run wrote has no room in a temporary file: {error}"))
        })
    }
}

fn too_many(_: TooMany) -> SinkError {
    SinkError::Other("the checker follows at most some 65,000 files".into())
}

impl Sink for FilesRecorder {
    fn name(&self) -> &'static str {
        "the crash checker for files"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::FILES | Capabilities::STORES | Capabilities::SYNC | Capabilities::VALUES
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.table.define_site(id, site.clone()),
            Definition::Name(id, name) => {
                self.paths.insert(id, name.to_owned());
                self.table.define_name(id, name.to_owned());
            }
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut values = batch.values;
        for (at, event) in batch.events.iter().enumerate() {
            if let Some(object) = object(batch.events, at) {
                self.objects.extend(self.ranges.place(batch.thread, object).map(|(place, _)| place));
            }
            self.event(batch.thread, event, &mut values)?;
        }
        Ok(())
    }
}
