//! From events to a history.

use std::collections::{BTreeMap, HashMap};

use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, NameId, Op, Order, Sink, SinkError, SiteId,
    StrandMark, ThreadId,
};

use persistency::Model;

use super::clocks::Clocks;
use super::numbers::Numbers;
use super::ranges::Ranges;
use super::{Atom, Barrier, Flushed, History, Item, Mark, MarkKind, Stamp};
use crate::{Place, Platform};
use event::map::Map;

/// Cells of non-temporal stores and of single words end in this bit, cells of lines do not.
const WORD_CELL: u64 = 1;
/// How many atoms of a cell are remembered after they were demanded, because another thread may demand them, too.
const REMEMBERED: usize = 64;

/// What one thread has under way.
#[derive(Debug, Default)]
struct UnderWay {
    /// Atoms that the next fence demands.
    flushed: Vec<u32>,
}

/// A sink that makes a [`History`] of a stream with values.
#[derive(Debug)]
pub struct Recorder {
    history: History,
    clocks: Clocks,
    ranges: Ranges,
    numbers: Numbers,
    /// Atoms of each cell, the latest last.
    cells: Map<u64, Vec<u32>>,
    /// The first barrier that demanded an atom.
    demanded: Vec<Option<Stamp>>,
    /// Atoms of an agent that no barrier of its own has demanded; for epochs and strands.
    open: BTreeMap<u32, Vec<u32>>,
    /// Atoms that a barrier demanded lately, which does not come before other threads' barriers.
    recent: Vec<u32>,
    under_way: HashMap<ThreadId, UnderWay>,
    /// By number of file: whether it has atoms.
    stored_to: Vec<bool>,
    /// Who stored to a word last.
    writers: Map<Place, Stamp>,
    stores: u32,
}

impl Recorder {
    /// A recorder for the rules of `platform`.
    #[must_use]
    pub fn new(platform: Platform) -> Self {
        Recorder {
            history: History { platform, ..History::default() },
            clocks: Clocks::new(platform.model() == Model::Strand),
            ranges: Ranges::default(),
            numbers: Numbers::default(),
            cells: Map::default(),
            demanded: Vec::new(),
            open: BTreeMap::new(),
            recent: Vec::new(),
            under_way: HashMap::new(),
            stored_to: Vec::new(),
            writers: Map::default(),
            stores: 0,
        }
    }

    /// The history of what was pushed so far.
    #[must_use]
    pub fn into_history(self) -> History {
        let agents = self.clocks.agents();
        let files = self.numbers.files().to_vec();
        let Clocks { segments, .. } = self.clocks;
        History { files, segments, agents, ..self.history }
    }

    fn file(&mut self, name: NameId) -> Result<u16, SinkError> {
        let file = self.numbers.number(name)?;
        let files = self.numbers.files().len();
        self.history.lengths.resize(files, 0);
        self.stored_to.resize(files, false);
        Ok(file)
    }

