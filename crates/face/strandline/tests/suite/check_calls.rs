//! The calls that docs/check.md names, each made by a small program: followed, named as the reason of no
//! verdict, or without effect on it.

use std::collections::BTreeSet;
use std::process::Command;

use crate::common::{Scratch, compile, stderr, stdout, strandline};

const PROGRAM: &str = include_str!("../programs/calls.c");

/// What a run leaves is what its recorded calls make of the files: nothing that they did is missing.
const FOLLOWED: &str = "
    write pwrite writev pwritev pwritev2 pwritev2-append pwritev2-here ftruncate ftruncate-longer
    posix_fallocate fallocate fallocate-punch fallocate-zero fallocate-zero-keep fallocate-collapse
    fallocate-insert copy_file_range copy_file_range-here sendfile splice dup fcntl-append append
    dprintf lseek-hole fopen fopen-append fopen-update fopen-exclusive fdopen freopen freopen-out
    stream-functions setvbuf unflushed at-exit tmpfile open open-truncate creat openat openat2
    nameless mkstemp mkstemps mkdtemp rename rename-over rename-folder renameat renameat2-exchange
    renameat2-noreplace link linkat linkat-empty symlink symlinkat symlink-create symlink-folder
    unlink unlinkat unlinkat-folder unlink-open remove mkdir mkdirat rmdir truncate chdir mkfifo
    mknod-file bind fsync fdatasync sync syncfs fsync-folder open-dsync mmap msync-async munmap
    mremap mmap-private mmap-offset mmap-number mmap-close mprotect read-into mmap-write
    madvise-remove madvise-dontneed write-itself fork syscall-pwrite syscall-rename syscall-ftruncate syscall-link
    syscall-fallocate syscall-mknod syscall-openat2";

/// They change nothing that an image has.
const IGNORED: &str = "sync_file_range posix_fadvise flock chmod aio_read rights";

/// The reason of no verdict that the run has.
const STOPS: &[(&str, &str)] = &[
    ("renameat2-whiteout", "not recorded: renameat2(RENAME_WHITEOUT), "),
    ("setxattr", "not recorded: setxattr, "),
    ("lsetxattr", "not recorded: lsetxattr, "),
    ("fsetxattr", "not recorded: fsetxattr, "),
    ("removexattr", "not recorded: removexattr, "),
    ("lremovexattr", "not recorded: lremovexattr, "),
    ("fremovexattr", "not recorded: fremovexattr, "),
    ("syscall-fsetxattr", "not recorded: fsetxattr, "),
    ("aio_write", "not recorded: aio_write, "),
    ("aio_fsync", "not recorded: aio_fsync, "),
    ("lio_listio", "not recorded: lio_listio, "),
    ("clone", "not recorded: ioctl(FICLONE), "),
    ("clone-range", "not recorded: ioctl(FICLONERANGE), "),
    ("zero-range", "not recorded: ioctl(FS_IOC_ZERO_RANGE), "),
    ("punch-range", "not recorded: ioctl(FS_IOC_UNRESVSP64), "),
    ("syscall-ioctl", "not recorded: ioctl(FS_IOC_ZERO_RANGE), "),
    ("syscall-ring", "not recorded: io_uring_setup"),
    ("fputws", "not recorded: fputws, "),
    ("fputwc", "not recorded: fputwc, "),
    ("fwide", "not recorded: fwide, "),
    ("fwprintf", "not recorded: fwprintf, "),
    ("system", "data/file differs from what the recorded run left in it"),
    ("shell-rename", "data/file is missing"),
    // They change nothing at all.
    ("fallocate-keep", "changed none of the files"),
];

/// Makes a call; the status and what was said. `None`: this system, or the file system here, has none.
fn made(scratch: &Scratch, call: &str) -> Option<(i32, String)> {
    let folder = scratch.path("data");
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(folder.join("sub")).expect("the folder is made");
    std::fs::write(folder.join("file"), [b'a'; 8192]).expect("the file is written");
    std::fs::write(folder.join("other"), [b'b'; 8192]).expect("the file is written");
    let run =
        |call| Command::new(scratch.path("calls")).current_dir(scratch.dir()).args([call, "data"]).status();
    // Attributes are not everywhere.
    run("attributes").expect("it runs");
    let mut command = strandline();
    command.current_dir(scratch.dir()).args([
        "check",
        "--images",
        "16",
        "--files",
        "data",
        "--recover",
        "test -d POOL",
    ]);
    let output = command.args(["--", "./calls", call, "data"]).output().expect("it runs");
    let said = stderr(&output) + &stdout(&output);
    if said.contains("exit status: 7") {
        eprintln!("skipped: {call}: not here");
        return None;
    }
    assert!(!said.contains("the program ended with"), "{call}: {said}");
    Some((output.status.code().unwrap_or(-1), said))
}

fn program() -> Scratch {
    let scratch = Scratch::new();
    scratch.file("calls.c", PROGRAM);
    compile(scratch.dir(), "cc", "-O1 -g -w -o calls calls.c");
    scratch
}

#[test]
fn a_followed_call_leaves_what_was_recorded_of_it() {
    let scratch = program();
    for call in FOLLOWED.split_whitespace().chain(IGNORED.split_whitespace()) {
        if let Some((status, said)) = made(&scratch, call) {
            assert_eq!(status, 0, "{call}: {said}");
        }
    }
}

#[test]
fn any_other_call_is_named() {
    let scratch = program();
    for (call, reason) in STOPS {
        if let Some((status, said)) = made(&scratch, call) {
            assert_eq!(status, 2, "{call}: {said}");
            assert!(said.contains(reason), "{call}: {said}");
            assert!(!reason.starts_with("not recorded") || said.contains("calls.c:"), "{call}: {said}");
        }
    }
}

#[test]
fn every_call_of_the_program_is_in_a_list() {
    let listed: BTreeSet<&str> = FOLLOWED.split_whitespace().chain(IGNORED.split_whitespace()).collect();
    let stops: BTreeSet<&str> = STOPS.iter().map(|(call, _)| *call).collect();
    let made: BTreeSet<&str> =
        PROGRAM.split("IS(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let listed: BTreeSet<&str> = listed.union(&stops).copied().collect();
    let made: BTreeSet<&str> = made.into_iter().filter(|call| *call != "attributes").collect();
    assert_eq!(listed, made);
    assert!(made.len() > 100);
}

#[test]
fn the_first_check_of_the_page_finds_what_the_page_says() {
    let page = include_str!("../../../../../docs/check.md");
    let code = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    for (platform, text, status) in [
        ("posix", code.to_owned(), 1),
        ("ext4", code.to_owned(), 0),
        ("posix", code.replace("|| close(fd)", "|| fsync(fd) || close(fd)"), 0),
    ] {
        let scratch = Scratch::new();
        scratch.file("save.c", &text);
        compile(scratch.dir(), "cc", "-g -Wall -Wextra -Werror -o save save.c");
        std::fs::create_dir(scratch.path("data")).expect("the folder is made");
        std::fs::write(scratch.path("data/file"), [0; 2000]).expect("the file is written");
        let mut command = strandline();
        command.current_dir(scratch.dir()).args(["check", "--files", "data", "--platform", platform]);
        command.args(["--recover", "./save --verify POOL/file", "--", "./save", "data/file"]);
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(status), "{}", stdout(&output));
        assert!(status == 0 || stdout(&output).contains("the rename of `file.new` to `file`"));
    }
}
