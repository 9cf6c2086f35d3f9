//! One process, or several in one, on real files in `/dev/shm`.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use vnvm::{Error, Mode, Options, Setup, Sizes, Vnvm, inspect_directory, recover_directory};

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir_in("/dev/shm").expect("tmpfs") }
    }
    fn nvm(&self) -> PathBuf {
        self.folder.path().join("nvm")
    }
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn open(&self) -> Vnvm {
        self.sized(64, 64, Options::default())
    }
    fn sized(&self, log: u64, cache: u64, options: Options) -> Vnvm {
        let sizes = Sizes::new(log * 4096, cache * 4096, 4096).expect("sizes");
        Vnvm::open(&self.nvm(), &Setup::new(sizes), options).expect("an NVM")
    }
}

#[test]
fn what_is_committed_is_read_and_in_the_file_in_the_end() {
    let place = Place::new();
    let mut vnvm = place.open();
    let region = vnvm.allocate(&place.file("a"), 100_000, Mode::Private).expect("a region");
    let mut tx = vnvm.begin();
    tx.write(&region, 4000, &[7; 9000]).expect("room");
    let mut seen = [1; 3];
    region.read(5000, &mut seen);
    assert_eq!(seen, [0; 3], "not committed");
    tx.commit().expect("it is open");
    region.read(5000, &mut seen);
    assert_eq!(seen, [7; 3]);
    vnvm.close().expect("room on the disk");
    let bytes = fs::read(place.file("a")).expect("the file");
    assert!(
        bytes.len() == 100_000 && bytes[4000..13_000].iter().all(|byte| *byte == 7) && bytes[13_000] == 0
    );
    assert!(!place.nvm().join("nvm").exists(), "the last one removes it");
}

#[test]
fn an_aborted_or_dropped_transaction_has_no_effect() {
    let place = Place::new();
    let vnvm = place.open();
    let region = vnvm.allocate(&place.file("a"), 8192, Mode::Private).expect("a region");
    let mut tx = vnvm.begin();
    tx.write(&region, 0, &[1; 5000]).expect("room");
    tx.abort().expect("it is open");
    let mut tx = vnvm.begin();
    tx.write(&region, 0, &[1; 5000]).expect("room");
    drop(tx);
    let mut seen = [9; 2];
    region.read(0, &mut seen);
    assert_eq!((seen, vnvm.stats().log_used), ([0; 2], 0));
}

#[test]
fn more_than_the_cache_goes_through_and_more_than_the_log_is_short() {
    let place = Place::new();
    for bypass in [true, false] {
        let options = Options { bypass, ..Options::default() };
        let mut vnvm = place.sized(16, 8, options);
        let path = place.file(if bypass { "a" } else { "b" });
        let region = vnvm.allocate(&path, 1 << 20, Mode::Private).expect("a region");
        let tid = vnvm.process().begin();
        let written = vnvm.process().write(tid, &region, 0, &vec![3; 1 << 20]).expect("a short write");
        assert!(written > 50_000 && written < 16 * 4096, "{written}");
        vnvm.process().abort(tid).expect("it is open");
        let mut model = vec![0; 1 << 20];
        for number in 0..2000_u64 {
            let offset = (number * 7919 % 1_040_000) as usize;
            let bytes = vec![number as u8; 1 + number as usize % 7000];
            model[offset..][..bytes.len()].copy_from_slice(&bytes);
            let mut tx = vnvm.begin();
            tx.write(&region, offset as u64, &bytes).expect("redo makes room");
            tx.commit().expect("it is open");
        }
        let mut seen = vec![0; 1 << 20];
        region.read(0, &mut seen);
        assert!(seen == model, "the mapping");
        vnvm.close().expect("room on the disk");
        assert!(fs::read(path).expect("the file") == model, "the file, bypass {bypass}");
    }
}

#[test]
fn a_transaction_that_is_too_long_fails_by_name_and_one_that_is_too_old_is_aborted() {
    let place = Place::new();
    let options = Options { abort_after_ns: 50_000_000, ..Options::default() };
    let vnvm = place.sized(16, 8, options);
    let region = vnvm.allocate(&place.file("a"), 1 << 20, Mode::Private).expect("a region");
    let mut tx = vnvm.begin();
    assert!(matches!(
        tx.write(&region, 0, &vec![3; 1 << 20]),
        Err(Error::LogFull { .. } | Error::Aborted { .. })
    ));
    drop(tx);
    let mut tx = vnvm.begin();
    tx.write(&region, 0, &[1; 100]).expect("room");
    while vnvm.stats().aborted < 2 && vnvm.stats().log_used > 0 {
        std::thread::yield_now();
    }
    assert!(matches!(tx.commit(), Err(Error::Aborted { .. })));
}

