//! The pass over the events.

use std::collections::BTreeMap;

use event::{
    Batch, BlockBatch, BlockItem, Capabilities, Definition, Event, Frame, NameId, Op, RunSink, Sink,
    SinkError, Site, SiteId, SiteTable,
};

use super::advice::PlaceAdvice;
use super::allocations::Allocations;
use super::contexts::{Contexts, Write, Writer};
use super::fences::{Reach, Unfenced};
use super::functions::{Functions, base};
use super::lines::{ContextId, LINE, Lines, Moment, split};
use super::options::Options;
use super::places::Places;
use super::touched::Touched;

/// Bytes that one store instruction of a copy loop moves: events of whole copies count as so many stores.
const VECTOR: u64 = 16;
/// A load that repeats one of the thread's last ones is not work but waiting, or would be a register in other
/// code.
const RECENT: usize = 8;
/// Phases distinguished; later ones count as the last.
const PHASES_MAX: usize = 64;
/// Threads followed at a time; those whose numbers are equal modulo this share their state.
pub(super) const THREADS_MAX: usize = 4096;

/// Where a store stands in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// Number of the phase, 0 before the first mark.
    pub(super) phase: u32,
    pub(super) function: String,
    pub(super) file: String,
    pub(super) line: u32,
}

/// One phase of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase {
    /// `None` before the first mark.
    pub(super) name: Option<String>,
    /// Load and store instructions, where a copy counts as its vectors.
    pub(super) load_work: u64,
    pub(super) store_work: u64,
    /// Whether the program came back to it.
    pub(super) returned: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    instructions: u64,
    /// Where it loaded last.
    recent: [u64; RECENT],
    next_recent: usize,
    pub(super) unfenced: Unfenced,
}

impl Thread {
    /// Whether a load at `addr` is none of the last few again.
    #[inline]
    fn loads_anew(&mut self, addr: u64) -> bool {
        let anew = !self.recent.contains(&addr);
        if anew {
            self.recent[self.next_recent] = addr;
            self.next_recent = (self.next_recent + 1) % RECENT;
        }
        anew
    }
}

/// Watches a program's stores, loads and fences, and keeps what the decision needs. Push all events,
/// call [`Sink::finish`], then ask for [`Watcher::advice`](super::Watcher::advice).
#[derive(Debug, Default)]
pub struct Watcher {
    pub(super) options: Options,
    /// By site: its place, plus 1.
    sites: Vec<u32>,
    /// By place: where it is, and one of its sites.
    pub(super) sources: Vec<(Source, SiteId)>,
    index: BTreeMap<Source, u32>,
    pub(super) functions: Functions,
    pub(super) places: Places,
    pub(super) contexts: Contexts,
    pub(super) lines: Lines,
    pub(super) touched: Touched,
    allocations: Allocations,
    pub(super) threads: Vec<Thread>,
    /// Threads that started and did not end.
    pub(super) running: u64,
    /// Instructions of all threads.
    instructions: u64,
    /// Whether the source does not tell them.
    uncounted: bool,
    /// Whether the source saw only some of what was touched.
    pub(super) sampled: bool,
    /// What they were when watching began or began anew; lines written before are none.
    pub(super) since: u64,
    /// Whether new writes are of no interest.
    pub(super) following: bool,
    /// Whether the program mapped persistent memory.
    mapped: bool,
    /// Whether there are names, of phases perhaps.
    named: bool,
    /// By phase: what it executed. The first is what comes before any mark.
    pub(super) phases: Vec<Phase>,
    /// The phase that lasts.
    phase: u32,
    /// Whether it prepares or examines.
    aside: bool,
    /// Names of sites and phases.
    pub(super) definitions: SiteTable,
}

impl Watcher {
    /// A watcher with thresholds of one's own.
    #[must_use]
    pub fn with_options(options: Options) -> Self {
        Watcher { options, ..Watcher::default() }
    }

    fn admit_thread(&mut self, thread: u32) {
        let slot = thread as usize % THREADS_MAX;
        if slot >= self.threads.len() {
            self.threads.resize_with(slot + 1, Thread::default);
        }
    }

    pub(super) fn place(&mut self, site: SiteId) -> u32 {
        match self.sites.get(site.0 as usize) {
            Some(&place) if place > 0 => place - 1,
            _ => self.admit(site),
        }
    }

