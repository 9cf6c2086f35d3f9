//! Many system calls for one stop: a few instructions in the process's scratch memory go through a table of calls.

use std::io;

use super::{Stopped, memory};
use crate::error::{Error, Result};

/// A call in the table: number, six arguments, result.
const ENTRY: usize = 64;
/// Where in scratch memory the table of calls begins, behind the instructions.
pub const CODE: u64 = 4096;
const CALLS_MAX: usize = 512;
const DATA: u64 = CODE + (CALLS_MAX * ENTRY) as u64;

std::arch::global_asm!(
    ".pushsection .rodata.migrate_batch,\"a\"",
    ".globl migrate_batch_start",
    "migrate_batch_start:",
    "mov rax, [rbx]",
    "cmp rax, -1",
    "je 2f",
    "mov rdi, [rbx + 8]",
    "mov rsi, [rbx + 16]",
    "mov rdx, [rbx + 24]",
    "mov r10, [rbx + 32]",
    "mov r8, [rbx + 40]",
    "mov r9, [rbx + 48]",
    "syscall",
    "mov [rbx + 56], rax",
    "add rbx, 64",
    "jmp migrate_batch_start",
    "2: int3",
    "nop",
    // Where a thread stands that does nothing: if its tracer is killed, it lets SIGTRAP come, whatever its
    // mask, and traps.
    ".globl migrate_batch_wait",
    "migrate_batch_wait:",
    "mov eax, 14",
    "mov edi, 1",
    "lea rsi, [rip + 4f]",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "int3",
    "nop",
    ".balign 8",
    "4: .quad 16",
    // A handler of SIGTRAP, for a process whose tracer was killed while it made calls: r12 of the context that it gets
    // points to the registers, in the order of `ucontext_t`, and the mask with which the thread is to go on.
    ".globl migrate_batch_lost",
    "migrate_batch_lost:",
    "mov rsi, [rdx + 72]",
    "test rsi, rsi",
    "je 3f",
    "lea rdi, [rdx + 40]",
    "mov ecx, 18",
    "cld",
    "rep movsq",
    "mov rax, [rsi]",
    "mov [rdx + 296], rax",
    "3: mov rsp, rdx",
    "mov eax, 15",
    "syscall",
    ".globl migrate_batch_end",
    "migrate_batch_end:",
    ".popsection",
);

unsafe extern "C" {
    static migrate_batch_start: u8;
    static migrate_batch_wait: u8;
    static migrate_batch_lost: u8;
    static migrate_batch_end: u8;
}

/// The instructions: rbx points to the table, whose end is a call with number -1.
fn code() -> &'static [u8] {
    // SAFETY: both labels stand in the same read-only section, one behind the other.
    unsafe {
        let start = &raw const migrate_batch_start;
        std::slice::from_raw_parts(start, (&raw const migrate_batch_end).offset_from_unsigned(start))
    }
}

/// Where in scratch memory the handler of SIGTRAP is that lets a thread go on without its tracer.
#[must_use]
pub fn lost_handler() -> u64 {
    // SAFETY: both labels stand in the same section.
    unsafe { (&raw const migrate_batch_lost).offset_from_unsigned(&raw const migrate_batch_start) as u64 }
}

/// Where in scratch memory a thread with a record waits.
#[must_use]
pub fn wait_handler() -> u64 {
    // SAFETY: both labels stand in the same section.
    unsafe { (&raw const migrate_batch_wait).offset_from_unsigned(&raw const migrate_batch_start) as u64 }
}

struct Call {
    what: String,
    words: [u64; 7],
    may_fail: bool,
}

/// System calls to be made by one thread, with their data.
pub struct Batch<'a> {
    thread: &'a Stopped,
    calls: Vec<Call>,
    data: Vec<u8>,
    results: Vec<i64>,
}

impl<'a> Batch<'a> {
    /// Writes the instructions into the scratch memory of `thread`'s process, which may be executed, once for all its
    /// batches.
    ///
    /// # Errors
    /// If that fails.
    pub fn write_code(thread: &Stopped) -> Result<()> {
        memory::write(thread.tid, thread.scratch, code())
    }

    /// The same into scratch memory that may not be executed yet.
    ///
    /// # Errors
    /// If that fails.
    pub fn install(thread: &Stopped) -> Result<()> {
        Self::write_code(thread)?;
        let protection = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        thread.call("to prepare calls", libc::SYS_mprotect, &[thread.scratch, CODE, protection]).map(drop)
    }

