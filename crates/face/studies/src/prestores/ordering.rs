//! What pre-stores gain before fences, on a weakly ordered machine with distant memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use event::{Event, FenceKind, ThreadId};
use machine::{Next, Program, Simulation, Time};

use super::stores::{Index, ycsb_a};
use super::{After, MACHINES_B, write};
use crate::pattern::{self, LINE, after, fence, load, store};
use crate::{Check, Evidence, Lab, Means, Row, Source, StudyError};

/// Results B-R11 and B-R12.
pub const ROWS: &[Row] = &[
    Row {
        source: Source::Prestores,
        id: "B-R11",
        claim: "Values of 1 KiB on the FPGA's memory: cleaning gains 52 % with CLHT and 25 % with Masstree, more on the fast one; time in \
                the lock's atomics falls by 74 %, in Masstree's first fence by half",
        expected: "1.52, 1.25; 0.26; 0.5",
        tolerance: "30 % of the gains, fences within a factor of 2: clocks, core and the depth of the tree are only sketched",
        method: "YCSB A as in B-R8 and B-R9 with the fences that weak ordering takes, on enzian-fast and enzian-slow; fences are all \
                 of an operation's",
        calibration: "",
        note: "whose cycles the machine's latencies are in, its core, and what fences wait for were changed after this row was looked at, in which fences had become as much shorter as published before (docs/calibration.md)",
        means: Means::Model(stores),
        lacks: "Ten threads move 8.5 of the fast FPGA's 10 GB/s in the model and 1.4 of the slow one's 1.5, so that latency which is hidden gains little. With one thread cleaning gains 10 % with CLHT and 4 % with Masstree: fences are 25 and 15 % of an operation's time there, less than the published gains need, and two round trips and the lines of a value are more than what comes between value and lock hides",
    },
    Row {
        source: Source::Prestores,
        id: "B-R12",
        claim: "X9: demoting messages before they are sent shortens their way from writer to reader by 62 % on the fast FPGA, by 40 % on \
                the slow one",
        expected: "0.38, 0.60 of the time",
        tolerance: "30 %: size and number of messages are not published",
        method: "messages of 512 B filled in one of 16 buffers, a compare-and-swap, a copy into a slot, an exchange, and a second core that \
                 reads the slot; from the first store to the last load, mean of 2000",
        calibration: "",
        note: "that stores of this machine's core go to the shared cache when they become visible, and that a fence asks for that only after the loads before it, was added after this row was looked at (docs/calibration.md)",
        means: Means::Model(messages),
        lacks: "Demoting hides the way from the writer's core to the shared cache, some 20 of 485 ns, and no more: a message's lines stay there, are the writer's alone, and need no leave of the FPGA. To gain 62 %, making a message visible would have to take longer than all the rest of its way; it does if its lines leave the core one after the other and each asks the FPGA, and neither is known of the machine",
    },
];

fn stores(lab: &Lab) -> Result<Evidence, StudyError> {
    let of = |machine, index, done| ycsb_a(lab, machine, index, 1024, done);
    let mut gains = Vec::new();
    let mut fences = Vec::new();
    for machine in MACHINES_B {
        for index in [Index::Hash, Index::Tree] {
            let (plain, clean) = (of(machine, index, After::Nothing)?, of(machine, index, After::Clean)?);
            gains.push(plain.ns_per_iteration / clean.ns_per_iteration);
            fences.push(clean.fence_ns / plain.fence_ns);
        }
    }
    let (fast_hash, fast_tree, slow_hash) = (gains[0], gains[1], gains[2]);
    Ok(Evidence::of(vec![
        Check::at_least("CLHT: gain", 1.1, fast_hash),
        Check::at_least("Masstree: gain", 1.05, fast_tree),
        Check::at_least("CLHT over Masstree", 1.02, fast_hash / fast_tree),
        Check::at_least("fast over slow, CLHT", 1.02, fast_hash / slow_hash),
        Check::at_most("CLHT: time at fences, with over without", 0.6, fences[0]),
        Check::near("CLHT: gain", 1.52, 0.30, fast_hash),
        Check::near("Masstree: gain", 1.25, 0.30, fast_tree),
        Check::within("CLHT: time at fences, with over without", 0.13, 0.52, fences[0]),
        Check::within("Masstree: time at fences, with over without", 0.25, 1.0, fences[1]),
    ]))
}

