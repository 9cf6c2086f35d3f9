use super::*;
use crate::Buffer as BufferConfig;
use crate::DeviceTiming;
use proptest::prelude::*;

const NS: fn(u64) -> Time = Time::from_ns;

/// A DIMM with every mechanism.
fn dimm() -> (DeviceConfig, Xpoint) {
    let device: DeviceConfig = toml::from_str(include_str!("tests.toml")).expect("a device");
    let Some(DeviceTiming::Xpoint(timing)) = device.timing.clone() else { panic!("not timed as xpoint") };
    (device, *timing)
}

/// That DIMM without wear levelling, heat and limits of power.
fn plain(change: impl Fn(&mut DeviceConfig, &mut Xpoint)) -> XpointDevice {
    let (mut device, mut timing) = dimm();
    (timing.power, timing.wear, timing.thermal) = (None, None, None);
    change(&mut device, &mut timing);
    XpointDevice::new(&device, &timing, 1)
}

fn balanced(device: &XpointDevice) {
    for (what, left, right) in device.balances() {
        assert_eq!(left, right, "{what}");
    }
}

#[test]
fn idle_latencies_are_sums() {
    let mut device = plain(|_, _| {});
    let (_, xpoint) = dimm();
    let hit = xpoint.controller + xpoint.line_transfer;
    let media = xpoint.translation.lookup + xpoint.media.read + Time(xpoint.media.transfer.0 / 4);
    let miss = hit + media;
    assert_eq!(device.read(NS(1_000), 0), NS(1_000) + miss + xpoint.translation.miss, "no entry in DRAM");
    assert_eq!(device.read(NS(2_000), 4), NS(2_000) + miss, "the next unit of the same entry");
    assert_eq!(device.read(NS(3_000), 5), NS(3_000) + hit, "another line of the same unit");
    assert_eq!(device.read(NS(4_000), 64), NS(4_000) + miss + xpoint.translation.miss, "the next entry");
    assert_eq!(device.write(NS(5_000), 8, true), NS(5_000) + xpoint.line_transfer);
    assert_eq!(device.read(NS(5_100), 8), NS(5_100) + hit, "a line that waits");
    assert_eq!(device.counters.translation_misses, 2);
}

#[test]
fn reads_are_bound_by_the_way_from_the_media_and_writes_by_power() {
    let (device_config, xpoint) = dimm();
    let mut device = plain(|_, _| {});
    let units = 1_000;
    let last = (0..units).map(|unit| device.read(NS(0), unit * 4)).max().unwrap();
    let bound = xpoint.media.transfer * units;
    assert!(last > bound && last < bound + NS(1_000), "{last} for {bound} on the way");

    let mut timing = xpoint.clone();
    (timing.wear, timing.thermal) = (None, None);
    let mut device = XpointDevice::new(&device_config, &timing, 1);
    let mut now = Time::ZERO;
    (0..units * 4).for_each(|line| now = device.write(now, line, true));
    let per_unit = device.drain(now).ns() / units as f64;
    assert!((111.0..114.0).contains(&per_unit), "1100 nJ at 9.8 W are 112 ns, here {per_unit}");
    balanced(&device);
}

#[test]
fn completing_a_unit_takes_a_read_and_the_energy_of_its_write_alone() {
    let (device_config, mut timing) = dimm();
    (timing.wear, timing.thermal) = (None, None);
    let mut device = XpointDevice::new(&device_config, &timing, 1);
    let (units, mut now) = (1_000, Time::ZERO);
    (0..units).for_each(|unit| now = device.write(now, unit * 4, true));
    let per_unit = device.drain(now).ns() / units as f64;
    assert_eq!((device.traffic.read_modify_writes, device.traffic.media_read_bytes), (units, units * 256));
    assert!((111.0..116.0).contains(&per_unit), "1100 nJ at 9.8 W are 112 ns, here {per_unit}");
    balanced(&device);
}