#[test]
fn bounds_and_modes_are_checked() {
    let place = Place::new();
    let vnvm = place.open();
    let region = vnvm.allocate(&place.file("a"), 8192, Mode::Private).expect("a region");
    let shared = vnvm.allocate(&place.file("s"), 8192, Mode::Shared).expect("a region");
    let mut tx = vnvm.begin();
    assert!(matches!(tx.write(&region, 8190, &[1; 3]), Err(Error::Bounds { .. })));
    assert!(matches!(tx.write(&region, u64::MAX, &[1; 3]), Err(Error::Bounds { .. })));
    tx.write(&region, 0, &[1; 3]).expect("room");
    assert!(matches!(tx.write(&shared, 0, &[1; 3]), Err(Error::Mixed { .. })));
    drop(tx);
    assert!(matches!(vnvm.process().region_at(region.address() + 8190, 3), Err(Error::Bounds { .. })));
    assert_eq!(vnvm.process().region_at(region.address() + 8190, 2).expect("inside").1, 8190);
    assert!(matches!(vnvm.process().commit(77), Err(Error::NotOpen { tid: 77 })));
    assert!(matches!(vnvm.allocate(&place.file("a"), 8192, Mode::Private), Err(Error::InUse { .. })));
    assert!(matches!(vnvm.allocate(&place.file("a"), 8192, Mode::Shared), Err(Error::InUse { .. })));
    assert!(vnvm.allocate(&place.file("no/such/place"), 8192, Mode::Shared).is_err());
    assert!(vnvm.allocate(&place.file("z"), 0, Mode::Shared).is_err());
}

#[test]
fn two_share_a_region_and_their_shares_shrink() {
    let place = Place::new();
    let mut one = place.open();
    let alone = one.stats().log_share;
    let mut two = place.open();
    assert_eq!((alone, one.stats().log_share), (64, 32));
    let first = one.allocate(&place.file("s"), 50_000, Mode::Shared).expect("a region");
    let second = two.allocate(&place.file("s"), 50_000, Mode::Shared).expect("the same");
    let private = one.allocate(&place.file("p"), 5000, Mode::Private).expect("a region");
    assert!(matches!(two.allocate(&place.file("p"), 5000, Mode::Private), Err(Error::InUse { .. })));
    for round in 1..200_u8 {
        let (vnvm, region) = if round.is_multiple_of(2) { (&one, &first) } else { (&two, &second) };
        let mut tx = vnvm.begin();
        tx.write(region, u64::from(round) * 100, &[round; 5000]).expect("flushes make room");
        tx.commit().expect("it is open");
        let mut seen = [0; 5000];
        let other = if round.is_multiple_of(2) { &second } else { &first };
        other.read(u64::from(round) * 100, &mut seen);
        assert_eq!(seen, [round; 5000]);
    }
    assert!(one.stats().flushes + two.stats().flushes > 0);
    drop(private);
    two.close().expect("room");
    assert_eq!(one.stats().log_share, 64);
    one.close().expect("room");
    let bytes = fs::read(place.file("s")).expect("the file");
    assert!((1..199_usize).all(|round| bytes[round * 100] == round as u8));
}

#[test]
fn an_atomic_region_commits_what_was_stored() {
    let place = Place::new();
    let mut vnvm = place.open();
    let region = vnvm.allocate(&place.file("a"), 100_000, Mode::Atomic).expect("a region");
    assert_eq!(vnvm.sync(&region).expect("nothing to do"), 0);
    poke(&region, 5000, 1);
    poke(&region, 50_000, 2);
    assert_eq!(vnvm.sync(&region).expect("room"), 2);
    poke(&region, 5001, 3);
    assert_eq!(vnvm.sync(&region).expect("room"), 1);
    poke(&region, 99_999, 4);
    vnvm.close().expect("room");
    let bytes = fs::read(place.file("a")).expect("the file");
    assert_eq!((bytes[5000], bytes[5001], bytes[50_000], bytes[99_999]), (1, 3, 2, 0));
}

/// A store of the program's.
fn poke(region: &vnvm::Region<vnvm::Real>, at: usize, byte: u8) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(region.address() + at);
    // SAFETY: inside the region, which nobody else uses.
    unsafe { to.write(byte) };
}

