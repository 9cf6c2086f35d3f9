//! From steps to atoms, cells and barriers: by the rules of a file system.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use event::{SiteId, SiteTable, ThreadId};

use super::bulk::{Bulk, Bulks, Bytes};
use super::joined::{JOURNAL, entry_cells, exchanged};
use super::names::{Change, Entry, NAMES, Names, entry_place, length_place};
use super::naming::{self, Changed};
use super::plan::Plan;
use super::rules::{BySync, Lengths, Order, PAGE, Rules, Unit};
use super::steps::{About, Step, What};
use crate::history::{Atom, Barrier, Clocks, Item, Mark, Operation, Stamp};
use crate::words::merge;
use crate::{History, Place, Platform};

/// Behind the last byte that a file can have.
const END: u64 = (1 << 48) - 1;
/// A truncation of a long run that cuts off so many bytes survives whatever is lost.
const MUCH: u64 = 1 << 16;
/// Behind the places of entries: cells of the names of files.
const OF_FILES: u64 = 1 << 40;

/// What the builder knows of a file.
#[derive(Clone, Debug, Default)]
struct File {
    len: u64,
    /// Words that were stored since the run began.
    words: BTreeMap<u64, u64>,
    /// Cells with atoms of it: sectors and its length.
    cells: HashSet<u64>,
    /// Those that a sync of it may have to write: all, but for a run of one thread those that changed since
    /// its last one.
    open: HashSet<u64>,
    /// The atom that made its first name.
    made: Option<u32>,
    /// The atom of the last change of its names.
    named: Option<u32>,
    /// The last atom of contents that a renaming brings along.
    copied: Option<u32>,
    /// Behind the blocks that it may have on the disk: those of its length when the run began or at a sync.
    blocks_end: u64,
}

pub(super) struct Builder<'r> {
    rules: Rules,
    names: &'r Names,
    before: &'r HashMap<u16, Arc<Vec<u8>>>,
    plan: Plan,
    /// Writes that are no atoms, with all bytes.
    bulks: Bulks,
    /// Number of the step at hand.
    at: usize,
    /// The cell of each entry.
    entry_cells: Vec<u64>,
    /// Of each file the first one of those that changed names with it at once.
    exchanged: Vec<u16>,
    history: History,
    clocks: Clocks,
    files: Vec<File>,
    /// Atoms of each cell, in order.
    cells: HashMap<u64, Vec<u32>>,
    /// Atoms of each entry, in order.
    by_entry: HashMap<Place, Vec<u32>>,
    /// The first barrier that demanded an atom.
    demanded: Vec<Option<Stamp>>,
    /// The last atom of each cell that changed an entry of the folder.
    folders: HashMap<u16, Vec<u32>>,
    /// Renamings: the first atom of each, and the file.
    renamed: Vec<(u32, u16)>,
    /// The last store of a mapping to each word.
    stored: HashMap<Place, Stamp>,
    stores: u32,
    /// The words of entries that changed.
    entries: HashMap<u32, u64>,
    /// What the step at hand syncs, if it is one file or folder.
    synced: Option<u16>,
    /// The thread of all steps so far, if there is one.
    alone: Option<ThreadId>,
    /// Who does the step at hand, and where in the code.
    thread: ThreadId,
    site: SiteId,
}

impl<'r> Builder<'r> {
    pub fn new(
        platform: Platform,
        names: &'r Names,
        before: &'r HashMap<u16, Arc<Vec<u8>>>,
        steps: &[Step],
        bytes: Bytes,
        room: u64,
    ) -> Self {
        let mut files = vec![File::default(); names.titles.len()];
        for (&file, bytes) in before {
            let len = bytes.len() as u64;
            files[usize::from(file)].len = len;
            files[usize::from(file)].blocks_end = len.next_multiple_of(PAGE);
        }
        let rules = Rules::of(platform);
        Builder {
            rules,
            names,
            before,
            plan: Plan::new(steps, room),
            bulks: Bulks::new(bytes),
            at: 0,
            entry_cells: entry_cells(rules, names.entries.len(), steps),
            exchanged: exchanged(names.titles.len(), steps),
            history: History { platform, ..History::default() },
            clocks: Clocks::new(false),
            files,
            cells: HashMap::new(),
            by_entry: HashMap::new(),
            demanded: Vec::new(),
            folders: HashMap::new(),
            renamed: Vec::new(),
            stored: HashMap::new(),
            stores: 0,
            entries: HashMap::new(),
            synced: None,
            alone: steps.first().map(|step| step.thread),
            thread: ThreadId(0),
            site: SiteId::UNKNOWN,
        }
    }

