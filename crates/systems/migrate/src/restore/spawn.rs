//! Children with given numbers, stopped before they do anything.

use std::path::Path;

use crate::error::{Error, Result};
use crate::image::{Image, Process};
use crate::proc::mappings;
use crate::remote::{self, Batch, RegisterSet, SCRATCH, SIGNALS_DURING_CALLS, Stopped};

/// `struct clone_args`, as words.
fn arguments(flags: u64, signal: u64, set_tid: u64) -> [u64; 11] {
    [flags, 0, 0, 0, signal, 0, 0, 0, set_tid, 1, 0]
}

/// Whether all numbers of the image are free here. One that has ended and is not yet asked for by its parent is waited
/// for a while: the checkpoint may just have ended it.
pub fn numbers_free(image: &Image) -> bool {
    let mut tids = image.processes.iter().flat_map(|process| &process.threads);
    tids.all(|thread| {
        for _ in 0..200 {
            if !Path::new(&format!("/proc/{}", thread.tid)).exists() {
                return true;
            }
            let ended = crate::proc::Status::read(thread.tid)
                .is_ok_and(|status| status.get("State").starts_with('Z'));
            if !ended {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        false
    })
}

/// Makes the root: a copy of this process that stops at once. It is killed if we end.
///
/// # Errors
/// If its number is taken, or may not be chosen (`CAP_CHECKPOINT_RESTORE`).
pub fn root(process: &Process) -> Result<Stopped> {
    let tid = process.pid;
    let words = arguments(0, libc::SIGCHLD as u64, &raw const tid as u64);
    // SAFETY: the child has a copy of our memory and makes only system calls, which touch none of it; the arguments
    // outlive the call.
    let pid = unsafe {
        let pid = libc::syscall(libc::SYS_clone3, words.as_ptr(), size_of_val(&words));
        if pid == 0 {
            libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0);
            libc::syscall(libc::SYS_kill, tid, libc::SIGSTOP);
            loop {
                libc::syscall(libc::SYS_exit_group, 127);
            }
        }
        pid
    };
    if pid < 0 {
        return Err(Error::call(tid, "to make a process with this number"));
    }
    remote::wait(tid)?;
    remote::set_options(tid, libc::PTRACE_O_EXITKILL)?;
    remote::set_mask(tid, SIGNALS_DURING_CALLS)?;
    let all = mappings(tid)?;
    let Some(vdso) = all.iter().find(|mapping| mapping.name == "[vdso]") else {
        return Err(Error::Unfit("there is no vDSO".to_owned()));
    };
    let instruction = remote::syscall_instruction(tid, vdso.start, vdso.end)?;
    Ok(Stopped { tid, registers: remote::get_registers(tid)?, instruction, scratch: 0, record: 0 })
}

/// Gives it scratch memory at `address`, which is free in it and in the image.
///
/// # Errors
/// If it cannot be had.
pub fn scratch(stopped: &mut Stopped, address: u64) -> Result<()> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
    let arguments = [address, SCRATCH, protection, flags, u64::MAX, 0];
    stopped.scratch = stopped.call("to get scratch memory", libc::SYS_mmap, &arguments)?;
    Batch::install(stopped)
}

/// Has `parent` make a child process with number `pid`, which is traced as it is, and stops at once.
///
/// # Errors
/// If its number is taken.
pub fn child(parent: &Stopped, pid: i32) -> Result<Stopped> {
    let mut batch = Batch::new(parent);
    clone(&mut batch, pid, 0, libc::SIGCHLD as u64)?;
    batch.run()?;
    stopped(parent, pid)
}

/// Has the first thread of a process make all the others, each of which stops at once: one stop for many of them.
///
/// # Errors
/// If a number is taken.
pub fn threads(leader: &Stopped, tids: impl Iterator<Item = i32> + Clone) -> Result<Vec<Stopped>> {
    let flags = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND;
    let flags = flags | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
    let mut batch = Batch::new(leader);
    for tid in tids.clone() {
        clone(&mut batch, tid, flags as u64, 0)?;
    }
    batch.run()?;
    tids.map(|tid| stopped(leader, tid)).collect()
}

fn clone(batch: &mut Batch<'_>, tid: i32, flags: u64, signal: u64) -> Result<()> {
    let number = batch.bytes(&tid.to_ne_bytes())?;
    let words = arguments(flags | libc::CLONE_PTRACE as u64, signal, number);
    let at = batch.words(&words)?;
    batch.call(format!("to make number {tid}"), libc::SYS_clone3, &[at, size_of_val(&words) as u64])
}

/// A child that has just been made.
fn stopped(parent: &Stopped, tid: i32) -> Result<Stopped> {
    remote::wait(tid)?;
    remote::set_mask(tid, SIGNALS_DURING_CALLS)?;
    let registers: RegisterSet = remote::get_registers(tid)?;
    Ok(Stopped { tid, registers, ..*parent })
}
