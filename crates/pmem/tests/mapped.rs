//! Files as spaces: what is stored comes back, and what can't be done is said clearly.

use std::fs;

use pmem::{Durability, MapError, Mapped};
use space::Space;

#[test]
fn a_file_keeps_its_contents() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let space = Mapped::create(&path, 8192).expect("room for two pages");
    space.store_u64(4096, 0x1122);
    space.persist(4096, 8);
    space.sync().expect("the disk works");
    drop(space);
    let space = Mapped::open(&path).expect("the file is there");
    assert_eq!((space.len(), space.load_u64(4096)), (8192, 0x1122));
    assert_eq!(fs::read(&path).expect("the file is there")[4096..4098], [0x22, 0x11]);
}

#[test]
fn a_file_may_end_inside_a_page() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let space = Mapped::create(&path, 4104).expect("room for two pages");
    space.store_u64(4096, 5);
    drop(space);
    assert_eq!(fs::metadata(&path).expect("the file is there").len(), 4104);
}

#[test]
fn durability_is_told_as_it_is() {
    let anonymous = Mapped::anonymous(4096).expect("a page of memory");
    assert_eq!(anonymous.durability(), Durability::Volatile);
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm to make a file on tmpfs");
        return;
    };
    let file = Mapped::create(&directory.path().join("space"), 4096).expect("a page of tmpfs");
    assert_eq!(file.durability(), Durability::Volatile);
}

fn message(result: Result<Mapped, MapError>) -> String {
    result.expect_err("this can't be mapped").to_string()
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let name = path.display().to_string();
    let absent = message(Mapped::open(&path));
    assert!(absent.contains(&name) && absent.contains("create it first"), "{absent}");
    fs::write(&path, b"twelve bytes").expect("a small file");
    let odd = message(Mapped::open(&path));
    assert!(odd.contains(&name) && odd.contains("12 bytes"), "{odd}");
    let exists = message(Mapped::create(&path, 4096));
    assert!(exists.contains(&name) && exists.contains("open it, or remove it first"), "{exists}");
    assert_eq!(fs::read(&path).expect("the file is there"), b"twelve bytes");
    let folder = message(Mapped::open(directory.path()));
    assert!(folder.contains(&directory.path().display().to_string()), "{folder}");
    assert!(message(Mapped::anonymous(12)).contains("12 bytes"));
}

#[test]
fn a_file_that_does_not_fit_leaves_nothing_behind() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    // More than any disk.
    let full = message(Mapped::create(&path, 1 << 60));
    assert!(full.contains("make room") && full.contains(&path.display().to_string()), "{full}");
    assert!(!path.exists());
}
