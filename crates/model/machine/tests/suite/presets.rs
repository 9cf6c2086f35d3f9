//! What the presets say of their memories comes out when a program touches them.

use crate::timed::{MFENCE, clwb, load, run, store};
use machine::Config;

fn preset(name: &str) -> Config {
    Config::preset(name).expect("a preset")
}

/// How long the first load of a machine takes, in nanoseconds; all its rows are closed.
fn first_load(name: &str) -> f64 {
    run(&preset(name), vec![vec![load(0), MFENCE]]).0[0]
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.01
}

#[test]
fn an_emulated_load_is_longer_by_what_was_injected() {
    assert!(near(first_load("pmep") - first_load("dram"), 300.0));
}

#[test]
fn a_remote_load_is_longer_by_both_ways_of_the_link() {
    assert!(near(first_load("dram-remote") - first_load("dram"), 2.0 * 28.0 + 0.5 + 1.9));
}

#[test]
fn a_switch_adds_its_two_ways_and_a_second_transfer() {
    // The host's port and the controller are those of `cxl-asic`.
    let slower = 2.0 * (43.1 - 10.0) + 50.0 - 25.0;
    assert!(near(first_load("cxl-switch") - first_load("cxl-dram"), 2.0 * 215.0 + 0.53 + 2.66 + slower));
}

#[test]
fn what_a_drive_has_cached_is_read_at_the_speed_of_its_dram() {
    for (name, cells, dram) in [("cmm-h", 40_000.0, 900.0), ("cxl-ssd", 3_000.0, 400.0)] {
        // While another block is fetched, the first becomes complete. Its other lines are in no cache of the processor's.
        let steps = [0, 1 << 20, 256].map(|addr| vec![load(addr), MFENCE]);
        let (took, _) = run(&preset(name), steps.to_vec());
        assert!(took[0] > cells && took[1] > cells && took[2] < dram, "{name}: {took:?}");
    }
}

#[test]
fn published_latencies_of_simulated_machines_are_those_of_a_closed_row() {
    // A place of a cycle's issue and one of its retirement, the levels of cache, the published latency of the memory.
    for (name, expected) in [
        ("table-3.1", 0.27 / 5.0 + 0.27 / 4.0 + 1.08 + 1.62 + 7.29 + 50.0),
        ("table-5.1", 0.5 / 6.0 + 0.5 / 8.0 + 2.0 + 16.0 + 346.0),
    ] {
        let took = first_load(name);
        assert!(near(took, expected), "{name}: {took} and {expected}");
    }
}

#[test]
fn a_store_asks_a_directory_on_the_device_before_it_gets_its_line() {
    for (name, latency) in [("enzian-fast", 200.0), ("enzian-slow", 667.0)] {
        let config = preset(name);
        let visible = |ops: Vec<event::Op>| run(&config, vec![ops]).0[0];
        let loaded = visible(vec![load(0), MFENCE]);
        let stored = visible(vec![store(0), MFENCE]);
        // The second round trip: leave to write, then the data. The directory takes a nanosecond.
        assert!((stored - loaded - latency - 1.0).abs() < 2.0, "{name}: {loaded} {stored}");
    }
}

#[test]
fn a_preset_with_time_carries_out_all_kinds_of_access() {
    for name in Config::presets() {
        let config = preset(name);
        if config.device.timing.is_none() {
            continue;
        }
        let ops = vec![load(0), store(0), clwb(0), crate::timed::nt(4096), crate::timed::SFENCE, MFENCE];
        let (took, simulation) = run(&config, vec![ops]);
        assert!(took[0] > 10.0, "{name}: {took:?}");
        assert_eq!(simulation.figures().memories.len(), 2, "{name}");
    }
}

#[test]
fn what_is_not_persistent_lies_on_the_memory_beside() {
    let first = |ops: Vec<event::Op>| run(&preset("cascade-lake"), vec![vec![], ops]).0[1];
    let map = event::Op::Map { addr: 0, len: 4096, name: event::NameId(0) };
    let (dram, xpoint) = (first(vec![load(0), MFENCE]), first(vec![map, load(0), MFENCE]));
    assert!(near(dram, first_load("dram")), "{dram}");
    assert!((xpoint - first_load("xpoint")).abs() < 1.0, "{xpoint}");
}
