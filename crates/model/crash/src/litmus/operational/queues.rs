//! Epochs and strands: stores wait in queues, each for those before it that it must not overtake.
//!
//! Every store is queued with the set of queued stores that it waits for. Memory takes any store that waits for nothing. Stores to one
//! word leave in their order. The two models differ only in these sets, which [`Order`] keeps per thread.

use event::StrandMark;

use super::Machine;
use crate::litmus::{Instruction, Litmus, Values};

/// Stores, one bit each.
type Set = u64;

/// What a thread knows of stores that are still queued.
pub(super) trait Order: Clone + Default + Eq + std::hash::Hash {
    /// What others learn from the thread.
    type Known: Clone + Default + Eq + std::hash::Hash;

    /// What the thread's next store waits for.
    fn waits_for(&self) -> Set;
    /// The thread queued a store.
    fn queued(&mut self, store: Set);
    /// A fence.
    fn fence(&mut self);
    /// A mark of strands.
    fn mark(&mut self, mark: StrandMark);
    /// What it publishes now.
    fn published(&self) -> Self::Known;
    /// It learns what another thread, or an earlier release, published.
    fn learn(&mut self, known: &Self::Known);
    /// What two releases published.
    fn join(known: &mut Self::Known, more: &Self::Known);
    /// What a load learns from the store that it reads, given what that thread published right behind it.
    fn read(&mut self, known: &Self::Known);
    /// These stores are in memory: nothing waits for them.
    fn forget(&mut self, stores: Set);
    /// The same, of what was published.
    fn forget_known(known: &mut Self::Known, stores: Set);
}

/// Epochs: later stores wait for everything known before a fence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Epochs {
    /// Known before the last fence.
    before: Set,
    /// Known since.
    open: Set,
}

impl Order for Epochs {
    type Known = (Set, Set);

    fn waits_for(&self) -> Set {
        self.before
    }
    fn queued(&mut self, store: Set) {
        self.open |= store;
    }
    fn fence(&mut self) {
        self.before |= std::mem::take(&mut self.open);
    }
    fn mark(&mut self, _: StrandMark) {}
    fn published(&self) -> Self::Known {
        (self.before, self.open)
    }
    fn learn(&mut self, known: &Self::Known) {
        self.before |= known.0;
        self.open |= known.1;
    }
    fn join(known: &mut Self::Known, more: &Self::Known) {
        *known = (known.0 | more.0, known.1 | more.1);
    }
    fn read(&mut self, known: &Self::Known) {
        self.learn(known);
    }
    fn forget(&mut self, stores: Set) {
        self.before &= !stores;
        self.open &= !stores;
    }
    fn forget_known(known: &mut Self::Known, stores: Set) {
        *known = (known.0 & !stores, known.1 & !stores);
    }
}

/// Strands: a persist barrier makes the strand's stores, a join those of all strands a thing to wait for. What synchronisation
/// brings counts from the next join on, and only what was joined is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Strands {
    /// Before the last join.
    joined: Set,
    /// Since then, on any strand.
    unjoined: Set,
    /// On this strand, before its last barrier.
    before: Set,
    /// On this strand, since then.
    open: Set,
    /// Learnt, not yet joined.
    acquired: Set,
}

impl Order for Strands {
    type Known = Set;

