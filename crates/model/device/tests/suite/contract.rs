//! What every device promises, held against each of them under random traffic.

use std::collections::BTreeSet;

use device::{Curves, Device, DeviceConfig, DeviceTiming, LINE_BYTES, Size, Time, Traffic};
use proptest::prelude::*;

/// A device for the tests: its numbers as they stand in `[device.timing]`.
struct Subject {
    name: &'static str,
    timing: &'static str,
    /// Bytes per nanosecond that can't be exceeded, reads and writes together.
    peak: f64,
    /// What of the lines that it was given reaches its media.
    writes: Writes,
}

/// What the media must have written after a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writes {
    /// Every line as often as it was written, and nothing else: media bytes equal the controller's bytes.
    Each,
    /// Every line that was written, once at least. A line that is written over and over again may reach the
    /// media fewer times, and with whole units more bytes than lines may.
    Merge,
}

const DRAM: &str = r#"
kind = "dram"
ranks = 2
bank_groups = 4
banks = 4
row = "8KiB"
t_rcd = "14.25ns"
t_cl = "14.25ns"
t_cwl = "13.5ns"
t_rp = "14.25ns"
t_ras = "32ns"
t_bl = "3ns"
t_ccd = "5.25ns"
t_rtp = "7.5ns"
t_wr = "15ns"
read_to_write = "1.5ns"
write_to_read = "21.75ns"
rank_to_rank = "1.5ns"
t_refi = "7.8us"
t_rfc = "350ns"
write_queue = 48
write_batch = 16
write_wait = "500ns"
"#;

const FLASH: &str = r#"
kind = "flash"
dies = 8
page = "4KiB"
read = "40us"
program = "400us"
line = "16ns"
"#;

const XPOINT: &str = r#"
kind = "xpoint"
line_transfer = "3ns"
controller = "87ns"
buffer_replacement = "not-recent"
combining = { lines = 64, age = "1500ns", replacement = "not-recent" }
translation = { lookup = "50ns", miss = "57ns", entry = "4KiB", buffer = "16MiB" }
media = { partitions = 16, read = "47ns", write = "900ns", transfer = "39ns", write_queue = 16 }
power = { average = 15.0, idle = 5.2, read = 300.0, write = 1100.0, window = "2us" }
"#;

/// Every kind of device. A new one goes here.
const SUBJECTS: &[Subject] = &[
    Subject {
        name: "delay",
        timing: r#"
kind = "delay"
read_latency = "1us"
write_latency = "500ns"
line_transfer = "32ns"
"#,
        peak: 2.0,
        writes: Writes::Each,
    },
    Subject { name: "dram", timing: DRAM, peak: 21.4, writes: Writes::Each },
    Subject {
        name: "fpga",
        timing: r#"
kind = "fpga"
latency = "30ns"
controllers = 4
chunk = "128B"
line = "25.6ns"
directory = "1ns"
writes = 16
"#,
        peak: 10.0,
        writes: Writes::Each,
    },
    Subject { name: "flash", timing: FLASH, peak: 4.0, writes: Writes::Merge },
    Subject {
        name: "interleaved",
        timing: r#"
kind = "interleaved"
channels = 3
chunk = "256B"
each = { kind = "delay", read_latency = "50ns", write_latency = "9ns", line_transfer = "16ns" }
"#,
        peak: 12.0,
        writes: Writes::Each,
    },
    Subject {
        name: "cxl, with a switch",
        timing: r#"
kind = "cxl"
port = "12ns"
link = { latency = "10ns", message = "0.5ns", read_line = "2.5ns", write_line = "2.5ns" }
switch = { latency = "35ns", message = "0.5ns", read_line = "3ns", write_line = "3ns", mix = "1ns" }
controller = "20ns"
writes = 16
behind = { kind = "delay", read_latency = "50ns", write_latency = "9ns", line_transfer = "4ns" }
"#,
        peak: 16.0,
        writes: Writes::Each,
    },
    Subject {
        name: "Memory mode",
        timing: r#"
kind = "cached"
size = "16KiB"
block = "64B"
tags = "near"
writes = 16
near = { kind = "delay", read_latency = "50ns", write_latency = "9ns", line_transfer = "3ns" }
far = { kind = "delay", read_latency = "300ns", write_latency = "90ns", line_transfer = "30ns" }
"#,
        // Writes may all stay in the near memory, each after a read for its tag.
        peak: 64.0 / 6.0,
        writes: Writes::Merge,
    },
    Subject {
        name: "pages of flash cached in DRAM",
        timing: r#"
kind = "cached"
size = "64KiB"
block = "4KiB"
tags = "controller"
writes = 16
near = { kind = "delay", read_latency = "50ns", write_latency = "9ns", line_transfer = "3ns" }
far = { kind = "flash", dies = 8, page = "4KiB", read = "40us", program = "400us", line = "16ns" }
"#,
        peak: 64.0 / 3.0,
        writes: Writes::Merge,
    },
    Subject {
        name: "curve",
        timing: r#"
kind = "curve"
file = "curves.csv"
window = "1us"
"#,
        peak: 20.0,
        writes: Writes::Each,
    },
    Subject {
        name: "injected, spinning",
        timing: r#"
kind = "injected"
read_delay = "300ns"
write_delay = "100ns"
read_line = "3ns"
write_line = "24ns"
overlap = false
behind = { kind = "delay", read_latency = "50ns", write_latency = "9ns", line_transfer = "3ns" }
"#,
        peak: 64.0 / 100.0,
        writes: Writes::Each,
    },
    // The channel is the bound of lines that the buffer has.
    Subject { name: "xpoint", timing: XPOINT, peak: 21.4, writes: Writes::Merge },
];

