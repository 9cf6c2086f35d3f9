//! Queues, credit and interleaving of the memory side, over a device whose answers are a closed formula.

use machine::{Config, MemorySide, NO_THREAD, PERSISTENT, Request, Time};
use proptest::prelude::*;

/// One DIMM with 2 read and 3 write entries, 2 lines of credit; 10 ns there, 5 ns back, 20 ns to accept a write. The
/// device moves a line per 100 ns and answers 50 ns later.
const SMALL: &str = r#"
name = "small"
[cores]
count = 4
combining_buffers = 2
[l1]
size = "256B"
ways = 2
replacement = "lru"
[l2]
size = "512B"
ways = 2
replacement = "lru"
[llc]
size = "1KiB"
ways = 2
replacement = "lru"
[memory]
dimms = 1
interleave = "4KiB"
[memory.timing]
read_queue = 2
write_queue = 3
thread_write_credit = "128B"
read_request = "10ns"
read_return = "5ns"
write_accept = "20ns"
[device]
unit = "64B"
[device.timing]
kind = "delay"
read_latency = "50ns"
write_latency = "0ns"
line_transfer = "100ns"
"#;

fn side(change: impl Fn(&mut Config)) -> MemorySide {
    let mut config = Config::parse(SMALL, "small").expect("a valid description");
    change(&mut config);
    MemorySide::new(&config).expect("a description with timing")
}

fn request(line: u64, thread: u32) -> Request {
    Request { line: line | PERSISTENT, thread, core: thread }
}

fn ns(ns: u64) -> Time {
    Time::from_ns(ns)
}

#[test]
fn an_idle_memory_answers_after_the_way_there_the_device_and_the_way_back() {
    let mut side = side(|_| {});
    assert_eq!(side.read(ns(1000), request(0, 0)), ns(1000 + 10 + 100 + 50 + 5));
    assert_eq!(side.write(ns(5000), request(7, 0), true), ns(5000 + 20));
    let [other, persistent] = side.figures();
    assert_eq!((persistent.read_latency.max(), persistent.write_latency.max()), (ns(165), ns(20)));
    assert_eq!((persistent.total.controller_read_bytes, other.total.controller_read_bytes), (64, 0));
}

#[test]
fn a_full_read_queue_lets_the_next_in_when_an_answer_comes() {
    let mut side = side(|_| {});
    assert_eq!(side.read(ns(0), request(0, 0)), ns(165));
    assert_eq!(side.read(ns(0), request(1, 1)), ns(265));
    // Enters at 160, when the first answer is on the channel; the transfer is busy until 210 in any case.
    assert_eq!(side.read(ns(0), request(2, 2)), ns(365));
    let [_, figures] = side.figures();
    assert_eq!((figures.read_queue_full.count, figures.read_queue_full.time), (1, ns(150)));
    assert_eq!(figures.read_queue.max, 2);
}

#[test]
fn a_thread_without_credit_waits_until_its_oldest_line_is_taken() {
    let mut side = side(|_| {});
    // Accepted at 20; the device takes them at 120 and 220.
    assert_eq!(side.write(ns(0), request(0, 0), true), ns(20));
    assert_eq!(side.write(ns(0), request(1, 0), true), ns(20));
    assert_eq!(side.write(ns(0), request(2, 0), true), ns(120));
    let [_, figures] = side.figures();
    assert_eq!((figures.credit_used_up.count, figures.credit_used_up.time), (1, ns(100)));
    assert_eq!(figures.write_queue_full.count, 0);
}

#[test]
fn credit_is_back_when_the_line_is_taken_and_not_before() {
    for (at, accepted) in [(99, 120), (100, 120), (101, 121)] {
        let mut side = side(|_| {});
        (0..2).for_each(|line| {
            side.write(ns(0), request(line, 0), true);
        });
        assert_eq!(side.write(ns(at), request(2, 0), true), ns(accepted), "offered at {at} ns");
    }
}

#[test]
fn a_full_write_queue_takes_nobodys_line() {
    let mut side = side(|config| config.memory.timing.as_mut().unwrap().thread_write_credit = None);
    let accepted = [0, 1, 2, 3].map(|line| side.write(ns(0), request(line, line as u32), true));
    assert_eq!(accepted, [20, 20, 20, 120].map(ns));
    let [_, figures] = side.figures();
    assert_eq!((figures.write_queue_full.count, figures.write_queue.max), (1, 3));
}

