//! The state of a stopped thread.

use std::io;

use super::registers::going_on;
use super::stop::FrozenThread;
use crate::error::{Error, Result};
use crate::image::{Credentials, Thread};
use crate::proc::{Status, read_text};
use crate::remote::{self, Batch};

const PR_GET_TID_ADDRESS: u64 = 40;

/// Everything of a thread.
pub fn collect(pid: i32, thread: &FrozenThread) -> Result<Thread> {
    let tid = thread.stopped.tid;
    let mut batch = Batch::new(&thread.stopped);
    let altstack = batch.words(&[0; 3])?;
    batch.call("to ask for its signal stack", libc::SYS_sigaltstack, &[0, altstack])?;
    let address = batch.words(&[0])?;
    batch.call("to ask for its thread word", libc::SYS_prctl, &[PR_GET_TID_ADDRESS, address])?;
    let death = batch.words(&[0])?;
    batch.call("to ask for its death signal", libc::SYS_prctl, &[libc::PR_GET_PDEATHSIG as u64, death])?;
    batch.call("to ask for its timer slack", libc::SYS_prctl, &[libc::PR_GET_TIMERSLACK as u64])?;
    batch.call("to ask for its secure bits", libc::SYS_prctl, &[libc::PR_GET_SECUREBITS as u64])?;
    let results = batch.run()?;
    let word = |address: u64| -> Result<u64> {
        let mut bytes = [0; 8];
        remote::read_exact(tid, address, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    };
    let rseq = remote::get_rseq(tid)?;
    Ok(Thread {
        tid,
        name: read_text(tid, "comm")?.trim_end_matches('\n').to_owned(),
        registers: going_on(pid, &thread.registers, rseq)?.to_vec(),
        xstate: remote::get_xstate(tid)?,
        mask: thread.mask,
        pending: remote::peek_signals(tid, false)?,
        altstack: [word(altstack)?, word(altstack + 8)? & 0xffff_ffff, word(altstack + 16)?],
        robust: robust(tid)?,
        clear_tid: word(address)?,
        rseq,
        schedule: schedule(tid)?,
        affinity: affinity(tid)?,
        parent_death_signal: word(death)? as u32 as i32,
        timer_slack_ns: results[3] as u64,
        credentials: credentials(tid, results[4] as u64)?,
    })
}

fn robust(tid: i32) -> Result<[u64; 2]> {
    let (mut head, mut len) = (0_u64, 0_u64);
    // SAFETY: both outlive the call.
    let done = unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut len) };
    if done < 0 { Err(Error::call(tid, "to ask for its robust list")) } else { Ok([head, len]) }
}

fn schedule(tid: i32) -> Result<[i32; 3]> {
    // SAFETY: `parameters` outlives the calls.
    unsafe {
        let policy = libc::sched_getscheduler(tid);
        let mut parameters: libc::sched_param = std::mem::zeroed();
        if policy < 0 || libc::sched_getparam(tid, &raw mut parameters) < 0 {
            return Err(Error::call(tid, "to ask how it is scheduled"));
        }
        // Raw: 1 to 40 for nice values 19 to -20.
        let raw = libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid);
        Ok([policy, 20 - raw as i32, parameters.sched_priority])
    }
}

fn affinity(tid: i32) -> Result<Vec<u64>> {
    let mut words = vec![0_u64; 128];
    // SAFETY: the buffer is as long as said.
    let len = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, words.len() * 8, words.as_mut_ptr()) };
    let len = usize::try_from(len).map_err(|_| Error::Call {
        pid: tid,
        what: "to ask where it may run".to_owned(),
        source: io::Error::last_os_error(),
    })?;
    words.truncate(len / 8);
    while words.len() > 1 && words.last() == Some(&0) {
        words.pop();
    }
    Ok(words)
}

fn credentials(tid: i32, securebits: u64) -> Result<Credentials> {
    let status = Status::read(tid)?;
    let four = |name| {
        let found = status.numbers(name);
        std::array::from_fn(|at| found.get(at).copied().unwrap_or(0))
    };
    let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| status.radix(name, 16));
    Ok(Credentials {
        uids: four("Uid"),
        gids: four("Gid"),
        groups: status.numbers("Groups"),
        capabilities,
        no_new_privileges: status.number("NoNewPrivs") != 0,
        securebits,
    })
}