const CURVES: &str = "read_share,bandwidth_gbps,latency_ns\n1,0,90\n1,20,400\n0,0,90\n0,10,300\n";

impl Subject {
    fn build(&self) -> Box<dyn Device> {
        let mut timing: DeviceTiming =
            toml::from_str(self.timing).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        if let DeviceTiming::Curve(curve) = &mut timing {
            curve.curves = Curves::parse(CURVES).expect("curves");
        }
        let device = DeviceConfig { unit: Size(64), buffer: None, endurance: None, timing: None };
        device::build(&device, &timing, 1)
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Read(u64),
    Write { line: u64, whole: bool },
    Own(u64),
    AdvanceTo,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Picoseconds since the step before; now and then a step back.
    gap: i64,
    call: Call,
}

fn any_step() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![
        6 => Just(0),
        6 => 0..20_000i64,
        2 => 0..1_000_000i64,
        1 => 0..30_000_000i64,
        1 => -50_000..0i64,
    ];
    // Neighbours, a small region, and far apart.
    let line = prop_oneof![0..8u64, 0..600u64, (0..64u64).prop_map(|n| n * 4096 + n)];
    let call = prop_oneof![
        8 => line.clone().prop_map(Call::Read),
        8 => (line, prop::bool::weighted(0.9)).prop_map(|(line, whole)| Call::Write { line, whole }),
        1 => (0..600u64).prop_map(Call::Own),
        1 => Just(Call::AdvanceTo),
    ];
    (gap, call).prop_map(|(gap, call)| Step { gap, call })
}

/// What a device answered, call by call, and after the drain.
#[derive(Debug, PartialEq)]
struct Answers {
    times: Vec<(Time, Time)>,
    drained: Time,
    traffic: Traffic,
    held: u64,
    reads: u64,
    writes: u64,
    lines_written: u64,
    end: Time,
}

fn drive(subject: &Subject, steps: &[Step]) -> Answers {
    let mut device = subject.build();
    let mut now = Time(1_000_000);
    let mut latest = now;
    let (mut times, mut reads, mut writes) = (Vec::new(), 0, 0);
    let mut written = BTreeSet::new();
    for step in steps {
        now = Time(now.0.saturating_add_signed(step.gap));
        latest = latest.max(now);
        let answer = match step.call {
            Call::Read(line) => {
                reads += 1;
                device.read(now, line)
            }
            Call::Write { line, whole } => {
                writes += 1;
                written.insert(line);
                device.write(now, line, whole)
            }
            Call::Own(line) => device.own(now, line).unwrap_or(now),
            Call::AdvanceTo => {
                device.advance_to(now);
                now
            }
        };
        times.push((now, answer));
        let taken = device.traffic().controller_write_bytes;
        assert_eq!(taken, writes * LINE_BYTES, "{}: a line that was taken is in the books", subject.name);
    }
    let end = times.iter().map(|(_, answer)| *answer).max().unwrap_or(now).max(latest);
    let drained = device.drain(latest);
    let (traffic, held) = (device.traffic(), device.held_bytes());
    Answers { times, drained, traffic, held, reads, writes, lines_written: written.len() as u64, end }
}

#[allow(clippy::cast_precision_loss)]
fn honours_the_contract(subject: &Subject, steps: &[Step]) -> Result<(), TestCaseError> {
    let answers = drive(subject, steps);
    let name = subject.name;
    for (step, (at, answer)) in steps.iter().zip(&answers.times) {
        prop_assert!(answer >= at, "{}: {:?} at {} was answered for {}", name, step, at, answer);
    }
    prop_assert_eq!(answers.held, 0, "{}: a drained device holds nothing", name);
    let traffic = answers.traffic;
    prop_assert_eq!(traffic.controller_read_bytes, answers.reads * LINE_BYTES, "{}", name);
    if subject.writes == Writes::Merge {
        prop_assert!((traffic.media_write_bytes > 0) == (answers.writes > 0), "{}: {:?}", name, traffic);
        let least = answers.lines_written * LINE_BYTES;
        prop_assert!(traffic.media_write_bytes >= least, "{}: a line was lost, {:?}", name, traffic);
    } else {
        prop_assert_eq!(traffic.media_write_bytes, traffic.controller_write_bytes, "{}", name);
    }
    let again = drive(subject, steps);
    prop_assert_eq!(&again, &answers, "{}: the same calls, the same answers", name);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_device_honours_the_contract(steps in prop::collection::vec(any_step(), 1..400)) {
        for subject in SUBJECTS {
            honours_the_contract(subject, &steps)?;
        }
    }

    /// All calls at once: the last answer can't come before the bytes had time to move.
    #[test]
    fn no_device_is_faster_than_its_peak(
        calls in prop::collection::vec((0..100_000u64, prop::bool::weighted(0.4)), 200..600)
    ) {
        for subject in SUBJECTS {
            // Every line once: what a buffer holds need not move again.
            let steps: Vec<Step> = calls
                .iter()
                .enumerate()
                .map(|(number, &(line, write))| {
                    let line = line * 1024 + number as u64;
                    let call = if write { Call::Write { line, whole: true } } else { Call::Read(line) };
                    Step { gap: 0, call }
                })
                .collect();
            let answers = drive(subject, &steps);
            let moved = (calls.len() as u64 * LINE_BYTES) as f64;
            let took = answers.end.max(answers.drained).since(Time(1_000_000)).ns();
            prop_assert!(moved / took <= subject.peak, "{}: {} B/ns", subject.name, moved / took);
        }
    }
}