    fn waits_for(&self) -> Set {
        self.joined | self.before
    }
    fn queued(&mut self, store: Set) {
        self.open |= store;
        self.unjoined |= store;
    }
    fn fence(&mut self) {}
    fn mark(&mut self, mark: StrandMark) {
        match mark {
            StrandMark::Barrier => self.before |= std::mem::take(&mut self.open),
            StrandMark::New => (self.before, self.open) = (0, 0),
            StrandMark::Join => {
                self.joined |= self.unjoined | self.acquired;
                (self.unjoined, self.acquired, self.before, self.open) = (0, 0, 0, 0);
            }
        }
    }
    fn published(&self) -> Set {
        self.joined
    }
    fn learn(&mut self, known: &Set) {
        self.acquired |= known;
    }
    fn join(known: &mut Set, more: &Set) {
        *known |= more;
    }
    /// A load orders nothing.
    fn read(&mut self, _: &Set) {}
    fn forget(&mut self, stores: Set) {
        for set in
            [&mut self.joined, &mut self.unjoined, &mut self.before, &mut self.open, &mut self.acquired]
        {
            *set &= !stores;
        }
    }
    fn forget_known(known: &mut Set, stores: Set) {
        *known &= !stores;
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queued {
    store: Set,
    at: usize,
    value: u64,
    waits_for: Set,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queues<O: Order> {
    memory: Values,
    queue: Vec<Queued>,
    threads: Vec<O>,
    /// Published by releases, per variable.
    released: Vec<O::Known>,
    /// Published by locked instructions, per location.
    exchanged: Vec<O::Known>,
    /// Published by the last store to each location.
    stored: Vec<O::Known>,
    /// Instructions of the threads before each thread: an instruction's place in the whole is its store's bit.
    before: Vec<usize>,
}

impl<O: Order> Queues<O> {
    pub fn new(litmus: &Litmus) -> Self {
        let mut total = 0;
        let mut before = Vec::new();
        for thread in &litmus.threads {
            before.push(total);
            total += thread.len();
        }
        Queues {
            memory: vec![0; litmus.locations.len()],
            queue: Vec::new(),
            threads: vec![O::default(); litmus.threads.len()],
            released: vec![O::Known::default(); litmus.variables.len()],
            exchanged: vec![O::Known::default(); litmus.locations.len()],
            stored: vec![O::Known::default(); litmus.locations.len()],
            before,
        }
    }

    fn store(&mut self, thread: usize, number: usize, at: usize, value: u64) {
        let store = 1 << (self.before[thread] + number);
        // Behind the word's store before, which is the last in the queue.
        let last = self.queue.iter().rev().find(|queued| queued.at == at);
        let waits_for = self.threads[thread].waits_for() | last.map_or(0, |last| last.store);
        self.queue.push(Queued { store, at, value, waits_for });
        self.threads[thread].queued(store);
        self.stored[at] = self.threads[thread].published();
    }

    fn persist(&mut self, number: usize) {
        let Queued { store, at, value, .. } = self.queue.remove(number);
        self.memory[at] = value;
        self.queue.iter_mut().for_each(|queued| queued.waits_for &= !store);
        self.threads.iter_mut().for_each(|thread| thread.forget(store));
        let known = [&mut self.released, &mut self.exchanged, &mut self.stored];
        known.into_iter().flatten().for_each(|known| O::forget_known(known, store));
    }
}

impl<O: Order> Machine for Queues<O> {
    fn execute(&self, thread: usize, number: usize, instruction: Instruction) -> Option<Self> {
        let mut after = self.clone();
        let own = &mut after.threads[thread];
        match instruction {
            Instruction::Store(at, value) | Instruction::StoreNt(at, value) => {
                after.store(thread, number, at, value);
            }
            Instruction::Load(at) | Instruction::Await(at, _) => own.read(&after.stored[at]),
            Instruction::Exchange(at, value) => {
                own.read(&after.stored[at]);
                own.learn(&after.exchanged[at]);
                own.fence();
                after.store(thread, number, at, value);
                after.threads[thread].fence();
                O::join(&mut after.exchanged[at], &after.threads[thread].published());
            }
            Instruction::Fence(_) => own.fence(),
            Instruction::Strand(mark) => own.mark(mark),
            Instruction::Release(variable) => O::join(&mut after.released[variable], &own.published()),
            Instruction::Acquire(variable) => own.learn(&after.released[variable]),
            Instruction::Unlock(lock) => O::join(&mut after.released[lock], &own.published()),
            Instruction::Lock(lock) => own.learn(&after.released[lock]),
            // Nothing is ever written back on demand.
            Instruction::Flush(..) => {}
        }
        Some(after)
    }

    fn moves(&self) -> Vec<Self> {
        let free = (0..self.queue.len()).filter(|&number| self.queue[number].waits_for == 0);
        free.map(|number| {
            let mut after = self.clone();
            after.persist(number);
            after
        })
        .collect()
    }

    fn memory(&self) -> Values {
        self.memory.clone()
    }
}