    fn event(&mut self, thread: ThreadId, event: &Event, values: &mut &[u8]) -> Result<(), SinkError> {
        match event.op {
            Op::Load { addr, len } => self.load(thread, addr, len),
            Op::Store { addr, len } => self.store(thread, event.site, addr, take(values, len)?, false),
            Op::StoreNt { addr, len } => self.store(thread, event.site, addr, take(values, len)?, true),
            Op::Flush { addr, kind } => self.flush(thread, event.site, addr, kind),
            Op::Fence(_) => self.fence(thread, event.site),
            Op::Map { addr, len, name } => {
                let file = self.file(name)?;
                self.ranges.map(thread, addr, len, Place::new(file, 0));
                let known = &mut self.history.lengths[usize::from(file)];
                *known = len.max(*known);
            }
            Op::MapOffset { addr, offset } => {
                if let Some((place, len)) = self.ranges.relocate(thread, addr, offset) {
                    let known = &mut self.history.lengths[usize::from(place.file())];
                    *known = (offset + len).max(*known);
                }
            }
            Op::MapSync { addr, len } => {
                for (place, len) in self.ranges.places(thread, addr, len) {
                    self.sync(thread, event.site, place, len);
                }
            }
            Op::FileWrite { file, offset, len } => {
                let bytes = take(values, len)?;
                let place = Place::new(self.file(file)?, offset);
                self.written(thread, event.site, place, bytes);
            }
            Op::FileRangeSync { file, offset, len, .. } => {
                if let Some(file) = self.numbers.known(file) {
                    self.sync(thread, event.site, Place::new(file, offset), u64::from(len));
                }
            }
            // A pool that is made anew: what was in it before is gone, and no crash brings it back.
            Op::FileTruncate { file, len } => self.shortened(file, len),
            Op::FileCreate { file, .. } | Op::Unlink { file } => self.shortened(file, 0),
            Op::FileSync { file, .. } => {
                let file = self.numbers.known(file);
                file.into_iter().for_each(|file| self.sync(thread, event.site, Place::new(file, 0), 1 << 47));
            }
            Op::FilesSync { .. } => self.sync_all(thread, event.site),
            Op::Strand(mark) => self.strand(thread, event.site, mark),
            Op::Unmap { addr, len } => self.ranges.unmap(thread, addr, len),
            Op::RegionBegin { region } => self.mark(thread, MarkKind::Begin(region)),
            Op::RegionEnd { region } => self.mark(thread, MarkKind::End(region)),
            Op::Phase { name } => self.mark(thread, MarkKind::Phase(name)),
            Op::Process { process } => self.ranges.enter(thread, process),
            Op::Spawn { child, .. } => {
                self.ranges.spawn(thread, child);
                self.clocks.synchronise(thread, &event.op);
            }
            Op::Acquire { .. }
            | Op::Release { .. }
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::ThreadStart { .. }
            | Op::ThreadEnd { .. }
            | Op::Join { .. } => {
                let op = self.ranges.placed(thread, event.op);
                self.clocks.synchronise(thread, &op);
            }
            // They change nothing of memory that a crash could lose; files are written above.
            Op::Demote { .. } | Op::Prefetch { .. } | Op::Context | Op::Alloc { .. } | Op::Free { .. } => {}
            event::file_operations!() => {}
        }
        Ok(())
    }

    /// A strand mark. On other platforms than [`Platform::STRAND`] there are no strands, and marks order nothing.
    fn strand(&mut self, thread: ThreadId, site: SiteId, mark: StrandMark) {
        match (self.history.platform.model(), mark) {
            (Model::Strand, StrandMark::Barrier) => self.strand_barrier(thread, site),
            (Model::Strand, StrandMark::New) => self.clocks.new_strand(thread),
            (Model::Strand, StrandMark::Join) => self.join_strands(thread, site),
            (Model::X86 | Model::Arm | Model::Epoch | Model::File(_), _) => {}
        }
    }

    /// The file was cut to `len` bytes. If nothing was stored to it yet, that is what the run began with.
    fn shortened(&mut self, file: NameId, len: u64) {
        let Some(name) = self.numbers.path(file) else { return };
        let stored = self.numbers.known(file).is_some_and(|file| self.stored_to[usize::from(file)]);
        if !stored {
            let kept = self.history.kept.entry(name.to_owned()).or_insert(len);
            *kept = len.min(*kept);
        }
    }

    fn mark(&mut self, thread: ThreadId, kind: MarkKind) {
        let stamp = self.clocks.tick(thread);
        self.history.items.push(Item::Mark(self.history.marks.len() as u32));
        self.history.marks.push(Mark { kind, thread, stamp });
    }

    fn load(&mut self, thread: ThreadId, addr: u64, len: u32) {
        let Some((place, _)) = self.ranges.place(thread, addr) else { return };
        // It may be the thread's first event.
        self.clocks.agent(thread);
        if !self.clocks.concurrent() {
            return;
        }
        let mut word = place.word().0;
        while word < place.0 + u64::from(len) {
            if let Some(&stored) = self.writers.get(&Place(word)) {
                self.clocks.read_from(thread, stored);
            }
            word += 8;
        }
    }

    fn store(&mut self, thread: ThreadId, site: SiteId, addr: u64, bytes: &[u8], non_temporal: bool) {
        let (mut addr, mut bytes) = (addr, bytes);
        let mut any = false;
        while !bytes.is_empty() {
            // A store may begin outside, or run out of a range.
            let (piece, rest) = match self.ranges.place(thread, addr) {
                None => bytes.split_at(bytes.len().min((8 - addr % 8) as usize)),
                Some((place, mapped)) => {
                    let in_word = (8 - place.0 % 8).min(mapped);
                    let (piece, rest) = bytes.split_at(bytes.len().min(in_word as usize));
                    self.atom(thread, site, place, piece, non_temporal);
                    any = true;
                    (piece, rest)
                }
            };
            addr = addr.wrapping_add(piece.len() as u64);
            bytes = rest;
        }
        self.stores += u32::from(any);
    }