    /// An empty batch. There is one per process at a time.
    #[must_use]
    pub fn new(thread: &'a Stopped) -> Self {
        Self { thread, calls: Vec::new(), data: Vec::new(), results: Vec::new() }
    }

    /// Puts `bytes` into the scratch memory, for the next call: their address there.
    ///
    /// # Errors
    /// If they are too long.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<u64> {
        self.data.resize(self.data.len().next_multiple_of(16), 0);
        if DATA as usize + self.data.len() + bytes.len() > super::RECORDS as usize {
            let source = io::Error::from_raw_os_error(libc::E2BIG);
            return Err(Error::Call { pid: self.thread.tid, what: "calls on its behalf".to_owned(), source });
        }
        let address = self.thread.scratch + DATA + self.data.len() as u64;
        self.data.extend_from_slice(bytes);
        Ok(address)
    }

    /// Puts a path or a name, with its final zero.
    ///
    /// # Errors
    /// As [`Batch::bytes`].
    pub fn text(&mut self, text: &str) -> Result<u64> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.bytes(&bytes)
    }

    /// Puts words.
    ///
    /// # Errors
    /// As [`Batch::bytes`].
    pub fn words(&mut self, words: &[u64]) -> Result<u64> {
        self.bytes(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
    }

    /// Adds a call that must not fail.
    ///
    /// # Errors
    /// If calls before it fail, when there is no more room.
    pub fn call(&mut self, what: impl Into<String>, number: i64, arguments: &[u64]) -> Result<()> {
        self.push(what.into(), number, arguments, false)
    }

    /// Adds a call that may fail.
    ///
    /// # Errors
    /// As [`Batch::call`].
    pub fn attempt(&mut self, number: i64, arguments: &[u64]) -> Result<()> {
        self.push(String::new(), number, arguments, true)
    }

    fn push(&mut self, what: String, number: i64, arguments: &[u64], may_fail: bool) -> Result<()> {
        let mut words = [0; 7];
        words[0] = number as u64;
        words[1..=arguments.len()].copy_from_slice(arguments);
        self.calls.push(Call { what, words, may_fail });
        // The data of this call has been put before it: only now can all be made and forgotten.
        let full = self.calls.len() >= CALLS_MAX - 1 || self.data.len() > super::RECORDS as usize / 2;
        if full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.make()?;
        self.calls.clear();
        self.data.clear();
        Ok(())
    }

    /// Makes the calls: their results, in order.
    ///
    /// # Errors
    /// The first failure of a call that must not fail.
    pub fn run(mut self) -> Result<Vec<i64>> {
        self.make()?;
        Ok(self.results)
    }

    /// The same; `between` gets the result of the first call, before the second one. If we are killed in
    /// between, the thread makes the second one all the same.
    ///
    /// # Errors
    /// As [`Batch::run`], and those of `between`.
    pub fn run_between(mut self, between: &mut dyn FnMut(i64) -> Result<()>) -> Result<Vec<i64>> {
        self.make_with(&mut |thread, code, table| thread.run_between(code, table, between))?;
        Ok(self.results)
    }

    fn make(&mut self) -> Result<()> {
        self.make_with(&mut |thread, code, table| thread.run(code, table))
    }

    fn make_with(&mut self, run: &mut dyn FnMut(&Stopped, u64, u64) -> Result<()>) -> Result<()> {
        if self.calls.is_empty() {
            return Ok(());
        }
        let table = self.thread.scratch + CODE;
        let mut bytes = Vec::with_capacity((self.calls.len() + 1) * ENTRY);
        for call in &self.calls {
            bytes.extend(call.words.iter().chain(&[0]).flat_map(|word| word.to_ne_bytes()));
        }
        bytes.extend([0xff; 8]);
        memory::write(self.thread.tid, table, &bytes)?;
        if !self.data.is_empty() {
            memory::write(self.thread.tid, self.thread.scratch + DATA, &self.data)?;
        }
        run(self.thread, self.thread.scratch, table)?;
        memory::read_exact(self.thread.tid, table, &mut bytes)?;
        for (call, entry) in self.calls.iter().zip(bytes.chunks(ENTRY)) {
            let result = entry[56..].try_into().map_or(0, i64::from_ne_bytes);
            if !call.may_fail && (-4095..0).contains(&result) {
                let source = io::Error::from_raw_os_error(-result as i32);
                return Err(Error::Call { pid: self.thread.tid, what: call.what.clone(), source });
            }
            self.results.push(result);
        }
        Ok(())
    }
}
