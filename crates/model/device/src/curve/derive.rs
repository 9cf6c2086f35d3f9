//! Curves from a detailed device, as one measures them on a real machine: one reader chases pointers and
//! gives the latency, the others make load.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Curves, Point};
use crate::{Device, DeviceConfig, DeviceTiming, LINE_BYTES, Rng, Time, build};

/// How curves are measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Derive {
    /// Shares of reads, 0 to 1 each; a curve for each.
    pub read_shares: Vec<f64>,
    /// Streams that make load side by side, each with one line under way.
    pub streams: u32,
    /// Pauses between a stream's lines; a point for each. The longest gives (almost) the unloaded latency.
    pub pauses: Vec<Time>,
    /// Lines that the load moves per point, after as many to warm up.
    pub lines: u64,
    /// Bytes within which each stream walks from line to line, starting anew at the end.
    pub region: u64,
    /// Seed of the chase and of the order of reads and writes.
    pub seed: u64,
}

impl Default for Derive {
    /// Eleven shares, pauses from 10 µs down to none.
    fn default() -> Self {
        let pauses = [10_000, 3_000, 1_500, 1_000, 700, 500, 350, 250, 180, 120, 80, 50, 30, 15, 0];
        Derive {
            read_shares: (0..=10).map(|tenth| f64::from(tenth) / 10.0).collect(),
            streams: 48,
            pauses: pauses.map(Time::from_ns).to_vec(),
            lines: 40_000,
            region: 64 << 20,
            seed: 1,
        }
    }
}

/// Who asks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    at: Time,
    /// 0 is the reader that chases.
    stream: u32,
}

/// Measures the device that `device` describes and `timing`, its table `[device.timing]`, times: of one
/// channel, as the curve device that takes its place will be one. `seed` is the machine's.
#[must_use]
pub fn derive(device: &DeviceConfig, timing: &DeviceTiming, seed: u64, how: &Derive) -> Curves {
    let mut measured = Vec::new();
    for &share in &how.read_shares {
        for &pause in &how.pauses {
            let mut device = build(device, timing, seed);
            measured.push((share, measure(device.as_mut(), how, share, pause)));
        }
    }
    Curves::new(measured)
}

/// One point, on a new device.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn measure(device: &mut dyn Device, how: &Derive, share: f64, pause: Time) -> Point {
    let mut rng = Rng::new(how.seed);
    let region = (how.region / LINE_BYTES).max(1);
    // The streams begin spread over one pause.
    let spread = |stream: u32| Time(pause.0 * u64::from(stream) / u64::from(how.streams.max(1)));
    let mut turns: BinaryHeap<_> =
        (0..=how.streams).map(|stream| Reverse(Turn { at: spread(stream), stream })).collect();
    let mut walked = vec![0u64; how.streams as usize + 1];
    let (mut moved, mut begun, mut last) = (0, Time::ZERO, Time::ZERO);
    let (mut chased, mut waited) = (0u64, Time::ZERO);
    while moved < 2 * how.lines {
        let Some(Reverse(Turn { at, stream })) = turns.pop() else { break };
        let base = u64::from(stream) * region;
        let done = if stream == 0 {
            let done = device.read(at, rng.below(region as usize) as u64);
            if moved >= how.lines {
                chased += 1;
                waited += done - at;
            }
            done
        } else {
            let line = base + walked[stream as usize] % region;
            walked[stream as usize] += 1;
            moved += 1;
            if moved == how.lines {
                begun = at;
            }
            last = last.max(at);
            let read = rng.chance(share);
            (if read { device.read(at, line) } else { device.write(at, line, true) }) + pause
        };
        turns.push(Reverse(Turn { at: done, stream }));
    }
    let bytes = (how.lines + chased) * LINE_BYTES;
    Point {
        bandwidth: bytes as f64 / last.since(begun).ns().max(0.001),
        latency: waited.ns() / (chased.max(1)) as f64,
    }
}
