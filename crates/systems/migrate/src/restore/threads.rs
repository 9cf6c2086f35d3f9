//! Threads of a restored process.

use crate::error::Result;
use crate::image::{Signal, Thread};
use crate::remote::{self, Batch, RegisterSet, Stopped};

/// Forgets what the copy of our own process had registered with the kernel.
///
/// # Errors
/// If the kernel does not let it.
pub fn forget(stopped: &Stopped) -> Result<()> {
    if let Some(rseq) = remote::get_rseq(stopped.tid)? {
        let arguments = [rseq.address, u64::from(rseq.len), 1, u64::from(rseq.signature)];
        stopped.call("to forget an rseq area", libc::SYS_rseq, &arguments)?;
    }
    stopped.call("to forget a robust list", libc::SYS_set_robust_list, &[0, 24])?;
    stopped.call("to forget a thread word", libc::SYS_set_tid_address, &[0]).map(drop)
}

/// Makes `stopped` the thread of the image, all but its registers and its mask.
///
/// # Errors
/// If the kernel does not let it.
pub fn restore(stopped: &Stopped, thread: &Thread) -> Result<()> {
    let mut batch = Batch::new(stopped);
    if thread.robust[0] != 0 {
        batch.call("to register its robust list", libc::SYS_set_robust_list, &thread.robust)?;
    }
    batch.call("to register its thread word", libc::SYS_set_tid_address, &[thread.clear_tid])?;
    if let Some(rseq) = thread.rseq {
        let arguments = [rseq.address, u64::from(rseq.len), 0, u64::from(rseq.signature)];
        batch.call("to register its rseq area", libc::SYS_rseq, &arguments)?;
    }
    // A thread that runs on its signal stack cannot say so: the flag is the kernel's.
    let [address, flags, len] = thread.altstack;
    let stack = batch.words(&[address, flags & !1, len])?;
    batch.call("to set its signal stack", libc::SYS_sigaltstack, &[stack, 0])?;
    let name = batch.text(&thread.name)?;
    batch.attempt(libc::SYS_prctl, &[libc::PR_SET_NAME as u64, name])?;
    batch.attempt(libc::SYS_prctl, &[libc::PR_SET_TIMERSLACK as u64, thread.timer_slack_ns])?;
    let [policy, nice, priority] = thread.schedule;
    batch.attempt(libc::SYS_setpriority, &[libc::PRIO_PROCESS as u64, 0, nice as u64])?;
    let parameters = batch.words(&[priority as u64])?;
    batch.attempt(libc::SYS_sched_setscheduler, &[0, policy as u64, parameters])?;
    let affinity = batch.words(&thread.affinity)?;
    batch.attempt(libc::SYS_sched_setaffinity, &[0, thread.affinity.len() as u64 * 8, affinity])?;
    credentials(&mut batch, thread)?;
    batch.run().map(drop)
}

fn credentials(batch: &mut Batch<'_>, thread: &Thread) -> Result<()> {
    let who = &thread.credentials;
    let what = "to become its user";
    let groups: Vec<u8> = who.groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
    let list = batch.bytes(&groups)?;
    // SAFETY: no memory is involved.
    let privileged = unsafe { libc::geteuid() } == 0;
    if privileged {
        batch.call(what, libc::SYS_setgroups, &[who.groups.len() as u64, list])?;
        for bit in (0..64).filter(|bit| who.capabilities[3] >> bit & 1 == 0) {
            batch.attempt(libc::SYS_prctl, &[libc::PR_CAPBSET_DROP as u64, bit])?;
        }
        batch.attempt(libc::SYS_prctl, &[libc::PR_SET_KEEPCAPS as u64, 1])?;
    }
    batch.call(what, libc::SYS_setresgid, &[who.gids[0].into(), who.gids[1].into(), who.gids[2].into()])?;
    batch.call(what, libc::SYS_setfsgid, &[who.gids[3].into()])?;
    batch.call(what, libc::SYS_setresuid, &[who.uids[0].into(), who.uids[1].into(), who.uids[2].into()])?;
    batch.call(what, libc::SYS_setfsuid, &[who.uids[3].into()])?;
    if privileged {
        // Version 3: effective, permitted, inheritable, low halves before high ones.
        let [inheritable, permitted, effective, ..] = who.capabilities;
        let halves = |shift: u32| [effective, permitted, inheritable].map(|set| (set >> shift) as u32);
        let words: Vec<u8> = halves(0).into_iter().chain(halves(32)).flat_map(u32::to_ne_bytes).collect();
        let head = batch.words(&[0x2008_0522])?;
        let data = batch.bytes(&words)?;
        batch.attempt(libc::SYS_prctl, &[libc::PR_SET_SECUREBITS as u64, who.securebits])?;
        batch.call("to set its capabilities", libc::SYS_capset, &[head, data])?;
    }
    if who.no_new_privileges {
        batch.call(what, libc::SYS_prctl, &[libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0])?;
    }
    if thread.parent_death_signal != 0 {
        batch
            .attempt(libc::SYS_prctl, &[libc::PR_SET_PDEATHSIG as u64, thread.parent_death_signal as u64])?;
    }
    Ok(())
}

/// Queues signals again.
///
/// # Errors
/// If the kernel does not let it.
pub fn signals(stopped: &Stopped, pid: i32, signals: &[Signal], shared: bool) -> Result<()> {
    let mut batch = Batch::new(stopped);
    for signal in signals {
        let number = signal.info.first().copied().unwrap_or(0).into();
        let info = batch.bytes(&signal.info)?;
        if shared {
            batch.attempt(libc::SYS_rt_sigqueueinfo, &[pid as u64, number, info])?;
        } else {
            batch.attempt(libc::SYS_rt_tgsigqueueinfo, &[pid as u64, stopped.tid as u64, number, info])?;
        }
    }
    batch.run().map(drop)
}

/// Sets registers and mask: the last thing, nothing is called on its behalf afterwards.
///
/// # Errors
/// If the processor lacks what the state needs.
pub fn registers(stopped: &Stopped, thread: &Thread) -> Result<()> {
    let mut set: RegisterSet = [0; 27];
    for (word, value) in set.iter_mut().zip(&thread.registers) {
        *word = *value;
    }
    remote::set_xstate(stopped.tid, &thread.xstate)?;
    remote::set_registers(stopped.tid, &set)?;
    remote::set_mask(stopped.tid, thread.mask)
}