#[test]
fn a_line_that_waits_holds_up_its_threads_lines_for_other_dimms() {
    let mut side = side(|config| config.memory.dimms = 2);
    (0..3).for_each(|line| {
        side.write(ns(0), request(line, 0), true);
    });
    // Line 64 is of the other DIMM, which is idle.
    assert_eq!(side.write(ns(0), request(64, 0), true), ns(120));
    assert_eq!(side.write(ns(0), request(65, 1), true), ns(20), "another thread does not care");
    assert_eq!(side.figures()[1].behind_own.time, ns(100));
}

#[test]
fn evicted_lines_need_no_credit_and_stand_in_no_line() {
    let mut side = side(|config| config.memory.dimms = 2);
    let evicted = |line| Request { thread: NO_THREAD, ..request(line, 0) };
    let accepted = [0, 1, 2, 3].map(|line| side.write(ns(0), evicted(line), true));
    assert_eq!(accepted, [20, 20, 20, 120].map(ns), "as many as the queue holds");
    assert_eq!(side.write(ns(0), evicted(64), true), ns(20), "the other DIMM is idle");
    let [_, figures] = side.figures();
    assert_eq!((figures.credit_used_up.count, figures.behind_own.count), (0, 0));
}

#[test]
fn a_read_of_a_line_in_the_write_queue_does_not_ask_the_device() {
    let mut side = side(|_| {});
    side.write(ns(0), request(0, 0), true);
    assert_eq!(side.read(ns(20), request(0, 1)), ns(35));
    assert_eq!(side.read(ns(110), request(0, 1)), ns(110 + 165), "taken at 120");
    assert_eq!(side.figures()[1].forwarded_reads, 1);
}

#[test]
fn half_a_line_in_the_write_queue_is_no_answer() {
    let mut side = side(|_| {});
    let accepted = side.write(ns(0), request(0, 0), false);
    assert!(side.read(accepted, request(0, 0)) >= accepted + ns(10 + 50 + 5));
    assert_eq!(side.figures()[1].forwarded_reads, 0);
}

#[test]
fn a_machine_without_timing_says_which_table_is_missing() {
    let refusal = |change: fn(&mut Config)| {
        let mut config = Config::parse(SMALL, "small").unwrap();
        change(&mut config);
        MemorySide::new(&config).unwrap_err().to_string()
    };
    assert!(refusal(|config| config.memory.timing = None).starts_with("small: memory.timing = absent"));
    assert!(refusal(|config| config.device.timing = None).starts_with("small: device.timing = absent"));
}

#[test]
fn other_memory_may_lie_on_a_device_of_its_own() {
    let other = r#"
[other_memory.controller]
dimms = 3
interleave = "256B"
[other_memory.controller.timing]
read_queue = 8
write_queue = 8
read_request = "1ns"
read_return = "1ns"
write_accept = "1ns"
[other_memory.device]
unit = "64B"
[other_memory.device.timing]
kind = "delay"
read_latency = "5ns"
write_latency = "0ns"
line_transfer = "1ns"
"#;
    let config = Config::parse(&format!("{SMALL}{other}"), "small").unwrap();
    let mut side = MemorySide::new(&config).unwrap();
    let volatile = Request { line: 0, thread: 0, core: 0 };
    assert_eq!(side.read(ns(0), volatile), ns(8));
    assert_eq!(side.read(ns(0), request(0, 0)), ns(165));
    assert_eq!(side.figures().map(|memory| memory.per_dimm.len()), [3, 1]);
    let broken = format!("{SMALL}{other}").replace("dimms = 3", "dimms = 0");
    let message = Config::parse(&broken, "small").unwrap_err().to_string();
    assert_eq!(message, "small: other_memory.controller.dimms = 0: use 1 to 64");
}

/// Mean time of a read in a region whose units are read in turn, one line each, one after the other.
fn unit_read_ns(config: &Config, bytes: u64) -> f64 {
    let mut side = MemorySide::new(config).expect("a description with timing");
    let units = bytes / 256;
    let (mut now, mut spent, rounds) = (Time::ZERO, Time::ZERO, (20_000 / units).max(4));
    for round in 0..rounds {
        for unit in 0..units {
            // Another order in each round, so that no policy is at its worst.
            let unit = (unit * 97 + round * 31) % units;
            let done = side.read(now, request(unit * 4, 0));
            spent += if round == 0 { Time::ZERO } else { done - now };
            now = done + ns(100);
        }
    }
    spent.ns() / ((rounds - 1) * units) as f64
}

