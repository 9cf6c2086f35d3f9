//! What a restored process has as a whole, beside memory and threads.

use crate::error::Result;
use crate::image::{FileKind, Image, Process};
use crate::remote::{Batch, Stopped};

/// Puts open files under their numbers, and closes all others. `open` says where the descriptions of the
/// image are open.
///
/// # Errors
/// If a number is above the limit.
pub fn files(stopped: &Stopped, process: &Process, image: &Image, open: &[i32]) -> Result<()> {
    let mut batch = Batch::new(stopped);
    let mut next = 0_u64;
    let mut fds = process.fds.clone();
    fds.sort_by_key(|fd| fd.fd);
    for fd in &fds {
        let flags = if fd.close_on_exec { libc::O_CLOEXEC as u64 } else { 0 };
        let from = open.get(fd.description).copied().unwrap_or(-1) as u64;
        batch.call(
            format!("to open file descriptor {}", fd.fd),
            libc::SYS_dup3,
            &[from, fd.fd as u64, flags],
        )?;
        if fd.fd as u64 > next {
            batch.call("to close files", libc::SYS_close_range, &[next, fd.fd as u64 - 1, 0])?;
        }
        next = fd.fd as u64 + 1;
    }
    batch.call("to close files", libc::SYS_close_range, &[next, u64::from(u32::MAX), 0])?;
    for fd in &fds {
        if let Some(FileKind::Epoll(watches)) = image.descriptions.get(fd.description).map(|one| &one.kind) {
            for watch in watches {
                let mut event = watch.events.to_ne_bytes().to_vec();
                event.extend(watch.data.to_ne_bytes());
                let event = batch.bytes(&event)?;
                let add = libc::EPOLL_CTL_ADD as u64;
                batch.attempt(libc::SYS_epoll_ctl, &[fd.fd as u64, add, watch.fd as u64, event])?;
            }
        }
    }
    for lock in &process.locks {
        // `struct flock`: type and origin, two bytes each, first byte, length, process.
        let kind = if lock.write { libc::F_WRLCK } else { libc::F_RDLCK };
        let range = batch.words(&[kind as u16 as u64, lock.start, lock.len, 0])?;
        let command = if lock.of_open_file { libc::F_OFD_SETLK } else { libc::F_SETLK };
        batch.call(
            format!("to lock a range of file descriptor {}, which another process may have locked", lock.fd),
            libc::SYS_fcntl,
            &[lock.fd as u64, command as u64, range],
        )?;
    }
    batch.run().map(drop)
}

/// Handlers, timers, directories, limits, and where the kernel thinks that its memory is. `program` is the open program.
///
/// # Errors
/// If the kernel does not let it.
pub fn attributes(stopped: &Stopped, process: &Process, program: i32) -> Result<()> {
    let mut batch = Batch::new(stopped);
    if process.root != "/" {
        let root = batch.text(&process.root)?;
        batch.call("to change its root", libc::SYS_chroot, &[root])?;
    }
    let cwd = batch.text(&process.cwd)?;
    batch.call(format!("to go to {}", process.cwd), libc::SYS_chdir, &[cwd])?;
    batch.call("to set its file mode mask", libc::SYS_umask, &[process.umask.into()])?;
    batch.call("to set its personality", libc::SYS_personality, &[process.personality])?;
    for (signal, action) in (1_u64..).zip(&process.actions) {
        if signal == libc::SIGKILL as u64 || signal == libc::SIGSTOP as u64 {
            continue;
        }
        let words = batch.words(&[action.handler, action.flags, action.restorer, action.mask])?;
        batch.call("to set its signal handlers", libc::SYS_rt_sigaction, &[signal, words, 0, 8])?;
    }
    if process.subreaper {
        batch.call("to make it a subreaper", libc::SYS_prctl, &[libc::PR_SET_CHILD_SUBREAPER as u64, 1])?;
    }
    let auxiliary = batch.words(&process.mm.auxv)?;
    let mut map = process.mm.bounds.to_vec();
    map.push(auxiliary);
    map.push((process.mm.auxv.len() as u64 * 8) | ((program as u64) << 32));
    let len = map.len() as u64 * 8;
    let map = batch.words(&map)?;
    let arguments = [libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64, map, len, 0];
    batch.call("to set the bounds of its memory", libc::SYS_prctl, &arguments)?;
    batch.run()?;
    Ok(())
}

/// What has to come last: timers start, limits bind.
///
/// # Errors
/// If the kernel does not let it.
pub fn limits_and_timers(stopped: &Stopped, process: &Process) -> Result<()> {
    let mut batch = Batch::new(stopped);
    for timer in &process.timers {
        // PR_TIMER_CREATE_RESTORE_IDS: the next timer gets the number that is in its place.
        batch.call("to choose the numbers of timers (Linux 6.16)", libc::SYS_prctl, &[77, 1])?;
        let event = batch.words(&[
            timer.value,
            timer.signal as u32 as u64 | (timer.notify as u64) << 32,
            timer.thread as u64,
            0,
            0,
            0,
            0,
            0,
        ])?;
        let id = batch.words(&[timer.id as u64])?;
        batch.call(
            "to make its timers",
            libc::SYS_timer_create,
            &[timer.clock as u32 as i32 as u64, event, id],
        )?;
        batch.call("to choose the numbers of timers", libc::SYS_prctl, &[77, 0])?;
        let setting = batch.words(&timer.setting.map(|word| word as u64))?;
        batch.call("to set its timers", libc::SYS_timer_settime, &[timer.id as u64, 0, setting, 0])?;
    }
    for (which, timer) in (0_u64..).zip(process.running_itimers()) {
        if timer != [0; 4] {
            let setting = batch.words(&timer.map(|word| word as u64))?;
            batch.call("to set its timers", libc::SYS_setitimer, &[which, setting, 0])?;
        }
    }
    for (number, limit) in (0_u64..).zip(&process.limits) {
        let pair = batch.words(&[limit.soft, limit.hard])?;
        batch.call("to set its limits", libc::SYS_prlimit64, &[0, number, pair, 0])?;
    }
    batch.attempt(libc::SYS_prctl, &[libc::PR_SET_DUMPABLE as u64, process.dumpable.min(1)])?;
    batch.run().map(drop)
}
