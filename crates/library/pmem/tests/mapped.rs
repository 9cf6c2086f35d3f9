//! Files as spaces: what is stored comes back, and what can't be done is said clearly.

mod process;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use persistency::Domain;
use pmem::{MapError, Mapped, Options};
use rustix::fs::{CWD, FallocateFlags, FileType, Mode, fallocate, mknodat};
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
fn durability_is_reported_as_it_is() {
    let anonymous = Mapped::anonymous(4096).expect("a page of memory");
    assert_eq!(anonymous.durability(), Domain::Volatile.into());
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm to make a file on tmpfs");
        return;
    };
    let file = Mapped::create(&directory.path().join("space"), 4096).expect("a page of tmpfs");
    assert_eq!(file.durability(), Domain::Volatile.into());
}

#[test]
fn a_look_at_a_file_tells_what_becomes_of_stores_to_it() {
    for folder in [tempfile::tempdir(), tempfile::tempdir_in("/dev/shm")] {
        let Ok(folder) = folder else {
            eprintln!("skipped: no /dev/shm to make a file on tmpfs");
            continue;
        };
        let path = folder.path().join("space");
        let domain = Mapped::create(&path, 4096).expect("a page").durability().domain;
        assert!(matches!(domain, Domain::Dax | Domain::Sync | Domain::Volatile));
        let private = Mapped::open_private(&path).expect("the file is there");
        assert_eq!((private.durability().domain, private.durability_of_file()), (Domain::Volatile, domain));
        drop(private);
        let forced = Options::new().force(true).open(&path).expect("the file is there");
        assert_eq!(forced.durability_of_file(), domain);
    }
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
    assert!(message(Mapped::anonymous(12)).contains("12 bytes"));
    let missing = message(Mapped::create(&directory.path().join("no/space"), 4096));
    assert!(missing.contains("its directory does not exist"), "{missing}");
    let below = message(Mapped::create(&path.join("space"), 4096));
    assert!(below.contains("what should be its directory is a file"), "{below}");
    fs::write(&path, b"").expect("an empty file");
    let empty = message(Mapped::open(&path));
    assert!(empty.contains(&name) && empty.contains(" 0 bytes"), "{empty}");
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pipe = directory.path().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
    for (path, remedy) in [
        (directory.path(), "name a file in it"),
        ("/dev/null".as_ref(), "not a DAX device"),
        // Opening a pipe waits for its other end, unless it is opened with care.
        (&pipe, "not a regular file"),
    ] {
        for refused in [message(Mapped::open(path)), message(Mapped::open_read_only(path))] {
            assert!(refused.contains(&path.display().to_string()) && refused.contains(remedy), "{refused}");
        }
    }
}

#[test]
fn a_private_space_changes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    Mapped::create(&path, 8192).expect("room for two pages").store_u64(64, 7);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("our own file");
    let space = Mapped::open_private(&path).expect("the file is there");
    let other = Mapped::open_private(&path).expect("readers share");
    assert!(!space.is_read_only());
    space.store_u64(64, 8);
    space.persist(64, 8);
    assert_eq!((space.load_u64(64), other.load_u64(64)), (8, 7));
    let refused = space.grow(16384).expect_err("it is as long as its file").to_string();
    assert!(refused.contains("this process alone"), "{refused}");
    drop((space, other));
    assert_eq!(Mapped::open_read_only(&path).expect("it is there").load_u64(64), 7);
}