    /// A piece of a store, within one word.
    fn atom(&mut self, thread: ThreadId, site: SiteId, place: Place, bytes: &[u8], non_temporal: bool) {
        let at = self.history.atoms.len() as u32;
        let shift = place.0 % 8;
        let mut value = [0; 8];
        value[shift as usize..shift as usize + bytes.len()].copy_from_slice(bytes);
        let mask = (((1u32 << bytes.len()) - 1) << shift) as u8;
        let word = place.word();
        self.stored_to[usize::from(word.file())] = true;
        let cell = self.cell_of(word, non_temporal);
        let stamp = self.clocks.tick(thread);
        self.history.items.push(Item::Atom(at));
        self.history.atoms.push(Atom {
            place: word,
            value: u64::from_le_bytes(value),
            mask,
            non_temporal,
            whole: false,
            site,
            thread,
            store: self.stores,
            cell,
            stamp,
        });
        self.demanded.push(None);
        let atoms = self.cells.entry(cell).or_default();
        if atoms.len() >= 2 * REMEMBERED {
            // The oldest ones that somebody demanded. In a cell they are in front.
            let demanded = atoms.iter().take_while(|&&at| self.demanded[at as usize].is_some()).count();
            atoms.drain(..demanded.min(REMEMBERED));
        }
        atoms.push(at);
        self.writers.insert(word, stamp);
        match self.history.platform.model() {
            Model::X86 | Model::Arm if non_temporal => {
                self.under_way.entry(thread).or_default().flushed.push(at);
            }
            Model::X86 | Model::Arm if self.history.platform.caches_persist() => {
                self.barrier(thread, site, vec![at]);
                // Who reads the store knows that it is durable.
                self.writers.extend(self.demanded[at as usize].map(|barrier| (word, barrier)));
            }
            Model::X86 | Model::Arm => {}
            Model::Epoch | Model::Strand | Model::File(_) => {
                self.open.entry(stamp.agent).or_default().push(at);
            }
        }
    }

    /// The cell of a store to `word`.
    fn cell_of(&self, word: Place, non_temporal: bool) -> u64 {
        match self.history.platform.model() {
            Model::X86 | Model::Arm if self.history.platform.caches_persist() => word.0 | WORD_CELL,
            Model::X86 | Model::Arm if !non_temporal => word.line().0,
            Model::X86 | Model::Arm => {
                // A word with cached stores under way keeps its order.
                let line = word.line().0;
                let cached = self.cells.get(&line).is_some_and(|atoms| {
                    atoms
                        .iter()
                        .rev()
                        .take_while(|&&at| self.demanded[at as usize].is_none())
                        .any(|&at| self.history.atoms[at as usize].place == word)
                });
                if cached { line } else { word.0 | WORD_CELL }
            }
            Model::Epoch | Model::Strand | Model::File(_) => word.0 | WORD_CELL,
        }
    }

    fn flush(&mut self, thread: ThreadId, site: SiteId, addr: u64, kind: FlushKind) {
        if let Some((place, _)) = self.ranges.place(thread, addr) {
            self.flush_line(thread, site, place.line(), kind);
        }
    }

    fn flush_line(&mut self, thread: ThreadId, site: SiteId, line: Place, kind: FlushKind) {
        // What the flush sees for certain; another thread's later stores may have come after it.
        let seen = self.cells.get(&line.0).and_then(|atoms| {
            let known = |at: &u32| self.clocks.knows(thread, self.history.atoms[*at as usize].stamp);
            atoms.iter().rev().copied().find(known)
        });
        let stamp = self.clocks.tick(thread);
        self.history.items.push(Item::Flush(self.history.flushes.len() as u32));
        self.history.flushes.push(Flushed { line, thread, site, seen, stamp });
        if self.history.platform != Platform::ADR {
            return;
        }
        let Some(seen) = seen else { return };
        if kind == FlushKind::Clflush {
            self.barrier(thread, site, vec![seen]);
        } else {
            self.under_way.entry(thread).or_default().flushed.push(seen);
        }
    }