#[test]
fn lines_that_come_in_time_are_one_media_write() {
    let mut device = plain(|_, _| {});
    for line in 0..4 {
        device.write(NS(100 * line), line, true);
    }
    device.advance_to(NS(1_499));
    assert_eq!(device.traffic.media_write_bytes, 0, "not old enough");
    device.advance_to(NS(1_600));
    assert_eq!((device.traffic.media_write_bytes, device.traffic.read_modify_writes), (256, 0));
    balanced(&device);
}

#[test]
fn a_unit_leaves_the_queue_when_it_is_old_enough_and_not_before() {
    let age = dimm().1.combining.age;
    let mut device = plain(|_, _| {});
    let taken = device.write(NS(0), 0, true);
    device.advance_to(taken + age - Time(1));
    assert_eq!(device.queue.groups().len(), 1);
    device.advance_to(taken + age);
    assert_eq!(device.queue.groups().len(), 0);
    assert_eq!(device.held_bytes(), 64, "it waits in the buffer for the rest");
    assert!(device.drain_time() >= dimm().1.media.write);
    device.drain(NS(10_000));
    assert_eq!((device.held_bytes(), device.drain_time()), (0, Time::ZERO));
    assert_eq!((device.traffic.read_modify_writes, device.traffic.media_read_bytes), (1, 256));
}

#[test]
fn the_energy_estimate_counts_each_unit_once_and_reads_what_is_missing() {
    let (_, xpoint) = dimm();
    let mut device = plain(|_, timing| timing.media.write_queue = 4);
    (0..8).for_each(|unit| _ = device.write(NS(0), unit * 4, true));
    let missing = xpoint.media.write * 2 + xpoint.media.read;
    assert_eq!(device.drain_time(), missing, "parts that wait in the queue");
    device.advance_to(NS(10_000));
    assert_eq!((device.queue.groups().len(), device.drain_time()), (0, missing), "and in the buffer");
    (0..8).for_each(|unit| _ = device.write(NS(10_000), unit * 4 + 1, true));
    assert_eq!(device.drain_time(), missing, "and in both");
    (0..8).for_each(|unit| _ = device.read(NS(10_000), unit * 4 + 2));
    assert_eq!(device.drain_time(), xpoint.media.write * 2, "nothing is missing");
}

#[test]
fn the_rest_of_a_partial_line_is_not_known_here() {
    let mut device = plain(|_, _| {});
    device.write(NS(0), 0, false);
    device.read(NS(10), 0);
    assert_eq!(device.traffic.media_read_bytes, 256, "half a line is no answer");
    let mut device = plain(|_, _| {});
    for line in 0..4 {
        device.write(NS(0), line, line != 2);
    }
    device.drain(NS(0));
    assert_eq!(device.traffic.read_modify_writes, 1);
}

#[test]
fn rewriting_merges() {
    for lines in [1, 4] {
        let mut device = plain(|_, _| {});
        let mut now = Time::ZERO;
        (0..40_000).for_each(|n| now = device.write(now + NS(27), n % lines, true));
        device.drain(now);
        let ewr = device.traffic.ewr().unwrap();
        assert!(ewr > 5.0, "{lines} lines over and over again: EWR {ewr}");
        balanced(&device);
    }
}

/// Media bytes per byte of sequential writers that take turns, as fast as the DIMM takes lines.
fn amplification(writers: u64) -> f64 {
    let (device, mut timing) = dimm();
    (timing.wear, timing.thermal) = (None, None);
    let mut device = XpointDevice::new(&device, &timing, 1);
    let mut now = Time::ZERO;
    for line in 0..8_000 {
        for writer in 0..writers {
            now = device.write(now, writer << 25 | line, true);
        }
    }
    1.0 / device.traffic.ewr().unwrap()
}

#[test]
fn two_writers_are_distinguished_and_more_lose_the_rest_of_their_units() {
    let by_writers = [1, 2, 4, 6, 8, 16].map(amplification);
    assert!(by_writers[..2].iter().all(|amplification| *amplification < 1.02), "{by_writers:?}");
    assert!(by_writers[1..].is_sorted() && by_writers[4] > 1.1, "{by_writers:?}");
}

