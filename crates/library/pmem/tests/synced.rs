//! `Synced`: a fence is one sync, covers what was flushed, and never succeeds again after one that failed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use persistency::Domain;
use pmem::{MapError, Mapped, Options, Synced};
use space::{Space, conformance};
use tempfile::TempDir;

/// A folder in which files lie in the page cache of a disk.
fn on_disk() -> Option<TempDir> {
    let found = [tempfile::tempdir(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))]
        .into_iter()
        .flatten()
        .find(|folder| create(&folder.path().join("probe"), 4096).durability().domain == Domain::Sync);
    if found.is_none() {
        eprintln!("skipped: neither the temporary nor the build directory is on a disk with a page cache");
    }
    found
}

fn create(path: &Path, len: u64) -> Mapped {
    Mapped::create(path, len).expect("a small file")
}

#[test]
fn it_is_a_space() {
    conformance::all(|len| Synced::new(Mapped::anonymous(len).expect("a page")));
    conformance::all(|len| Synced::new(Options::new().force(true).anonymous(len).expect("a page")));
    let Some(folder) = on_disk() else { return };
    let made = AtomicU64::new(0);
    conformance::all(|len| {
        Synced::new(create(&folder.path().join(made.fetch_add(1, Relaxed).to_string()), len))
    });
}

/// Pools lie on this space: what is true of the memory has to be true of it.
#[test]
fn lines_go_past_the_cache_where_that_is_sooner_and_no_sync_is_waited_for() {
    let memory = || Options::new().force(true).anonymous(4096).expect("a page");
    let sooner = memory().nt_is_sooner();
    assert_eq!(sooner, pmem::isa::Offer::of_this_cpu().nt_is_sooner);
    assert_eq!(Synced::new(memory()).nt_is_sooner(), sooner);
    let Some(folder) = on_disk() else { return };
    let synced = Synced::new(create(&folder.path().join("space"), 4096));
    assert!(synced.fence_writes() && !synced.nt_is_sooner());
}

#[test]
fn a_fence_is_one_sync_however_much_was_flushed() {
    let Some(folder) = on_disk() else { return };
    let space = Synced::new(create(&folder.path().join("space"), 1 << 20));
    space.fence();
    assert_eq!(space.syncs(), 0, "nothing was flushed");
    for at in (0..1 << 20).step_by(50_000) {
        space.store(at, &[1; 100]);
        space.flush(at, 100);
    }
    space.flush(8, 0);
    space.fence();
    assert_eq!(space.syncs(), 1);
    space.store_u64(8, 1);
    space.fence();
    assert_eq!(space.syncs(), 1, "what is not flushed is nobody's");
    space.store_nt(64, &[2; 64]);
    space.fence();
    assert_eq!(space.syncs(), 2, "non-temporal stores need no flush");
    space.persist(8, 8);
    assert_eq!(space.syncs(), 3);
    space.grow(2 << 20).expect("room for another MiB");
    space.prefault(1 << 20, 1 << 20).expect("the disk works");
    space.persist((2 << 20) - 8, 8);
    assert_eq!(space.syncs(), 4);
    assert!(space.failed().is_none());
}

#[test]
fn where_instructions_suffice_nothing_is_synced() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let forced = Options::new().force(true).create(&folder.path().join("space"), 4096).expect("a page");
    let volatile = Mapped::anonymous(4096).expect("a page");
    for space in [Synced::new(forced), Synced::new(volatile)] {
        space.store_u64(8, 1);
        space.persist(8, 8);
        space.store_nt(64, &[2; 64]);
        space.fence();
        space.try_fence().expect("nothing can fail");
        assert_eq!((space.syncs(), space.load_u64(64)), (0, 0x0202_0202_0202_0202));
    }
}

/// Kilobytes of the mapping at `address` that the disk does not have, as the kernel counts them.
fn dirty_kib(address: usize) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let head = format!("{address:x}-");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let fields =
        lines.by_ref().take_while(|line| !line.split_whitespace().next().unwrap_or("").contains('-'));
    let dirty = fields.filter(|line| line.contains("_Dirty:"));
    dirty.map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

#[test]
fn what_was_flushed_is_clean_after_the_fence() {
    let Some(folder) = on_disk() else { return };
    let space = Synced::new(create(&folder.path().join("space"), 1 << 20));
    // A file system that journals data as well has dirty pages after any sync.
    space.store_u64(0, 1);
    space.memory().sync().expect("the disk works");
    if dirty_kib(space.memory().address()) != Some(0) {
        eprintln!("skipped: this system does not tell by dirty pages what the disk lacks");
        return;
    }
    for ends in [(0, 64), (4095, 4097), (4096, 8192), (300_000, 900_000), ((1 << 20) - 1, 1 << 20)] {
        let bytes = vec![7; (ends.1 - ends.0) as usize];
        space.store(ends.0, &bytes);
        space.flush(ends.0, ends.1 - ends.0);
        let before = dirty_kib(space.memory().address());
        if before.is_none_or(|kib| kib == 0) {
            eprintln!("skipped: this kernel does not tell which pages are dirty");
            return;
        }
        space.fence();
        assert_eq!(dirty_kib(space.memory().address()), Some(0), "bytes {} to {}", ends.0, ends.1);
    }
}

