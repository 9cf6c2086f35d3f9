//! Stopping all threads of all processes of a tree, and letting them go as if nothing had been.

use crate::error::{Error, Result};
use crate::inspect::tree;
use crate::proc::{Status, mappings, threads};
use crate::remote::{self, Batch, RegisterSet, Registers, SCRATCH, SIGNALS_DURING_CALLS, Stopped};

/// A thread that we stopped.
#[derive(Clone, Copy, Debug)]
pub struct FrozenThread {
    /// As what it makes calls for us.
    pub stopped: Stopped,
    /// Its registers when it was stopped.
    pub registers: RegisterSet,
    /// Its blocked signals.
    pub mask: u64,
}

/// A process whose threads we all stopped.
#[derive(Clone, Debug)]
pub struct FrozenProcess {
    /// Its number.
    pub pid: i32,
    /// Its threads; the first has the process's number.
    pub threads: Vec<FrozenThread>,
    /// Whether job control had stopped it before.
    pub job_stopped: bool,
    /// Whether it ignores SIGTRAP, which our stops may reset.
    pub ignores_trap: bool,
}

/// A stopped tree. Dropped, it goes on.
#[derive(Debug)]
pub struct Frozen {
    /// The processes, the root first.
    pub processes: Vec<FrozenProcess>,
    /// Threads that are traced but not yet stopped properly.
    loose: Vec<i32>,
}

/// Stops the tree of `root`.
///
/// # Errors
/// If a process is gone, or may not be traced. What had been stopped goes on.
pub fn freeze(root: i32) -> Result<Frozen> {
    let mut frozen = Frozen { processes: Vec::new(), loose: Vec::new() };
    loop {
        let mut fresh = false;
        for pid in tree(root)? {
            fresh |= frozen.stop_process(pid, pid == root)?;
        }
        if !fresh {
            break;
        }
    }
    for process in &mut frozen.processes {
        process.prepare()?;
    }
    Ok(frozen)
}

impl Frozen {
    /// Stops the threads of `pid` that still run. Whether there were any.
    fn stop_process(&mut self, pid: i32, is_root: bool) -> Result<bool> {
        let place = match self.processes.iter().position(|process| process.pid == pid) {
            Some(place) => place,
            None => {
                let ignored = Status::read(pid).map_or(0, |status| status.radix("SigIgn", 16));
                let ignores_trap = ignored & !SIGNALS_DURING_CALLS != 0;
                self.processes.push(FrozenProcess {
                    pid,
                    threads: Vec::new(),
                    job_stopped: false,
                    ignores_trap,
                });
                self.processes.len() - 1
            }
        };
        let mut fresh = false;
        for tid in threads(pid)? {
            if self.processes[place].threads.iter().any(|thread| thread.stopped.tid == tid) {
                continue;
            }
            match self.stop_thread(tid) {
                Ok((thread, by_job)) => {
                    fresh = true;
                    self.processes[place].threads.push(thread);
                    self.processes[place].job_stopped |= by_job;
                }
                // A thread may end meanwhile; the process as such may not.
                Err(Error::NoProcess(_) | Error::Changed { .. }) if tid != pid => fresh = true,
                Err(Error::NoProcess(_)) if is_root => {
                    return Err(Error::Changed { pid, what: "ended".to_owned() });
                }
                Err(Error::NoProcess(_) | Error::Changed { .. }) if !is_root => {
                    self.processes.remove(place);
                    return Ok(true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(fresh)
    }

    fn stop_thread(&mut self, tid: i32) -> Result<(FrozenThread, bool)> {
        remote::seize(tid)?;
        self.loose.push(tid);
        remote::interrupt(tid).map_err(|_| Error::NoProcess(tid))?;
        let by_job = wait_for_stop(tid)?;
        let registers = remote::get_registers(tid)?;
        let mask = remote::get_mask(tid)?;
        let stopped = Stopped { tid, registers, instruction: 0, scratch: 0 };
        self.loose.retain(|one| *one != tid);
        Ok((FrozenThread { stopped, registers, mask }, by_job))
    }

    /// Ends all processes of the tree.
    pub fn kill(mut self) {
        for process in self.processes.drain(..) {
            remote::kill(process.pid);
            for thread in process.threads.iter().rev() {
                while remote::wait(thread.stopped.tid).is_ok_and(|status| libc::WIFSTOPPED(status)) {}
            }
        }
    }
}

/// Waits for the stop that was asked for; signals that come first are delivered. Whether job control has it stopped.
fn wait_for_stop(tid: i32) -> Result<bool> {
    const PTRACE_EVENT_STOP: i32 = 128;
    loop {
        let status = remote::wait(tid)?;
        if !libc::WIFSTOPPED(status) {
            return Err(Error::NoProcess(tid));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            PTRACE_EVENT_STOP => return Ok(signal != libc::SIGTRAP),
            0 => remote::cont(tid, false, signal)?,
            _ => remote::cont(tid, false, 0)?,
        }
    }
}

impl FrozenProcess {
    /// The first thread.
    #[must_use]
    pub fn leader(&self) -> &FrozenThread {
        &self.threads[0]
    }

    /// Blocks signals, and finds and gets what calls need.
    fn prepare(&mut self) -> Result<()> {
        let pid = self.pid;
        if self.threads.first().is_none_or(|thread| thread.stopped.tid != pid) {
            return Err(Error::Changed { pid, what: "lost its first thread".to_owned() });
        }
        let all = mappings(pid)?;
        let Some(vdso) = all.iter().find(|mapping| mapping.name == "[vdso]") else {
            return Err(Error::Unfit(format!("process {pid} has no vDSO")));
        };
        let instruction = remote::syscall_instruction(pid, vdso.start, vdso.end)?;
        for thread in &mut self.threads {
            // 0x33: 64-bit code.
            if thread.registers[Registers::CS] != 0x33 {
                return Err(Error::Unfit(format!("process {pid} runs 32-bit code")));
            }
            remote::set_mask(thread.stopped.tid, SIGNALS_DURING_CALLS)?;
            thread.stopped.instruction = instruction;
        }
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let leader = self.threads[0].stopped;
        let arguments = [0, SCRATCH, protection, flags, u64::MAX, 0];
        let scratch = leader.call("to get scratch memory", libc::SYS_mmap, &arguments)?;
        for thread in &mut self.threads {
            thread.stopped.scratch = scratch;
        }
        Batch::install(&self.threads[0].stopped)
    }

    /// Gives back what was taken, and lets it go.
    fn release(&self) {
        if let Some(leader) = self.threads.first().map(|thread| thread.stopped)
            && leader.scratch != 0
        {
            if self.ignores_trap {
                let action: Vec<u8> = [1_u64, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
                let at = leader.scratch + SCRATCH / 2;
                let arguments = [libc::SIGTRAP as u64, at, 0, 8];
                let _ = remote::write(self.pid, at, &action)
                    .and_then(|()| leader.raw(libc::SYS_rt_sigaction, &arguments).map(drop));
            }
            let _ = leader.raw(libc::SYS_munmap, &[leader.scratch, SCRATCH]);
        }
        for thread in &self.threads {
            let tid = thread.stopped.tid;
            let _ = remote::set_registers(tid, &thread.registers);
            let _ = remote::set_mask(tid, thread.mask);
            let _ = remote::detach(tid, 0);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.processes {
            process.release();
        }
        for tid in &self.loose {
            let _ = wait_for_stop(*tid).and_then(|_| remote::detach(*tid, 0));
        }
    }
}
