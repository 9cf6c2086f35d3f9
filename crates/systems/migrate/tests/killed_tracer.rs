//! A checkpoint killed after its first change of a process, its second, and so on to the last: the process
//! goes on each time, whatever it was doing, with what it had.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use migrate::freeze::{Checkpoint, checkpoint};
use migrate::proc::mapping_named;
use migrate::remote::{self, SIGNALS_DURING_CALLS, Stopped, kill_points, syscall_instruction};

mod common;

use common::built;

const ROLE: &str = "STRANDLINE_TEST_KILLED_TRACER";

/// A program that beats.
struct Victim {
    child: Child,
    file: File,
    written: u8,
    reads: bool,
}

impl Victim {
    fn start(program: &Path, way: &str) -> Self {
        let path = program.with_file_name(format!("beats.{way}"));
        std::fs::write(&path, [0; 4096]).expect("a file");
        let mut command = Command::new(program);
        command.arg(&path).arg(way).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("it was just built");
        let file = File::options().read(true).write(true).open(path).expect("a file");
        let mut victim = Self { child, file, written: 0, reads: way == "read" };
        victim.goes_on().expect("nobody has touched it yet");
        victim
    }

    fn beats(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 0).expect("a file");
        u64::from_ne_bytes(bytes)
    }

    /// Waits for two beats, the second of which began after this call.
    fn goes_on(&mut self) -> Result<(), String> {
        if self.reads {
            let next = [self.written, self.written.wrapping_add(1)];
            self.written = self.written.wrapping_add(2);
            let _ = self.child.stdin.as_mut().expect("a pipe").write_all(&next);
        }
        let (first, begin) = (self.beats(), Instant::now());
        // What it was given may have been read already.
        let wanted = if self.reads { 0 } else { first + 2 };
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return Err(format!("ended: {status}"));
            }
            let beats = self.beats();
            if if self.reads { beats as u8 == self.written } else { beats >= wanted } {
                return Ok(());
            }
            if begin.elapsed() > Duration::from_secs(60) {
                return Err("it stands still".to_owned());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn end(mut self) -> ExitStatus {
        self.file.write_all_at(&1_u64.to_ne_bytes(), 8).expect("a file");
        if self.reads {
            let _ = self.goes_on();
        }
        self.child.wait().expect("our child")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A tracer that ends after so many changes. Whether it was killed.
fn killed(role: &str, changes: u64, pid: u32, folder: &Path) -> bool {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "a_tracer_of_its_own", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, format!("{role} {changes} {pid} {}", folder.display()));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("this test again");
    assert!(status.success() || status.signal() == Some(9), "{role} {changes}: {status}");
    !status.success()
}

#[test]
#[ignore = "--long: a helper process of the other tests, which does nothing by itself"]
fn a_tracer_of_its_own() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let pid = words[2].parse().expect("a number");
    kill_points::end_after(words[1].parse().expect("a number"));
    match words[0] {
        "checkpoint" => {
            let how = Checkpoint { leave_running: true, no_sync: true, ..Checkpoint::default() };
            checkpoint(pid, Path::new(words[3]), &how).expect("it can be saved");
        }
        // The first call as it was made before: at an instruction of the vDSO, with the thread's own stack.
        "unguarded" => {
            let vdso = mapping_named(pid, "[vdso]").expect("a process").expect("a vDSO");
            let instruction = syscall_instruction(pid, vdso.start, vdso.end).expect("one");
            remote::seize(pid).expect("ours");
            remote::interrupt(pid).expect("ours");
            remote::wait(pid).expect("it stops");
            let registers = remote::get_registers(pid).expect("stopped");
            let mask = remote::get_mask(pid).expect("stopped");
            let stopped = Stopped { tid: pid, registers, instruction, scratch: 0, record: 0 };
            remote::set_mask(pid, SIGNALS_DURING_CALLS).expect("stopped");
            stopped.raw(libc::SYS_mmap, &[0, 4096, 0, 0x22, u64::MAX, 0]).expect("memory");
            remote::set_registers(pid, &registers).expect("stopped");
            remote::set_mask(pid, mask).expect("stopped");
            remote::detach(pid, 0).expect("stopped");
        }
        other => panic!("no such role: {other}"),
    }
}

fn killed_after_each_change(way: &str) {
    let folder = tempfile::tempdir().expect("folder");
    let Some(program) = built(folder.path(), "waits") else { return };
    let mut victim = Victim::start(&program, way);
    let image = folder.path().join("image");
    let mut changes = 1;
    while killed("checkpoint", changes, victim.child.id(), &image) {
        victim.goes_on().unwrap_or_else(|what| panic!("{way}, killed after change {changes}: {what}"));
        changes += 1;
    }
    println!("{way}: {} kills", changes - 1);
    assert!(changes > 40, "{changes}: not all changes are counted");
    victim.goes_on().expect("nobody was killed");
    assert_eq!(victim.end().code(), Some(7), "{way}");
}

#[test]
fn killed_while_it_computes_with_vectors() {
    killed_after_each_change("spin");
}

#[test]
fn killed_while_all_signals_are_blocked() {
    killed_after_each_change("blocked");
}

#[test]
fn killed_while_it_reads() {
    killed_after_each_change("read");
}

#[test]
fn killed_while_it_sleeps() {
    killed_after_each_change("sleep");
}

#[test]
fn killed_while_threads_wait_for_each_other() {
    killed_after_each_change("futex");
}

#[test]
fn killed_while_it_waits_for_events() {
    killed_after_each_change("epoll");
}

#[test]
fn killed_in_a_signal_handler_with_a_stack_of_its_own() {
    killed_after_each_change("handler");
}

/// The same test finds what was wrong with calls that nothing guards.
#[test]
fn a_call_without_guard_loses_the_process() {
    let folder = tempfile::tempdir().expect("folder");
    let Some(program) = built(folder.path(), "waits") else { return };
    let mut lost = Vec::new();
    for changes in 1.. {
        let mut victim = Victim::start(&program, "spin");
        if !killed("unguarded", changes, victim.child.id(), folder.path()) {
            break;
        }
        if let Err(what) = victim.goes_on() {
            lost.push((changes, what));
        }
    }
    println!("{lost:?}");
    assert!(!lost.is_empty());
}
