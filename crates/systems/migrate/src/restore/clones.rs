//! Restoring into a PID namespace of its own, where all numbers are free: as often as one likes.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::path::Path;

use super::run::{Restored, restore};
use crate::copies::owned;
use crate::error::{Error, Result};
use crate::remote;

/// Restores the tree of `folder` in a new PID namespace, with a `/proc` of its own. [`Restored::pid`] is the
/// namespace's first process, a child of this one: it ends with the exit status of the tree's root, and killing it ends
/// the tree.
///
/// # Errors
/// As [`restore`]; besides, if namespaces may not be made (`CAP_SYS_ADMIN`).
pub fn restore_clone(folder: &Path) -> Result<Restored> {
    let path = "/proc/self/ns/pid";
    let own = std::fs::File::open(path).map_err(|error| Error::file(path, "cannot be opened", error))?;
    let (from, into) = pipe()?;
    // SAFETY: glibc's `fork` leaves a usable process behind, whose one thread is this one.
    let child = unsafe {
        if libc::unshare(libc::CLONE_NEWPID) < 0 {
            return Err(Error::call(0, "to make a PID namespace"));
        }
        let child = libc::fork();
        let back = if child == 0 { 0 } else { libc::setns(own.as_raw_fd(), libc::CLONE_NEWPID) };
        if child < 0 || back < 0 {
            return Err(Error::call(0, "to make the first process of a PID namespace"));
        }
        child
    };
    if child == 0 {
        drop(from);
        let code = first_process(folder, into);
        // SAFETY: ends this copy of the process without running what belongs to the original.
        unsafe { libc::_exit(code) };
    }
    drop(into);
    let mut answer = String::new();
    let _ = std::fs::File::from(from).read_to_string(&mut answer);
    if let Some(rest) = answer.strip_prefix("runs ") {
        let mut words = rest.split(' ').map(|word| word.parse::<f64>().unwrap_or(0.0));
        let mut next = || words.next().unwrap_or(0.0);
        let processes = next() as usize;
        return Ok(Restored { pid: child, processes, check_s: next(), resume_s: next() });
    }
    let _ = remote::wait(child);
    Err(Error::Unfit(if answer.is_empty() { "the restoring process ended".to_owned() } else { answer }))
}

fn pipe() -> Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` outlives the call; what it returns is ours.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) < 0 {
            return Err(Error::call(0, "to make a pipe"));
        }
        Ok((
            std::os::fd::OwnedFd::from_raw_fd(ends[0]),
            owned(ends[1].into()).map_err(|_| Error::call(0, "a pipe"))?,
        ))
    }
}

/// What the namespace's first process does: restore, report, and wait for all.
fn first_process(folder: &Path, report: std::os::fd::OwnedFd) -> i32 {
    let mut report = std::fs::File::from(report);
    let result = own_proc().and_then(|()| restore(folder));
    let root = match result {
        Ok(done) => {
            let _ = write!(report, "runs {} {} {}", done.processes, done.check_s, done.resume_s);
            done.pid
        }
        Err(error) => {
            let _ = write!(report, "{error}");
            return 127;
        }
    };
    drop(report);
    let mut code = 0;
    loop {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        if ended < 0 {
            return code;
        }
        if ended == root {
            code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                128 + libc::WTERMSIG(status)
            };
        }
    }
}

fn own_proc() -> Result<()> {
    // SAFETY: all strings are constants that end with zero.
    unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        let (none, root, proc) = (std::ptr::null(), c"/".as_ptr(), c"proc".as_ptr());
        if libc::unshare(libc::CLONE_NEWNS) < 0
            || libc::mount(none, root, none, private, none.cast()) < 0
            || libc::mount(proc, c"/proc".as_ptr(), proc, 0, none.cast()) < 0
        {
            return Err(Error::call(0, "to mount its own /proc"));
        }
    }
    Ok(())
}

/// Waits until a restored tree's root has ended: its exit status, or 128 and the signal that ended it.
///
/// # Errors
/// If it is no child of this process.
pub fn exit_code(pid: i32) -> Result<u8> {
    loop {
        let status = remote::wait(pid)?;
        if libc::WIFEXITED(status) {
            return Ok(libc::WEXITSTATUS(status) as u8);
        }
        if libc::WIFSIGNALED(status) {
            return Ok(128 + libc::WTERMSIG(status) as u8);
        }
    }
}