    /// `sync`: of every file.
    fn sync_all(&mut self, thread: ThreadId, site: SiteId) {
        for file in 0..self.stored_to.len() as u16 {
            self.sync(thread, site, Place::new(file, 0), 1 << 47);
        }
    }

    /// `msync` or `fsync` of `len` bytes: a flush of each line and a fence.
    fn sync(&mut self, thread: ThreadId, site: SiteId, from: Place, len: u64) {
        let lines = from.line().0..from.0.saturating_add(len);
        let stored = |cell: &u64| cell & WORD_CELL == 0 && lines.contains(cell);
        let mut cells: Vec<u64> = if (len / 64) < self.cells.len() as u64 {
            lines.clone().step_by(64).filter(|line| self.cells.contains_key(line)).collect()
        } else {
            self.cells.keys().copied().filter(stored).collect()
        };
        cells.sort_unstable();
        for line in cells {
            self.flush_line(thread, site, Place(line), FlushKind::Clwb);
        }
        self.fence(thread, site);
    }

    /// `write` to a file: on memory of its own, which this platform is, it copies by non-temporal stores and
    /// fences.
    fn written(&mut self, thread: ThreadId, site: SiteId, mut place: Place, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min((8 - place.0 % 8) as usize));
            self.atom(thread, site, place, piece, true);
            place.0 += piece.len() as u64;
            bytes = rest;
        }
        self.stores += 1;
        self.fence(thread, site);
    }

    fn fence(&mut self, thread: ThreadId, site: SiteId) {
        match self.history.platform.model() {
            Model::X86 | Model::Arm => {
                let Some(under_way) = self.under_way.get_mut(&thread) else { return };
                let demands = std::mem::take(&mut under_way.flushed);
                self.barrier(thread, site, demands);
            }
            Model::Epoch => {
                // Its own stores, and what others stored before it for certain.
                let agent = self.clocks.agent(thread);
                let mut demands = self.open.remove(&agent).unwrap_or_default();
                let own = demands.clone();
                if self.clocks.concurrent() {
                    let others: Vec<u32> =
                        self.open.values().flatten().chain(&self.recent).copied().collect();
                    demands.extend(others.into_iter().filter(|&at| {
                        let stamp = self.history.atoms[at as usize].stamp;
                        self.clocks.knows(thread, stamp)
                    }));
                }
                // Threads that are seen later may demand them, too.
                self.recent.extend(own);
                let old = self.recent.len().saturating_sub(4 * REMEMBERED);
                self.recent.drain(..old);
                self.barrier(thread, site, demands);
            }
            Model::Strand | Model::File(_) => {}
        }
    }

    /// A persist barrier: orders within the strand.
    fn strand_barrier(&mut self, thread: ThreadId, site: SiteId) {
        let agent = self.clocks.agent(thread);
        let demands = self.open.remove(&agent).unwrap_or_default();
        self.barrier(thread, site, demands);
    }

    /// All strands of the thread end.
    fn join_strands(&mut self, thread: ThreadId, site: SiteId) {
        for agent in self.clocks.strands(thread) {
            let demands = self.open.remove(&agent).unwrap_or_default();
            if !demands.is_empty() {
                let stamp = self.clocks.tick_agent(agent);
                self.barrier_at(thread, site, demands, stamp);
            }
        }
        self.clocks.join_strands(thread);
    }

    fn barrier(&mut self, thread: ThreadId, site: SiteId, mut demands: Vec<u32>) {
        // What a barrier that comes before for certain demanded needs no second one.
        demands.retain(|&at| {
            self.demanded[at as usize].is_none_or(|barrier| !self.clocks.knows(thread, barrier))
        });
        if !demands.is_empty() {
            let stamp = self.clocks.tick(thread);
            self.barrier_at(thread, site, demands, stamp);
        }
    }

    fn barrier_at(&mut self, thread: ThreadId, site: SiteId, mut demands: Vec<u32>, stamp: Stamp) {
        let atoms = &self.history.atoms;
        // The last one of each cell.
        demands.sort_unstable_by_key(|&at| (atoms[at as usize].cell, std::cmp::Reverse(at)));
        demands.dedup_by_key(|at| atoms[*at as usize].cell);
        let mut fresh = false;
        let mut older = Vec::new();
        for &at in &demands {
            let cell = atoms[at as usize].cell;
            for &before in self.cells.get(&cell).into_iter().flatten().rev().skip_while(|&&other| other > at)
            {
                let demanded = &mut self.demanded[before as usize];
                if demanded.is_some() {
                    break;
                }
                *demanded = Some(stamp);
                fresh = true;
                older.push(before);
            }
        }
        // A word that was stored non-temporally and then through the cache: the first is gone with the second
        // durable.
        for before in older {
            let atom = atoms[before as usize];
            let beside = atom.place.0 | WORD_CELL;
            if beside != atom.cell
                && let Some(others) = self.cells.get(&beside)
            {
                let gone = others.iter().rev().copied().find(|&other| other < before);
                if let Some(gone) = gone.filter(|&gone| self.demanded[gone as usize].is_none()) {
                    demands.push(gone);
                    self.demanded[gone as usize] = Some(stamp);
                }
            }
        }
        self.history.items.push(Item::Barrier(self.history.barriers.len() as u32));
        self.history.barriers.push(Barrier { site, thread, demands: demands.into(), fresh, stamp });
    }
}