    pub fn into_history(self, titles: Vec<String>, table: SiteTable) -> History {
        let lengths = self.files.iter().map(|file| file.len).collect();
        let (segments, agents) = (self.clocks.segments.clone(), self.clocks.agents());
        let entries = (0..self.names.entries.len() as u32).map(|entry| self.path(entry)).collect();
        let (left_out, visited) = (self.plan.left_out, self.plan.visited);
        let history = History { left_out, visited, bulks: Arc::new(self.bulks), ..self.history };
        History { files: titles, lengths, segments, agents, table, entries, ..history }
    }

    pub fn step(&mut self, step: &Step) {
        let what = &step.what;
        (self.thread, self.site) = (step.thread, step.site);
        if self.alone.is_some_and(|alone| alone != step.thread) {
            // A thread may not know of what another one has synced.
            self.alone = None;
            self.files.iter_mut().for_each(|file| file.open.clone_from(&file.cells));
        }
        self.stores += 1;
        self.synced = match *what {
            What::Sync { file, .. } | What::SyncRange { file, .. } => Some(file),
            What::SyncFolder { folder } => Some(folder),
            _ => None,
        };
        if let Some(operation) = self.operation(what) {
            self.history.calls.push((self.history.atoms.len() as u32, operation));
        }
        match *what {
            What::Names { ref changes, about, ref files } => self.names(changes, about, files),
            What::Write { file, offset, ref bytes } => {
                if self.is_bulk(file) {
                    self.bulk(file, offset, bytes.len() as u64, Some(bytes.start));
                } else if !bytes.is_empty() {
                    let bytes = self.bulks.bytes.get(bytes.clone()).into_owned();
                    self.write(file, offset, &bytes);
                }
            }
            What::Store { file, offset, ref bytes } => {
                let bytes = self.bulks.bytes.get(bytes.clone()).into_owned();
                self.data(file, offset, &bytes, None, false);
                let stamp = self.history.atoms.last().map(|atom| atom.stamp);
                let (from, end) = (Place::new(file, offset), Place::new(file, offset).0 + bytes.len() as u64);
                let words = (from.word().0..end).step_by(8);
                self.stored.extend(
                    stamp.into_iter().flat_map(|stamp| words.clone().map(move |word| (Place(word), stamp))),
                );
            }
            What::Read { place } => {
                if let Some(&stored) = self.stored.get(&place) {
                    self.clocks.read_from(self.thread, stored);
                }
            }
            What::Truncate { file, len } => self.truncate(file, len),
            What::Shift { file, offset, len, insert } => self.shift(file, offset, len, insert),
            What::SyncAll => self.sync_all(),
            What::Sync { file, data_only } => self.sync(file, 0..END, data_only),
            What::SyncFolder { folder } => self.sync_folder(folder),
            What::SyncRange { file, from, len, data_only } => {
                self.sync(file, from..from.saturating_add(len).min(END), data_only);
            }
            What::Mark(kind) => {
                let stamp = self.clocks.tick(self.thread);
                self.history.items.push(Item::Mark(self.history.marks.len() as u32));
                self.history.marks.push(Mark { kind, thread: self.thread, stamp });
            }
            What::Synchronise(ref op) => self.clocks.synchronise(self.thread, op),
        }
        self.at += 1;
    }