    /// The place of a site that stores for the first time in this phase.
    #[cold]
    fn admit(&mut self, site: SiteId) -> u32 {
        let phase = self.phase;
        let source = match self.definitions.site(site).and_then(Site::frame) {
            Some(frame) => {
                let (function, file) = (base(&frame.function), frame.file.clone());
                Source { phase, function, file, line: frame.line }
            }
            None => {
                let function =
                    self.definitions.site(site).map_or_else(|| "unknown".to_owned(), Site::to_string);
                Source { phase, function, file: String::new(), line: 0 }
            }
        };
        let next = self.sources.len() as u32;
        let place = *self.index.entry(source.clone()).or_insert(next);
        if place == next {
            self.functions.name_place(phase, &source.function);
            self.sources.push((source, site));
        }
        // A number that only damage explains must not decide how much memory is taken.
        let at = site.0 as usize;
        if at < 1 << 22 {
            if at >= self.sites.len() {
                self.sites.resize(at + 1, 0);
            }
            self.sites[at] = place + 1;
        }
        place
    }

    /// The function of a site that reads what was written.
    fn reader(&mut self, site: SiteId) -> u32 {
        let Some(function) = self.functions.of_site(site) else {
            let definition = self.definitions.site(site);
            let name = match definition.and_then(Site::frame) {
                Some(frame) => base(&frame.function),
                None => definition.map_or_else(|| "unknown".to_owned(), Site::to_string),
            };
            return self.functions.name_site(site, self.phase, &name);
        };
        function
    }

