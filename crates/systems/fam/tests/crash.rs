//! Kills at random points, and files that are not what they should be.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fam::study::crash::{Victim, trial};
use fam::{Error, FamFile, Owner, Region, Room, VERSION, room};

fn kill_by_the(count: u64, seed: u64) {
    println!("seeds {seed} to {}", seed + count - 1);
    let (mut complete, mut half) = (0, 0);
    let mut victims = [0; 3];
    for seed in seed..seed + count {
        let done = trial(seed, Path::new("/dev/shm")).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        complete += u64::from(done.complete);
        half += u64::from(!done.complete);
        victims[match done.victim {
            Victim::Daemon => 0,
            Victim::Process => 1,
            Victim::Target => 2,
        }] += 1;
    }
    println!("{complete} complete, {half} half-written; killed: daemon, process, target {victims:?}");
    assert!(complete > 0 && half > 0, "kills fall before and after the last page: {complete}, {half}");
    assert!(victims.iter().all(|count| *count > 0), "{victims:?}");
}

#[test]
fn killed_anywhere_memory_is_complete_or_says_what_is_missing() {
    kill_by_the(60, 1);
}

#[test]
#[ignore = "--long: 600 migrations with a kill in each"]
fn killed_anywhere_by_the_hundred() {
    kill_by_the(600, 1000);
}

struct Made(PathBuf);

impl Made {
    fn new(name: &str) -> Made {
        Made(PathBuf::from(format!("/dev/shm/strandline-file-{}-{name}", std::process::id())))
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const OWNER: Owner = Owner { pid: 4711, start: 99 };
const REGIONS: [Region; 2] =
    [Region { start: 0x10000, bytes: 0x3000 }, Region { start: 0x7f00_0000_0000, bytes: 5 << 20 }];

/// A complete file, with something on every page.
fn complete(path: &Path) {
    let file = FamFile::create(path, OWNER, &REGIONS).expect("created");
    for (index, vector) in file.layout().vectors().to_vec().into_iter().enumerate() {
        let bytes: Vec<u8> = (0..vector.bytes).map(|at| (at / 7) as u8).collect();
        file.memory().write(vector.offset, &bytes);
        file.set_present(index);
        assert!(!file.complete(), "not before the last checksum");
        file.seal(index);
    }
    assert!(file.complete());
}

/// Where pages begin behind a longer table, what is left out before aligned regions may be more.
#[test]
fn a_room_holds_all_pages_however_long_its_table() {
    let made = Made::new("room");
    for small in (0..40).map(|step| (step * 53 + 1) << 12) {
        let regions = [
            Region { start: 0x10000, bytes: small },
            Region { start: 0x7f00_0000_0000, bytes: 4 << 20 },
            Region { start: 0x7f80_0000_3000, bytes: 4 << 20 },
        ];
        let room = Room::take(&made.0, room(&regions)).expect("room");
        let file = room.lay_out_with(OWNER, &regions, 16 << 10).expect("laid out");
        let (end, bytes) = (file.layout().end(), file.memory().bytes());
        assert!(end <= bytes, "{small:#x}: pages end at {end:#x} of {bytes:#x}");
    }
}

#[test]
fn a_file_says_why_it_is_refused() {
    let made = Made::new("refused");
    let path = made.0.as_path();
    complete(path);
    FamFile::open_complete(path, Some(OWNER)).expect("complete").verify().expect("whole");
    let other = Owner { start: 100, ..OWNER };
    assert!(matches!(FamFile::open(path, Some(other)), Err(Error::Owner { found_pid: 4711, .. })));

    let raw = OpenOptions::new().write(true).open(path).expect("open");
    raw.write_all_at(&(VERSION + 1).to_le_bytes(), 8).expect("write");
    let error = FamFile::open(path, Some(OWNER)).expect_err("another version");
    assert!(matches!(error, Error::Version { found, .. } if found == VERSION + 1), "{error}");

    complete(path);
    FamFile::create(path, OWNER, &REGIONS).expect("begun again");
    let error = FamFile::open_complete(path, Some(OWNER)).expect_err("begun");
    assert!(matches!(error, Error::HalfWritten { done: 0, .. }), "{error}");

    std::fs::write(path, b"something else").expect("write");
    assert!(matches!(FamFile::open(path, None), Err(Error::NotFam { .. })));
    std::fs::write(path, vec![0; 1 << 16]).expect("write");
    assert!(matches!(FamFile::open(path, None), Err(Error::NotFam { .. })));
}

#[test]
fn no_byte_that_matters_can_change_unseen() {
    let made = Made::new("damaged");
    let path = made.0.as_path();
    complete(path);
    let raw = OpenOptions::new().read(true).write(true).open(path).expect("open");
    let length = raw.metadata().expect("length").len();
    let file = FamFile::open(path, None).expect("open");
    let vectors = file.layout().vectors().to_vec();
    let mut places: Vec<u64> = (0..72).chain(4096..4096 + 32 * vectors.len() as u64).collect();
    // The table's entries are 32 bytes; the last four of each are not used.
    places.retain(|at| *at < 4096 || (*at - 4096) % 32 < 28);
    places.extend(vectors.iter().flat_map(|vector| [vector.offset, vector.offset + vector.bytes - 1]));
    for at in places {
        let mut byte = [0];
        raw.read_exact_at(&mut byte, at).expect("read");
        raw.write_all_at(&[byte[0] ^ 0x40], at).expect("write");
        let opened = FamFile::open_complete(path, Some(OWNER)).and_then(|file| file.verify());
        assert!(opened.is_err(), "byte {at} of {length}");
        raw.write_all_at(&byte, at).expect("write");
    }
    raw.set_len(length - 4096).expect("cut");
    assert!(matches!(FamFile::open(path, None), Err(Error::Damaged { .. })));
    drop(file);
}

#[test]
fn full_memory_is_an_error_that_leaves_nothing_behind() {
    let made = Made::new("full");
    let huge = [Region { start: 0x10000, bytes: 1 << 43 }];
    let error = FamFile::create(&made.0, OWNER, &huge).expect_err("8 TiB");
    assert!(matches!(error, Error::Full { need, .. } if need > 1 << 43), "{error}");
    assert!(!made.0.exists());
}
