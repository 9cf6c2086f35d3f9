//! The registers of a thread that was stopped in the middle of something.

use crate::error::Result;
use crate::image::Rseq;
use crate::remote::{self, RegisterSet, Registers};

/// The registers with which the thread goes on elsewhere: a system call that was interrupted by our stop is made again
/// (one with a time limit with the whole of it: rather late than early), and a restartable sequence is aborted.
pub fn going_on(pid: i32, registers: &RegisterSet, rseq: Option<Rseq>) -> Result<RegisterSet> {
    const RESTARTS: [i64; 4] = [-512, -513, -514, -516];
    let mut set = *registers;
    if set[Registers::ORIG_RAX] as i64 >= 0 && RESTARTS.contains(&(set[Registers::RAX] as i64)) {
        set[Registers::RAX] = set[Registers::ORIG_RAX];
        set[Registers::RIP] -= 2;
    }
    set[Registers::ORIG_RAX] = u64::MAX;
    if let Some(rseq) = rseq {
        let mut pointer = [0; 8];
        remote::read_exact(pid, rseq.address + 8, &mut pointer)?;
        let section = u64::from_ne_bytes(pointer);
        if section != 0 {
            // `struct rseq_cs`: version and flags, start, length, abort handler.
            let mut words = [0; 32];
            remote::read_exact(pid, section, &mut words)?;
            let word = |at: usize| words[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
            if set[Registers::RIP].wrapping_sub(word(8)) < word(16) {
                set[Registers::RIP] = word(24);
            }
        }
    }
    Ok(set)
}
