//! Events per second of a profile and of the reference runs, on one core; and how long packing takes.
//!
//!     cargo bench -p plan [-- MILLIONS]

use std::time::Instant;

use event::{Batch, Event, Op, Sink, SiteId, Source, ThreadId};
use machine::Config;
use plan::choose::candidate_ways;
use plan::fleet::{Guest, Host, Policy, Shape, pack};
use plan::placed::{Placed, Where};
use plan::profile::Profiler;
use plan::tiers::{with_two_memories, with_ways};

/// Most accesses hit the first level, as those of programs do: nine of ten go on where the last one was.
fn events(count: usize) -> Vec<Event> {
    let mut state = 1u64;
    let mut addr = 1u64 << 32;
    let mut all = vec![Event { op: Op::Alloc { addr, len: 256 << 20 }, site: SiteId(1), instructions: 9 }];
    while all.len() < count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state >> 33;
        addr = if random.is_multiple_of(10) { (1 << 32) + random * 64 % (256 << 20) } else { addr + 8 };
        let op =
            if random.is_multiple_of(4) { Op::Store { addr, len: 8 } } else { Op::Load { addr, len: 8 } };
        all.push(Event { op, site: SiteId(2), instructions: 4 });
    }
    all
}

fn main() {
    let millions = std::env::args().filter_map(|word| word.parse::<usize>().ok()).next().unwrap_or(1);
    let config = with_two_memories(&Config::preset("cxl-asic").expect("a preset")).expect("two memories");
    let ways = candidate_ways(config.llc.ways);
    let piece = events(1_000_000);
    let mut sinks: Vec<(&str, Box<dyn Sink>)> =
        vec![("profile", Box::new(Profiler::new(&config, &ways).expect("it runs")))];
    for (name, place) in [("run, all fast", Where::Fast), ("run, all slow", Where::Slow)] {
        sinks.push((name, Box::new(Placed::new(&with_ways(&config, 11), place).expect("it runs"))));
    }
    for (name, mut sink) in sinks {
        sink.begin(&Source::synthetic("speed")).expect("it begins");
        let start = Instant::now();
        for _ in 0..millions {
            for events in piece.chunks(4096) {
                sink.push(Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] })
                    .expect("it goes on");
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{name}: {:.2} million events per second", millions as f64 / seconds);
    }
    let shape = |fast_gib, slow_gib, cost| Shape { fast_gib, slow_gib, ways: 2.0, cost };
    let guest = |gib: f64| Guest {
        name: "guest".to_owned(),
        count: 5_000,
        vcpus: 1.0,
        shapes: vec![shape(gib, 0.0, 100.0), shape(1.0, gib, 102.0)],
    };
    let host = Host { vcpus: 12.0, fast_gib: 24.0, slow_gib: 128.0, ways: 48.0, pool: 1 };
    let start = Instant::now();
    let packing = pack(&host, &[guest(6.0), guest(8.0)], Policy::Tolerant(0.025), 1);
    println!("10,000 guests onto {} machines: {:.2} s", packing.machines, start.elapsed().as_secs_f64());
}
