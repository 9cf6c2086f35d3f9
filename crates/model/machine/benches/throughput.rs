//! Events per second through the machine, without time and with it, on streams of different cache behaviour.
//!
//! `cargo bench -p machine` measures, with `-- timed xpoint tree` only the lines that have these words, with `llc.replacement=lru` machines with
//! that value; under `cargo test` each stream runs once and small, so that the bench stays alive. Each line ends with a checksum of the figures: the same numbers, the same model.

use event::{Batch, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, StrandMark, ThreadId};
use machine::{CacheFigures, Config, ConfigError, Design, Machine, Simulation, Traffic};
use rustix::time::{ClockId, clock_gettime};

/// Events handed over at once, as a trace reader or collector does.
const BATCH: usize = 4096;

/// Appends the next events of a stream.
type Next = fn(&mut Random, &mut Vec<Event>);

/// A stream that makes its own events, so that no memory of ours is in the way.
struct Stream {
    name: &'static str,
    threads: u32,
    next: Next,
}

/// xorshift64*: quick and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

fn event(op: Op, site: u64) -> Event {
    Event { op, site: SiteId(site as u32), instructions: 3 }
}

fn load(addr: u64, site: u64) -> Event {
    event(Op::Load { addr, len: 8 }, site)
}

fn store(addr: u64, site: u64) -> Event {
    event(Op::Store { addr, len: 8 }, site)
}

/// Two loads in three, at random in 16 KiB, from 500 sites.
fn l1_friendly(random: &mut Random, events: &mut Vec<Event>) {
    let (addr, site) = (random.next() % 2048 * 8, random.next() % 500);
    events.push(if random.next().is_multiple_of(3) { store(addr, site) } else { load(addr, site) });
}

/// Runs over the stack: what most instructions of most programs do.
fn stack_like(random: &mut Random, events: &mut Vec<Event>) {
    let frame = random.next() % 32 * 64;
    for slot in 0..4 {
        events.push(store(frame + slot * 8, slot));
    }
    for slot in 0..8 {
        events.push(load(frame + slot % 4 * 8, 4 + slot));
    }
}

/// At random in 1 GiB: nearly every access goes to memory.
fn llc_missing(random: &mut Random, events: &mut Vec<Event>) {
    let addr = random.next() % (1 << 27) * 8;
    events.push(if random.next().is_multiple_of(3) { store(addr, 1) } else { load(addr, 2) });
}

/// A search down four levels of 1 KiB nodes with binary search, then an insertion that shifts half a leaf
/// and flushes it.
fn tree_like(random: &mut Random, events: &mut Vec<Event>) {
    let mut node = 0;
    for level in 0..4u32 {
        let nodes = 16u64.pow(level + 1);
        node = (random.next() % nodes) * 1024 + (u64::from(level) << 32);
        let (mut low, mut high) = (0, 64);
        while low + 1 < high {
            let middle = (low + high) / 2;
            events.push(load(node + middle * 16, u64::from(level)));
            if random.next().is_multiple_of(2) { low = middle } else { high = middle }
        }
    }
    for entry in (32..64).rev() {
        events.push(load(node + entry * 16 - 16, 10));
        events.push(store(node + entry * 16, 11));
    }
    for line in 8..16 {
        events.push(event(Op::Flush { addr: node + line * 64, kind: FlushKind::Clwb }, 12));
    }
    events.push(event(Op::Fence(FenceKind::Store), 13));
}

/// Time that this thread ran, so that other programs on the machine count for little.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A machine that is measured.
trait Subject: Sink {
    fn machine(config: &Config) -> Result<Self, ConfigError>
    where
        Self: Sized;

    /// The caches, the traffic of other memory, and picoseconds, if it has time.
    fn outcome(&self) -> (Vec<CacheFigures>, Traffic, u64);
}

impl Subject for Machine {
    fn machine(config: &Config) -> Result<Self, ConfigError> {
        Machine::new(config)
    }

    fn outcome(&self) -> (Vec<CacheFigures>, Traffic, u64) {
        self.audit().expect("the books balance");
        let figures = self.figures();
        (figures.caches, figures.volatile.total, 0)
    }
}

impl Subject for Simulation {
    fn machine(config: &Config) -> Result<Self, ConfigError> {
        Simulation::new(config)
    }

    fn outcome(&self) -> (Vec<CacheFigures>, Traffic, u64) {
        self.audit().expect("the books balance");
        let figures = self.figures();
        (figures.caches, figures.memories[0].total, figures.elapsed.0)
    }
}

