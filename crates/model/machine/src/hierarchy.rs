//! The way of a line through the machine: private caches, shared cache, other cores, memory.
//!
//! Coherence is MESI in which a dirty bit distinguishes the E and M of a line. At any time
//! - a line is dirty at most once: in one core, or in the LLC;
//! - a core's line is *exclusive* if no other core and not the LLC has a copy; only exclusive lines are
//!   written to;
//! - a line that two cores have is clean in both.
//!
//! Who has a copy is found by asking the L2s of all cores that have run so far. That happens on an L2 miss and on a
//! store to a shared line, and never in a run of one core.

use device::Rng;

use crate::below::{Backend, Cause, Write};
use crate::cache::{Counts, DIRTY, EXCLUSIVE, Line, Shared, dirty_lines, shared};
use crate::combining::Pending;
use crate::core::{Core, Lookup};
use crate::{CacheFigures, Config, Replacement, Time, lookahead};

/// How an access that was no hit in the L1 got its line, for those who time it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// From the core's own L2.
    L2,
    /// The core had the line; other cores gave theirs up.
    Upgrade,
    /// From the LLC, where it lay or where another core's change went.
    Llc,
    /// From the core of that number.
    Core(usize),
    /// From memory.
    Memory,
}

/// Dirty lines and reads, by the edge of the machine that they crossed; the other side of each
/// component's own counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flows {
    pub(crate) core_to_core: u64,
    pub(crate) core_to_llc: u64,
    pub(crate) core_to_memory: u64,
    pub(crate) llc_to_core: u64,
    pub(crate) llc_to_memory: u64,
    pub(crate) combining_to_memory: u64,
    pub(crate) memory_reads: u64,
    pub(crate) prefetches: u64,
}

/// Cores and caches, and what lies below them.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy<B> {
    config: Config,
    /// Those that have run, and those before them.
    pub(crate) cores: Vec<Core>,
    pub(crate) llc: Shared,
    pub(crate) llc_counts: Counts,
    /// Whether the LLC passes over lines that can't leave at once.
    passes_over: bool,
    /// What lies below.
    pub(crate) below: B,
    pub(crate) flows: Flows,
}

impl<B: Backend> Hierarchy<B> {
    pub(crate) fn new(config: &Config, below: B) -> Self {
        let mut level = config.llc.clone();
        if !B::TIMED {
            // Nobody knows what keeps lines in order and what doesn't: what leaves is chance.
            level.slices = None;
            if level.replacement == Replacement::QueueAware {
                level.replacement = Replacement::Random;
            }
        }
        Hierarchy {
            cores: Vec::new(),
            llc: shared(&level, Rng::new(config.seed ^ 1 << 60)),
            passes_over: level.replacement == Replacement::QueueAware,
            llc_counts: Counts::default(),
            below,
            flows: Flows::default(),
            config: config.clone(),
        }
    }

    /// The core on which `thread` runs.
    pub(crate) fn schedule(&mut self, thread: u32) -> usize {
        let core = (thread % self.config.cores.count) as usize;
        self.reach(core);
        self.cores[core].thread = thread;
        core
    }

    /// The core of that number, and those before it, exist.
    pub(crate) fn reach(&mut self, core: usize) {
        while self.cores.len() <= core {
            self.cores.push(Core::new(&self.config, self.cores.len() as u64));
        }
    }

    /// An ordinary load or store of `line`.
    #[inline]
    pub(crate) fn access(&mut self, core: usize, line: u64, store: bool, site: u32) {
        match self.cores[core].hit(line, store, site) {
            Lookup::Hit => {}
            found => {
                self.miss(core, line, store, site, found);
            }
        }
    }

    /// The rest of an access for which [`Core::hit`] did not find all it needs, but what is `found`.
    #[inline(never)]
    pub(crate) fn miss(&mut self, core: usize, line: u64, store: bool, site: u32, found: Lookup) -> Answer {
        if !self.cores[core].combining.is_empty() && self.cores[core].combining.holds(line) {
            let pending = self.cores[core].combining.take(line);
            self.write_combined(core, pending);
        }
        let this = &mut self.cores[core];
        let in_l1 = found == Lookup::Shared;
        this.l1_counts.misses += u64::from(!in_l1);
        let (slot, mut answer) = match this.l2.find(line) {
            Some(slot) => {
                this.l2_counts.hits += u64::from(!in_l1);
                this.l2.touch(slot);
                (slot, Answer::L2)
            }
            None => {
                this.l2_counts.misses += 1;
                self.fetch(core, line, store, site)
            }
        };
        if store && !self.cores[core].l2.slots[slot].item.exclusive() {
            self.upgrade(core, line, slot);
            answer = Answer::Upgrade;
        }
        let this = &mut self.cores[core];
        if !in_l1 {
            this.fill_l1(line, slot);
        }
        let done = !store || this.hit(line, true, site) == Lookup::Hit;
        debug_assert!(done, "an exclusive line in the L1 takes any store");
        answer
    }

