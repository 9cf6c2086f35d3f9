//! The studies run, and their figures by request.

use std::path::Path;

use migrate::fam::study::{Pair, Sizes, study, writes};

fn show(name: &str, pairs: &[Pair]) {
    for pair in pairs {
        println!(
            "{name:14} {:12} down {:.2} total {:.2} busy {:.2} rate {:.2} | fam {:.4} {:.4} {:.4} ({} faults, {} asked) socket {:.4} {:.4} {:.4} ({} faults)",
            pair.name,
            pair.downtime(),
            pair.total(),
            pair.busy(),
            pair.rate(),
            pair.fam.downtime_s,
            pair.fam.total_s,
            pair.fam.busy_s,
            pair.fam.served.faults,
            pair.fam.asked,
            pair.socket.downtime_s,
            pair.socket.total_s,
            pair.socket.busy_s,
            pair.socket.served.faults,
        );
    }
}

fn run(sizes: Sizes) {
    let got = study(Path::new("/dev/shm"), sizes).expect("studied");
    show("downtime", &got.downtime);
    show("long, 1", &got.long_one);
    show("long, 2", &got.long_two);
    show("short, capped", &got.short_capped);
    show("short", &got.short);
    show("store, long", &got.store_long);
    show("store, capped", &got.store_capped);
    show("store, short", &got.store_short);
    show("together", &got.together);
    for rate in &got.faults {
        println!("{:28} {:8.0} MB/s, {} faults", rate.name, rate.mb_per_s, rate.times.served.faults);
    }
    let pairs = [&got.downtime, &got.long_one, &got.long_two, &got.short_capped, &got.short, &got.together];
    for pair in pairs.into_iter().flatten() {
        assert!(pair.total() > 0.0 && pair.busy() > 0.0 && pair.downtime() > 0.0, "{}", pair.name);
        for times in [&pair.fam, &pair.socket] {
            let pages = times.served.pages_by_fault + times.served.pages_pushed;
            assert_eq!(pages, pair.load.bytes / 4096, "{}", pair.name);
        }
    }
    assert!(got.store_long.iter().all(|pair| pair.rate() > 0.0 && pair.fam.work_s.is_some()));
}

fn show_writes(bytes: u64, passes: usize) {
    let got = writes(Path::new("/dev/shm"), bytes, passes).expect("written");
    for dump in &got.dumps {
        println!("{dump:?}");
    }
    for stores in &got.stores {
        println!("{stores:?}");
    }
    for calls in &got.calls {
        println!("{calls:?} write over mapped {:.2}", calls.write_s / calls.mapped_s);
    }
    assert!(got.dumps.iter().all(|dump| dump.writev_calls < dump.splice_calls));
}

#[test]
fn every_study_runs_on_small_sizes() {
    run(Sizes::tiny());
    show_writes(8 << 20, 1);
}

#[test]
#[ignore = "--long: figures, minutes"]
fn figures() {
    run(Sizes::full());
}

#[test]
#[ignore = "--long: figures of dumps and stores, a minute"]
fn figures_of_writes() {
    show_writes(1 << 30, 5);
}

#[test]
#[ignore = "--long: figures at quick sizes"]
fn quick_figures() {
    run(Sizes::quick());
}
