//! A machine of which every figure is known beforehand.

use machine::Config;

/// Reads take 200 ns, writes 100 ns; a DIMM moves a line in 10 ns; two DIMMs.
pub fn simple() -> Config {
    let text = r#"
        name = "simple"
        [cores]
        count = 8
        combining_buffers = 12
        [l1]
        size = "32KiB"
        ways = 8
        replacement = "lru"
        [l2]
        size = "256KiB"
        ways = 8
        replacement = "lru"
        [llc]
        size = "1MiB"
        ways = 16
        replacement = "lru"
        [memory]
        dimms = 2
        interleave = "4KiB"
        [memory.timing]
        read_queue = 64
        write_queue = 64
        read_request = "10ns"
        read_return = "10ns"
        write_accept = "60ns"
        [device]
        unit = "64B"
        [device.timing]
        kind = "delay"
        read_latency = "200ns"
        write_latency = "100ns"
        line_transfer = "10ns"
    "#;
    Config::parse(text, "simple").expect("a machine")
}