/// Whether the event begins what a locked instruction makes known. Such an instruction waits for the flushes before it, and only then
/// stores and publishes; its `Fence(Locked)` comes last, and perhaps in another batch.
fn is_locked(events: &[Event], at: usize) -> bool {
    let Event { op, site, .. } = events[at];
    let beside = |at: usize| events.get(at).filter(|other| other.site == site).map(|other| other.op);
    match op {
        Op::Store { addr, .. } => match beside(at + 1) {
            Some(Op::Fence(FenceKind::Locked)) => true,
            Some(Op::Acquire { var, .. }) => var == addr,
            // An exchange, recorded as a store under its word lock.
            Some(Op::Release { var, order: Order::AcqRel | Order::SeqCst, .. }) => var == addr,
            _ => false,
        },
        Op::Release { var, order, .. } => {
            let loaded = || at.checked_sub(1).and_then(beside);
            matches!(order, Order::AcqRel | Order::SeqCst)
                || matches!(loaded(), Some(Op::Load { addr, .. }) if addr == var)
        }
        _ => false,
    }
}

/// The address of an object of the C library's that the event is about: threads meet there, and the program itself does not look at it.
pub(crate) fn object(events: &[Event], at: usize) -> Option<u64> {
    match events[at].op {
        Op::Lock { lock, .. } | Op::Unlock { lock, .. } => Some(lock),
        Op::Acquire { var, .. } | Op::Release { var, .. } => {
            let around = &events[at.saturating_sub(1)..events.len().min(at + 2)];
            let is_access = |event: &Event| matches!(event.op, Op::Load { addr, .. } | Op::Store { addr, .. } if addr == var);
            (!around.iter().any(is_access)).then_some(var)
        }
        _ => None,
    }
}

fn take<'a>(values: &mut &'a [u8], len: u32) -> Result<&'a [u8], SinkError> {
    let (bytes, rest) = values
        .split_at_checked(len as usize)
        .ok_or_else(|| SinkError::Other("a batch has fewer stored bytes than its stores say".into()))?;
    *values = rest;
    Ok(bytes)
}

impl Sink for Recorder {
    fn name(&self) -> &'static str {
        "the crash checker"
    }

    fn needs(&self) -> Capabilities {
        let strands = self.history.platform.model() == Model::Strand;
        let marks = if strands { Capabilities::REGIONS } else { Capabilities::empty() };
        marks
            | Capabilities::STORES
            | Capabilities::NON_TEMPORAL
            | Capabilities::FLUSHES
            | Capabilities::FENCES
            | Capabilities::SYNC
            | Capabilities::MAPPINGS
            | Capabilities::VALUES
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.history.table.define_site(id, site.clone()),
            Definition::Name(id, name) => {
                self.numbers.define(id, name);
                self.history.table.define_name(id, name.to_owned());
            }
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let mut values = batch.values;
        for (at, event) in batch.events.iter().enumerate() {
            if is_locked(batch.events, at) {
                self.fence(batch.thread, event.site);
            }
            if let Some(object) = object(batch.events, at) {
                self.history.objects.extend(self.ranges.place(batch.thread, object).map(|(place, _)| place));
            }
            self.event(batch.thread, event, &mut values)?;
        }
        Ok(())
    }
}
