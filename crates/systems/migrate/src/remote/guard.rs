//! Calls by a thread that goes on where it was if we are killed, before its process has any memory of ours.
//!
//! Two things are in place before its registers change: a signal frame with all that it had, and the
//! instructions `syscall; mov eax, 15; syscall`. So a thread that we leave finishes its call and returns as
//! from a signal handler. What the call made (a mapping of ours) stays, and harms nobody.

use std::arch::x86_64::__cpuid_count;

use super::{RegisterSet, Registers, Stopped, memory, ptrace, wait};
use crate::error::{Error, Result};
use crate::proc::{Mapping, auxiliary, mapping_lines};

/// `syscall; mov eax, 15 (rt_sigreturn); syscall`, in two words.
const STUB: [u8; 16] = [0x0f, 0x05, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];
/// Where the extended state lies behind the start of a frame: a multiple of 64 behind registers, mask and
/// `siginfo`.
const EXTENDED: usize = 512;
const PAGE: u64 = 4096;
/// Memory below the stack pointer that belongs to a function all the same.
const RED_ZONE: u64 = 128;
/// This bit marks stops at system calls; if we are killed in one, the kernel delivers no signal, as there is
/// none of this number.
const AT_CALL: i32 = libc::SIGTRAP | 0x80;
const AT_ENTRY: u64 = 9;
/// The order of registers in `ucontext_t`: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
pub const CONTEXT: [usize; 18] = [9, 8, 7, 6, 3, 2, 1, 0, 14, 13, 4, 5, 12, 10, 11, 19, 16, 18];

/// A stopped thread that is safe from our end while it makes calls.
#[derive(Debug)]
pub struct Guard {
    thread: Stopped,
    stub: u64,
    before: [u8; 16],
    frame: u64,
    len: u64,
}

impl Guard {
    /// Writes the frame, by which `thread` goes on with `registers` (nothing in them is to be restarted) and
    /// `mask`, and the instructions. The thread itself does not change yet.
    ///
    /// # Errors
    /// If there is no room for them, or the thread is gone.
    pub fn set(thread: &Stopped, registers: &RegisterSet, mask: u64) -> Result<Self> {
        let tid = thread.tid;
        let maps = mapping_lines(tid)?;
        let xstate = ptrace::get_xstate(tid)?;
        ptrace::set_options(tid, libc::PTRACE_O_TRACESYSGOOD)?;
        let len = (EXTENDED + xstate.len() + 4).next_multiple_of(PAGE as usize) as u64;
        let placed = rooms(tid, registers[Registers::RSP], len, &maps)
            .into_iter()
            .find(|at| memory::poke(tid, *at, &frame(*at, registers, mask, &xstate)).is_ok());
        let Some(frame) = placed else {
            return Err(Error::Unfit(format!("process {tid} has no room for a signal frame on its stack")));
        };
        for stub in paddings(tid, &maps)? {
            let mut before = [0; 16];
            if memory::read_exact(tid, stub, &mut before).is_ok()
                && ptrace::poke_text(tid, stub, &STUB).is_ok()
            {
                return Ok(Self { thread: *thread, stub, before, frame, len });
            }
        }
        Err(Error::Unfit(format!("process {tid} has no code of its own that may be changed")))
    }

    /// Has it make a system call: what the kernel returned, negative for an error.
    ///
    /// # Errors
    /// If the thread ended instead.
    pub fn raw(&self, number: i64, arguments: &[u64]) -> Result<i64> {
        let tid = self.thread.tid;
        let mut set = self.thread.prepared(number, arguments);
        set[Registers::RIP] = self.stub;
        set[Registers::RSP] = self.frame + 8;
        // The registers first: those of the thread itself must not go on with this mask.
        ptrace::set_registers(tid, &set)?;
        ptrace::set_mask(tid, u64::MAX)?;
        let mut stops = 0;
        while stops < 2 {
            ptrace::cont_to_call(tid)?;
            let status = wait(tid)?;
            if !libc::WIFSTOPPED(status) {
                return Err(Error::Changed { pid: tid, what: "ended".to_owned() });
            }
            match libc::WSTOPSIG(status) {
                AT_CALL => stops += 1,
                signal @ (libc::SIGSEGV | libc::SIGBUS | libc::SIGILL) if status >> 16 == 0 => {
                    let source = std::io::Error::other(format!("signal {signal}"));
                    return Err(Error::Call { pid: tid, what: "calls on its behalf".to_owned(), source });
                }
                _ => {}
            }
        }
        Ok(ptrace::get_registers(tid)?[Registers::RAX] as i64)
    }