#[test]
fn a_region_can_be_freed_and_had_again() {
    let place = Place::new();
    let vnvm = place.open();
    for round in 1..5_u8 {
        let region = vnvm.allocate(&place.file("a"), 20_000, Mode::Private).expect("a region");
        let mut seen = [0];
        region.read(10_000, &mut seen);
        assert_eq!(seen[0], round - 1);
        let mut tx = vnvm.begin();
        tx.write(&region, 10_000, &[round]).expect("room");
        assert!(matches!(vnvm.free(&region), Err(Error::Busy { .. })));
        tx.commit().expect("open");
        vnvm.free(&region).expect("room");
        assert_eq!(fs::read(place.file("a")).expect("the file")[10_000], round);
    }
}

#[test]
fn a_disk_is_no_nvm_and_other_files_are_no_nvm() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = Sizes::new(1 << 16, 1 << 16, 4096).expect("sizes");
    match Vnvm::open(folder.path(), &Setup::new(sizes), Options::default()) {
        Err(Error::NotPersistent { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => println!("skipped: temporary files are in memory here"),
    }
    let place = Place::new();
    fs::create_dir(place.nvm()).expect("a folder");
    fs::write(place.nvm().join("nvm"), [7; 4096]).expect("a file");
    assert!(matches!(recover_directory(&place.nvm(), false), Err(Error::NotOurs { .. })));
    assert!(inspect_directory(&place.nvm()).is_err());
    let opened = Vnvm::open(&place.nvm(), &Setup::new(sizes), Options::default());
    assert!(matches!(opened.err(), Some(Error::NotOurs { .. })), "it is not overwritten");
}

#[test]
fn living_processes_are_not_recovered() {
    let place = Place::new();
    let mut vnvm = place.open();
    assert!(matches!(recover_directory(&place.nvm(), false), Err(Error::Busy { .. })));
    let (info, live) = inspect_directory(&place.nvm()).expect("whole");
    assert_eq!((info.expect("there").sizes.log_pages, live), (64, 1));
    vnvm.close().expect("room");
}

#[test]
fn many_short_logs_of_shared_regions_are_flushed_when_the_share_is_used_up() {
    let place = Place::new();
    let vnvm = place.sized(20, 8, Options::default());
    let regions: Vec<_> = (0..6)
        .map(|number| {
            vnvm.allocate(&place.file(&format!("s{number}")), 50_000, Mode::Shared).expect("a region")
        })
        .collect();
    // As a C program does, that waits where Rust's would help.
    for round in 0..100 {
        let region = &regions[round % 6];
        let tid = vnvm.process().begin();
        let mut done = 0;
        while done < 7000 {
            let written = vnvm.process().write(tid, region, done as u64, &[1; 7000][done..]).expect("inside");
            done += written;
            if written == 0 {
                std::thread::yield_now();
            }
        }
        vnvm.process().commit(tid).expect("it is open");
    }
    assert!(vnvm.stats().flushes > 3, "{:?}", vnvm.stats());
}

#[test]
fn a_region_is_freed_while_another_thread_commits() {
    let place = Place::new();
    let vnvm = place.open();
    let busy = vnvm.allocate(&place.file("busy"), 100_000, Mode::Private).expect("a region");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let mut tx = vnvm.begin();
                tx.write(&busy, 0, &[1; 9000]).expect("redo makes room");
                tx.commit().expect("it is open");
            }
        });
        for round in 1..10_u8 {
            let region = vnvm.allocate(&place.file("a"), 20_000, Mode::Private).expect("a region");
            let mut tx = vnvm.begin();
            tx.write(&region, 0, &[round; 20_000]).expect("redo makes room");
            tx.commit().expect("it is open");
            vnvm.free(&region).expect("room on the disk");
            assert_eq!(fs::read(place.file("a")).expect("the file"), [round; 20_000]);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn files_that_a_killed_process_had_not_finished_making_are_no_hindrance() {
    let place = Place::new();
    for (name, bytes) in [("nvm", 0), ("nvm", 64), ("shared", 0), ("shared", 4096)] {
        fs::create_dir_all(place.nvm()).expect("a folder");
        fs::write(place.nvm().join(name), vec![0; bytes]).expect("a file");
        assert!(!recover_directory(&place.nvm(), false).expect("nothing there").found);
        fs::write(place.nvm().join(name), vec![0; bytes]).expect("a file");
        assert!(inspect_directory(&place.nvm()).expect("nothing there").0.is_none());
        place.open().close().expect("room");
    }
}
