//! Presets of cards as the planner measures them.

use machine::Config;
use plan::tiers::measure;

/// What the presets of cards were set by: the latency that they add to DRAM's (within 5 % by another measurement), and
/// their read bandwidth.
#[test]
fn cards_have_the_latency_and_bandwidth_that_they_were_set_by() {
    for (name, adder, gbps) in [("cxl-asic", 148.0, 48.0), ("cxl-fpga", 242.0, 21.8)] {
        let [fast, slow] = measure(&Config::preset(name).unwrap()).unwrap();
        let added = slow.latency_ns - fast.latency_ns;
        assert!((added - adder).abs() < 0.06 * adder, "{name} adds {added} ns");
        assert!((slow.read_gbps / gbps - 1.0).abs() < 0.05, "{name} reads {} GB/s", slow.read_gbps);
    }
}