#[test]
fn the_hot_block_stops_after_each_so_many_bytes() {
    let (device_config, timing) = dimm();
    let wear = timing.wear.clone().unwrap();
    let mut device = XpointDevice::new(&device_config, &Xpoint { thermal: None, ..timing }, 1);
    let (mut now, mut stalls) = (Time::ZERO, Vec::new());
    for sample in 0..60_000u64 {
        let begin = now;
        (0..4).for_each(|line| now = device.write(now, line, true));
        if now - begin > NS(10_000) {
            stalls.push((sample, now - begin));
        }
        now += NS(220);
    }
    assert_eq!(stalls.len(), 4, "{stalls:?}");
    let period = wear.hot.0 / 256;
    assert!(stalls.windows(2).all(|pair| pair[1].0 - pair[0].0 == period), "{stalls:?}");
    assert!(stalls.iter().all(|(_, time)| time.since(wear.stall - NS(500)) > Time::ZERO), "{stalls:?}");
    assert_eq!(device.counters().wear.count, 4);
}

#[test]
fn spread_writes_make_nothing_hot_but_move_the_gap() {
    let (device_config, timing) = dimm();
    let gap = u64::from(timing.wear.as_ref().unwrap().gap_interval);
    let mut device = XpointDevice::new(&device_config, &Xpoint { thermal: None, ..timing }, 1);
    let mut now = Time::ZERO;
    (0..200_000).for_each(|line| now = device.write(now, line, true));
    device.drain(now);
    assert_eq!(device.counters().wear.count, 0);
    assert_eq!(device.counters().moved_bytes, 50_000 / gap * 256);
}

#[test]
fn a_description_that_no_dimm_can_have_is_refused_by_its_key() {
    let refused = |change: fn(&mut Xpoint)| {
        let (_, mut timing) = dimm();
        change(&mut timing);
        timing.check().err().map(|fault| fault.key)
    };
    assert_eq!(refused(|_| {}), None);
    assert_eq!(refused(|x| x.combining.lines = 0).as_deref(), Some("combining.lines"));
    assert_eq!(
        refused(|x| x.buffer_replacement = Replacement::TreePlru).as_deref(),
        Some("buffer_replacement")
    );
    assert_eq!(refused(|x| x.translation.entry.0 = 3000).as_deref(), Some("translation.entry"));
    assert_eq!(refused(|x| x.power.as_mut().unwrap().average = 5.0).as_deref(), Some("power.average"));
    assert_eq!(refused(|x| x.wear.as_mut().unwrap().gap_interval = 0).as_deref(), Some("wear.gap_interval"));
    for interval in [
        |x: &mut Xpoint| x.thermal.as_mut().unwrap().interval = 0,
        |x: &mut Xpoint| x.thermal.as_mut().unwrap().interval = 1 << 31,
    ] {
        assert_eq!(refused(interval).as_deref(), Some("thermal.interval"));
    }
    assert_eq!(refused(|x| x.media.read = NS(10_000_001)).as_deref(), Some("media.read"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn no_line_is_lost_or_written_twice(
        calls in prop::collection::vec((0u64..300, 0u64..400, 0u32..5), 1..600),
        units in 1u32..20,
        lines in 1u32..70,
        write_out in prop_oneof![Just(WriteOut::OnCompletion), Just(WriteOut::OnEviction)],
        policy in prop_oneof![Just(Replacement::Lru), Just(Replacement::Random), Just(Replacement::NotRecent)],
    ) {
        let mut device = plain(|device, timing| {
            device.buffer = Some(BufferConfig { lines: units, replacement: Replacement::Lru, write_out });
            timing.combining.lines = lines;
            (timing.combining.replacement, timing.buffer_replacement) = (policy, policy);
        });
        let mut now = Time::ZERO;
        for (gap, line, kind) in calls {
            now += NS(gap);
            let answer = match kind {
                0 | 1 => device.read(now, line),
                2 => device.write(now, line, false),
                _ => device.write(now, line, true),
            };
            prop_assert!(answer >= now);
            balanced(&device);
        }
        let held = device.held_bytes();
        let before = device.traffic.media_write_bytes;
        device.drain(now);
        balanced(&device);
        prop_assert_eq!(device.held_bytes(), 0);
        prop_assert_eq!(device.traffic.media_write_bytes > before, held > 0);
    }
}