    /// Has it make a system call that must not fail.
    ///
    /// # Errors
    /// If it fails.
    pub fn call(&self, what: &str, number: i64, arguments: &[u64]) -> Result<u64> {
        let result = self.raw(number, arguments)?;
        if (-4095..0).contains(&result) {
            let source = std::io::Error::from_raw_os_error(-result as i32);
            return Err(Error::Call { pid: self.thread.tid, what: what.to_owned(), source });
        }
        Ok(result as u64)
    }

    /// Takes both back, once the thread's registers no longer need them.
    pub fn end(self) {
        let _ = ptrace::poke_text(self.thread.tid, self.stub, &self.before);
        let _ = memory::poke(self.thread.tid, self.frame, &vec![0; self.len as usize]);
    }
}

/// `struct rt_sigframe`, for the address `at`.
fn frame(at: u64, registers: &RegisterSet, mask: u64, xstate: &[u8]) -> Vec<u8> {
    // No such mode of a signal stack: the kernel leaves alone the one that the thread has, which we do not
    // know.
    const KEEP_SIGNAL_STACK: u64 = 4;
    // Extended state; the stack segment is given, and strictly.
    const FLAGS: u64 = 7;
    let mut words = vec![0, FLAGS, 0, 0, KEEP_SIGNAL_STACK, 0];
    words.extend(CONTEXT.iter().map(|place| registers[*place]));
    words.push(registers[Registers::CS] & 0xffff | (registers[Registers::SS] & 0xffff) << 48);
    words.extend([0, 0, 0, 0, at + EXTENDED as u64, 0, 0, 0, 0, 0, 0, 0, 0, mask]);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    bytes.resize(EXTENDED, 0);
    bytes.extend(extended(xstate));
    bytes
}

/// The extended state as it lies in a signal frame: its size and parts stand in bytes that `ptrace` uses
/// otherwise, and a second magic number behind it.
fn extended(xstate: &[u8]) -> Vec<u8> {
    const PARTS: usize = 464;
    const USED: usize = 512;
    const MAGIC: [u32; 2] = [0x4650_5853, 0x4650_5845];
    // AMX's tiles: only a thread that has used them has room for them, and the kernel takes no frame larger
    // than that.
    const ON_DEMAND: u64 = 1 << 18;
    let word = |at: usize| {
        xstate.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
    };
    let parts = word(PARTS);
    let whole = word(USED) & ON_DEMAND != 0;
    let end = |part: u32| {
        let found = __cpuid_count(0xd, part);
        (found.eax + found.ebx) as usize
    };
    let fixed = (2..63).filter(|part| (parts & !ON_DEMAND) >> part & 1 != 0).map(end).fold(576, usize::max);
    let len = if whole { xstate.len() } else { fixed.min(xstate.len()) };
    let mut bytes = xstate.to_vec();
    bytes.extend(MAGIC[1].to_ne_bytes());
    // Where the kernel looks for it depends on the version: behind what is said here, or behind what the
    // thread may have.
    bytes[len..len + 4].copy_from_slice(&MAGIC[1].to_ne_bytes());
    bytes[PARTS..USED].fill(0);
    bytes[PARTS..PARTS + 4].copy_from_slice(&MAGIC[0].to_ne_bytes());
    bytes[PARTS + 4..PARTS + 8].copy_from_slice(&(len as u32 + 4).to_ne_bytes());
    bytes[PARTS + 8..PARTS + 16].copy_from_slice(&parts.to_ne_bytes());
    bytes[PARTS + 16..PARTS + 20].copy_from_slice(&(len as u32).to_ne_bytes());
    bytes
}

/// Where `len` bytes may be written that nobody reads. Below the stack pointer is the last of them: there are
/// programs (Go's) whose stacks are small and lie between other things, so that signals have a stack of their
/// own.
fn rooms(tid: i32, rsp: u64, len: u64, maps: &[Mapping]) -> Vec<u64> {
    let mut found = Vec::new();
    if let Some(stack) = maps.iter().find(|one| one.name == "[stack]") {
        // The far end of the first stack where nothing was ever, or what we have cleared.
        let mut there = vec![1; len as usize];
        let far = !(stack.start..stack.start + len + PAGE).contains(&rsp);
        if far
            && memory::read_exact(tid, stack.start, &mut there).is_ok()
            && there.iter().all(|byte| *byte == 0)
        {
            found.push(stack.start);
        }
        // Beyond its end: it grows.
        found.push(stack.start - len);
    }
    found.push((rsp - RED_ZONE - len) & !63);
    found
}

