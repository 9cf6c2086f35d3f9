//! The state of a stopped process: what `/proc` says, and what the process says itself.

use std::fs;
use std::mem::size_of;

use super::stop::FrozenProcess;
use super::threads;
use crate::error::{Error, Result};
use crate::image::{Action, Fd, Limit, Mm, PosixTimer, Process, RangeLock, Vma};
use crate::proc::{Status, auxiliary, read_text, stat_words};
use crate::remote::{self, Batch};

const SIGNALS: u64 = 64;

/// Everything but pages.
pub fn collect(
    process: &FrozenProcess,
    vmas: Vec<Vma>,
    (fds, locks): (Vec<Fd>, Vec<RangeLock>),
) -> Result<Process> {
    let pid = process.pid;
    let status = Status::read(pid)?;
    let words = stat_words(pid)?;
    let number = |field: usize| words.get(field - 3).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let said = ask(process)?;
    let mm = Mm {
        bounds: [
            number(26),
            number(27),
            number(45),
            number(46),
            number(47),
            said.brk,
            number(28),
            number(48),
            number(49),
            number(50),
            number(51),
        ],
        auxv: auxiliary(pid)?,
    };
    let all = process.threads.iter().map(|thread| threads::collect(pid, thread)).collect::<Result<_>>()?;
    Ok(Process {
        pid,
        started: number(22),
        parent: number(4) as i32,
        group: number(5) as i32,
        session: number(6) as i32,
        stopped: process.job_stopped,
        exe: link(pid, "exe")?,
        cwd: link(pid, "cwd")?,
        root: link(pid, "root")?,
        umask: status.radix("Umask", 8) as u32,
        personality: said.personality,
        dumpable: said.dumpable,
        subreaper: said.subreaper,
        oom_score_adj: read_text(pid, "oom_score_adj")?.trim().parse().unwrap_or(0),
        limits: limits(pid)?,
        mm,
        vmas,
        pages: Vec::new(),
        lazy: None,
        fds,
        locks,
        actions: said.actions,
        pending: remote::peek_signals(pid, true)?,
        itimers: said.itimers,
        timers: timers(process)?,
        threads: all,
    })
}

fn link(pid: i32, name: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{name}");
    let found = fs::read_link(&path).map_err(|error| Error::file(path, "cannot be read", error))?;
    Ok(found.to_string_lossy().into_owned())
}

/// Limits, in the order of their numbers.
fn limits(pid: i32) -> Result<Vec<Limit>> {
    let text = read_text(pid, "limits")?;
    let number = |word: Option<&str>| match word.unwrap_or_default().trim() {
        "unlimited" => libc::RLIM64_INFINITY,
        other => other.parse().unwrap_or(0),
    };
    // A column of 26 characters for the name, then two of 21.
    let limit = |line: &str| Limit { soft: number(line.get(26..46)), hard: number(line.get(47..67)) };
    Ok(text.lines().skip(1).take(16).map(limit).collect())
}

/// What only the process itself can ask for.
struct Said {
    actions: Vec<Action>,
    itimers: [[i64; 4]; 3],
    brk: u64,
    personality: u64,
    dumpable: u64,
    subreaper: bool,
}

fn ask(process: &FrozenProcess) -> Result<Said> {
    let leader = &process.leader().stopped;
    let mut batch = Batch::new(leader);
    batch.call("to ask for its heap", libc::SYS_brk, &[0])?;
    batch.call("to ask for its personality", libc::SYS_personality, &[0xffff_ffff])?;
    batch.call("to ask whether it is dumpable", libc::SYS_prctl, &[libc::PR_GET_DUMPABLE as u64])?;
    let subreaper = batch.words(&[0])?;
    let arguments = [libc::PR_GET_CHILD_SUBREAPER as u64, subreaper];
    batch.call("to ask whether it is a subreaper", libc::SYS_prctl, &arguments)?;
    let itimers = batch.words(&[0; 12])?;
    for which in 0..3 {
        batch.call("to ask for its timers", libc::SYS_getitimer, &[which, itimers + 32 * which])?;
    }
    let len = size_of::<Action>() as u64;
    let actions = batch.words(&[0; (SIGNALS * 4) as usize])?;
    for signal in 1..=SIGNALS {
        let arguments = [signal, 0, actions + len * (signal - 1), 8];
        batch.call("to ask for its signal handlers", libc::SYS_rt_sigaction, &arguments)?;
    }
    let results = batch.run()?;
    let words = |address: u64, count: usize| -> Result<Vec<u64>> {
        let mut bytes = vec![0; count * 8];
        remote::read_exact(process.pid, address, &mut bytes)?;
        Ok(bytes.chunks(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect())
    };
    let mut found = words(actions, (SIGNALS * 4) as usize)?;
    if let Some(trap) = process.trap {
        let at = (libc::SIGTRAP as usize - 1) * 4;
        found[at..at + 4].copy_from_slice(&trap);
    }
    let actions = found.chunks(4);
    let times = words(itimers, 12)?;
    Ok(Said {
        actions: actions
            .map(|four| Action { handler: four[0], flags: four[1], restorer: four[2], mask: four[3] })
            .collect(),
        itimers: std::array::from_fn(|which| std::array::from_fn(|word| times[which * 4 + word] as i64)),
        brk: results[0] as u64,
        personality: results[1] as u64,
        dumpable: results[2] as u64,
        subreaper: words(subreaper, 1)?[0] as u32 != 0,
    })
}

fn timers(process: &FrozenProcess) -> Result<Vec<PosixTimer>> {
    let text = read_text(process.pid, "timers").unwrap_or_default();
    let mut found: Vec<PosixTimer> = Vec::new();
    for line in text.lines() {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        if name == "ID" {
            let id = value.trim().parse().unwrap_or(0);
            found.push(PosixTimer {
                id,
                clock: 0,
                notify: 0,
                signal: 0,
                value: 0,
                thread: 0,
                setting: [0; 4],
            });
            continue;
        }
        let Some(timer) = found.last_mut() else { continue };
        match name {
            "signal" => {
                let (signal, value) = value.split_once('/').unwrap_or((value, "0"));
                timer.signal = signal.trim().parse().unwrap_or(0);
                timer.value = u64::from_str_radix(value.trim_start_matches("0x"), 16).unwrap_or(0);
            }
            "notify" => {
                let (how, whom) = value.split_once('/').unwrap_or((value, ""));
                timer.notify = if how == "none" { libc::SIGEV_NONE } else { libc::SIGEV_SIGNAL };
                if let Some(tid) = whom.strip_prefix("tid.") {
                    timer.notify = libc::SIGEV_THREAD_ID;
                    timer.thread = tid.trim().parse().unwrap_or(0);
                }
            }
            "ClockID" => timer.clock = value.trim().parse().unwrap_or(0),
            _ => {}
        }
    }
    for timer in &mut found {
        let mut batch = Batch::new(&process.leader().stopped);
        let at = batch.words(&[0; 4])?;
        batch.call("to ask for its timers", libc::SYS_timer_gettime, &[timer.id as u64, at])?;
        batch.run()?;
        let mut bytes = [0; 32];
        remote::read_exact(process.pid, at, &mut bytes)?;
        for (word, value) in bytes.chunks(8).zip(&mut timer.setting) {
            *value = word.try_into().map_or(0, i64::from_ne_bytes);
        }
    }
    Ok(found)
}
