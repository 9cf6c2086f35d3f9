//! A small machine with time, whose latencies are round and whose memory is a latency and a bandwidth.

use std::sync::{Arc, Mutex};

use event::{Batch, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, ThreadId};
use machine::{Config, Next, Program, Simulation, Time, TimedFigures};

/// One instruction takes 1ns to enter the window; an L1 hit 2ns, an L2 hit 7ns, an LLC hit 27ns, memory 148ns. A flush
/// or non-temporal store of a line needs 37ns and 57ns until the write queue has it.
pub const TIMED: &str = r#"
name = "timed"
seed = 7
[cores]
count = 4
combining_buffers = 4
[cores.pipeline]
cycle = "1ns"
issue_width = 1
retire_width = 1
rob = 64
load_queue = 48
store_queue = 16
flush_slots = 4
stores_behind_flushes = false
nt_slots = 4
full_fence = "0ns"
[l1]
size = "4KiB"
ways = 8
replacement = "lru"
latency = "2ns"
miss_registers = 4
[l2]
size = "16KiB"
ways = 8
replacement = "lru"
latency = "5ns"
miss_registers = 8
[llc]
size = "64KiB"
ways = 16
replacement = "lru"
latency = "20ns"
miss_registers = 32
write_backs = 4
[memory]
dimms = 1
interleave = "4KiB"
[memory.timing]
read_queue = 64
write_queue = 64
read_request = "10ns"
read_return = "10ns"
write_accept = "10ns"
[device]
unit = "64B"
[device.timing]
kind = "delay"
read_latency = "100ns"
write_latency = "50ns"
line_transfer = "1ns"
"#;

/// What an L1 hit, an L2 hit, an LLC hit and memory take, in nanoseconds.
pub const LATENCIES: [u64; 4] = [2, 7, 27, 148];

/// From a core to the write queue and back, in nanoseconds.
pub const WAY: f64 = 37.0;

pub fn timed() -> Config {
    Config::parse(TIMED, "timed").expect("a valid description")
}

pub fn with(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = timed();
    change(&mut config);
    config.validate().expect("still valid");
    config
}

pub fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

pub fn event(op: Op) -> Event {
    Event { op, site: SiteId(1), instructions: 1 }
}

pub fn load(addr: u64) -> Op {
    Op::Load { addr, len: 8 }
}

pub fn store(addr: u64) -> Op {
    Op::Store { addr, len: 8 }
}

pub fn line(number: u64) -> Op {
    store(number * 64)
}

pub fn nt(addr: u64) -> Op {
    Op::StoreNt { addr, len: 64 }
}

pub fn clwb(addr: u64) -> Op {
    Op::Flush { addr, kind: FlushKind::Clwb }
}

pub const SFENCE: Op = Op::Fence(FenceKind::Store);
pub const MFENCE: Op = Op::Fence(FenceKind::Full);

/// Steps of a thread, and the times at which it was asked for each and for what follows the last.
pub struct Steps {
    steps: std::vec::IntoIter<Vec<Op>>,
    asked: Arc<Mutex<Vec<Time>>>,
}

impl Program for Steps {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        self.asked.lock().expect("no panic").push(now);
        let Some(step) = self.steps.next() else { return Next::Done };
        events.extend(step.into_iter().map(event));
        Next::Run
    }
}

/// Runs steps of one thread; returns how long each took, in nanoseconds, and the machine.
pub fn run(config: &Config, steps: Vec<Vec<Op>>) -> (Vec<f64>, Simulation) {
    let (asked, simulation) = run_threads(config, vec![steps]);
    let took = asked[0].windows(2).map(|pair| pair[1].since(pair[0]).ns()).collect();
    (took, simulation)
}

/// How long a step takes whose lines the L1 has, and what memory was written in all beside these lines.
pub fn step(config: &Config, step: Vec<Op>) -> (f64, u64) {
    let map = Op::Map { addr: 0, len: 1 << 20, name: NameId(0) };
    let warm = (0..32).map(|line| load(line * 64)).collect();
    let (took, mut simulation) = run(config, vec![vec![map], warm, vec![MFENCE], step, vec![]]);
    simulation.drain();
    (took[3], simulation.figures().memories[1].total.controller_write_bytes)
}

/// Runs steps of several threads; returns when each thread was asked for each step and for what follows the last.
pub fn run_threads(config: &Config, threads: Vec<Vec<Vec<Op>>>) -> (Vec<Vec<Time>>, Simulation) {
    let mut simulation = Simulation::new(config).expect("a valid description");
    let asked: Vec<Arc<Mutex<Vec<Time>>>> = threads.iter().map(|_| Arc::default()).collect();
    let programs = threads.into_iter().zip(&asked).zip(0..).map(|((steps, asked), thread)| {
        let program = Steps { steps: steps.into_iter(), asked: Arc::clone(asked) };
        (ThreadId(thread), Box::new(program) as Box<dyn Program>)
    });
    simulation.run(programs.collect()).expect("sound programs");
    simulation.audit().expect("books that balance");
    (asked.iter().map(|asked| asked.lock().expect("no panic").clone()).collect(), simulation)
}

/// Pushes batches of threads' operations.
pub fn push(simulation: &mut Simulation, thread: u32, events: &[Event]) {
    let batch = Batch { thread: ThreadId(thread), time_ns: 0, events, values: &[] };
    simulation.push(batch).expect("a sound batch");
}

/// Runs a stream to its end.
pub fn stream(config: &Config, stream: &[(u32, Event)]) -> TimedFigures {
    let mut simulation = Simulation::new(config).expect("a valid description");
    for (thread, event) in stream {
        push(&mut simulation, *thread, std::slice::from_ref(event));
    }
    simulation.finish().expect("a sound stream");
    simulation.audit().expect("books that balance");
    simulation.figures()
}
