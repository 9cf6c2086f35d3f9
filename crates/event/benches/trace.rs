//! Speed and size of the trace codec on the events of a B+-tree being filled.
//!
//! `cargo bench -p event` measures; under `cargo test --benches` it runs tiny and prints the checksum only.

#[path = "../tests/common/tree.rs"]
mod tree;

use std::io::Cursor;
use std::time::{Duration, Instant};

use event::trace::{Compression, Reader, Writer};
use event::{Batch, Event, Op, Sink, SinkError, Source, ThreadId};

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

fn encode(events: &[Event], compression: Compression) -> Vec<u8> {
    let buffer = Vec::with_capacity(events.len() * 4);
    let mut writer =
        Writer::new(buffer, "memory").and_then(|w| w.compression(compression)).expect("a writer");
    writer.begin(&Source::synthetic("bench")).expect("begin");
    for events in events.chunks(BATCH) {
        writer.push(Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] }).expect("push");
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
    let (count, runs) = if measuring { (1_000_000, 40) } else { (100_000, 1) };
    let events = tree::Tree::new(1).take(count);
    let (reading, sum) = best_of(runs, || {
        let mut sum = Checksum::default();
        for events in events.chunks(BATCH) {
            sum.push(Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] }).expect("push");
        }
        sum.0
    });
    println!("events: checksum {sum:016x}");
    if measuring {
        // Part of what encoding takes below: a producer's events are in its cache, these are not.
        println!("  read from memory {:.2} ns/event", reading.as_nanos() as f64 / count as f64);
    }
    for compression in [Compression::None, Compression::Fast] {
        let (encoding, file) = best_of(runs, || encode(&events, compression));
        let (decoding, sum) = best_of(runs, || {
            let mut sum = Checksum::default();
            let mut reader = Reader::new(Cursor::new(&file), "memory").expect("open");
            reader.replay(&mut sum).expect("replay");
            sum.0
        });
        println!("{compression:?}: checksum {sum:016x}, {} bytes", file.len());
        if measuring {
            let per_event = |time: Duration| time.as_nanos() as f64 / count as f64;
            println!(
                "  encode {:.2} ns/event, decode {:.2} ns/event ({:.0} M/s), {:.3} bytes/event",
                per_event(encoding),
                per_event(decoding),
                1e3 / per_event(decoding),
                file.len() as f64 / count as f64
            );
        }
    }
}
