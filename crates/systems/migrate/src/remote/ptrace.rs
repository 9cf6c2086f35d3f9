//! `ptrace(2)`, request by request.

use std::io;

use crate::error::{Error, Result};
use crate::image::{Rseq, Signal};

/// Words of `struct user_regs_struct`.
pub type RegisterSet = [u64; 27];

/// Indices of [`RegisterSet`].
#[derive(Debug)]
pub struct Registers;

#[allow(missing_docs)]
impl Registers {
    pub const R12: usize = 3;
    pub const RBX: usize = 5;
    pub const R10: usize = 7;
    pub const R9: usize = 8;
    pub const R8: usize = 9;
    pub const RAX: usize = 10;
    pub const RDX: usize = 12;
    pub const RSI: usize = 13;
    pub const RDI: usize = 14;
    pub const ORIG_RAX: usize = 15;
    pub const RIP: usize = 16;
    pub const CS: usize = 17;
    pub const EFLAGS: usize = 18;
    pub const RSP: usize = 19;
    pub const SS: usize = 20;
}

/// Signals blocked while a process executes calls for us: all but the trap by which it comes back. (A blocked trap
/// would be forced on the process, and that loses its handler.)
pub const SIGNALS_DURING_CALLS: u64 = !(1 << (libc::SIGTRAP - 1));

const NT_PRSTATUS: usize = 1;
const NT_X86_XSTATE: usize = 0x202;
const PTRACE_GETSIGMASK: libc::c_uint = 0x420a;
const PTRACE_SETSIGMASK: libc::c_uint = 0x420b;
const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
const PTRACE_PEEKSIGINFO: libc::c_uint = 0x4209;
const SIGINFO_LEN: usize = 128;

fn request(what: &str, tid: i32, code: libc::c_uint, address: usize, data: usize) -> Result<i64> {
    // SAFETY: every request here reads or writes only buffers of the caller that outlive the call.
    let result = unsafe { libc::ptrace(code, tid, address, data) };
    if result < 0 {
        return Err(Error::call(tid, what));
    }
    let looks =
        [libc::PTRACE_GETREGSET, PTRACE_GETSIGMASK, PTRACE_GET_RSEQ_CONFIGURATION, PTRACE_PEEKSIGINFO];
    if !looks.contains(&code) {
        super::kill_points::changed();
    }
    Ok(result)
}

/// Attaches to a thread without stopping it. With `end`, it is killed if we end.
///
/// # Errors
/// If it may not be traced, is traced by another, or is gone.
pub fn seize(tid: i32) -> Result<()> {
    request("to trace it", tid, libc::PTRACE_SEIZE, 0, 0).map(drop).map_err(|error| match error {
        Error::Call { source, .. } if source.raw_os_error() == Some(libc::ESRCH) => Error::NoProcess(tid),
        Error::Call { source, .. } => Error::NotAllowed { pid: tid, source },
        other => other,
    })
}

/// Asks a seized thread to stop; [`wait`] for it.
///
/// # Errors
/// If it is gone.
pub fn interrupt(tid: i32) -> Result<()> {
    request("to stop it", tid, libc::PTRACE_INTERRUPT, 0, 0).map(drop)
}

/// Sets `PTRACE_O_*`.
///
/// # Errors
/// If the thread is not stopped.
pub fn set_options(tid: i32, options: i32) -> Result<()> {
    request("to set options of tracing", tid, libc::PTRACE_SETOPTIONS, 0, options as usize).map(drop)
}

