//! Curve devices: the files that a description names.

use std::path::Path;

use crate::common::TINY;
use machine::{Config, ConfigError, DeviceTiming, Time};

const CURVE: &str = r#"
[device.timing]
kind = "curve"
file = "curves/mine.csv"
window = "1us"
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

#[test]
fn a_machine_without_time_has_no_curves() {
    let config = Config::parse(TINY, "tiny.toml").unwrap();
    let error = config.device_timing().unwrap_err();
    assert!(error.to_string().contains("device.timing"), "{error}");
}
