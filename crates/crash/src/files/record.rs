//! From events to the steps of a run, and to its history.

use std::collections::HashMap;

use event::{
    Batch, Capabilities, Definition, Event, NameId, Op, Sink, SinkError, SiteId, SiteTable, ThreadId,
};

use super::build::Builder;
use super::disk::{Disk, Entry, Tree, special, words};
use super::names::{Names, TooMany};
use super::steps::{About, Step, What};
use crate::history::Ranges;
use crate::{Contents, History, MarkKind, Place, Platform};

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
    before: HashMap<u16, Vec<u8>>,
    steps: Vec<Step>,
    bytes: Vec<u8>,
    table: SiteTable,
}

/// A run as a crash of a file system sees it.
#[derive(Clone, Debug)]
pub struct FilesRun {
    /// For a [`crate::Checker`].
    pub history: History,
    /// What the words were when the run began; for the checker, too.
    pub contents: Contents,
    /// The disk when the run began, to which an oracle applies the changes that it is told.
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
                "platform {platform} is one of memory; for files there are posix and ext4"
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
            bytes: Vec::new(),
            table: SiteTable::default(),
        };
        for (path, entry) in before {
            let file = recorder.names.known(&path, entry == Entry::Folder).map_err(too_many)?;
            if let Entry::File(bytes) = entry {
                recorder.before.insert(file, bytes);
            }
        }
        Ok(recorder)
    }

    /// What was pushed so far.
    #[must_use]
    pub fn into_run(self) -> FilesRun {
        let FilesRecorder { platform, names, before, steps, bytes, table, .. } = self;
        let mut contents = Contents::default();
        let [entries, lengths] = special(&names.titles);
        contents.insert(entries, words(names.entries.iter().map(|entry| entry.before)));
        let length = |file: usize| before.get(&(file as u16)).map_or(0, |bytes| bytes.len() as u64);
        contents.insert(lengths, words((0..names.titles.len()).map(length)));
        for (&file, bytes) in &before {
            contents.insert(&names.titles[usize::from(file)], bytes.clone());
        }
        let mut builder = Builder::new(platform, &names, &before, &steps, &bytes);
        steps.iter().for_each(|step| builder.step(step));
        let history = builder.into_history(names.titles.clone(), table);
        let entries = names.entries.into_iter().map(|entry| (entry.folder, entry.name)).collect();
        FilesRun { history, disk: Disk::new(entries, names.titles, contents.clone()), contents }
    }

    fn path(&self, name: NameId) -> String {
        self.paths.get(&name).cloned().unwrap_or_else(|| format!("/file {}", name.0))
    }

    fn file(&mut self, name: NameId) -> Result<u16, TooMany> {
        let path = self.path(name);
        self.names.known(&path, false)
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
            Op::FileSync { file, data_only } => {
                let path = self.path(file);
                match self.names.find(&path)? {
                    Some((folder, true)) => What::SyncFolder { folder },
                    Some((file, false)) => What::Sync { file, data_only },
                    None => return Ok(None),
                }
            }
            Op::FileCreate { file, folder } => {
                let path = self.path(file);
                let Some((file, change)) = self.names.create(&path, folder)? else { return Ok(None) };
                What::Names { changes: vec![change], about: About::Made(file) }
            }
            Op::Rename { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                let Some((file, changes, replaced)) = self.names.rename(&from, &to)? else { return Ok(None) };
                let about = if replaced { About::Replaces(file) } else { About::Name };
                What::Names { changes: changes.to_vec(), about }
            }
            Op::Unlink { file } => {
                let path = self.path(file);
                let Some(change) = self.names.remove(&path)? else { return Ok(None) };
                What::Names { changes: vec![change], about: About::Name }
            }
            Op::RegionBegin { region } => What::Mark(MarkKind::Begin(region)),
            Op::RegionEnd { region } => What::Mark(MarkKind::End(region)),
            Op::Phase { name } => What::Mark(MarkKind::Phase(name)),
            Op::ThreadStart { .. } => What::Synchronise(op),
            op if op.seq().is_some() => What::Synchronise(self.ranges.placed(thread, op)),
            _ => return Ok(None),
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
                let bytes = self.keep(value);
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
                    let bytes = self.keep(piece);
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

    fn keep(&mut self, value: &[u8]) -> std::ops::Range<usize> {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(value);
        from..self.bytes.len()
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
        for event in batch.events {
            self.event(batch.thread, event, &mut values)?;
        }
        Ok(())
    }
}