/// Where 16 bytes of code may be overwritten that nobody runs, also if they stay so: in the rest of the last
/// page of code of a file, behind its end, and for want of that where the program began. Not in the vDSO: a
/// checkpoint compares it with the kernel's.
fn paddings(tid: i32, maps: &[Mapping]) -> Result<Vec<u64>> {
    let private = |one: &&Mapping| !one.shared && one.protection & libc::PROT_EXEC != 0;
    let mut found: Vec<u64> = maps
        .iter()
        .filter(|one| one.id.1 != 0)
        .filter(private)
        .filter_map(|code| {
            let first = maps.iter().rev().find(|one| {
                one.id == code.id && one.name == code.name && one.offset == 0 && one.start <= code.start
            })?;
            behind_code(tid, first.start, code)
        })
        .collect();
    let words = auxiliary(tid)?;
    let entry = words.chunks_exact(2).find(|pair| pair[0] == AT_ENTRY).map_or(0, |pair| pair[1]) & !15;
    found.extend(
        maps.iter().filter(private).any(|one| one.start <= entry && entry < one.end).then_some(entry),
    );
    Ok(found)
}

/// The first 16 bytes behind a segment of code of the ELF file that lies at `base`.
fn behind_code(tid: i32, base: u64, code: &Mapping) -> Option<u64> {
    const LOAD: u64 = 1;
    const EXECUTABLE: u64 = 1;
    const HEADER: usize = 56;
    let mut head = [0; 64];
    memory::read_exact(tid, base, &mut head).ok()?;
    let half = |at: usize| usize::from(u16::from_ne_bytes([head[at], head[at + 1]]));
    if head[..5] != *b"\x7fELF\x02" || half(54) != HEADER {
        return None;
    }
    let headers = u64::from_ne_bytes(head[32..40].try_into().ok()?);
    let mut bytes = vec![0; half(56) * HEADER];
    memory::read_exact(tid, base + headers, &mut bytes).ok()?;
    let segments: Vec<[u64; 7]> = bytes
        .chunks_exact(HEADER)
        .map(|one| std::array::from_fn(|at| one[at * 8..at * 8 + 8].try_into().map_or(0, u64::from_ne_bytes)))
        .collect();
    // Of each: type and flags, offset, address, (physical address), bytes in the file, bytes in memory,
    // alignment.
    let loads = || segments.iter().filter(|one| one[0] & 0xffff_ffff == LOAD);
    let bias = base.wrapping_sub(loads().find(|one| one[1] < PAGE)?[2] & !(PAGE - 1));
    loads().filter(|one| one[0] >> 32 & EXECUTABLE != 0).find_map(|one| {
        let end = bias.wrapping_add(one[2]).wrapping_add(one[5]);
        let at = end.next_multiple_of(16);
        let page_end = end.next_multiple_of(PAGE);
        (code.start < end && at + 16 <= page_end && page_end <= code.end).then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::mapping_named;

    #[test]
    fn places_are_none_that_are_used() {
        let own = std::process::id().cast_signed();
        let maps = mapping_lines(own).unwrap();
        let found = paddings(own, &maps).unwrap();
        let (entry, behind) = found.split_last().unwrap();
        assert!(!behind.is_empty(), "this program, the C library, or the loader has some");
        for at in behind {
            let code = maps.iter().find(|one| (one.start..one.end).contains(at)).unwrap();
            assert!(code.protection & libc::PROT_EXEC != 0 && at + 16 <= code.end, "{at:#x} {code:?}");
            assert!(code.end - at <= PAGE && at % 16 == 0, "{at:#x} {code:?}");
        }
        assert!(maps.iter().any(|one| (one.start..one.end).contains(entry)));
        let stack = mapping_named(own, "[stack]").unwrap().unwrap();
        let beside = rooms(own, 1 << 40, PAGE, &maps);
        assert_eq!(beside.last(), Some(&((1 << 40) - RED_ZONE - PAGE)));
        assert!(beside.contains(&(stack.start - PAGE)));
        // Never where the thread itself stands.
        assert!(!rooms(own, stack.start + PAGE, PAGE, &maps).contains(&stack.start));
    }

    #[test]
    fn the_extended_state_says_its_size_twice() {
        let mut regset = vec![0; 832 + 8192];
        regset[464..472].copy_from_slice(&7_u64.to_ne_bytes());
        let bytes = extended(&regset);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let len = word(480) as usize;
        assert!((576..=832).contains(&len), "x87, SSE and AVX: {len}");
        assert_eq!((word(464), word(468) as usize, word(472)), (0x4650_5853, len + 4, 7));
        assert_eq!((word(len), word(bytes.len() - 4)), (0x4650_5845, 0x4650_5845));
        // Tiles in use: nothing is written into them.
        regset[512..520].copy_from_slice(&(1_u64 << 18).to_ne_bytes());
        let bytes = extended(&regset);
        assert_eq!(u32::from_ne_bytes(bytes[480..484].try_into().unwrap()) as usize, regset.len());
        assert_eq!(bytes[832..].iter().filter(|byte| **byte != 0).count(), 4);
    }
}
