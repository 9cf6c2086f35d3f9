//! Stopping all threads of all processes of a tree, and letting them go as if nothing had been.

use crate::error::{Error, Result};
use crate::inspect::{has_ended, tree};
use crate::proc::{Status, mapping_named, threads};
use crate::remote::{
    self, Batch, CODE, CONTEXT, Guard, RECORD, RECORDS, RegisterSet, Registers, SCRATCH,
    SIGNALS_DURING_CALLS, Stopped, kill_points,
};

/// Where in scratch memory signal actions lie that are set by guarded calls.
const ACTION: u64 = RECORDS / 2;

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

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
    /// What it does on SIGTRAP, as the kernel has it, once ours is in place.
    pub trap: Option<[u64; 4]>,
}

/// A stopped tree. Dropped, it goes on.
#[derive(Debug)]
pub struct Frozen {
    /// The processes, the root first.
    pub processes: Vec<FrozenProcess>,
    /// Threads that are traced but not yet stopped properly.
    loose: Vec<i32>,
    /// Whether job control is to keep it stopped once we let go.
    held: bool,
}

/// Stops the tree of `root`.
///
/// # Errors
/// If a process is gone, or may not be traced. What had been stopped goes on.
pub fn freeze(root: i32) -> Result<Frozen> {
    let mut frozen = Frozen { processes: Vec::new(), loose: Vec::new(), held: false };
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
                    trap: None,
                });
                self.processes.len() - 1
            }
        };
        let mut fresh = false;
        let known = &self.processes[place].threads;
        let mut tids = threads(pid)?;
        tids.retain(|tid| known.iter().all(|thread| thread.stopped.tid != *tid));
        // All are asked before the first one is waited for.
        let asked: Vec<_> = tids.into_iter().map(|tid| (tid, self.ask(tid))).collect();
        for (tid, asked) in asked {
            match asked.and_then(|()| self.stop_thread(tid)) {
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
                Err(Error::NotAllowed { .. }) if has_ended(tid) => {
                    let what = "ended, and its parent has not asked for its status".to_owned();
                    return Err(Error::Changed { pid, what });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(fresh)
    }

    fn ask(&mut self, tid: i32) -> Result<()> {
        remote::seize(tid)?;
        self.loose.push(tid);
        remote::interrupt(tid).map_err(|_| Error::NoProcess(tid))
    }

    fn stop_thread(&mut self, tid: i32) -> Result<(FrozenThread, bool)> {
        let by_job = wait_for_stop(tid)?;
        let registers = remote::get_registers(tid)?;
        let mask = remote::get_mask(tid)?;
        let stopped = Stopped { tid, registers, instruction: 0, scratch: 0, record: 0 };
        self.loose.retain(|one| *one != tid);
        Ok((FrozenThread { stopped, registers, mask }, by_job))
    }

    /// Makes the tree go on by itself if we are killed, as it does from here on until the next call on its behalf: a handler
    /// of SIGTRAP and scratch memory are all that is left of us then.
    ///
    /// # Errors
    /// If a thread is gone.
    pub fn park(&mut self) -> Result<()> {
        self.processes.iter().try_for_each(FrozenProcess::park)
    }

    /// The same, but the tree stays stopped if we are killed (as by SIGSTOP).
    pub fn hold(&mut self) {
        self.held = true;
        for process in &self.processes {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(process.pid, libc::SIGSTOP) };
            kill_points::changed();
        }
    }

    /// Takes [`Frozen::hold`] back.
    pub fn unhold(&mut self) {
        if std::mem::take(&mut self.held) {
            for process in self.processes.iter().filter(|process| !process.job_stopped) {
                // SAFETY: no memory is involved.
                unsafe { libc::kill(process.pid, libc::SIGCONT) };
                kill_points::changed();
            }
        }
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

impl FrozenThread {
    /// Begins to give it its registers and mask back, in a stop that delivers no signal if we are killed in it;
    /// [`FrozenThread::has_stood`] ends it.
    fn begin_to_stand(&self) -> Result<()> {
        let tid = self.stopped.tid;
        if self.stopped.record != 0 {
            self.stopped.wait_in_scratch()?;
        }
        remote::interrupt(tid)?;
        remote::cont(tid, false, 0)
    }

    /// Both, of a thread whose registers are safe from our end as they are.
    fn stand(&self) -> Result<()> {
        let tid = self.stopped.tid;
        remote::interrupt(tid)?;
        remote::cont(tid, false, 0)?;
        self.has_stood()
    }

    /// The mask comes before the registers: whoever has those goes on for good.
    fn has_stood(&self) -> Result<()> {
        let tid = self.stopped.tid;
        wait_for_stop(tid)?;
        remote::set_mask(tid, self.mask)?;
        remote::set_registers(tid, &self.registers)
    }

    /// The registers with which it goes on by a signal frame.
    fn going_on(&self, pid: i32) -> Result<RegisterSet> {
        super::registers::going_on(pid, &self.registers, remote::get_rseq(self.stopped.tid)?)
    }

    /// Guards it while it makes calls.
    fn guard(&self, pid: i32) -> Result<Guard> {
        Guard::set(&self.stopped, &self.going_on(pid)?, self.mask)
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
        let Some(vdso) = mapping_named(pid, "[vdso]")? else {
            return Err(Error::Unfit(format!("process {pid} has no vDSO")));
        };
        let instruction = remote::syscall_instruction(pid, vdso.start, vdso.end)?;
        for thread in &mut self.threads {
            // 0x33: 64-bit code.
            if thread.registers[Registers::CS] != 0x33 {
                return Err(Error::Unfit(format!("process {pid} runs 32-bit code")));
            }
            thread.stopped.instruction = instruction;
        }
        let records = self.records()?;
        let guard = self.threads[0].guard(pid)?;
        let taken = self.take_scratch(&guard, &records).and_then(|()| {
            // From here on the records help.
            self.threads[0].stopped.wait_in_scratch()
        });
        if taken.is_err() {
            let _ = self.threads[0].stand();
        }
        guard.end();
        taken
    }

    /// Scratch memory with code and records, and a handler of SIGTRAP by which threads go on from their
    /// records: if we are killed, the kernel delivers the trap in which a thread of ours then stands.
    fn take_scratch(&mut self, guard: &Guard, records: &[u8]) -> Result<()> {
        let map = |more: i32| {
            let protection = (libc::PROT_READ | libc::PROT_WRITE | more) as u64;
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
            let arguments = [0, SCRATCH, protection, flags, u64::MAX, 0];
            guard.call("to get scratch memory", libc::SYS_mmap, &arguments)
        };
        let (scratch, executable) =
            map(libc::PROT_EXEC).map(|at| (at, true)).or_else(|_| map(0).map(|at| (at, false)))?;
        for thread in &mut self.threads {
            thread.stopped.scratch = scratch;
        }
        Batch::write_code(&self.threads[0].stopped)?;
        if !executable {
            let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
            guard.call("to prepare calls", libc::SYS_mprotect, &[scratch, CODE, protection])?;
        }
        remote::write(self.pid, scratch + RECORDS, records)?;
        // On the signal stack where there is one: a program of small stacks between other things (Go) counts
        // on it.
        let flags = (libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK | 0x0400_0000) as u64;
        let handler = scratch + remote::lost_handler();
        let (new, old) = (scratch + ACTION, scratch + ACTION + 32);
        remote::write(self.pid, new, &bytes_of(&[handler, flags, handler, 0]))?;
        guard.call("to have a handler", libc::SYS_rt_sigaction, &[libc::SIGTRAP as u64, new, old, 8])?;
        let mut bytes = [0; 32];
        remote::read_exact(self.pid, old, &mut bytes)?;
        let word = |index: usize| bytes[index * 8..index * 8 + 8].try_into().map_or(0, u64::from_ne_bytes);
        let first = if self.ignores_trap { 1 } else { word(0) };
        self.trap = Some([first, word(1), word(2), word(3)]);
        for (thread, at) in self.threads.iter_mut().zip((RECORDS..SCRATCH - RECORD).step_by(RECORD as usize))
        {
            thread.stopped.record = scratch + at;
        }
        Ok(())
    }

    /// How each thread goes on, in the order of `ucontext_t`; then its mask.
    fn records(&self) -> Result<Vec<u8>> {
        let mut records = Vec::new();
        for thread in self.threads.iter().take(((SCRATCH - RECORDS) / RECORD) as usize - 1) {
            let set = thread.going_on(self.pid)?;
            let words: Vec<u64> = CONTEXT.iter().map(|place| set[*place]).chain([thread.mask, 0]).collect();
            records.extend(bytes_of(&words));
        }
        Ok(records)
    }

    /// Registers and masks as they were, in stops that deliver nothing if we are killed.
    fn park(&self) -> Result<()> {
        // All begin before the first one is waited for. One thread that is gone must not keep the others from
        // going on.
        let begun: Vec<_> = self.threads.iter().map(FrozenThread::begin_to_stand).collect();
        let all = self.threads.iter().zip(begun);
        all.map(|(thread, begun)| begun.and_then(|()| thread.has_stood())).fold(Ok(()), Result::and)
    }

    /// Gives back what was taken. What cannot be given back without danger (a handler, scratch memory) stays.
    fn restore(&self) -> Result<()> {
        let stood = self.park();
        if let Some(leader) = self.threads.first().filter(|leader| leader.stopped.scratch != 0) {
            let guard = leader.guard(self.pid)?;
            let _ = self.give_back(&guard, leader.stopped.scratch);
            leader.stand()?;
            guard.end();
        }
        stood
    }

    fn give_back(&self, guard: &Guard, scratch: u64) -> Result<()> {
        if let Some(trap) = self.trap {
            let at = scratch + ACTION;
            remote::write(self.pid, at, &bytes_of(&trap))?;
            guard.call(
                "to give back a handler",
                libc::SYS_rt_sigaction,
                &[libc::SIGTRAP as u64, at, 0, 8],
            )?;
        }
        guard.call("to give back scratch memory", libc::SYS_munmap, &[scratch, SCRATCH]).map(drop)
    }

    fn let_go(&self) {
        for thread in &self.threads {
            let _ = remote::detach(thread.stopped.tid, 0);
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for process in &self.processes {
            let _ = process.restore();
            process.let_go();
        }
        for tid in &self.loose {
            let _ = wait_for_stop(*tid).and_then(|_| remote::detach(*tid, 0));
        }
    }
}