    /// Brings a line that the core does not have into its L2. Returns its slot there and where it came from.
    fn fetch(&mut self, core: usize, line: u64, store: bool, site: u32) -> (usize, Answer) {
        lookahead::read_miss(&self.cores[core], &self.llc, line);
        let in_llc = self.llc.find(line);
        self.llc_counts.hits += u64::from(in_llc.is_some());
        self.llc_counts.misses += u64::from(in_llc.is_none());
        let mut arrived = Line::new(0, 0, EXCLUSIVE);
        let mut holder = None;
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            let Some(slot) = self.cores[other].l2.find(line) else { continue };
            holder = Some(other);
            if store {
                let taken = self.cores[other].invalidate(slot);
                self.flows.core_to_core += u64::from(taken.dirty());
                arrived.absorb(taken);
            } else {
                arrived.clear(EXCLUSIVE);
                if let Some(changed) = self.cores[other].share(slot) {
                    self.flows.core_to_llc += 1;
                    self.enter_llc(line, Line::new(changed, self.cores[other].thread, DIRTY));
                }
            }
        }
        let answer = match (in_llc, holder) {
            (Some(slot), _) => {
                if arrived.exclusive() {
                    arrived.absorb(self.take_from_llc(slot));
                } else {
                    self.llc.touch(slot);
                }
                Answer::Llc
            }
            (None, Some(other)) => {
                self.llc_counts.forwards += 1;
                Answer::Core(other)
            }
            (None, None) => {
                self.flows.memory_reads += 1;
                self.below.read(line, site);
                Answer::Memory
            }
        };
        (self.fill(core, line, arrived), answer)
    }

    /// Brings a line into a core's L2 that nobody there asked for. None if it is there.
    pub(crate) fn prefetch(&mut self, core: usize, line: u64, site: u32) -> Option<Answer> {
        let this = &self.cores[core];
        if this.l2.find(line).is_some() || this.combining.holds(line) {
            return None;
        }
        self.flows.prefetches += 1;
        Some(self.fetch(core, line, false, site).1)
    }

    /// Puts a line into a core's L2; what leaves goes to the LLC.
    fn fill(&mut self, core: usize, line: u64, arrived: Line) -> usize {
        let this = &mut self.cores[core];
        let (slot, evicted) = this.fill_l2(line, arrived);
        if let Some((tag, old)) = evicted {
            let thread = this.thread;
            self.leave_core(tag, old.with_link(thread));
        }
        slot
    }

    /// A line that has just left a core goes to the LLC; its link is the core's thread.
    fn leave_core(&mut self, line: u64, old: Line) {
        self.flows.core_to_llc += u64::from(old.dirty());
        self.below.left_core(line, old.link, old.dirty());
        self.enter_llc(line, old);
    }

    fn enter_llc(&mut self, line: u64, arrived: Line) {
        // A line that was exclusive can't have a copy here.
        let copy = if arrived.exclusive() { None } else { self.llc.find(line) };
        if let Some(slot) = copy {
            self.llc.touch(slot);
            if arrived.dirty() {
                self.llc_counts.dirty_arrives(self.llc.slots[slot].item);
                self.llc.slots[slot].item = arrived;
            }
            return;
        }
        if arrived.dirty() {
            self.llc_counts.dirty_arrives(Line::default());
        }
        let mut kept = arrived;
        kept.clear(EXCLUSIVE);
        let evicted = if self.passes_over {
            let below = &mut self.below;
            let wait = |tag, held: Line| if held.dirty() { below.wait(tag) } else { Time::ZERO };
            self.llc.insert_passing_over(line, kept, wait)
        } else {
            self.llc.insert(line, kept).1
        };
        let Some((tag, old)) = evicted else { return };
        self.llc_counts.evictions += 1;
        if old.dirty() {
            self.llc_counts.dirty_out += 1;
            self.flows.llc_to_memory += 1;
            self.below.write(Write { line: tag, site: old.site(), thread: old.link, cause: Cause::Eviction });
        }
    }

    /// Takes a line out of the LLC for a core.
    fn take_from_llc(&mut self, slot: usize) -> Line {
        let line = self.llc.remove(slot);
        self.llc_counts.dirty_out += u64::from(line.dirty());
        self.flows.llc_to_core += u64::from(line.dirty());
        line
    }

    /// A core is about to store to a line that others have as well: they give it up.
    fn upgrade(&mut self, core: usize, line: u64, slot: usize) {
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            if let Some(slot) = self.cores[other].l2.find(line) {
                let taken = self.cores[other].invalidate(slot);
                debug_assert!(!taken.dirty(), "a shared line is clean");
            }
        }
        if let Some(copy) = self.llc.find(line) {
            let taken = self.take_from_llc(copy);
            if taken.dirty() {
                self.cores[core].adopt(slot, taken.site());
            }
        }
        self.cores[core].own(slot);
    }

    /// Writes `line` back to memory if it is dirty anywhere, and drops it everywhere if asked to. Returns
    /// whether it was dirty.
    pub(crate) fn flush(&mut self, core: usize, line: u64, keep: bool) -> bool {
        let own = self.cores[core].locate(line);
        let alone = own.is_some_and(|slot| self.cores[core].l2.slots[slot].item.exclusive());
        let mut dirty = own.is_some_and(|slot| self.write_back(core, line, slot, keep, Cause::Request));
        if !alone {
            dirty |= self.purge_others(core, line, keep, Cause::Request);
        }
        dirty
    }

    /// Writes a core's line back if it is dirty. Returns whether it was.
    fn write_back(&mut self, core: usize, line: u64, slot: usize, keep: bool, cause: Cause) -> bool {
        let this = &mut self.cores[core];
        let thread = this.thread;
        let changed = this.clean(slot);
        if !keep {
            this.take(slot);
        }
        if let Some(site) = changed {
            self.flows.core_to_memory += 1;
            self.below.write(Write { line, site, thread, cause });
        }
        changed.is_some()
    }

    /// Writes copies of `line` outside `core` back, and drops them unless `keep`. Returns whether
    /// one was dirty.
    fn purge_others(&mut self, core: usize, line: u64, keep: bool, cause: Cause) -> bool {
        let mut dirty = false;
        for other in (0..self.cores.len()).filter(|&other| other != core) {
            if let Some(slot) = self.cores[other].l2.find(line) {
                dirty |= self.write_back(other, line, slot, keep, cause);
            }
        }
        if let Some(slot) = self.llc.find(line) {
            let copy = self.llc.slots[slot].item;
            self.llc.slots[slot].item.clear(DIRTY);
            if !keep {
                self.llc.remove(slot);
            }
            if copy.dirty() {
                dirty = true;
                self.llc_counts.dirty_out += 1;
                self.flows.llc_to_memory += 1;
                self.below.write(Write { line, site: copy.site(), thread: copy.link, cause });
            }
        }
        dirty
    }

    /// Moves a core's line down to the LLC (`cldemote`).
    pub(crate) fn demote(&mut self, core: usize, line: u64) {
        if let Some(slot) = self.cores[core].locate(line) {
            let old = self.cores[core].take(slot);
            let thread = self.cores[core].thread;
            self.leave_core(line, old.with_link(thread));
        }
    }

    /// A non-temporal store of `bytes` (a mask) of `line`. Opening a buffer writes the line back from all
    /// caches and drops it there.
    pub(crate) fn store_nt(&mut self, core: usize, line: u64, bytes: u64, site: u32) {
        let buffers = &self.cores[core].combining;
        if !buffers.holds(line) {
            if buffers.is_full() {
                let oldest = self.cores[core].combining.take_oldest();
                self.write_combined(core, oldest);
            }
            if let Some(slot) = self.cores[core].locate(line) {
                self.write_back(core, line, slot, false, Cause::Eviction);
            }
            self.purge_others(core, line, false, Cause::Eviction);
        }
        let full = self.cores[core].combining.store(line, bytes, site);
        self.write_combined(core, full);
    }

    /// A fence, or the end: the core's combining buffers go out in the order in which they were opened.
    pub(crate) fn drain_combining(&mut self, core: usize) {
        while let Some(pending) = self.cores[core].combining.take_oldest() {
            self.write_combined(core, Some(pending));
        }
    }

    fn write_combined(&mut self, core: usize, pending: Option<Pending>) {
        let Some(pending) = pending else { return };
        if self.cores.len() > 1 {
            // Another core may have read the line since the buffer was opened.
            self.purge_others(core, pending.line, false, Cause::Eviction);
        }
        self.flows.combining_to_memory += 1;
        let cause = Cause::NonTemporal { whole: pending.whole() };
        let thread = self.cores[core].thread;
        self.below.write(Write { line: pending.line, site: pending.site, thread, cause });
    }

    /// What the caches counted; `accesses` are all line accesses by ordinary loads and stores.
    pub(crate) fn figures(&self, accesses: u64) -> Vec<CacheFigures> {
        let (mut l1, mut l2, mut dirty) = (Counts::default(), Counts::default(), (0, 0));
        for core in &self.cores {
            l1.add(&core.l1_counts);
            l2.add(&core.l2_counts);
            let (in_l1, in_l2) = core.held_dirty_lines();
            dirty = (dirty.0 + in_l1, dirty.1 + in_l2);
        }
        l1.hits = accesses - l1.misses;
        let llc = self.llc_counts.figures("LLC", dirty_lines(&self.llc));
        vec![l1.figures("L1", dirty.0), l2.figures("L2", dirty.1), llc]
    }

    /// Writes everything back, as an orderly shutdown does: combining buffers and caches.
    pub(crate) fn drain(&mut self) {
        for core in 0..self.cores.len() {
            self.drain_combining(core);
            let held: Vec<_> = self.cores[core].l2.held().map(|(slot, line, _)| (slot, line)).collect();
            for (slot, line) in held {
                self.write_back(core, line, slot, true, Cause::Request);
            }
        }
        let dirty: Vec<_> =
            self.llc.held().filter(|(_, _, line)| line.dirty()).map(|(_, tag, _)| tag).collect();
        for line in dirty {
            self.purge_others(usize::MAX, line, true, Cause::Request);
        }
    }
}

impl Line {
    /// Takes over another copy's changes.
    fn absorb(&mut self, other: Line) {
        if other.dirty() {
            self.store(other.site());
        }
    }
}
