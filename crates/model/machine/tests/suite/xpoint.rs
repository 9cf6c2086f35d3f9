//! What the mechanism must show of a 3D XPoint DIMM. Shapes and wide bands: nothing here was fitted.

use crate::common::{Random, Run, one_xpoint_dimm};
use event::FlushKind;
use machine::{Config, Replacement, Traffic, WriteOut};

const MIB: u64 = 1 << 20;

fn traffic(run: &Run) -> Traffic {
    run.figures().persistent.total
}

fn ewr(run: &Run) -> f64 {
    traffic(run).ewr().expect("something was written")
}

/// A run whose first `bytes` bytes are persistent.
fn persistent(config: &Config, bytes: u64) -> Run {
    let mut run = Run::new(config);
    run.map(0, bytes);
    run
}

/// Non-temporal stores of `size` bytes, each within one unit or from the start of one, at random.
fn random_nt(size: u64) -> f64 {
    let region = 256 * MIB;
    let mut run = persistent(&one_xpoint_dimm(), region);
    let mut random = Random(size);
    for _ in 0..20_000 {
        let start = random.below(region / size.next_power_of_two()) * size.next_power_of_two();
        (start..start + size).step_by(64).for_each(|addr| {
            run.store_nt(addr, 64);
        });
        run.fence();
    }
    ewr(&run)
}

#[test]
fn small_random_stores_waste_the_media_in_proportion() {
    for (size, low, high) in
        [(64, 0.24, 0.27), (128, 0.48, 0.53), (192, 0.70, 0.78), (256, 0.95, 1.01), (1024, 0.95, 1.01)]
    {
        let ewr = random_nt(size);
        assert!((low..high).contains(&ewr), "{size} B: EWR {ewr:.3}");
    }
}

/// Writes the first half of each unit of a region, then each second half, round after round, with a store and
/// a flush per line. Returns media bytes per byte written.
fn buffer_probe(config: &Config, units: u64) -> f64 {
    let mut run = persistent(config, 16 * MIB);
    for _ in 0..(40_000 / units).max(20) {
        for half in [0, 128] {
            for unit in 0..units {
                for addr in [unit * 256 + half, unit * 256 + half + 64] {
                    run.store(addr).flush(addr, FlushKind::Clflush);
                }
            }
            run.fence();
        }
    }
    1.0 / ewr(&run)
}

#[test]
fn the_buffer_shows_its_size_and_gives_way_gradually() {
    let config = one_xpoint_dimm();
    let probe = |kib: u64| buffer_probe(&config, kib * 4);
    let fits: Vec<f64> = [1, 4, 8, 16].map(probe).into();
    assert!(fits.iter().all(|amplification| (0.99..1.06).contains(amplification)), "{fits:?}");
    let grows: Vec<f64> = [16, 20, 24, 28, 32, 40, 64].map(probe).into();
    assert!(grows.is_sorted(), "{grows:?}");
    assert!(probe(18) < 1.2, "no cliff at the edge");
    assert!((1.2..1.7).contains(&grows[2]) && (1.85..2.1).contains(&grows[6]), "{grows:?}");
}

#[test]
fn a_strict_lru_buffer_would_fall_off_a_cliff() {
    let mut config = one_xpoint_dimm();
    config.device.buffer.as_mut().unwrap().replacement = Replacement::Lru;
    assert!(buffer_probe(&config, 64) < 1.05);
    assert!(buffer_probe(&config, 80) > 1.9);
}

/// Stores `bytes` bytes in order, as words, flushing each line when `flush` says so.
fn sequential_store(bytes: u64, flush: bool) -> f64 {
    let mut run = persistent(&one_xpoint_dimm(), bytes);
    for line in (0..bytes).step_by(64) {
        for word in (line..line + 64).step_by(8) {
            run.store(word);
        }
        if flush {
            run.clwb(line).fence();
        }
    }
    ewr(&run)
}

#[test]
fn eviction_mixes_up_a_sequential_stream_and_a_flush_keeps_it() {
    let evicted = sequential_store(96 * MIB, false);
    let flushed = sequential_store(8 * MIB, true);
    assert!(evicted < 0.4, "EWR {evicted:.3} without a flush");
    assert!(flushed > 0.95, "EWR {flushed:.3} with one");
}

