//! The axioms: which stores a crash may lose, given the order in which they became visible.
//!
//! An execution is an interleaving up to the crash. Each design says, of its stores, which must be durable then, and which others must
//! have persisted before each. Every set of stores that has the first and is closed under the second is an outcome: each location has
//! the last of its stores in the set. Stores to one location persist in the order of visibility on every design.
//!
//! | design | must be durable | ordered before a store |
//! |---|---|---|
//! | x86, switch, non-atomic | what was flushed, then fenced by the thread that flushed | – |
//! | eadr, battery | everything | – |
//! | epoch, speculative | all known before a full fence | the thread's earlier epochs; a store of another thread that this one saw |
//! | strands | all before a join, once the thread stored behind it | (5.1) to (5.4) of the thesis |
//! | undo, redo, ssp | regions that ended | the whole region, both ways |
//! | remote | writes before a read (without DDIO) or flush whose completion was awaited | the connection's earlier writes (without DDIO) |

use std::collections::{BTreeSet, HashSet};

use super::{Control, Design, Instruction, Litmus, Values};

/// Stores of an execution, a bit each.
type Set = u64;

/// All outcomes of a test, by the axioms.
#[must_use]
pub fn outcomes(litmus: &Litmus) -> BTreeSet<Values> {
    let mut outcomes = BTreeSet::new();
    let mut seen = HashSet::new();
    let first = (Control::new(litmus), Execution::new(litmus));
    let mut open = vec![first];
    while let Some((control, execution)) = open.pop() {
        execution.images(litmus, &mut outcomes);
        for thread in 0..litmus.threads.len() {
            let Some(instruction) = control.ready(litmus, thread) else { continue };
            let mut after = (control.clone(), execution.clone());
            after.0.executed(thread, instruction);
            after.1.execute(litmus.design, thread, instruction);
            if seen.insert(after.clone()) {
                open.push(after);
            }
        }
    }
    outcomes
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    thread: usize,
    at: usize,
    value: u64,
    /// Those that persist before it.
    behind: Set,
    /// Those that persist with it: its region's.
    region: Option<usize>,
}

/// What a thread knows of the order of its stores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Thread {
    /// Flushed and not yet fenced.
    flushed: Set,
    /// Known before the epoch or barrier at hand; since then.
    before: Set,
    open: Set,
    /// On all strands since the last join, and what the last join promises once a store follows.
    strands: Set,
    joined: Set,
    /// The number of its region.
    region: Option<usize>,
    /// Written since the connection was made; waiting for the next completion.
    written: Set,
    promised: Set,
    /// The connection is gone.
    broken: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Execution {
    stores: Vec<Store>,
    threads: Vec<Thread>,
    must: Set,
    regions: usize,
    /// Regions that ended.
    ended: Vec<usize>,
}

impl Execution {
    fn new(litmus: &Litmus) -> Self {
        Execution {
            stores: Vec::new(),
            threads: vec![Thread::default(); litmus.threads.len()],
            must: 0,
            regions: 0,
            ended: Vec::new(),
        }
    }

    /// The last store to a location.
    fn last(&self, at: usize) -> Option<usize> {
        self.stores.iter().rposition(|store| store.at == at)
    }

    fn all_of(&self, thread: usize) -> Set {
        let own = self.stores.iter().enumerate().filter(|(_, store)| store.thread == thread);
        own.fold(0, |set, (number, _)| set | 1 << number)
    }

    fn store(&mut self, thread: usize, at: usize, value: u64, behind: Set) -> usize {
        let number = self.stores.len();
        let coherent = self.last(at).map_or(0, |last| 1 << last);
        let region = self.threads[thread].region;
        self.stores.push(Store { thread, at, value, behind: behind | coherent, region });
        number
    }

    /// A thread sees what another stored to a location: what it stores from then on comes behind that, and behind what that is
    /// ordered behind.
    fn sees(&mut self, thread: usize, at: usize) {
        if let Some(last) = self.last(at).filter(|&last| self.stores[last].thread != thread) {
            self.threads[thread].before |= 1 << last;
        }
    }

    fn fence(&mut self, thread: usize) {
        let flushed = std::mem::take(&mut self.threads[thread].flushed);
        self.must |= flushed;
    }

    fn execute(&mut self, design: Design, thread: usize, instruction: Instruction) {
        match design {
            Design::X86 | Design::Switch | Design::NonAtomic => self.on_x86(design, thread, instruction),
            Design::Eadr | Design::Battery => {
                if let Instruction::Store(at, value) = instruction {
                    let number = self.store(thread, at, value, 0);
                    self.must |= 1 << number;
                }
            }
            Design::Epoch | Design::Speculative => self.on_epochs(thread, instruction),
            Design::Strands { .. } => self.on_strands(thread, instruction),
            Design::Undo | Design::Redo | Design::Ssp => self.on_regions(thread, instruction),
            Design::Remote { ddio } => self.on_remote(ddio, thread, instruction),
        }
    }

