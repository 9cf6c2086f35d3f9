//! What pre-copy leaves in memory is what the process was when it was frozen.

use std::path::PathBuf;
use std::sync::Arc;

use fam::precopy::{Rounds, Watch, finish, rounds};
use fam::study::app::{Access, App, Load, Memory};
use fam::uffd::Uffd;
use fam::{FamFile, Medium, Owner, Pages, Remote, Source, Store, Throttle};

struct Run {
    rounds: Vec<u64>,
    left: u64,
    same: bool,
}

fn run(name: &str, work_ns: u64, little: u64) -> Run {
    let load = Load { bytes: 24 << 20, access: Access::Random, threads: 1, work_ns, operations: 0 };
    let path = PathBuf::from(format!("/dev/shm/strandline-precopy-{}-{name}", std::process::id()));
    let app = App::spawn(load, Memory::Watched).expect("spawned");
    app.run();
    let regions = App::regions(load);
    let owner = Owner::of(app.pid()).expect("runs");
    let file = FamFile::create(&path, owner, &regions).expect("created");
    let pages = Remote::of(app.pid()).expect("runs");
    let throttle = Arc::new(Throttle::new(Medium::DRAM));
    let watch =
        Watch::start(app.pid(), Uffd::from_fd(app.uffd().expect("handed out")), &regions).expect("watched");
    let copied =
        rounds(&watch, &file, &pages, &throttle, Rounds { most: 4, enough: 64 << 10 }).expect("copied");
    // It writes on until it is frozen, however the machine shares its cores.
    let before = app.beats();
    while app.beats() < before + 100 {
        std::thread::yield_now();
    }
    app.freeze(false).expect("frozen");
    let (file, left) =
        finish(&watch.clean().expect("frozen"), file, &copied, &regions, &pages, little).expect("finished");
    Source::start(file, Box::new(pages), throttle, Store::Direct).wait().expect("dumped");
    let file = FamFile::open_complete(&path, Some(owner)).expect("complete");
    file.verify().expect("whole");
    let (mut theirs, mut ours) = (vec![0; 4096], vec![0; 4096]);
    let pages = Remote::of(app.pid()).expect("frozen");
    let same = (regions[0].start..regions[0].start + regions[0].bytes).step_by(4096).all(|page| {
        pages.read(page, &mut theirs).expect("read");
        file.memory().read(file.layout().offset(page).expect("there"), &mut ours);
        ours == theirs
    });
    let _ = std::fs::remove_file(&path);
    Run { rounds: copied.rounds, left, same }
}

#[test]
fn rounds_shrink_and_the_rest_is_exact() {
    // A write every 100 us: rounds of a few pages.
    let calm = run("calm", 30_000, 4 << 20);
    println!("{:?}, {} left", calm.rounds, calm.left);
    assert!(calm.same, "each page is as it was at the freeze");
    assert_eq!(calm.rounds[0], 24 << 20, "the first round is all");
    assert!(calm.rounds.len() > 1 && calm.rounds[1] < 12 << 20, "the second is what was written meanwhile");
    assert_eq!(calm.left, 0, "so little is written at the freeze");
}

#[test]
fn what_is_written_too_fast_is_left_to_the_daemon() {
    let busy = run("busy", 0, 0);
    println!("{:?}, {} left", busy.rounds, busy.left);
    assert!(busy.same, "each page is as it was at the freeze");
    assert!(busy.left > 0, "something was written after the last round");
}