#[test]
fn a_larger_buffer_moves_the_knee_and_more_dimms_move_it_as_far() {
    let one = Config::preset("xpoint-one-dimm").unwrap();
    let mut double = one.clone();
    double.device.buffer.as_mut().unwrap().lines = 128;
    let six = Config::preset("xpoint").unwrap();
    let knee = |config: &Config, kib: u64| {
        let (fits, too_large) = (unit_read_ns(config, kib << 10), unit_read_ns(config, kib << 11));
        assert!(
            too_large > fits + 30.0,
            "{}: {fits:.0} ns at {kib} KiB, {too_large:.0} at twice that",
            config.name
        );
        assert!((unit_read_ns(config, 4 << 10) - fits).abs() < 5.0, "{}: flat before", config.name);
    };
    knee(&one, 16);
    knee(&double, 32);
    knee(&six, 96);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_answered_early_lost_or_different_the_second_time(
        requests in prop::collection::vec((0u64..200, 0u64..256, 0u32..4, any::<bool>()), 1..300)
    ) {
        let run = || {
            let mut side = side(|config| config.memory.dimms = 3);
            let mut now = Time::ZERO;
            let answers: Vec<Time> = requests.iter().map(|&(pause, line, thread, write)| {
                now += ns(pause);
                let request = request(line, thread);
                let done = if write { side.write(now, request, true) } else { side.read(now, request) };
                assert!(done >= now);
                done
            }).collect();
            let end = side.drain(now);
            (answers, end, side.figures())
        };
        let (answers, end, figures) = run();
        let offered: u64 = requests.iter().map(|request| request.0).sum();
        prop_assert!(end >= ns(offered));
        let [_, figures] = &figures;
        let writes = requests.iter().filter(|request| request.3).count() as u64;
        let reads = requests.len() as u64 - writes;
        prop_assert_eq!(figures.total.controller_write_bytes, writes * 64);
        prop_assert_eq!(figures.total.media_write_bytes, writes * 64);
        prop_assert_eq!(figures.total.controller_read_bytes + figures.forwarded_reads * 64, reads * 64);
        prop_assert_eq!(figures.read_latency.count(), reads);
        prop_assert_eq!(figures.adr, machine::AdrEstimate::default());
        let again = run();
        prop_assert_eq!((&answers, end), (&again.0, again.1));
    }
}

#[test]
fn a_remote_socket_pays_the_link_both_ways() {
    let sockets = r#"
[sockets]
count = 2
home = 1
link = { latency = "30ns", message = "1ns", read_line = "4ns", write_line = "5ns" }
"#;
    let config = Config::parse(&format!("{SMALL}{sockets}"), "small").expect("a valid description");
    let took = |core, write| {
        let mut side = MemorySide::new(&config).expect("a description with timing");
        let request = Request { line: PERSISTENT, thread: 0, core };
        if write { side.write(ns(1000), request, true) } else { side.read(ns(1000), request) }
    };
    let (read, write) = (took(2, false), took(2, true));
    assert_eq!(took(1, false), read + ns(1 + 30 + 4 + 30));
    assert_eq!(took(1, true), write + ns(5 + 30 + 1 + 30));
}

#[test]
fn only_a_device_with_a_directory_is_asked_for_leave_to_write() {
    let mut plain = side(|_| {});
    assert_eq!(plain.own(ns(1000), request(0, 0)), None);
    let fpga = r#"kind = "fpga"
latency = "30ns"
controllers = 2
chunk = "128B"
line = "25ns"
directory = "1ns"
writes = 4
"#;
    let timing = SMALL.split("kind = ").next().expect("the text before").to_owned() + fpga;
    let config = Config::parse(&timing, "fpga").expect("a valid description");
    let mut side = MemorySide::new(&config).expect("a description with timing");
    assert_eq!(side.own(ns(1000), request(0, 0)), Some(ns(1000 + 10 + 31 + 5)));
}
