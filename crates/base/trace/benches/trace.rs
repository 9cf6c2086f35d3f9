//! Speed and size of the trace codec on the events of a B+-tree being filled, or of a trace.
//!
//! `cargo bench -p trace` measures; with `-- FILE`, an absolute path, it takes the first four million events
//! of that trace instead. Under `cargo test --benches` it runs tiny and prints the checksum only.

#[path = "../tests/suite/tree.rs"]
mod tree;

use std::io::Cursor;
use std::time::{Duration, Instant};

use event::{Batch, Event, Op, Sink, SinkError, SiteId, Source, ThreadId};
use trace::{Compression, Reader, Writer};

/// Events of a batch, about what a producer's chunk holds.
const BATCH: usize = 4096;

/// Looks at every event, as little as a consumer can.
#[derive(Default)]
struct Checksum(u64);

impl Sink for Checksum {
    fn name(&self) -> &'static str {
        "checksum"
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        for event in batch.events {
            let (Op::Load { addr, .. } | Op::Store { addr, .. }) = event.op else { continue };
            self.0 = self.0.wrapping_add(addr ^ u64::from(event.site.0));
        }
        Ok(())
    }
}

/// Eight threads take turns at a lock, each time for about 64 events.
fn in_turns(events: &[Event]) -> Vec<(ThreadId, Vec<Event>)> {
    let sync = |op| Event { op, site: SiteId(99), instructions: 20 };
    let turns = events.chunks(64).zip(0u64..).map(|(events, turn)| {
        let mut turn_events = vec![sync(Op::Lock { lock: 4096, shared: false, seq: 2 * turn + 1 })];
        turn_events.extend_from_slice(events);
        turn_events.push(sync(Op::Unlock { lock: 4096, seq: 2 * turn + 2 }));
        (ThreadId((turn % 8) as u32), turn_events)
    });
    turns.collect()
}

fn one_thread(events: &[Event]) -> Vec<(ThreadId, Vec<Event>)> {
    events.chunks(BATCH).map(|events| (ThreadId(0), events.to_vec())).collect()
}

/// Stops a replay when it has enough.
#[derive(Default)]
struct First(Vec<(ThreadId, Vec<Event>)>, usize);

impl Sink for First {
    fn name(&self) -> &'static str {
        "first"
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if self.1 >= 4_000_000 {
            return Err(SinkError::Other("enough".to_owned()));
        }
        self.0.push((batch.thread, batch.events.to_vec()));
        self.1 += batch.events.len();
        Ok(())
    }
}

/// The first events of a trace, in its batches.
fn recorded(file: &str) -> Vec<(ThreadId, Vec<Event>)> {
    let mut first = First::default();
    let replayed = Reader::open(file).expect("a trace").replay(&mut first);
    assert!(replayed.is_ok() || first.1 >= 4_000_000, "{replayed:?}");
    first.0
}

fn encode(batches: &[(ThreadId, Vec<Event>)], compression: Compression) -> Vec<u8> {
    let events: usize = batches.iter().map(|(_, events)| events.len()).sum();
    let buffer = Vec::with_capacity(events * 4);
    let mut writer =
        Writer::new(buffer, "memory").and_then(|w| w.compression(compression)).expect("a writer");
    writer.begin(&Source::synthetic("bench")).expect("begin");
    for (thread, events) in batches {
        writer.push(Batch { thread: *thread, time_ns: 0, events, values: &[] }).expect("push");
    }
    writer.finish().expect("finish");
    writer.into_inner()
}

fn best_of<T>(runs: usize, mut work: impl FnMut() -> T) -> (Duration, T) {
    let mut timed = || {
        let start = Instant::now();
        let result = work();
        (start.elapsed(), result)
    };
    let mut best = timed();
    for _ in 1..runs {
        let next = timed();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

#[allow(clippy::cast_precision_loss)]
fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let file = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    let (count, runs) = if measuring { (1_000_000, 30) } else { (50_000, 1) };
    let inputs = if let Some(file) = &file {
        vec![(file.as_str(), recorded(file))]
    } else {
        let events = tree::Tree::new(1).take(count);
        vec![("one thread", one_thread(&events)), ("eight threads", in_turns(&events))]
    };
    for (name, batches) in &inputs {
        let count: usize = batches.iter().map(|(_, events)| events.len()).sum();
        let per_event = |time: Duration| time.as_nanos() as f64 / count as f64;
        let (reading, sum) = best_of(runs, || {
            let mut sum = Checksum::default();
            for (thread, events) in batches {
                sum.push(Batch { thread: *thread, time_ns: 0, events, values: &[] }).expect("push");
            }
            sum.0
        });
        println!("{name}: checksum {sum:016x}");
        if measuring {
            // Part of what encoding takes below: a producer's events are in its cache, these are not.
            println!("  read from memory {:.2} ns/event", per_event(reading));
        }
        for compression in [Compression::None, Compression::Fast] {
            let (encoding, file) = best_of(runs, || encode(batches, compression));
            let (decoding, sum) = best_of(runs, || {
                let mut sum = Checksum::default();
                let mut reader = Reader::new(Cursor::new(&file), "memory").expect("open");
                reader.replay(&mut sum).expect("replay");
                sum.0
            });
            println!("  {compression:?}: checksum {sum:016x}, {} bytes", file.len());
            if measuring {
                println!(
                    "    encode {:.2} ns/event, replay {:.2} ns/event ({:.0} M/s), {:.3} bytes/event",
                    per_event(encoding),
                    per_event(decoding),
                    1e3 / per_event(decoding),
                    file.len() as f64 / count as f64
                );
            }
        }
    }
}
