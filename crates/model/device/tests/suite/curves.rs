//! Curves measured on a detailed device stand in for it.

use device::curve::{Curve, Derive, derive};
use device::{Curves, DeviceConfig, DeviceTiming, Size, Time};

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
t_refi = "7.8us"
t_rfc = "350ns"
write_queue = 48
write_batch = 16
write_wait = "500ns"
"#;

/// The curve device with a detailed device's curves, under the load that measured them, shows them again.
#[test]
fn derived_curves_stand_in_for_the_device() {
    let how = Derive {
        read_shares: vec![0.0, 0.5, 1.0],
        pauses: [3000, 500, 200, 50, 0].map(Time::from_ns).to_vec(),
        lines: 10_000,
        ..Derive::default()
    };
    let plain = DeviceConfig { unit: Size(64), buffer: None, endurance: None, timing: None };
    let detailed: DeviceTiming = toml::from_str(DRAM).unwrap();
    let measured = derive(&plain, &detailed, 7, &how);
    let curves = Curves::parse(&measured.text()).unwrap();
    let curve = Curve { file: "curves.csv".into(), window: Time::from_ns(1000), curves };
    let again = derive(&plain, &DeviceTiming::Curve(curve), 7, &how);
    for ((share, points), (other_share, stand_in)) in measured.shares().zip(again.shares()) {
        assert_eq!(share, other_share);
        let (peak, other) = (points.last().unwrap(), stand_in.last().unwrap());
        assert!((other.bandwidth / peak.bandwidth - 1.0).abs() < 0.1, "{share}: {peak:?} {other:?}");
        let (idle, other) = (points[0], stand_in[0]);
        assert!((other.latency / idle.latency - 1.0).abs() < 0.1, "{share}: {idle:?} {other:?}");
    }
    assert_eq!(derive(&plain, &detailed, 7, &how), measured, "the same seed, the same curves");
}