    fn on_x86(&mut self, design: Design, thread: usize, instruction: Instruction) {
        match instruction {
            Instruction::Store(at, value) => {
                self.store(thread, at, value, 0);
            }
            Instruction::Clwb(at) => {
                if let Some(last) = self.last(at) {
                    self.threads[thread].flushed |= 1 << last;
                }
            }
            Instruction::Sfence | Instruction::Mfence | Instruction::Join => self.fence(thread),
            Instruction::Barrier if design != Design::NonAtomic => self.fence(thread),
            _ => {}
        }
    }

    fn on_epochs(&mut self, thread: usize, instruction: Instruction) {
        match instruction {
            Instruction::Store(at, value) => {
                self.sees(thread, at);
                let behind = self.threads[thread].before;
                let number = self.store(thread, at, value, behind);
                self.threads[thread].open |= 1 << number;
            }
            Instruction::Load(at) | Instruction::Await(at, _) => self.sees(thread, at),
            Instruction::Sfence | Instruction::Barrier | Instruction::Join => {
                let open = std::mem::take(&mut self.threads[thread].open);
                self.threads[thread].before |= open;
            }
            Instruction::Mfence | Instruction::End => {
                let state = &mut self.threads[thread];
                state.before |= std::mem::take(&mut state.open);
                let own = self.all_of(thread);
                self.must |= own;
            }
            _ => {}
        }
    }

    fn on_strands(&mut self, thread: usize, instruction: Instruction) {
        let state = &mut self.threads[thread];
        match instruction {
            Instruction::Store(at, value) => {
                let (behind, joined) = (state.before | state.joined, state.joined);
                self.must |= joined;
                let number = self.store(thread, at, value, behind);
                self.threads[thread].open |= 1 << number;
                self.threads[thread].strands |= 1 << number;
            }
            Instruction::Barrier => state.before |= std::mem::take(&mut state.open),
            Instruction::New => (state.before, state.open) = (0, 0),
            Instruction::Join => {
                state.joined |= std::mem::take(&mut state.strands);
                (state.before, state.open) = (0, 0);
            }
            // A store of its own.
            Instruction::Unlock(_) | Instruction::Lock(_) => self.must |= state.joined,
            _ => {}
        }
    }

    fn on_regions(&mut self, thread: usize, instruction: Instruction) {
        match instruction {
            Instruction::Begin => {
                self.threads[thread].region = Some(self.regions);
                self.regions += 1;
            }
            Instruction::End => {
                if let Some(region) = self.threads[thread].region.take() {
                    self.ended.push(region);
                    for (number, store) in self.stores.iter().enumerate() {
                        self.must |= u64::from(store.region == Some(region)) << number;
                    }
                }
            }
            // A flush within a region leaves the region's lines alone: their persistence is the region's.
            Instruction::Clwb(at) if self.is_of_open_region(thread, at) => {}
            _ => self.on_x86(Design::X86, thread, instruction),
        }
    }

    /// Whether the last store to a location is of the region in which the thread is.
    fn is_of_open_region(&self, thread: usize, at: usize) -> bool {
        let region = self.threads[thread].region;
        region.is_some() && self.last(at).is_some_and(|last| self.stores[last].region == region)
    }

    fn on_remote(&mut self, ddio: bool, thread: usize, instruction: Instruction) {
        let state = &mut self.threads[thread];
        match instruction {
            Instruction::Write(..) if state.broken => {}
            Instruction::Write(at, value) => {
                let behind = if ddio { 0 } else { state.written };
                let number = self.store(thread, at, value, behind);
                self.threads[thread].written |= 1 << number;
            }
            Instruction::Read if !ddio && !state.broken => state.promised |= state.written,
            Instruction::Flush if !state.broken => state.promised |= state.written,
            Instruction::Wait if !state.broken => self.must |= std::mem::take(&mut state.promised),
            // What was posted may be placed or not, in its order; nothing more is promised.
            Instruction::Break => {
                state.broken = true;
                state.promised = 0;
            }
            Instruction::Ack(at, value) => {
                let number = self.store(thread, at, value, 0);
                self.must |= 1 << number;
            }
            _ => {}
        }
    }

    /// Adds the images of a crash now.
    fn images(&self, litmus: &Litmus, outcomes: &mut BTreeSet<Values>) {
        let count = self.stores.len();
        for set in 0..1u64 << count {
            if set & self.must != self.must {
                continue;
            }
            let whole = self.stores.iter().enumerate().all(|(number, store)| {
                if set >> number & 1 == 0 {
                    return true;
                }
                let ended = store.region.is_none_or(|region| self.ended.contains(&region));
                ended && store.behind & !set == 0
            });
            if !whole {
                continue;
            }
            let mut values = vec![0; litmus.locations.len()];
            for (number, store) in self.stores.iter().enumerate() {
                if set >> number & 1 != 0 {
                    values[store.at] = store.value;
                }
            }
            outcomes.insert(values);
        }
    }
}
