//! A stopped thread that executes system calls for us, by stepping over a `syscall` instruction of the vDSO: nothing in
//! its memory changes.

use std::io;

use super::ptrace::{self, RegisterSet, Registers};
use super::{Batch, memory, wait};
use crate::error::{Error, Result};

/// Bytes of scratch memory that a process lends to batches of calls.
pub const SCRATCH: u64 = 512 << 10;
/// Where in it the records for a lost tracer lie.
pub const RECORDS: u64 = 256 << 10;
/// Bytes of a record.
pub const RECORD: u64 = 160;

/// A stopped thread.
#[derive(Clone, Copy, Debug)]
pub struct Stopped {
    /// The thread.
    pub tid: i32,
    /// The registers with which calls are made; those of the thread at its stop are kept by whoever stopped it.
    pub registers: RegisterSet,
    /// A `syscall` instruction in its memory.
    pub instruction: u64,
    /// Scratch memory of [`SCRATCH`] bytes, 0 until there is some.
    pub scratch: u64,
    /// Where its registers and mask are written down in case that we are killed, 0 if they are not.
    pub record: u64,
}

/// Finds a `syscall` instruction in a range of memory (the vDSO) of process `pid`.
///
/// # Errors
/// If there is none.
pub fn syscall_instruction(pid: i32, start: u64, end: u64) -> Result<u64> {
    let mut bytes = vec![0; (end - start) as usize];
    memory::read_exact(pid, start, &mut bytes)?;
    match bytes.windows(2).position(|pair| pair == [0x0f, 0x05]) {
        Some(at) => Ok(start + at as u64),
        None => Err(Error::Unfit(format!("the vDSO of process {pid} has no system call instruction"))),
    }
}

impl Stopped {
    /// The registers of a call: result of `self.registers` with the call's.
    pub(super) fn prepared(&self, number: i64, arguments: &[u64]) -> RegisterSet {
        let mut set = self.registers;
        let places =
            [Registers::RDI, Registers::RSI, Registers::RDX, Registers::R10, Registers::R8, Registers::R9];
        for place in places {
            set[place] = 0;
        }
        for (place, argument) in places.iter().zip(arguments) {
            set[*place] = *argument;
        }
        set[Registers::RAX] = number as u64;
        set[Registers::RIP] = self.instruction;
        set[Registers::R12] = self.record;
        set[Registers::ORIG_RAX] = u64::MAX;
        // No direction flag, no single step.
        set[Registers::EFLAGS] = 0x202;
        set
    }

    /// Has it execute a system call: what the kernel returned, negative for an error. A thread with a record
    /// goes on from there if we are killed meanwhile; another one is lost.
    ///
    /// # Errors
    /// If the thread ended instead.
    pub fn raw(&self, number: i64, arguments: &[u64]) -> Result<i64> {
        if self.record != 0 {
            let mut batch = Batch::new(self);
            batch.attempt(number, arguments)?;
            return Ok(batch.run()?.first().copied().unwrap_or(0));
        }
        ptrace::set_registers(self.tid, &self.prepared(number, arguments))?;
        self.until_trap(true)?;
        Ok(ptrace::get_registers(self.tid)?[Registers::RAX] as i64)
    }

    /// Has it execute a system call that must not fail.
    ///
    /// # Errors
    /// If it fails.
    pub fn call(&self, what: &str, number: i64, arguments: &[u64]) -> Result<u64> {
        let result = self.raw(number, arguments)?;
        if (-4095..0).contains(&result) {
            let source = io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Call { pid: self.tid, what: what.to_owned(), source });
        }
        Ok(result as u64)
    }

    /// Has it run at `address` until it traps, with `argument` in rbx.
    ///
    /// # Errors
    /// If it ended or faulted instead.
    pub fn run(&self, address: u64, argument: u64) -> Result<()> {
        self.start(address, argument)?;
        self.until_trap(false)
    }

    /// The same; `between` gets the result of the first system call made there, before the next one.
    ///
    /// # Errors
    /// As [`Stopped::run`], and those of `between`.
    pub fn run_between(
        &self,
        address: u64,
        argument: u64,
        between: &mut dyn FnMut(i64) -> Result<()>,
    ) -> Result<()> {
        self.start(address, argument)?;
        ptrace::set_options(self.tid, libc::PTRACE_O_TRACESYSGOOD)?;
        // Its entry, and its end.
        for _ in 0..2 {
            ptrace::cont_to_call(self.tid)?;
            let status = wait(self.tid)?;
            if !libc::WIFSTOPPED(status) || libc::WSTOPSIG(status) != libc::SIGTRAP | 0x80 {
                return Err(Error::Changed { pid: self.tid, what: "did not make a call".to_owned() });
            }
        }
        let done = between(ptrace::get_registers(self.tid)?[Registers::RAX] as i64);
        self.until_trap(false)?;
        done
    }

    fn start(&self, address: u64, argument: u64) -> Result<()> {
        let mut set = self.prepared(0, &[]);
        set[Registers::RIP] = address;
        set[Registers::RBX] = argument;
        if self.record != 0 {
            // Its own registers must not go on with our mask, nor ours with one of its own that blocks the
            // trap.
            self.wait_in_scratch()?;
        }
        ptrace::set_mask(self.tid, ptrace::SIGNALS_DURING_CALLS)?;
        ptrace::set_registers(self.tid, &set)
    }

    /// Its registers so that it goes on from its record if we are killed, whatever its mask then is.
    ///
    /// # Errors
    /// If it is gone.
    pub fn wait_in_scratch(&self) -> Result<()> {
        let mut set = self.prepared(0, &[]);
        set[Registers::RIP] = self.scratch + super::wait_handler();
        ptrace::set_registers(self.tid, &set)
    }

    fn until_trap(&self, step: bool) -> Result<()> {
        loop {
            ptrace::cont(self.tid, step, 0)?;
            let status = wait(self.tid)?;
            if !libc::WIFSTOPPED(status) {
                return Err(Error::Changed { pid: self.tid, what: "ended".to_owned() });
            }
            match (libc::WSTOPSIG(status), status >> 16) {
                (libc::SIGTRAP, 0) => return Ok(()),
                // A child or a thread was made, or the thread was asked to stop meanwhile.
                (libc::SIGTRAP | libc::SIGSTOP, _) => {}
                (signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL), _) => {
                    let source = io::Error::other(format!("signal {signal}"));
                    let what = "calls on its behalf".to_owned();
                    return Err(Error::Call { pid: self.tid, what, source });
                }
                _ => {}
            }
        }
    }
}
