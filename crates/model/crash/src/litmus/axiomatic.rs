//! The outcomes as the checker has them: all images of the histories of all interleavings.

use std::collections::{BTreeMap, BTreeSet};

use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, InstructionCounts, NameId, Op, Order, Sink,
    SinkError, SiteId, Source, StrandMark, ThreadId,
};

use super::control::Control;
use super::{Instruction, Litmus, Values};
use crate::{Bounds, Change, Checker, Contents, History, Image, Oracle, Place, Recorder, Strategy};

/// Where the only file is mapped.
const BASE: u64 = 1 << 20;
const LINE: u64 = 64;

/// All outcomes of a test, by the checker.
#[must_use]
pub fn outcomes(litmus: &Litmus) -> BTreeSet<Values> {
    let mut collector = Collector::new(litmus);
    let mut search = Interleavings { litmus, done: Vec::new(), collector: &mut collector };
    search.from(&Control::new(litmus));
    collector.outcomes
}

/// The images of the run in which the threads are executed in this order, one number of a thread per instruction.
///
/// # Errors
/// When the recorder refuses the run.
pub(super) fn history(litmus: &Litmus, order: &[(usize, Instruction)]) -> Result<History, SinkError> {
    let mut run = Run::new(litmus)?;
    for (at, &(thread, instruction)) in order.iter().enumerate() {
        run.execute(thread, instruction, SiteId(at as u32 + 1))?;
    }
    Ok(run.recorder.into_history())
}

/// Goes through the interleavings, depth first.
struct Interleavings<'l, 'c> {
    litmus: &'l Litmus,
    done: Vec<(usize, Instruction)>,
    collector: &'c mut Collector,
}

impl Interleavings<'_, '_> {
    fn from(&mut self, control: &Control) {
        let mut ended = true;
        for thread in 0..self.litmus.threads.len() {
            let Some(instruction) = control.ready(self.litmus, thread) else { continue };
            ended = false;
            if self.is_twin(thread, instruction) {
                continue;
            }
            let mut after = control.clone();
            after.executed(thread, instruction);
            self.done.push((thread, instruction));
            self.from(&after);
            self.done.pop();
        }
        if ended {
            self.examine();
        }
    }

    /// Whether the order with the last two instructions exchanged, which comes earlier in the search, has the same histories.
    fn is_twin(&self, thread: usize, instruction: Instruction) -> bool {
        let last = self.done.last();
        last.is_some_and(|&(other, before)| thread < other && commute(self.litmus, before, instruction))
    }

    fn examine(&mut self) {
        // The recorder refuses only streams that contradict themselves.
        let Ok(history) = history(self.litmus, &self.done) else { return };
        let contents = Contents::default();
        let mut checker = Checker::new(&history, &contents);
        checker.strategy = Strategy::Exhaustive;
        checker.bounds = Bounds { per_cut: 1 << 20, ..Bounds::default() };
        self.collector.words.clear();
        checker.run(self.collector);
    }
}

/// Whether two instructions of different threads may change places without changing what a crash can leave. Only those that order nothing
/// and touch different things; where a fence stands among another thread's stores decides which cuts a history has.
fn commute(litmus: &Litmus, a: Instruction, b: Instruction) -> bool {
    use Instruction::{
        Acquire, Await, Exchange, Fence, Flush, Load, Lock, Release, Store, StoreNt, Strand, Unlock,
    };
    let line = |instruction| match instruction {
        Store(at, _) | StoreNt(at, _) | Exchange(at, _) | Load(at) | Await(at, _) | Flush(at, _) => {
            Some(litmus.lines[at])
        }
        _ => None,
    };
    let variable = |instruction| match instruction {
        Release(at) | Acquire(at) | Lock(at) | Unlock(at) => Some(at),
        _ => None,
    };
    let orders = |instruction| match instruction {
        Fence(_) | Exchange(..) | Flush(_, FlushKind::Clflush) => true,
        Strand(mark) => mark != StrandMark::New,
        Store(..) => litmus.platform.caches_persist(),
        _ => false,
    };
    let apart = |a: Option<usize>, b: Option<usize>| a.is_none() || a != b;
    !orders(a) && !orders(b) && apart(line(a), line(b)) && apart(variable(a), variable(b))
}

/// A run as events.
struct Run<'l> {
    litmus: &'l Litmus,
    recorder: Recorder,
    seq: u64,
}