    /// What a step does, if it changes something.
    fn operation(&mut self, what: &What) -> Option<Operation> {
        let bytes = |file, offset, bytes: &Range<usize>| Operation::Bytes {
            place: Place::new(file, offset),
            bytes: bytes.len() as u64,
        };
        Some(match *what {
            What::Names { ref changes, about, .. } => Operation::Names(self.change_of_names(changes, about)),
            What::Write { file, offset, bytes: ref range }
            | What::Store { file, offset, bytes: ref range } => bytes(file, offset, range),
            What::Truncate { file, len } => {
                Operation::Length { file, from: self.files[usize::from(file)].len, to: len }
            }
            What::Shift { file, len, insert, .. } => {
                let from = self.files[usize::from(file)].len;
                let to = if insert { from.saturating_add(len) } else { from.saturating_sub(len) };
                Operation::Length { file, from, to }
            }
            _ => return None,
        })
    }

    /// The path of an entry.
    fn path(&self, entry: u32) -> String {
        let Entry { folder, name, .. } = &self.names.entries[entry as usize];
        format!("{}/{name}", self.names.titles[usize::from(*folder)].trim_end_matches('/'))
    }

    /// Changes of names in words.
    fn change_of_names(&mut self, changes: &[Change], about: About) -> String {
        let names = self.names;
        let changed: Vec<Changed> = changes
            .iter()
            .map(|change| {
                let before = names.entries[change.entry as usize].before;
                let before = self.entries.insert(change.entry, change.word).unwrap_or(before);
                Changed { path: self.path(change.entry), before, after: change.word }
            })
            .collect();
        naming::describe(&changed, about == About::Made)
    }

    /// An atom of one word. All atoms of a step that are in one cell and `whole` survive together.
    fn atom(&mut self, place: Place, (value, mask): (u64, u8), cell: u64, whole: bool) -> u32 {
        let at = self.history.atoms.len() as u32;
        let stamp = self.clocks.tick(self.thread);
        let store = self.stores;
        let non_temporal = false;
        self.history.items.push(Item::Atom(at));
        self.history.atoms.push(Atom {
            place,
            value,
            mask,
            non_temporal,
            whole,
            site: self.site,
            thread: self.thread,
            store,
            cell,
            stamp,
        });
        self.demanded.push(None);
        self.cells.entry(cell).or_default().push(at);
        if place.file() == NAMES {
            self.by_entry.entry(place).or_default().push(at);
        }
        if let Some(file) = self.files.get_mut(usize::from(place.file())) {
            file.cells.insert(cell);
            file.open.insert(cell);
        }
        at
    }

    /// The word of a file as it is now.
    fn word(&self, file: u16, offset: u64) -> u64 {
        if let Some(&word) = self.files[usize::from(file)].words.get(&offset) {
            return word;
        }
        let bytes = self.before.get(&file).map_or(&[][..], |bytes| bytes.as_slice());
        let mut word = [0; 8];
        let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        word.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
        self.bulks.fill(Place::new(file, offset), &mut word, self.bulks.count());
        u64::from_le_bytes(word)
    }

    /// The cell of a file's bytes at an offset.
    fn sector(&self, file: u16, offset: u64) -> u64 {
        let piece = self.rules.piece();
        Place::new(file, offset / piece * piece).0
    }