#[test]
fn a_space_that_is_read_only_refuses_every_store() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    Mapped::create(&path, 8192).expect("room for two pages").store_u64(64, 7);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("our own file");
    let space = Mapped::open_read_only(&path).expect("the file is there");
    assert!(space.is_read_only());
    assert_eq!((space.len(), space.load_u64(64)), (8192, 7));
    let other = Mapped::open_read_only(&path).expect("readers share");
    let stores: [&dyn Fn(); 6] = [
        &|| space.store_u64(64, 8),
        &|| space.store(1, &[1; 20]),
        &|| space.store_nt(64, &[1; 64]),
        &|| _ = space.cas_u64(64, 7, 8),
        &|| space.copy(64, 128, 8),
        &|| space.populate(),
    ];
    for (i, store) in stores.into_iter().enumerate() {
        let panic = catch_unwind(AssertUnwindSafe(store)).expect_err("stores are refused");
        let text = panic.downcast_ref::<String>().expect("a message");
        let named = text.contains("opened for reading only") && text.contains(&path.display().to_string());
        assert!(named, "store {i}: {text}");
    }
    let outside = catch_unwind(AssertUnwindSafe(|| space.store_u64(8192, 8))).expect_err("outside");
    assert!(outside.downcast_ref::<String>().expect("a message").contains("outside the space"));
    space.persist(64, 8);
    space.sync().expect("nothing to do");
    assert_eq!(other.load_u64(64), 7);
    let grown = space.grow(16384).expect_err("it is read only").to_string();
    assert!(grown.contains("reading only") && grown.contains(&path.display().to_string()), "{grown}");
    assert_eq!(fs::metadata(&path).expect("the file is there").len(), 8192);
}

#[test]
fn holes_are_filled_before_anybody_stores_into_them() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let with_hole = |path: &Path| {
        let file = fs::File::create_new(path).expect("a new file");
        file.set_len(1 << 20).expect("a file of one hole");
        file.write_all_at(&[9; 8], 4096).expect("a small file");
        // What a file system puts off would change the number of blocks later.
        file.sync_all().expect("the disk works");
        file
    };
    let blocks = |file: &fs::File| file.metadata().expect("the file is there").blocks();
    let control = with_hole(&directory.path().join("control"));
    let sparse = blocks(&control);
    if fallocate(&control, FallocateFlags::KEEP_SIZE, 0, 1 << 20).is_err() || blocks(&control) <= sparse {
        eprintln!("skipped: this file system has no holes, or reserves no blocks for them");
        return;
    }
    let file = with_hole(&path);
    let before = blocks(&file);
    let space = Mapped::open_read_only(&path).expect("the file is there");
    assert_eq!(blocks(&file), before, "a reader changes nothing");
    drop(space);
    let space = Mapped::open(&path).expect("there is room");
    assert_eq!((space.load_u64(4096), space.load_u64(8192)), (u64::from_le_bytes([9; 8]), 0));
    assert!(blocks(&file) > before, "{before} blocks before, {} after", blocks(&file));
}

#[test]
fn forced_memory_says_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = Options::new().force(true);
    let space = options.create(&directory.path().join("space"), 4096).expect("room for a page");
    // A temporary directory may be on persistent memory, where there is nothing to force.
    assert_eq!(space.durability().domain, Domain::Dax);
    space.sync().expect("nothing to do");
    assert_eq!(options.anonymous(4096).expect("a page").durability().name(), "forced");
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

/// Root may do everything, so this takes a process that is not.
#[test]
fn who_lacks_permission_is_reported_what_for() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    drop(Mapped::create(&path, 4096).expect("room for a page"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("our own file");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o555)).expect("our own folder");
    process::run("as_nobody", &[("STRANDLINE_TEST_SPACE", path.as_os_str())]);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
}

#[test]
#[ignore = "runs in a process of its own, on behalf of who_lacks_permission_is_reported_what_for"]
fn as_nobody() {
    if !process::is_child() {
        return;
    }
    let path = PathBuf::from(
        std::env::var_os("STRANDLINE_TEST_SPACE").expect("the test that started us says which"),
    );
    // SAFETY: plain system calls; all threads of this process become nobody's.
    let nobody = unsafe { libc::geteuid() != 0 || libc::setuid(65534) == 0 };
    if !nobody || fs::File::open(&path).is_err() {
        println!("skipped: can't become somebody else who reaches the temporary directory");
        return;
    }
    let name = path.display().to_string();
    let refused = message(Mapped::open(&path));
    assert!(refused.contains(&name) && refused.contains("must be readable and writable"), "{refused}");
    assert_eq!(Mapped::open_read_only(&path).expect("everybody may read it").len(), 4096);
    let other = path.with_file_name("other");
    let refused = message(Mapped::create(&other, 4096));
    assert!(refused.contains("other") && refused.contains("its directory must be writable"), "{refused}");
}