impl<'l> Run<'l> {
    fn new(litmus: &'l Litmus) -> Result<Self, SinkError> {
        let mut recorder = Recorder::new(litmus.platform);
        recorder.begin(&Source {
            producer: "litmus".to_owned(),
            command: Vec::new(),
            capabilities: Capabilities::all(),
            instructions: InstructionCounts::Unknown,
            sampling: None,
        })?;
        recorder.define(Definition::Name(NameId(1), "memory"))?;
        let mut run = Run { litmus, recorder, seq: 0 };
        let len = litmus.locations.len() as u64 * LINE;
        run.push(0, &[Op::Map { addr: BASE, len, name: NameId(1) }], SiteId::UNKNOWN, &[])?;
        Ok(run)
    }

    fn push(&mut self, thread: usize, ops: &[Op], site: SiteId, values: &[u8]) -> Result<(), SinkError> {
        let events: Vec<Event> = ops.iter().map(|&op| Event { op, site, instructions: 0 }).collect();
        self.recorder.push(Batch { thread: ThreadId(thread as u32), time_ns: 0, events: &events, values })
    }

    fn seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    fn execute(&mut self, thread: usize, instruction: Instruction, site: SiteId) -> Result<(), SinkError> {
        let addr = |at| BASE + offset(self.litmus, at);
        // Variables and locks lie outside of persistent memory.
        let variable = |at: usize| 0x1000 + at as u64 * LINE;
        let value = instruction.stores().map_or(0, |(_, value)| value).to_le_bytes();
        match instruction {
            Instruction::Store(at, _) => {
                self.push(thread, &[Op::Store { addr: addr(at), len: 8 }], site, &value)
            }
            Instruction::StoreNt(at, _) => {
                self.push(thread, &[Op::StoreNt { addr: addr(at), len: 8 }], site, &value)
            }
            Instruction::Load(at) | Instruction::Await(at, _) => {
                self.push(thread, &[Op::Load { addr: addr(at), len: 8 }], site, &[])
            }
            Instruction::Exchange(at, _) => {
                let (addr, order) = (addr(at), Order::SeqCst);
                let ops = [
                    Op::Load { addr, len: 8 },
                    Op::Release { var: addr, order, seq: self.seq() },
                    Op::Store { addr, len: 8 },
                    Op::Acquire { var: addr, order, seq: self.seq() },
                    Op::Fence(FenceKind::Locked),
                ];
                self.push(thread, &ops, site, &value)
            }
            Instruction::Flush(at, kind) => {
                self.push(thread, &[Op::Flush { addr: addr(at), kind }], site, &[])
            }
            Instruction::Fence(kind) => self.push(thread, &[Op::Fence(kind)], site, &[]),
            Instruction::Strand(mark) => self.push(thread, &[Op::Strand(mark)], site, &[]),
            Instruction::Release(at) => {
                let op = Op::Release { var: variable(at), order: Order::Release, seq: self.seq() };
                self.push(thread, &[op], site, &[])
            }
            Instruction::Acquire(at) => {
                let op = Op::Acquire { var: variable(at), order: Order::Acquire, seq: self.seq() };
                self.push(thread, &[op], site, &[])
            }
            Instruction::Lock(at) => {
                let op = Op::Lock { lock: variable(at), shared: false, seq: self.seq() };
                self.push(thread, &[op], site, &[])
            }
            Instruction::Unlock(at) => {
                let op = Op::Unlock { lock: variable(at), seq: self.seq() };
                self.push(thread, &[op], site, &[])
            }
        }
    }
}

/// Where in the file a location is.
fn offset(litmus: &Litmus, at: usize) -> u64 {
    let line = litmus.lines[at];
    let before = litmus.lines[..at].iter().filter(|&&other| other == line).count();
    line as u64 * LINE + before as u64 * 8
}

/// An oracle that takes down every image and finds none wrong.
struct Collector {
    places: Vec<Place>,
    words: BTreeMap<Place, u64>,
    outcomes: BTreeSet<Values>,
}

impl Collector {
    fn new(litmus: &Litmus) -> Self {
        let places = (0..litmus.locations.len()).map(|at| Place::new(0, offset(litmus, at))).collect();
        Collector { places, words: BTreeMap::new(), outcomes: BTreeSet::new() }
    }
}

impl Oracle for Collector {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        for &Change { place, word } in image.changes {
            self.words.insert(place, word);
        }
        let value = |place| self.words.get(place).copied().unwrap_or(0);
        self.outcomes.insert(self.places.iter().map(value).collect());
        Ok(())
    }
}