#[test]
fn pages_that_are_made_present_keep_their_contents() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = create(&folder.path().join("space"), 3 * 65536 + 8);
    for space in [file, Mapped::anonymous(3 * 65536 + 8).expect("some pages")] {
        space.store(65530, &[7; 20]);
        for (offset, len) in [(0, 0), (65536, 1), (65535, 65538), (0, 3 * 65536 + 8)] {
            space.prefault(offset, len).expect("there is room");
        }
        let mut found = vec![0; space.len() as usize];
        space.load(0, &mut found);
        assert!(
            found
                .iter()
                .enumerate()
                .all(|(i, &byte)| byte == if (65530..65550).contains(&i) { 7 } else { 0 })
        );
        let outside = catch_unwind(AssertUnwindSafe(|| space.prefault(65536, 2 * 65536 + 16)));
        assert!(outside.is_err());
    }
}

/// Has the kernel answer this thread's calls of `call` with `errno`, as a failing disk would; false if it does not let us.
fn let_fail(call: libc::c_long, errno: i32) -> bool {
    const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut filter = [
        step(LOAD_NUMBER, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 1, call as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its steps live until the calls return; they change what one call of this thread does.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// Runs `act` in a thread in which `call` fails. False if that can't be had.
fn where_it_fails(call: libc::c_long, errno: i32, act: impl FnOnce() + Send) -> bool {
    let can = thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let can = let_fail(call, errno);
            if can {
                act();
            }
            can
        });
        thread.join().expect("what is expected happens")
    });
    if !can {
        eprintln!("skipped: this system has no seccomp filters to make a call fail");
    }
    can
}

/// Everything that a space does after a failed sync, in a thread whose own calls would succeed.
fn nothing_is_durable(space: &Synced, errno: i32) {
    let syncs = space.syncs();
    let of_disk = |error: MapError| match error {
        MapError::Sync { source, path } => {
            assert_eq!((source.raw_os_error(), path.as_path()), (Some(errno), space.memory().path()));
        }
        other => panic!("{other}"),
    };
    of_disk(space.failed().expect("it failed"));
    space.store_u64(128, 3);
    space.flush(128, 8);
    of_disk(space.try_fence().expect_err("no fence succeeds any more"));
    let panic = catch_unwind(AssertUnwindSafe(|| space.fence())).expect_err("nor this one");
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(
        text.contains("as lost") && text.contains(&space.memory().path().display().to_string()),
        "{text}"
    );
    assert_eq!(space.syncs(), syncs, "nothing more is tried");
}

#[test]
fn after_a_sync_that_failed_no_fence_succeeds() {
    let Some(folder) = on_disk() else { return };
    let space = Synced::new(create(&folder.path().join("space"), 8192));
    space.persist(8, 8);
    let could = where_it_fails(libc::SYS_msync, libc::EIO, || {
        space.store_u64(64, 2);
        space.flush(64, 8);
        let error = space.try_fence().expect_err("the disk fails").to_string();
        assert!(error.contains(&space.memory().path().display().to_string()), "{error}");
    });
    if could {
        assert_eq!(space.syncs(), 2);
        nothing_is_durable(&space, libc::EIO);
    }
}

/// The system tells of a failure once. Who asked first was not a fence, but fences must not succeed after it.
#[test]
fn a_sync_that_fails_elsewhere_counts_as_well() {
    let Some(folder) = on_disk() else { return };
    let space = Synced::new(create(&folder.path().join("grows"), 8192));
    let could = where_it_fails(libc::SYS_fsync, libc::ENOSPC, || {
        space.grow(16384).expect_err("the disk fails");
        assert_eq!(space.len(), 8192);
    });
    if could {
        nothing_is_durable(&space, libc::ENOSPC);
    }
    let space = Synced::new(create(&folder.path().join("prefaults"), 8192));
    let could = where_it_fails(libc::SYS_msync, libc::EIO, || {
        space.prefault(0, 8192).expect_err("the disk fails");
    });
    if could {
        nothing_is_durable(&space, libc::EIO);
    }
}

#[test]
fn growth_that_fails_for_another_reason_changes_nothing() {
    let Some(folder) = on_disk() else { return };
    let options = Options::new().max_len(8192);
    let space = Synced::new(options.create(&folder.path().join("space"), 8192).expect("two pages"));
    space.grow(1 << 20).expect_err("more than the maximum");
    assert!(space.failed().is_none());
    space.persist(0, 8);
    assert_eq!(space.syncs(), 1);
}

/// Two threads write logs; each finds what it made durable in the file, and their syncs are at most their fences.
#[test]
fn threads_share_syncs() {
    const RECORDS: u64 = 100;
    let Some(folder) = on_disk() else { return };
    let path = folder.path().join("space");
    let space = Synced::new(create(&path, 4 * 8 * RECORDS));
    thread::scope(|scope| {
        for thread in 0..4 {
            let space = &space;
            scope.spawn(move || {
                for i in 0..RECORDS {
                    let at = (thread * RECORDS + i) * 8;
                    space.store_u64(at, at + 1);
                    space.persist(at, 8);
                }
            });
        }
    });
    assert!((1..=4 * RECORDS).contains(&space.syncs()));
    drop(space);
    let bytes = fs::read(&path).expect("the file is there");
    let words = bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_le_bytes(word));
    assert!(words.enumerate().all(|(i, word)| word == i as u64 * 8 + 1));
}
