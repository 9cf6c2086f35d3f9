//! One writer, or readers: the error of the second names the first.

mod process;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use pmem::{MapError, Mapped};
use space::Space;

/// The holder that a refusal names.
fn refused(result: Result<Mapped, MapError>, path: &Path) -> Option<u32> {
    let error = result.expect_err("it is locked");
    let text = error.to_string();
    let names_both = text.contains(&path.display().to_string()) && text.contains("is in use");
    assert!(names_both && text.contains("close it there"), "{text}");
    let MapError::Locked { holder, .. } = error else { panic!("{error:?}") };
    if let Some(pid) = holder {
        assert!(text.contains(&format!("process {pid}")), "{text}");
    }
    holder
}

#[test]
fn a_writer_keeps_everybody_out_and_readers_share() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let writer = Mapped::create(&path, 4096).expect("a small file");
    // Where the kernel does not tell (a container), nobody is named; if somebody is, it is us.
    let us = |holder: Option<u32>| holder.is_none_or(|pid| pid == std::process::id());
    assert!(us(refused(Mapped::open(&path), &path)));
    assert!(us(refused(Mapped::open_read_only(&path), &path)));
    drop(writer);
    let first = Mapped::open_read_only(&path).expect("nobody writes");
    let second = Mapped::open_read_only(&path).expect("readers share");
    drop(first);
    assert!(us(refused(Mapped::open(&path), &path)));
    drop(second);
    drop(Mapped::open(&path).expect("nobody has it"));
}

/// A process that holds a space until it is killed.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Holder {
        let mut command =
            process::command("hold_until_killed", &[("STRANDLINE_TEST_SPACE", path.as_os_str())]);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::piped()).spawn().expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let holds = lines.map_while(Result::ok).any(|line| line.contains("it is held"));
        assert!(holds, "the other process ended early");
        Holder(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // What is gone already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn another_process_keeps_us_out_until_it_is_killed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    drop(Mapped::create(&path, 4096).expect("a small file"));
    let other = Holder::start(&path);
    let pid = other.0.id();
    assert!(refused(Mapped::open(&path), &path).is_none_or(|holder| holder == pid));
    drop(other);
    let space = Mapped::open(&path).expect("its end gave the file free");
    assert_eq!(space.load_u64(8), 7);
}

#[test]
#[ignore = "runs in a process of its own, on behalf of another_process_keeps_us_out_until_it_is_killed"]
fn hold_until_killed() {
    if !process::is_child() {
        return;
    }
    let path = std::env::var_os("STRANDLINE_TEST_SPACE").expect("the test that started us says which");
    let space = Mapped::open(Path::new(&path)).expect("nobody has it");
    space.store_u64(8, 7);
    println!("it is held");
    // Until we are killed, or the test that started us ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn a_child_that_closes_its_copy_leaves_the_lock_to_its_parent() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("space");
    let space = Mapped::create(&path, 4096).expect("a small file");
    // SAFETY: the child drops what it has, which waits for nobody, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(space);
        // SAFETY: ends the child without what tests do at their end.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the status is ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    refused(Mapped::open(&path), &path);
    drop(space);
    drop(Mapped::open(&path).expect("nobody has it"));
}