    fn event(&mut self, number: u32, event: &Event) {
        let slot = number as usize % THREADS_MAX;
        // Where instructions are not known, events stand for them.
        let instructions = u64::from(event.instructions.max(u32::from(self.uncounted)));
        self.instructions += instructions;
        self.threads[slot].instructions += instructions;
        if let Op::Load { addr, len } | Op::Store { addr, len } | Op::StoreNt { addr, len } = event.op {
            self.touched.access(addr, len);
        }
        let now = Moment {
            own: self.threads[slot].instructions,
            global: self.instructions,
            thread: number,
            touched: self.touched.count(),
        };
        match event.op {
            Op::Load { addr, len } => self.load(slot, addr, len, event.site, now),
            Op::Store { addr, len } => self.store(slot, addr, len, event.site, now),
            Op::StoreNt { addr, len } => {
                self.store(slot, addr, len, event.site, now);
                self.stored_around(event.site, len);
            }
            Op::Flush { addr, .. } | Op::Demote { addr } => self.sent(addr),
            Op::Fence(_) | Op::Lock { .. } | Op::Unlock { .. } | Op::Release { .. } => {
                let reach = Reach { least: self.options.fence_room, most: self.options.fence_distance };
                self.threads[slot].unfenced.fence(now.own, reach, &mut self.places);
            }
            Op::Alloc { addr, len } => {
                self.allocations.add(addr, len, event.site);
                self.free(addr, len);
            }
            Op::Free { addr } => {
                if let Some(end) = self.allocations.remove(addr) {
                    self.free(addr, end - addr);
                }
            }
            Op::Phase { name } => self.enter(name),
            Op::Map { .. } => self.mapped = true,
            Op::ThreadStart { .. } => self.running += 1,
            Op::ThreadEnd { .. } => self.running = self.running.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether the program mapped persistent memory. If not, the advice is about all its memory as if it lay
    /// on the target's device.
    #[must_use]
    pub fn mapped_persistent(&self) -> bool {
        self.mapped
    }

    /// The code of a place that was advised on, innermost function first.
    #[must_use]
    pub fn frames(&self, place: &PlaceAdvice) -> &[Frame] {
        self.definitions.site(place.site).map_or(&[], |site| site.frames.as_slice())
    }

    /// The code of all places that fill the same lines as this one, its own included: each like
    /// [`frames`](Self::frames). Of a place that writes before fences none: what a fence waits for is to be
    /// sent on at once, and not when the lines are done with.
    #[must_use]
    pub fn body(&self, place: &PlaceAdvice) -> Vec<&[Frame]> {
        if place.fenced >= self.options.fenced_min {
            return Vec::new();
        }
        let bodies = self.places.bodies();
        let body_of = |at: usize| bodies.get(at).copied().unwrap_or(at);
        let Some(own) = self.sources.iter().position(|(_, site)| *site == place.site).map(body_of) else {
            return Vec::new();
        };
        let sites = self.sources.iter().enumerate().filter(|(at, _)| body_of(*at) == own);
        sites
            .filter_map(|(_, (_, site))| self.definitions.site(*site))
            .map(|site| site.frames.as_slice())
            .collect()
    }

    /// From now on only what becomes of the data that were written before is of interest.
    pub(super) fn follow(&mut self) {
        self.following = true;
    }

    /// Time went by that nobody watched: what was written before it is forgotten.
    pub(super) fn restart(&mut self) {
        self.following = false;
        self.instructions += 1;
        self.since = self.instructions;
        self.contexts.close_all(&mut self.places);
        self.threads.iter_mut().for_each(|thread| thread.unfenced = Unfenced::default());
    }

    /// Whether a phase can have been marked.
    pub(super) fn has_names(&self) -> bool {
        self.named
    }

    /// The account of the phase that lasts.
    #[inline]
    fn work(&mut self) -> &mut Phase {
        let at = self.phase as usize;
        if at >= self.phases.len() {
            self.phases.resize_with(at + 1, Phase::default);
        }
        &mut self.phases[at]
    }

    /// A phase begins, or goes on.
    pub(super) fn enter(&mut self, name: NameId) {
        let name = self.definitions.name(name).unwrap_or_default().to_owned();
        let known = self.phases.iter().position(|phase| phase.name.as_ref() == Some(&name));
        let next = self.phases.len().max(1);
        // Several threads may mark the same one.
        let returns = known.is_some_and(|known| known as u32 != self.phase);
        self.phase = known.unwrap_or(next.min(PHASES_MAX)) as u32;
        let phase = self.work();
        phase.name = Some(name);
        phase.returned |= returns;
        self.aside = self.is_aside(&self.phases[self.phase as usize]);
        // A site's place is another one in each phase.
        self.sites.fill(0);
        self.functions.forget_sites();
    }

    /// Whether what a phase reads is no use of what others wrote. Who comes back to it prepares or examines
    /// in every round, which is part of what the program does.
    pub(super) fn is_aside(&self, phase: &Phase) -> bool {
        !phase.returned && phase.name.as_deref().is_some_and(|name| self.options.is_aside(name))
    }

    /// What lay in these bytes is nobody's. Whoever gets the memory next has another object in it, but the
    /// lines are the same: what is written there while a cache still has them spares the memory the old
    /// object, and must not be sent there early.
    fn free(&mut self, addr: u64, len: u64) {
        // Lines that are only partly in the range are shared with a neighbour, who still has them.
        let (first, past) = (addr.div_ceil(LINE), addr.saturating_add(len) / LINE);
        if first < past {
            self.lines.free(first, past - 1);
        }
    }

    #[inline]
    fn load(&mut self, slot: usize, addr: u64, len: u32, site: SiteId, now: Moment) {
        let reader = self.reader(site);
        if !self.following && self.threads[slot].loads_anew(addr) {
            let work = u64::from(len).div_ceil(VECTOR);
            self.work().load_work += work;
            self.functions.add_work(reader, work);
        }
        if self.aside {
            // Whoever checks the results of an experiment reads all of them, which the program as it is used
            // would not do.
            return;
        }
        for (line, bytes) in split(addr, len) {
            let Some(written) = self.lines.find(line) else { continue };
            if written.read || written.bytes & bytes == 0 || written.at.global < self.since {
                continue;
            }
            written.read = true;
            let (context, place, at) = (written.context, written.place, written.at);
            // That another thread reads it, as at the border of its part of a matrix, says nothing of this
            // thread's inner loop.
            if self.used(context, place, at, now, |part| &mut part.reread) && at.thread == now.thread {
                self.places.get(place).read_by(reader);
            }
        }
    }

    fn store(&mut self, slot: usize, addr: u64, len: u32, site: SiteId, now: Moment) {
        if len == 0 {
            return;
        }
        if self.following {
            self.overwrite(addr, len, now);
            return;
        }
        let place = self.place(site);
        let work = u64::from(len).div_ceil(VECTOR);
        self.work().store_work += work;
        let account = self.places.get(place);
        account.work += work;
        account.bytes += u64::from(len);
        let distance = self.options.fence_distance;
        self.threads[slot].unfenced.store(place, u64::from(len), now.own, distance);

        self.functions.add_work(self.functions.of_place(place), work);
        let writer = Writer { thread: now.thread, function: self.functions.of_place(place) };
        let write = Write { addr, len, at: now.own };
        let (context, streak) = self.context(write, writer);
        self.contexts.write(context, place, write, streak);
        for (line, bytes) in split(addr, len) {
            self.write_line(line, bytes, context, place, now);
        }
    }

    /// The context of a write, and whether the write continues it.
    fn context(&mut self, Write { addr, len, at }: Write, writer: Writer) -> (ContextId, bool) {
        if let Some(continued) = self.contexts.continued(writer.thread, addr, len, at) {
            return continued;
        }
        let since = self.since;
        let before =
            self.lines.find(addr / LINE).filter(|written| written.at.global >= since && !written.freed);
        let before = before.map(|written| written.context);
        match before {
            Some(context) if self.contexts.contains(context, writer, addr) => (context, false),
            _ => {
                let object = self.allocations.object(addr);
                (self.contexts.open(writer, addr, object, &mut self.places), false)
            }
        }
    }
}

impl Sink for Watcher {
    fn name(&self) -> &'static str {
        "pre-stores"
    }

    fn needs(&self) -> Capabilities {
        Capabilities::LOADS
    }

    fn begin(&mut self, source: &event::Source) -> Result<(), SinkError> {
        self.uncounted = source.instructions == event::InstructionCounts::Unknown;
        self.sampled = source.sampling.is_some();
        Ok(())
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        match definition {
            Definition::Site(id, site) => self.definitions.define_site(id, site.clone()),
            Definition::Name(id, name) => {
                self.named = true;
                self.definitions.define_name(id, name.to_owned());
            }
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.admit_thread(batch.thread.0);
        batch.events.iter().for_each(|event| self.event(batch.thread.0, event));
        Ok(())
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.contexts.close_all(&mut self.places);
        Ok(())
    }
}

impl RunSink for Watcher {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        let (thread, mut carry) = (batch.thread.0, batch.carry);
        self.admit_thread(thread);
        for item in batch.items() {
            match item {
                BlockItem::Block(_, shape, words) => {
                    shape.accesses(words, &mut carry, |access, addr, len, instructions| {
                        self.event(
                            thread,
                            &Event { op: access.op(addr, len), site: access.site, instructions },
                        );
                    });
                }
                BlockItem::Event(event) => {
                    self.event(thread, event);
                    carry = 0;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{AccessKind, BlockAccess, BlockShape, EVENT, FenceKind, ThreadId};

    use super::*;

    #[test]
    fn runs_are_watched_as_their_events_are() {
        let access =
            |kind, site, instructions| BlockAccess { kind, len: Some(8), site: SiteId(site), instructions };
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        let shapes = [
            BlockShape { accesses: vec![access(load, 1, 3), access(store, 2, 2)], after: 5 },
            BlockShape { accesses: vec![access(store, 3, 1)], after: 1 },
        ]
        .map(Arc::new);
        let fence = Event { op: Op::Fence(FenceKind::Store), site: SiteId(4), instructions: 2 };
        let (mut by_runs, mut by_events) = (Watcher::default(), Watcher::default());
        for batch in 0..200u64 {
            let (mut words, mut count) = (Vec::new(), 1);
            for step in 0..40 {
                let at = (1 << 20) + (batch * 40 + step) * 8;
                if step == 20 {
                    words.push(EVENT);
                }
                // Some loads are left out by a jump.
                let loaded = if step % 3 == 0 { 0 } else { at - 4096 };
                words.extend([
                    BlockShape::sized_head(0, 2),
                    loaded,
                    at,
                    BlockShape::head(1),
                    (1 + at % 777) * 64,
                ]);
                count += 2 + usize::from(loaded != 0);
            }
            let (thread, time_ns, events) = (ThreadId(batch as u32 % 3), 0, &[fence]);
            let batch =
                BlockBatch { thread, time_ns, shapes: &shapes, words: &words, events, count, carry: 7 };
            by_runs.push_blocks(batch).expect("it takes runs");
            batch.expanded(|batch| by_events.push(batch)).expect("it takes events");
        }
        let seen = |watcher: &mut Watcher| {
            watcher.finish().expect("it ends");
            let Watcher { instructions, phases, places, functions, threads, touched, .. } = watcher;
            format!("{instructions} {phases:?} {places:?} {functions:?} {threads:?} {}", touched.count())
        };
        assert_eq!(seen(&mut by_runs), seen(&mut by_events));
    }
}
