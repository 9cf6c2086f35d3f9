//! The path of pages: every way installs exactly the source's pages, whatever the process does meanwhile.

use std::path::PathBuf;
use std::time::Duration;

use migrate::fam::study::app::{Access, Load};
use migrate::fam::study::{By, Settings, Times, migrate};
use migrate::fam::{Install, Medium};

const MIB: u64 = 1 << 20;

fn fam() -> PathBuf {
    PathBuf::from("/dev/shm")
}

fn run(name: &str, by: By, load: Load, timer_ms: u64, prefetch: Vec<u64>) -> Times {
    let name = format!("strandline-test-{}-{name}", std::process::id());
    let settings =
        Settings { load, by, timer: Duration::from_millis(timer_ms), prefetch, fam: &fam(), name: &name };
    migrate(&settings).expect("migrated")
}

fn load(access: Access, threads: usize) -> Load {
    Load { bytes: 48 * MIB, access, threads, work_ns: 0, operations: 0 }
}

#[test]
fn every_way_brings_every_page_once() {
    let ways = [
        ("copy", By::Fam(Medium::DRAM, Install::Copy { grain: 4096 })),
        ("around", By::Fam(Medium::PCM, Install::Copy { grain: 64 << 10 })),
        ("map", By::Fam(Medium::DRAM, Install::Map)),
        ("socket", By::Socket(Medium::ETHERNET_10G)),
    ];
    for (name, by) in ways {
        for (access, threads) in [(Access::Random, 2), (Access::Sweep, 1), (Access::Records, 1)] {
            let times = run(name, by, load(access, threads), 5, Vec::new());
            println!(
                "{name} {access:?} {threads}: down {:.4} busy {:.4} total {:.4} faults {} asked {} {:?}",
                times.downtime_s,
                times.busy_s,
                times.total_s,
                times.served.faults,
                times.asked,
                times.during_per_s
            );
            let pages = times.served.pages_by_fault + times.served.pages_pushed;
            assert_eq!(pages, 48 * MIB / 4096, "{name} {access:?}");
            assert!(
                times.served.faults > 0,
                "{name} {access:?}: the process ran before its pages were there"
            );
        }
    }
}

#[test]
fn a_recorded_order_is_pushed_before_it_is_asked_for() {
    let by = By::Fam(Medium::DRAM, Install::Copy { grain: 4096 });
    let quiet = Load { work_ns: 20_000, ..load(Access::Random, 1) };
    let first = run("record", by, quiet, 200, Vec::new());
    let again = run("replay", by, quiet, 200, first.served.order.clone());
    assert!(first.served.faults > 1000, "{}", first.served.faults);
    assert!(
        again.served.faults < first.served.faults / 2,
        "{} of {}",
        again.served.faults,
        first.served.faults
    );
}