    /// Bytes of a file, each in the cell of its sector if not in `cell`.
    fn data(&mut self, file: u16, offset: u64, bytes: &[u8], cell: Option<u64>, whole: bool) {
        let (mut offset, mut bytes) = (offset, bytes);
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min((8 - offset % 8) as usize));
            let shift = (offset % 8) as usize;
            let mut value = [0; 8];
            value[shift..shift + piece.len()].copy_from_slice(piece);
            let value = u64::from_le_bytes(value);
            let mask = (((1u32 << piece.len()) - 1) << shift) as u8;
            let place = Place::new(file, offset).word();
            let sector = self.sector(file, offset);
            self.atom(place, (value, mask), cell.unwrap_or(sector), whole);
            let word = merge(self.word(file, place.offset()), value, mask);
            self.files[usize::from(file)].words.insert(place.offset(), word);
            offset += piece.len() as u64;
            bytes = rest;
        }
    }

    fn length(&mut self, file: u16, len: u64) {
        let place = length_place(file);
        self.atom(place, (len, 0xFF), place.0, true);
        let known = &mut self.files[usize::from(file)];
        known.cells.insert(place.0);
        known.open.insert(place.0);
        known.len = len;
    }

    fn write(&mut self, file: u16, offset: u64, bytes: &[u8]) {
        let (len, end) = (self.files[usize::from(file)].len, offset + bytes.len() as u64);
        if self.rules.lengths == Lengths::Free {
            self.data(file, offset, bytes, None, true);
            let mut until = len.max(offset);
            while until < end {
                // A file system has the length of each page that gets its block.
                until = (until / PAGE * PAGE + PAGE).min(end);
                self.length(file, until);
                self.stores += u32::from(until < end);
            }
            return;
        }
        // What lies behind the end is written back before the length says that it is there, page by page.
        let inside = match (self.rules.unit, self.rules.lengths) {
            (Unit::File, _) => offset,
            // Nothing orders the bytes behind the end that lie in a block that the file has already.
            (_, Lengths::WithNewBlocks) => len.next_multiple_of(PAGE).clamp(offset, end),
            _ => len.clamp(offset, end),
        };
        self.data(file, offset, &bytes[..(inside - offset) as usize], None, true);
        if inside > len.max(offset) {
            self.length(file, inside);
        }
        let mut at = inside;
        while at < end {
            let until = (at / PAGE * PAGE + PAGE).min(end);
            self.stores += 1;
            let piece = &bytes[(at - offset) as usize..(until - offset) as usize];
            self.data(file, at, piece, Some(length_place(file).0), true);
            if until > self.files[usize::from(file)].len {
                self.length(file, until);
            }
            at = until;
        }
    }

    /// Whether the write at hand is one that no image lacks. One to a file whose bytes a renaming brings
    /// along is in order with these.
    fn is_bulk(&self, file: u16) -> bool {
        let copied = self.files[usize::from(file)].copied;
        self.plan.is_bulk(self.at) && copied.is_none_or(|copy| self.demanded[copy as usize].is_some())
    }

    /// Bytes that no image lacks from now on, nor the length that they give the file.
    fn bulk(&mut self, file: u16, offset: u64, len: u64, bytes: Option<usize>) {
        let (place, end) = (Place::new(file, offset), offset + len);
        if bytes.is_some() && end > self.files[usize::from(file)].len {
            self.length(file, end);
        }
        // Words that are known are those that something else wrote.
        let known: Vec<u64> =
            self.files[usize::from(file)].words.range(offset / 8 * 8..end).map(|(&at, _)| at).collect();
        let length = length_place(file).0;
        let number = self.bulks.add(Bulk { place, len, bytes, length });
        for at in known {
            let mut word = self.files[usize::from(file)].words.remove(&at).unwrap_or(0).to_le_bytes();
            if at < offset || end < at + 8 {
                self.bulks.fill_by(number, Place::new(file, at), &mut word);
                self.files[usize::from(file)].words.insert(at, u64::from_le_bytes(word));
            }
        }
        self.history.items.push(Item::Bulk(number));
    }

    /// The words of a part of a file that bulks wrote.
    fn in_bulks(&self, file: u16, range: Range<u64>) -> Vec<u64> {
        if self.bulks.count() == 0 {
            return Vec::new();
        }
        let words = range.step_by(8);
        words.filter(|&at| self.bulks.has_page(Place::new(file, at))).collect()
    }

    /// Sets the length; what is cut off is zero should the file ever be so long again.
    fn truncate(&mut self, file: u16, len: u64) {
        self.cut(file, len, len.next_multiple_of(PAGE));
    }

    /// As [`Self::truncate`]; where a length goes with its bytes, only what is cut off up to `written` is
    /// written as zeros, too.
    fn cut(&mut self, file: u16, len: u64, written: u64) {
        let before = self.files[usize::from(file)].len;
        if len < before && !self.plan.is_all() && before - len > MUCH {
            // Nearly all of it is zero from now on in any image that has anything later.
            self.length(file, len);
            self.bulk(file, len, before - len, None);
            self.files[usize::from(file)].blocks_end = len.next_multiple_of(PAGE);
            return;
        }
        let first = len / 8 * 8;
        let mut cut: Vec<u64> = Vec::new();
        if len < before {
            let initial = self.before.get(&file).map_or(0, |bytes| bytes.len() as u64).min(before);
            cut.extend((first..initial).step_by(8));
            cut.extend(self.files[usize::from(file)].words.range(first..before).map(|(&offset, _)| offset));
            cut.extend(self.in_bulks(file, first..before));
            cut.sort_unstable();
            cut.dedup();
        }
        for offset in cut {
            let mask = if offset < len { 0xFFu8 << (len - offset) } else { 0xFF };
            let word = merge(self.word(file, offset), 0, mask);
            if word != self.word(file, offset) {
                let place = Place::new(file, offset);
                let sector = self.sector(file, offset);
                let journals = self.rules.names == Order::All;
                if self.rules.zeros_with_length || journals && offset >= written {
                    self.atom(place, (0, mask), length_place(file).0, true);
                }
                // In its sector, too: what was written there before comes before this. Blocks that are given up whole are not written.
                let in_place = self.rules.lengths == Lengths::Free && !journals || offset < written;
                if in_place && self.rules.unit != Unit::File {
                    self.atom(place, (0, mask), sector, true);
                }
                self.files[usize::from(file)].words.insert(offset, word);
            }
        }
        self.length(file, len);
        // Space that is reserved with a greater length has its blocks, too.
        self.files[usize::from(file)].blocks_end = len.next_multiple_of(PAGE);
    }

    /// Moves what is behind `offset` by `len` bytes: down, over what is taken out, or up, to let zeros in.
    fn shift(&mut self, file: u16, offset: u64, len: u64, insert: bool) {
        let before = self.files[usize::from(file)].len;
        let after = if insert { before.saturating_add(len) } else { before.saturating_sub(len) }.min(END);
        let moved = |at: u64| match insert {
            true if at < offset.saturating_add(len) => 0,
            true => self.word(file, at - len),
            false => self.word(file, at.saturating_add(len)),
        };
        let stored = &self.files[usize::from(file)].words;
        let words: Vec<(u64, u64)> = (offset / 8 * 8..after).step_by(8).map(|at| (at, moved(at))).collect();
        let differs = |at: u64, word: u64| word != self.word(file, at) || stored.contains_key(&at);
        let words: Vec<(u64, u64)> = words.into_iter().filter(|&(at, word)| differs(at, word)).collect();
        for (at, word) in words {
            let place = Place::new(file, at);
            // The file system writes back what it moves, and moves it with the length.
            let cell = match self.rules.shifts_at_once {
                true => length_place(file).0,
                false => self.sector(file, at),
            };
            self.atom(place, (word, 0xFF), cell, true);
            self.files[usize::from(file)].words.insert(at, word);
        }
        self.cut(file, after, 0);
    }

    fn names(&mut self, changes: &[Change], about: About, files: &[u16]) {
        let first = self.history.atoms.len() as u32;
        let Some(mut cell) = changes.first().map(|change| self.entry_cells[change.entry as usize]) else {
            return;
        };
        if self.rules.names == Order::OfFile
            && let Some(&file) = files.first()
        {
            cell = Place::new(NAMES, OF_FILES + u64::from(self.exchanged[usize::from(file)]) * 8).0;
        }
        for change in changes {
            let at = self.atom(entry_place(change.entry), (change.word, 0xFF), cell, true);
            let folder = self.names.entries[change.entry as usize].folder;
            let known = self.folders.entry(folder).or_default();
            known.retain(|&other| self.history.atoms[other as usize].cell != cell);
            known.push(at);
        }
        for &file in files {
            self.files[usize::from(file)].named = Some(first);
        }
        match (about, files.first()) {
            (About::Made, Some(&file)) => self.files[usize::from(file)].made = Some(first),
            (About::Replaces, Some(&file)) if self.rules.replaces_with_contents => {
                self.with_contents(file, cell);
                self.renamed.push((first, file));
            }
            _ => {}
        }
    }

    /// Puts what of a file's new blocks a crash could still lose into the step at hand, too: a renaming that
    /// survives brings it along, but not what was written to blocks that the file had.
    fn with_contents(&mut self, file: u16, cell: u64) {
        let blocks_end = self.files[usize::from(file)].blocks_end;
        let mut places: Vec<Place> = self.files[usize::from(file)]
            .cells
            .iter()
            .filter_map(|cell| self.cells.get(cell))
            .flat_map(|atoms| atoms.iter().rev().take_while(|&&at| self.demanded[at as usize].is_none()))
            .map(|&at| self.history.atoms[at as usize].place)
            .filter(|place| place.file() == file && place.offset() >= blocks_end)
            .collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            let word = self.word(file, place.offset());
            let copy = self.atom(place, (word, 0xFF), cell, true);
            self.files[usize::from(file)].copied = Some(copy);
        }
        let len = self.files[usize::from(file)].len;
        self.atom(length_place(file), (len, 0xFF), cell, true);
        // It is a copy: the file's own cells have it as well.
        self.files[usize::from(file)].cells.remove(&cell);
        self.files[usize::from(file)].open.remove(&cell);
    }

    /// Demands the sectors of a file that `within` says, and its length.
    fn sync(&mut self, file: u16, within: Range<u64>, data_only: bool) {
        let known = &self.files[usize::from(file)];
        let length = length_place(file).0;
        let sectors = self.sector(file, within.start)..Place::new(file, within.end).0;
        let is_within = |cell: &u64| *cell == length || sectors.contains(cell);
        let mut cells: Vec<u64> = known.open.iter().copied().filter(is_within).collect();
        cells.sort_unstable();
        let mut demands: Vec<u32> = cells.iter().filter_map(|&cell| self.last(cell, None)).collect();
        let lost = |at: &u32| self.demanded[*at as usize].is_none();
        let grown = self.cells.get(&length).and_then(|atoms| atoms.last()).is_some_and(lost);
        let changed = || known.named.as_ref().is_some_and(lost) || demands.iter().any(lost);
        let in_journal = grown || known.made.as_ref().is_some_and(lost) || !data_only && changed();
        match self.rules.by_sync {
            BySync::Journal if in_journal => demands.extend(self.journal()),
            BySync::Own => demands.extend(self.own_names(file, data_only)),
            BySync::None | BySync::Journal => {}
        }
        self.barrier(demands);
        let known = &mut self.files[usize::from(file)];
        known.blocks_end = known.blocks_end.max(known.len.next_multiple_of(PAGE));
        if self.alone.is_some() {
            known.open.retain(|cell| !is_within(cell));
        }
    }

    /// What made a file, what changed its names last, and what made the folders above it, as far as a crash
    /// could still lose that.
    fn own_names(&self, file: u16, data_only: bool) -> Vec<u32> {
        let known = &self.files[usize::from(file)];
        let mut open: Vec<u32> = known.made.into_iter().chain(known.named.filter(|_| !data_only)).collect();
        let mut demands = Vec::new();
        while let Some(at) = open.pop() {
            if self.demanded[at as usize].is_some() || demands.contains(&at) {
                continue;
            }
            demands.push(at);
            let entry = self.history.atoms[at as usize].place.offset() / 8;
            let folder = self.names.entries[entry as usize].folder;
            open.extend(self.files[usize::from(folder)].made);
        }
        let known = |at: u32| self.last(self.history.atoms[at as usize].cell, Some(at));
        demands.into_iter().filter_map(known).collect()
    }

    /// Demands all that any file or folder has by now.
    fn sync_all(&mut self) {
        let demands = self.cells.keys().filter_map(|&cell| self.last(cell, None)).collect();
        self.barrier(demands);
        for known in &mut self.files {
            known.blocks_end = known.blocks_end.max(known.len.next_multiple_of(PAGE));
        }
    }

    fn sync_folder(&mut self, folder: u16) {
        let last = self.folders.get(&folder).cloned().unwrap_or_default();
        let folder = &self.files[usize::from(folder)];
        let lost = |at: &u32| self.demanded[*at as usize].is_none();
        let demands = match self.rules.names == Order::All {
            // The journal is written up to the last change of the folder, if that is not durable.
            true if last.iter().chain(&folder.made).chain(&folder.named).any(lost) => self.journal(),
            true => Vec::new(),
            false => {
                let known = |at: u32| {
                    let cell = self.history.atoms[at as usize].cell;
                    self.last(cell, Some(at))
                };
                let own = if self.rules.by_sync == BySync::Own { folder.made } else { None };
                last.into_iter().chain(own).filter_map(known).collect()
            }
        };
        self.barrier(demands);
    }

    /// What a commit of the journal demands: all names up to now, and what renamings bring along.
    fn journal(&mut self) -> Vec<u32> {
        let Some(last) = self.last(JOURNAL, None) else { return Vec::new() };
        let mut demands = vec![last];
        for &(first, file) in self.renamed.iter().filter(|&&(first, _)| first <= last) {
            if self.demanded[first as usize].is_none() {
                let known = &self.files[usize::from(file)];
                let (length, new) = (length_place(file).0, Place::new(file, known.blocks_end).0);
                let brought =
                    |cell: &&u64| **cell == length || **cell >= new && **cell < Place::new(file, END).0;
                demands.extend(
                    known.cells.iter().filter(brought).filter_map(|&cell| self.last(cell, Some(first))),
                );
            }
        }
        demands
    }

    /// The last atom of a cell, up to `until` if that is given, that the thread knows of.
    fn last(&self, cell: u64, until: Option<u32>) -> Option<u32> {
        let atoms = self.cells.get(&cell)?;
        let before = until.map_or(atoms.len(), |until| atoms.partition_point(|&at| at <= until));
        atoms[..before]
            .iter()
            .rev()
            .copied()
            .find(|&at| self.clocks.known(self.thread, self.history.atoms[at as usize].stamp))
    }

    /// Adds what other files did before to the names that become durable: where each file has its names in order, a name
    /// that is taken anew is synced with what became of the file that had it.
    fn with_earlier_names(&self, demands: &mut Vec<u32>) {
        if self.rules.names != Order::OfFile {
            return;
        }
        let mut next = 0;
        while let Some(&at) = demands.get(next) {
            next += 1;
            let cell = &self.cells[&self.history.atoms[at as usize].cell];
            let until = cell.partition_point(|&other| other <= at);
            let lost = |other: &u32| self.demanded[*other as usize].is_none();
            for &taken in cell[..until].iter().rev().take_while(|other| lost(other)) {
                let known = self.by_entry.get(&self.history.atoms[taken as usize].place);
                let earlier = known.into_iter().flatten().copied();
                let earlier: Vec<u32> = earlier.filter(|other| *other < taken && lost(other)).collect();
                for other in earlier {
                    let more = |known: &u32| {
                        let (a, b) =
                            (&self.history.atoms[*known as usize], &self.history.atoms[other as usize]);
                        a.cell == b.cell && *known >= other
                    };
                    if !demands.iter().any(more) {
                        demands.push(other);
                    }
                }
            }
        }
    }

    fn barrier(&mut self, mut demands: Vec<u32>) {
        demands.retain(|&at| {
            self.demanded[at as usize].is_none_or(|barrier| !self.clocks.known(self.thread, barrier))
        });
        self.with_earlier_names(&mut demands);
        let atoms = &self.history.atoms;
        // The last one of each cell.
        demands.sort_unstable_by_key(|&at| (atoms[at as usize].cell, std::cmp::Reverse(at)));
        demands.dedup_by_key(|at| atoms[*at as usize].cell);
        if demands.is_empty() {
            return;
        }
        let stamp = self.clocks.tick(self.thread);
        let (mut fresh, chosen) = (false, self.plan.is_chosen(self.at));
        for &at in &demands {
            let cell = &self.cells[&atoms[at as usize].cell];
            let until = cell.partition_point(|&other| other <= at);
            for &before in cell[..until].iter().rev() {
                let demanded = &mut self.demanded[before as usize];
                if demanded.is_some() {
                    break;
                }
                *demanded = Some(stamp);
                fresh = chosen;
            }
        }
        self.history.items.push(Item::Barrier(self.history.barriers.len() as u32));
        self.history.synced.push(self.synced);
        self.history.barriers.push(Barrier {
            site: self.site,
            thread: self.thread,
            demands: demands.into(),
            fresh,
            stamp,
        });
    }
}
