//! Curve devices: their files, and curves measured on a detailed device that stand in for it.

mod common;

use std::path::Path;

use common::TINY;
use machine::device::DeviceTiming;
use machine::device::curve::{Derive, derive};
use machine::{Config, ConfigError, Time};

const CURVE: &str = r#"
[device.timing]
kind = "curve"
file = "curves/mine.csv"
window = "1us"
"#;

const DRAM: &str = r#"
[device.timing]
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

/// A description beside a file of curves, in another folder than the test's own.
fn folder(curves: Option<&str>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("curves")).expect("a folder");
    if let Some(text) = curves {
        std::fs::write(folder.path().join("curves/mine.csv"), text).expect("a file");
    }
    std::fs::write(folder.path().join("mine.toml"), format!("{TINY}{CURVE}")).expect("a file");
    folder
}

fn load(folder: &Path) -> Result<Config, ConfigError> {
    Config::load(folder.join("mine.toml").to_str().expect("a plain path"))
}

#[test]
fn a_relative_path_starts_at_the_description() {
    let folder = folder(Some("read_share,bandwidth_gbps,latency_ns\n1,10,100\n"));
    let config = load(folder.path()).unwrap();
    let Some(DeviceTiming::Curve(curve)) = &config.device.timing else { panic!("{config:?}") };
    assert_eq!(curve.curves.shares().count(), 1);
    let changed = config.with_overrides(&[("device.timing.window", "2us")]).unwrap();
    let Some(DeviceTiming::Curve(changed)) = &changed.device.timing else { panic!("{changed:?}") };
    assert_eq!((changed.window, &changed.curves), (Time::from_ns(2000), &curve.curves));
}

#[test]
fn a_file_that_is_absent_or_wrong_is_named_with_its_line() {
    let absent = load(folder(None).path()).unwrap_err();
    assert!(
        matches!(absent, ConfigError::Read { .. }) && absent.to_string().contains("mine.csv"),
        "{absent}"
    );
    let wrong = folder(Some("read_share,bandwidth_gbps,latency_ns\n1,10,fast\n"));
    let wrong = load(wrong.path()).unwrap_err().to_string();
    assert!(wrong.contains("mine.csv") && wrong.contains("line 2") && wrong.contains("fast"), "{wrong}");
}

/// The curve device with a detailed device's curves, under the load that measured them, shows them again.
#[test]
fn derived_curves_stand_in_for_the_device() {
    let how = Derive {
        read_shares: vec![0.0, 0.5, 1.0],
        pauses: [3000, 500, 200, 50, 0].map(Time::from_ns).to_vec(),
        lines: 10_000,
        ..Derive::default()
    };
    let detailed = Config::parse(&format!("{TINY}{DRAM}"), "dram").unwrap();
    let measured = derive(&detailed, &how).unwrap();
    let folder = folder(Some(&measured.text()));
    let again = derive(&load(folder.path()).unwrap(), &how).unwrap();
    for ((share, points), (other_share, stand_in)) in measured.shares().zip(again.shares()) {
        assert_eq!(share, other_share);
        let (peak, other) = (points.last().unwrap(), stand_in.last().unwrap());
        assert!((other.bandwidth / peak.bandwidth - 1.0).abs() < 0.1, "{share}: {peak:?} {other:?}");
        let (idle, other) = (points[0], stand_in[0]);
        assert!((other.latency / idle.latency - 1.0).abs() < 0.1, "{share}: {idle:?} {other:?}");
    }
    assert_eq!(derive(&detailed, &how).unwrap(), measured, "the same seed, the same curves");
}

#[test]
fn a_machine_without_time_has_no_curves() {
    let error = derive(&Config::parse(TINY, "tiny.toml").unwrap(), &Derive::default()).unwrap_err();
    assert!(error.to_string().contains("device.timing"), "{error}");
}