/// Waits until the thread stops or ends: the status as of `waitpid(2)`.
///
/// # Errors
/// If there is no such thread.
pub fn wait(tid: i32) -> Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` outlives the call.
        if unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) } >= 0 {
            return Ok(status);
        }
        if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(Error::call(tid, "to wait for it"));
        }
    }
}

/// Lets a stopped thread run on, with `signal` delivered (0: none).
///
/// # Errors
/// If it is not stopped.
pub fn cont(tid: i32, step: bool, signal: i32) -> Result<()> {
    let code = if step { libc::PTRACE_SINGLESTEP } else { libc::PTRACE_CONT };
    request("to let it run", tid, code, 0, signal as usize).map(drop)
}

/// Lets a stopped thread run until it enters or leaves a system call.
///
/// # Errors
/// If it is not stopped.
pub fn cont_to_call(tid: i32) -> Result<()> {
    request("to let it make a call", tid, libc::PTRACE_SYSCALL, 0, 0).map(drop)
}

/// Writes whole words at `address`, also where the process itself may not write; in private memory no file
/// changes.
///
/// # Errors
/// If the thread is not stopped, or there is no memory.
pub fn poke_text(tid: i32, address: u64, bytes: &[u8]) -> Result<()> {
    for (index, word) in bytes.chunks_exact(8).enumerate() {
        let word = word.try_into().map_or(0, usize::from_ne_bytes);
        let at = address as usize + index * 8;
        request("to write its code", tid, libc::PTRACE_POKETEXT, at, word)?;
    }
    Ok(())
}

/// Lets go of a stopped thread, with `signal` delivered.
///
/// # Errors
/// If it is not stopped.
pub fn detach(tid: i32, signal: i32) -> Result<()> {
    request("to let it go", tid, libc::PTRACE_DETACH, 0, signal as usize).map(drop)
}

/// Kills a process at once.
pub fn kill(pid: i32) {
    // SAFETY: no memory is involved.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// The registers.
///
/// # Errors
/// If the thread is not stopped.
pub fn get_registers(tid: i32) -> Result<RegisterSet> {
    let mut set: RegisterSet = [0; 27];
    let mut vector = libc::iovec { iov_base: set.as_mut_ptr().cast(), iov_len: size_of::<RegisterSet>() };
    request("to read registers", tid, libc::PTRACE_GETREGSET, NT_PRSTATUS, &raw mut vector as usize)?;
    Ok(set)
}

/// Sets the registers.
///
/// # Errors
/// If the thread is not stopped.
pub fn set_registers(tid: i32, set: &RegisterSet) -> Result<()> {
    let mut set = *set;
    let mut vector = libc::iovec { iov_base: set.as_mut_ptr().cast(), iov_len: size_of::<RegisterSet>() };
    request("to set registers", tid, libc::PTRACE_SETREGSET, NT_PRSTATUS, &raw mut vector as usize).map(drop)
}

/// The extended state (x87, SSE, AVX, and what else the processor has).
///
/// # Errors
/// If the thread is not stopped.
pub fn get_xstate(tid: i32) -> Result<Vec<u8>> {
    let mut bytes = vec![0_u8; 64 << 10];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(
        "to read the extended state",
        tid,
        libc::PTRACE_GETREGSET,
        NT_X86_XSTATE,
        &raw mut vector as usize,
    )?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Sets the extended state.
///
/// # Errors
/// If the thread is not stopped, or the processor lacks what the state needs.
pub fn set_xstate(tid: i32, bytes: &[u8]) -> Result<()> {
    let mut bytes = bytes.to_vec();
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request("to set the extended state", tid, libc::PTRACE_SETREGSET, NT_X86_XSTATE, &raw mut vector as usize)
        .map(drop)
}

/// The blocked signals.
///
/// # Errors
/// If the thread is not stopped.
pub fn get_mask(tid: i32) -> Result<u64> {
    let mut mask = 0_u64;
    request("to read its signal mask", tid, PTRACE_GETSIGMASK, 8, &raw mut mask as usize)?;
    Ok(mask)
}

/// Sets the blocked signals.
///
/// # Errors
/// If the thread is not stopped.
pub fn set_mask(tid: i32, mut mask: u64) -> Result<()> {
    request("to set its signal mask", tid, PTRACE_SETSIGMASK, 8, &raw mut mask as usize).map(drop)
}

/// The registered `rseq` area.
///
/// # Errors
/// If the thread is not stopped.
pub fn get_rseq(tid: i32) -> Result<Option<Rseq>> {
    // `struct ptrace_rseq_configuration`: pointer, size, signature, flags, padding.
    let mut found = [0_u32; 6];
    request("to read its rseq area", tid, PTRACE_GET_RSEQ_CONFIGURATION, 24, found.as_mut_ptr() as usize)?;
    let address = u64::from(found[0]) | u64::from(found[1]) << 32;
    Ok((address != 0).then_some(Rseq { address, len: found[2], signature: found[3] }))
}

/// Signals that wait for the thread or, with `shared`, for its process.
///
/// # Errors
/// If the thread is not stopped.
pub fn peek_signals(tid: i32, shared: bool) -> Result<Vec<Signal>> {
    #[repr(C)]
    struct Arguments {
        offset: u64,
        flags: u32,
        count: i32,
    }
    let mut found = Vec::new();
    loop {
        let arguments = Arguments { offset: found.len() as u64, flags: u32::from(shared), count: 1 };
        let mut info = vec![0_u8; SIGINFO_LEN];
        let address = &raw const arguments as usize;
        match request(
            "to read pending signals",
            tid,
            PTRACE_PEEKSIGINFO,
            address,
            info.as_mut_ptr() as usize,
        )? {
            0 => return Ok(found),
            _ => found.push(Signal { info }),
        }
    }
}
