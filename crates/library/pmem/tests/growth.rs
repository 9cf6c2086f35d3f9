//! Spaces that grow: what was there stays where it is, what comes is zero, and what can't be done changes nothing.

mod process;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pmem::{Mapped, Options};
use space::{Space, conformance};

fn create(path: &Path, len: u64) -> Mapped {
    Mapped::create(path, len).expect("a small file")
}

#[test]
fn a_space_that_grew_is_a_space() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (i, test) in conformance::tests::<Mapped>().into_iter().enumerate() {
        let file = create(&directory.path().join(i.to_string()), 8);
        let anonymous = Mapped::anonymous(8).expect("a page");
        for space in [file, anonymous] {
            // In steps that end inside of pages, too.
            for len in [16, conformance::LEN - 8, conformance::LEN] {
                space.grow(len).expect("a page");
            }
            test(&space);
        }
    }
}

#[test]
fn growing_keeps_what_is_there_and_where_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let space = create(&path, 4104);
    space.store_u64(4096, 5);
    let address = space.address();
    for len in [4112, 8192, 8192, 4096, 1 << 20, (3 << 20) + 8] {
        let before = space.len();
        space.grow(len).expect("a few pages");
        assert_eq!((space.len(), space.address()), (before.max(len), address));
        assert_eq!(space.load_u64(4096), 5);
        if len > before {
            let mut new = vec![1; (len - before) as usize];
            space.load(before, &mut new);
            assert!(new.iter().all(|&byte| byte == 0), "from {before} to {len}");
            assert_eq!(fs::metadata(&path).expect("the file is there").len(), len);
        }
    }
    space.store_u64(3 << 20, 6);
    space.persist(3 << 20, 8);
    drop(space);
    let space = Mapped::open(&path).expect("the file is there");
    assert_eq!((space.len(), space.load_u64(4096), space.load_u64(3 << 20)), ((3 << 20) + 8, 5, 6));
    space.grow(4 << 20).expect("a file that was opened grows, too");
    space.store_u64((4 << 20) - 8, 7);
}

#[test]
fn others_go_on_meanwhile() {
    const STEP: u64 = 4096 + 8;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let space = &create(&directory.path().join("space"), STEP);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let done = &done;
            // Each goes through the words of its own parity, as far as there are any.
            scope.spawn(move || {
                let mut sum = 0;
                while !done.load(Relaxed) {
                    for at in (thread * 8..space.len()).step_by(16) {
                        space.store_u64(at, at);
                        sum += space.load_u64(at) ^ at;
                    }
                }
                assert_eq!(sum, 0);
            });
        }
        // At once and step by step, from two threads.
        let grow = |half: u64| {
            for i in 1..40 {
                space.grow((2 * i + half) * STEP).expect("some pages");
            }
        };
        let grown = [0, 1].map(|half| scope.spawn(move || grow(half))).map(|thread| thread.join());
        // Before anything else, or the others would go on for ever.
        done.store(true, Relaxed);
        assert!(grown.iter().all(Result::is_ok));
    });
    assert_eq!(space.len(), 79 * STEP);
}

#[test]
fn what_can_not_grow_says_why_and_stays() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let name = path.display().to_string();
    let options = Options::new().max_len(1 << 16);
    let space = options.create(&path, 4096).expect("a small file");
    let refused = |len| space.grow(len).expect_err("this can't be").to_string();
    let limit = refused((1 << 20) + 8);
    assert!(limit.contains(&name) && limit.contains("1048584") && limit.contains("max_len"), "{limit}");
    let odd = refused(5001);
    assert!(odd.contains(&name) && odd.contains("5001 bytes"), "{odd}");
    assert_eq!((space.len(), fs::metadata(&path).expect("the file is there").len()), (4096, 4096));
    space.grow(1 << 16).expect("as much as was asked for");
    space.store_u64((1 << 16) - 8, 1);
    drop(space);
    let small = Options::new().max_len(4096).open(&path).expect_err("the file is longer").to_string();
    assert!(small.contains(&name) && small.contains("max_len"), "{small}");
    let anonymous = Options::new().max_len(1 << 16).anonymous(8).expect("a page");
    let limit = anonymous.grow(1 << 30).expect_err("a larger maximum is needed").to_string();
    assert!(limit.contains("anonymous memory"), "{limit}");
}

/// A disk that is full, as far as this process is concerned.
#[test]
fn a_full_disk_leaves_the_space_as_it_was() {
    process::run("in_little_room", &[]);
}

#[test]
#[ignore = "runs in a process of its own, on behalf of a_full_disk_leaves_the_space_as_it_was"]
fn in_little_room() {
    if !process::is_child() {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let space = create(&path, 4096);
    space.store_u64(8, 3);
    // SAFETY: plain system calls; the process has no other use of the signal, which would end it.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let full = space.grow(2 << 20).expect_err("a file may not be that long").to_string();
    assert!(full.contains("make room") && full.contains(&path.display().to_string()), "{full}");
    assert_eq!((space.len(), space.load_u64(8)), (4096, 3));
    assert_eq!(fs::metadata(&path).expect("the file is there").len(), 4096);
    let none = directory.path().join("none");
    assert!(Mapped::create(&none, 2 << 20).is_err() && !none.exists());
    space.grow(1 << 20).expect("that much there is");
    space.store_u64((1 << 20) - 8, 4);
}

/// As `ulimit -v` does it: the space takes a part of what there is, and less where that is gone.
#[test]
fn where_address_space_is_scarce_spaces_set_less_of_it_aside() {
    process::run("in_little_address_space", &[]);
}

#[test]
#[ignore = "runs in a process of its own, on behalf of where_address_space_is_scarce_spaces_set_less_of_it_aside"]
fn in_little_address_space() {
    if !process::is_child() {
        return;
    }
    const LIMIT: u64 = 4 << 30;
    let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
    // SAFETY: a plain system call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    // More than fit at their first wish.
    let spaces: Vec<_> = (0..16).map(|_| Mapped::anonymous(1 << 20).expect("that much there is")).collect();
    assert!(spaces[0].max_len() <= LIMIT / 8 && spaces[0].max_len() > spaces[15].max_len());
    spaces[0].grow(2 << 20).expect("it has room");
    spaces[0].store_u64((2 << 20) - 8, 1);
    assert!(Options::new().max_len(2 * LIMIT).anonymous(8).is_err(), "what is asked for is had, or an error");
    assert!(Mapped::anonymous(2 * LIMIT).is_err());
}