/// Bytes of a message, the buffers that the writer uses in turn, and the slots of the inbox.
const MESSAGE: u64 = 512;
const BUFFERS: u64 = 16;
const SLOTS: u64 = 64;
const SLOT: u64 = MESSAGE + LINE;
/// Messages of a run; the first tenth is not counted.
const MESSAGES: u64 = 2200;
/// How long the reader waits before it looks again.
const PATIENCE: Time = Time::from_ns(20);

/// What writer and reader know of each other.
#[derive(Default)]
struct Inbox {
    /// Messages that were sent and not read: when writing began, when they were there.
    sent: VecDeque<(Time, Time)>,
    read: u64,
    waited: Time,
    done: bool,
}

struct Writer {
    inbox: Arc<Mutex<Inbox>>,
    number: u64,
    begun: Option<Time>,
    demotes: bool,
}

impl Program for Writer {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = self.begun.take() {
            inbox.sent.push_back((begun, now));
        }
        if self.number == MESSAGES {
            inbox.done = true;
            return Next::Done;
        }
        if !inbox.sent.is_empty() {
            // One message at a time: what is asked is its way, not how many are on it.
            return Next::Idle(now + PATIENCE);
        }
        self.begun = Some(now);
        let message = pattern::PERSISTENT + self.number % BUFFERS * MESSAGE;
        let slot = slot(self.number);
        let done = if self.demotes { After::Demote } else { After::Nothing };
        write(events, message, MESSAGE, 16, done);
        // Where the slot is, and a compare-and-swap on its header.
        events.extend([after(40, load(slot, 8)), fence(FenceKind::Locked), store(slot, 8)]);
        for offset in (0..MESSAGE).step_by(LINE as usize) {
            events.extend([load(message + offset, LINE), store(slot + LINE + offset, LINE)]);
        }
        // The index, and that the message is written.
        events.extend([fence(FenceKind::Locked), store(slot + 8, 8), fence(FenceKind::Locked)]);
        self.number += 1;
        Next::Run
    }
}

struct Reader {
    inbox: Arc<Mutex<Inbox>>,
    begun: Option<Time>,
    number: u64,
}

impl Program for Reader {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = self.begun.take() {
            inbox.read += 1;
            if inbox.read > MESSAGES / 11 {
                inbox.waited += now.since(begun);
            }
            inbox.sent.pop_front();
        }
        let Some(&(begun, there)) = inbox.sent.front() else {
            return if inbox.done { Next::Done } else { Next::Idle(now + PATIENCE) };
        };
        if there > now {
            return Next::Idle(there);
        }
        self.begun = Some(begun);
        let slot = slot(self.number);
        self.number += 1;
        events.push(load(slot + 8, 8));
        events.extend((0..MESSAGE / LINE).map(|line| load(slot + LINE + line * LINE, LINE)));
        events.extend([store(slot, 8), fence(FenceKind::Full)]);
        Next::Run
    }
}

/// Where a message's slot of the inbox is.
fn slot(number: u64) -> u64 {
    pattern::PERSISTENT + (1 << 20) + number % SLOTS * SLOT
}

/// Mean time from a message's first store until it was read.
#[allow(clippy::cast_precision_loss)] // counts of messages
fn latency(lab: &Lab, machine: &str, demotes: bool) -> Result<f64, StudyError> {
    let mut simulation = Simulation::new(&lab.config(machine, None)?)?;
    let inbox = Arc::new(Mutex::new(Inbox::default()));
    let writer = Writer { inbox: Arc::clone(&inbox), number: 0, begun: None, demotes };
    let reader = Reader { inbox: Arc::clone(&inbox), begun: None, number: 0 };
    let threads: Vec<(ThreadId, Box<dyn Program>)> =
        vec![(ThreadId(0), Box::new(writer)), (ThreadId(1), Box::new(reader))];
    simulation.run(threads)?;
    let inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(inbox.waited.ns() / (inbox.read - MESSAGES / 11) as f64)
}

fn messages(lab: &Lab) -> Result<Evidence, StudyError> {
    let [fast, slow] = MACHINES_B;
    let share = |machine| Ok::<f64, StudyError>(latency(lab, machine, true)? / latency(lab, machine, false)?);
    let (fast, slow) = (share(fast)?, share(slow)?);
    Ok(Evidence::of(vec![
        Check::at_most("fast: with over without", 0.85, fast),
        Check::at_most("slow: with over without", 0.9, slow),
        Check::at_most("fast over slow", 0.98, fast / slow),
        Check::near("fast: with over without", 0.38, 0.30, fast),
        Check::near("slow: with over without", 0.60, 0.30, slow),
    ]))
}
