//! Levelling policies in writes per second, the lifetime of 65,536 shuffles by convolution, and what counting
//! wear costs a machine that counts bytes.
//!
//! `cargo bench -p wear`. Processor time of this thread, the best of three rounds.

use event::{Batch, Event, FenceKind, FlushKind, Op, Sink, SiteId, Source, ThreadId};
use machine::{Config, Machine};
use rustix::time::{ClockId, clock_gettime};
use wear::estimate::Exact;
use wear::level::{Attack, Policy, Settings, Writes};
use wear::{CopyCost, Endurance, Rates, Spread, brute_force};

const ROUNDS: u32 = 3;
const WRITES: u64 = 20_000_000;
const UNITS: u64 = 1 << 20;

fn main() {
    levellers();
    lifetimes();
    counting();
}

/// Seconds of processor time.
fn seconds(mut work: impl FnMut()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let round = |_| {
        let begin = now();
        work();
        now() - begin
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// A trace in which a tenth of the units takes nine tenths of the writes.
fn skewed() -> Vec<u32> {
    let mut random = 1u64;
    let mut next = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % bound
    };
    (0..1 << 20).map(|_| if next(10) > 0 { next(UNITS / 10) } else { next(UNITS) } as u32).collect()
}

fn levellers() {
    println!("levelling, million writes a second: hammer, uniform, skewed trace");
    let trace = skewed();
    for policy in Policy::ALL {
        let settings = Settings::new(UNITS, 64);
        let per_second = |make: &dyn Fn() -> Writes<'static>| {
            WRITES as f64 / seconds(|| _ = policy.run(&settings, &mut make(), WRITES)) / 1e6
        };
        let hammer = per_second(&|| Writes::attack(Attack::Hammer, UNITS, 1));
        let uniform = per_second(&|| Writes::attack(Attack::Uniform, UNITS, 1));
        let of_trace = seconds(|| _ = policy.run(&settings, &mut Writes::of(&trace), WRITES));
        let of_trace = WRITES as f64 / of_trace / 1e6;
        println!("  {:<18}{hammer:>10.1}{uniform:>10.1}{of_trace:>10.1}", policy.name());
    }
}

fn lifetimes() {
    // 256 Ki pages whose rates fall as one over their rank.
    let rates = Rates::new((1..=256u32 << 10).map(|rank| 1e4 / f64::from(rank)));
    let endurance = Endurance::new(1e7);
    let mut net = 0.0;
    let took = seconds(|| net = endurance.shuffled(&rates, &[65_536], CopyCost::Lines)[0].net);
    println!("lifetime with 65,536 shuffles of 256 Ki pages: {:.4} s (net {net:.4})", took);
    let small: Vec<f64> = (1..=2048u32).map(|rank| 1e4 / f64::from(rank)).collect();
    let spread = Spread::of(&Rates::new(small.iter().copied()));
    for shuffles in [16, 256, 4096] {
        let brute = brute_force(&small, shuffles, 0.01, 1);
        let convolved = spread.mean_of(shuffles).quantile(0.99);
        println!("  2048 pages, {shuffles} shuffles: {convolved:.3} by convolution, {brute:.3} page by page");
    }
}

/// Streams with different parts of writes that reach the memory.
fn stream(kind: u64) -> Vec<Event> {
    let event = |op, site| Event { op, site: SiteId(site), instructions: 3 };
    let mut random = 9u64;
    let mut events = Vec::new();
    while events.len() < 4 << 20 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let at = (random >> 30) % (256 << 20) / 8 * 8;
        match kind {
            // A working set of 512 KiB: nothing is written back.
            0 => events.extend([
                event(Op::Load { addr: at % (512 << 10), len: 8 }, 1),
                event(Op::Store { addr: at % (512 << 10), len: 8 }, 2),
            ]),
            // Three loads for a store, over 256 MiB.
            1 => {
                (0..3).for_each(|more| events.push(event(Op::Load { addr: at ^ (more << 20), len: 8 }, 1)));
                events.push(event(Op::Store { addr: at, len: 8 }, 2));
            }
            // Stores that are flushed.
            _ => events.extend([
                event(Op::Store { addr: at, len: 8 }, 2),
                event(Op::Flush { addr: at, kind: FlushKind::Clwb }, 3),
                event(Op::Fence(FenceKind::Store), 3),
            ]),
        }
    }
    events
}

fn counting() {
    println!("a machine that counts bytes, and the same with wear: million events a second");
    let config = Config::preset("xpoint").expect("a preset");
    for (kind, name) in (0..).zip(["in the caches", "loads and stores", "flushed stores"]) {
        let events = stream(kind);
        let run = |sink: &mut dyn Sink| {
            sink.begin(&Source::synthetic("bench")).expect("a source that has all");
            for events in events.chunks(4096) {
                let batch = Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] };
                sink.push(batch).expect("a batch");
            }
            sink.finish().expect("the end");
        };
        let bare = seconds(|| run(&mut Machine::new(&config).expect("a machine")));
        let worn = seconds(|| run(&mut Exact::new(&config).expect("a machine")));
        let rate = |seconds: f64| events.len() as f64 / seconds / 1e6;
        println!("  {name:<18}{:>8.1}{:>8.1}  {:.3} times as long", rate(bare), rate(worn), worn / bare);
    }
}