fn run<S: Subject>(label: &str, preset: &str, set: &[(&str, &str)], stream: &Stream, total: u64) {
    let line = format!("{label} {preset} {}", stream.name);
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    if !words.iter().all(|word| word.contains('=') || line.contains(word)) {
        return;
    }
    let changes: Vec<(&str, &str)> =
        set.iter().copied().chain(words.iter().filter_map(|word| word.split_once('='))).collect();
    let config = Config::preset(preset).and_then(|config| config.with_overrides(&changes));
    let config = config.expect("a preset, and values that it takes");
    let mut machine = match S::machine(&config) {
        Ok(machine) => machine,
        Err(error) => {
            println!("{label:<8} {preset:<7} skipped: {error}");
            return;
        }
    };
    if !set.is_empty() {
        // What designs are about is persistent memory.
        let map = [event(Op::Map { addr: 0, len: 1 << 40, name: NameId(0) }, 0)];
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &map, values: &[] };
        machine.push(batch).expect("the machine takes everything");
    }
    let mut random = Random(0x1234_5678);
    let mut events = Vec::with_capacity(2 * BATCH);
    let (mut done, mut seconds, mut thread) = (0, 0.0, 0);
    while done < total {
        events.clear();
        while events.len() < BATCH {
            (stream.next)(&mut random, &mut events);
        }
        let begin = cpu_seconds();
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values: &[] };
        machine.push(batch).expect("the machine takes everything");
        seconds += cpu_seconds() - begin;
        done += events.len() as u64;
        thread = (thread + 1) % stream.threads;
    }
    let begin = cpu_seconds();
    machine.finish().expect("the machine takes everything");
    seconds += cpu_seconds() - begin;
    let (caches, traffic, time) = machine.outcome();
    let checksum = [
        caches[0].hits,
        caches[1].hits,
        caches[2].hits,
        caches[2].evictions,
        traffic.controller_read_bytes,
        traffic.media_write_bytes,
        traffic.buffer_hits,
        time,
    ]
    .iter()
    .fold(0u64, |sum, &figure| sum.rotate_left(9) ^ figure.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let rate = done as f64 / seconds / 1e6;
    let hits = caches[0].hits as f64 * 100.0 / (caches[0].hits + caches[0].misses) as f64;
    let per_event =
        if time > 0 { format!("{:>7.2} ns/event", time as f64 / 1e3 / done as f64) } else { String::new() };
    println!(
        "{label:<8} {preset:<7} {:<24} {rate:>7.1} M events/s  L1 hits {hits:>5.1} %  {checksum:016x} {per_event}",
        stream.name
    );
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let streams: [(&'static str, u32, Next); 6] = [
        ("stack, 1 thread", 1, stack_like),
        ("L1-friendly, 1 thread", 1, l1_friendly),
        ("tree, 1 thread", 1, tree_like),
        ("tree, 8 threads", 8, tree_like),
        ("LLC-missing, 1 thread", 1, llc_missing),
        ("LLC-missing, 8 threads", 8, llc_missing),
    ];
    for (name, threads, next) in streams {
        let stream = Stream { name, threads, next };
        run::<Machine>("traffic", "xpoint", &[], &stream, if measure { 20_000_000 } else { 50_000 });
        for preset in ["xpoint", "dram"] {
            run::<Simulation>("timed", preset, &[], &stream, if measure { 5_000_000 } else { 50_000 });
        }
    }
    // Every design by name, on one thread of the host, on the machines of the sources.
    let designs = Design::ALL.iter().map(|&design| (toml_name(design), toml_name(design), "adr"));
    for (name, ordering, domain) in designs.chain([("eadr".to_owned(), "tso".to_owned(), "eadr")]) {
        for (preset, threads) in [("table-3.1", 4), ("table-5.1", 8)] {
            let title: &'static str = Box::leak(format!("regions, {name}").into_boxed_str());
            let stream = Stream { name: title, threads, next: region_like };
            let set = [("cores.pipeline.ordering", ordering.as_str()), ("memory.persistence", domain)];
            run::<Simulation>("timed", preset, &set, &stream, if measure { 2_000_000 } else { 20_000 });
        }
    }
}

/// A design as a machine's description names it.
fn toml_name(design: Design) -> String {
    let mut name = String::new();
    for letter in format!("{design:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// A failure-atomic region with strands: a search in 4 MiB, then three stores, each behind its log entry.
fn region_like(random: &mut Random, events: &mut Vec<Event>) {
    events.push(event(Op::RegionBegin { region: 1 }, 1));
    for step in 0..40 {
        let near = random.next() % 4096 * 8;
        events.push(load(if step % 8 == 0 { random.next() % (1 << 19) * 8 } else { near }, 2));
    }
    for _ in 0..3 {
        let (log, data) = (1 << 30 | (random.next() % 4096 * 64), random.next() % (1 << 19) * 8);
        events.extend([store(log, 3), event(Op::Flush { addr: log, kind: FlushKind::Clwb }, 4)]);
        events.extend([event(Op::Strand(StrandMark::Barrier), 5), store(data, 6)]);
        events.push(event(Op::Flush { addr: data, kind: FlushKind::Clwb }, 7));
        events.push(event(Op::Strand(StrandMark::New), 8));
    }
    events.extend([event(Op::Strand(StrandMark::Join), 9), event(Op::RegionEnd { region: 1 }, 10)]);
}