#[test]
fn writers_on_one_dimm_push_each_other_out_of_the_buffer() {
    let with_writers = |writers: u64| {
        let mut run = persistent(&one_xpoint_dimm(), writers * MIB);
        for offset in (0..MIB).step_by(64) {
            for writer in 0..writers {
                run.thread(writer as u32).store_nt(writer * MIB + offset, 64);
            }
        }
        run.figures().persistent
    };
    let (one, eight) = (with_writers(1), with_writers(8));
    let (ewr_one, ewr_eight) = (one.total.ewr().unwrap(), eight.total.ewr().unwrap());
    assert!(ewr_one > 0.97 && ewr_eight < ewr_one - 0.05, "{ewr_one:.3} alone, {ewr_eight:.3} of eight");
    assert_eq!((one.writers_per_dimm, eight.writers_per_dimm), (vec![1], vec![8]));
    assert_eq!(one.page_collisions, 0);
    assert!(eight.page_collisions > 7 * MIB / 64, "nearly every write");
}

#[test]
fn reads_compete_for_the_buffer() {
    let with_reads = |reads: u64| {
        let mut run = persistent(&one_xpoint_dimm(), 512 * MIB);
        let mut random = Random(5);
        // Half units in order; the other half follows 24 units later.
        for unit in 0..20_000u64 {
            for line in [
                unit * 256,
                unit * 256 + 64,
                (unit.max(24) - 24) * 256 + 128,
                (unit.max(24) - 24) * 256 + 192,
            ] {
                run.store_nt(line, 64);
            }
            for _ in 0..reads {
                run.load(256 * MIB + random.below(256 * MIB));
            }
        }
        ewr(&run)
    };
    let (quiet, busy) = (with_reads(0), with_reads(4));
    assert!(busy < quiet - 0.1, "{quiet:.3} without reads, {busy:.3} with");
}

#[test]
fn the_rest_of_a_unit_that_was_read_is_in_the_buffer() {
    let mut run = persistent(&one_xpoint_dimm(), MIB);
    (0..MIB).step_by(64).for_each(|addr| {
        run.load(addr);
    });
    let traffic = traffic(&run);
    assert_eq!((traffic.controller_read_bytes, traffic.media_read_bytes), (MIB, MIB));
    assert_eq!(traffic.buffer_hits, MIB / 256 * 3);
}

#[test]
fn a_device_that_keeps_units_merges_rewrites() {
    let rewrite = |write_out| {
        let mut config = one_xpoint_dimm();
        config.device.buffer.as_mut().expect("the preset has a buffer").write_out = write_out;
        let mut run = persistent(&config, MIB);
        for _ in 0..100 {
            run.store_nt(0, 256);
        }
        run.machine.drain();
        traffic(&run).media_write_bytes
    };
    assert_eq!(rewrite(WriteOut::OnCompletion), 100 * 256);
    assert_eq!(rewrite(WriteOut::OnEviction), 256);
}

#[test]
fn media_writes_are_shared_among_those_whose_bytes_they_carry() {
    let mut run = persistent(&one_xpoint_dimm(), MIB);
    // One whole unit, three lines by site 1, one by site 2; then one of three lines, by site 3.
    run.site(1).store_nt(0, 192).site(2).store_nt(192, 64).site(3).store_nt(1024, 192);
    run.machine.drain();
    let figures = run.figures();
    let share = |site: usize| {
        (figures.sites[site].persistent.media_write_bytes, figures.sites[site].persistent.partial_media_bytes)
    };
    assert_eq!([share(1), share(2), share(3)], [(192, 0), (64, 0), (256, 256)]);
    assert_eq!(figures.persistent.media_write_fill, [0, 0, 1, 1]);
    assert_eq!(figures.persistent.total.read_modify_writes, 1);
    assert_eq!(figures.volatile.total, Traffic::default());
}

#[test]
fn dram_does_not_mind_small_stores() {
    let mut run = persistent(&Config::preset("dram").unwrap(), 64 * MIB);
    let mut random = Random(9);
    for _ in 0..10_000 {
        run.store_nt(random.below(MIB) * 64, 64);
    }
    assert!((ewr(&run) - 1.0).abs() < 1e-9);
}
