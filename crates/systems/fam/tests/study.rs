//! The studies run, and their figures by request.

use std::path::Path;

use fam::study::{Pair, Part, Sizes, faults, pairs, writes};

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
    let folder = Path::new("/dev/shm");
    for part in Part::ALL {
        let got = pairs(folder, sizes, part).expect("studied");
        show(&format!("{part:?}"), &got);
        let by_operations = matches!(part, Part::StoreLong | Part::StoreCapped | Part::StoreShort);
        for pair in &got {
            assert!(pair.total() > 0.0 && pair.busy() > 0.0 && pair.downtime() > 0.0, "{}", pair.name);
            // All pages of a short timer may be there before the threads have done anything.
            assert!(pair.rate() > 0.0 || part != Part::StoreLong, "{}", pair.name);
            assert!(pair.fam.work_s.is_some() == by_operations, "{}", pair.name);
            for times in [&pair.fam, &pair.socket] {
                let pages = times.served.pages_by_fault + times.served.pages_pushed;
                assert_eq!(pages, pair.load.bytes / 4096, "{}", pair.name);
            }
        }
    }
    for rate in faults(folder, sizes).expect("studied") {
        println!("{:28} {:8.0} MB/s, {} faults", rate.name, rate.mb_per_s, rate.times.served.faults);
    }
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
