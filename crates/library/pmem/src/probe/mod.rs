//! Measuring real memory: accesses over a [`Mapped`] as fast or as finely timed as the processor can, a calibrated
//! clock, pinned threads, and what of the surroundings is not under control.
//!
//! A caller says what one [`Access`] is and at which offsets; the loops over lines stand here, because they need
//! instructions that no compiler chooses by itself. All offsets of a call are checked before its first access.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod clock;
mod conditions;
mod placement;
mod team;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as cpu;
#[cfg(target_arch = "x86_64")]
use x86_64 as cpu;

pub use clock::Clock;
pub use conditions::{Conditions, conditions, cpus_of_node, free_bytes, last_level_cache_bytes};
pub use placement::{Pages, Placed, Placement, Request, place};
pub use team::{TeamError, cpus, on_cpus};

/// Entries of the last-level TLB for 4 KiB pages of data, if the processor states them.
#[must_use]
pub fn tlb_entries() -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    return cpu::tlb_entries();
    #[cfg(not(target_arch = "x86_64"))]
    None
}

use space::{LINE, Space, check_range};

use crate::Mapped;
use crate::isa::{self, Offer};

/// What an access does to its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Move {
    /// Reads them.
    Load,
    /// Writes them through the cache and leaves them there.
    Store,
    /// Writes them through the cache and writes them back: `clwb` or what the processor has instead.
    StoreFlush,
    /// Writes them through the cache and throws each out of it (`clflush`).
    StoreEvict,
    /// Writes them by non-temporal stores.
    StoreNt,
    /// Reads the first half of them and writes it over the second, through the cache, a line of each in turn.
    Copy,
}

/// What waits at the end of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Nothing.
    None,
    /// A store fence: for stores, flushes and non-temporal stores.
    Stores,
    /// A full fence: for everything.
    All,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What it does.
    pub what: Move,
    /// Bytes, a multiple of 64, at least 64.
    pub len: u64,
    /// Of [`Move::StoreFlush`]: bytes that are stored before their lines are flushed, a multiple of 64. 64 flushes each
    /// line after its store, `len` or more all lines at the end.
    pub flush_every: u64,
    /// At the end.
    pub wait: Wait,
    /// Accesses after which `wait` waits: 1 is after each.
    pub wait_every: u64,
    /// Turns of an empty loop after each access ([`Clock::to_spins`]); 0 for none. Accesses may overlap with it, as they do
    /// with a program's other work.
    pub pause_spins: u64,
}

/// What one timed sample is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// A read of 8 bytes.
    LoadWord,
    /// A write of 8 bytes, flush and full fence, after the line was read into the cache.
    StoreWordFlush,
    /// A non-temporal write of a line and a full fence, after the line was read into the cache.
    StoreLineNt,
    /// An access of any kind. If it is a store through the cache with a fence, its lines were read into the cache before.
    Whole(Access),
}

impl Mapped {
    /// Carries out one access at each of `offsets`, in this order. `done` counts the accesses of this thread so far, of
    /// which [`Access::wait_every`] makes use; it is advanced.
    ///
    /// # Panics
    /// If an access leaves the mapping, or an offset or length is no multiple of 64.
    pub fn access(&self, access: &Access, offsets: &[u64], done: &mut u64) {
        self.check_accesses(access, offsets);
        let width = cpu::Width::detect();
        for &offset in offsets {
            // SAFETY: the range is inside the mapping and consists of whole lines; the width is this processor's.
            unsafe { self.one(access, offset, width) };
            *done += 1;
            if done.is_multiple_of(access.wait_every) {
                wait(access.wait);
            }
            spin(access.pause_spins);
        }
    }

    /// Times each sample by itself and appends its ticks to `ticks`, those of the measuring included.
    ///
    /// # Panics
    /// As [`Mapped::access`].
    pub fn time(&self, sample: Sample, offsets: &[u64], ticks: &mut Vec<u64>) {
        let access = match sample {
            Sample::Whole(access) => access,
            // One line, for the check.
            Sample::LoadWord => Access::of_line(Move::Load),
            Sample::StoreWordFlush | Sample::StoreLineNt => Access::of_line(Move::Store),
        };
        self.check_accesses(&access, offsets);
        let (width, flush) = (cpu::Width::detect(), Offer::of_this_cpu().flush);
        for &offset in offsets {
            let address = self.at(offset);
            let cached = match sample {
                Sample::LoadWord => 0,
                Sample::StoreWordFlush | Sample::StoreLineNt => LINE,
                Sample::Whole(_) if access.is_cached_store() && access.wait != Wait::None => access.len,
                Sample::Whole(_) => 0,
            };
            for line in (offset..offset + cached).step_by(LINE as usize) {
                // SAFETY: a word inside the mapping.
                unsafe { cpu::load_word(self.at(line)) };
            }
            cpu::fence_all();
            let start = cpu::ticks();
            // SAFETY: the range is inside the mapping and consists of whole lines; the width and the flush
            // instruction are this processor's; nobody has references into a mapping.
            unsafe {
                match sample {
                    Sample::LoadWord => cpu::load_word(address),
                    Sample::StoreWordFlush => {
                        cpu::store_word(address, offset);
                        flush.line(address);
                        cpu::fence_all();
                    }
                    Sample::StoreLineNt => {
                        width.store_nt(address, address.add(LINE as usize), offset);
                        cpu::fence_all();
                    }
                    Sample::Whole(_) => {
                        self.one(&access, offset, width);
                        wait(access.wait);
                    }
                }
            }
            ticks.push(cpu::ticks() - start);
        }
    }

    /// Follows the chain of 8-byte offsets that starts at `start` for `steps` loads, each of which needs the one before, and
    /// returns where it is then.
    ///
    /// # Panics
    /// If an offset of the chain is outside the mapping or no multiple of 8.
    #[must_use]
    pub fn chase(&self, start: u64, steps: u64) -> u64 {
        (0..steps).fold(start, |at, _| self.load_u64(at))
    }

    /// Throws the lines of a range out of all caches, as far as this can be done without privileges.
    ///
    /// # Panics
    /// If the range leaves the mapping.
    pub fn evict(&self, offset: u64, len: u64) {
        // SAFETY: the line holds a byte of the mapping.
        self.each_line(offset, len, |line| unsafe { cpu::evict(line) });
        cpu::fence_all();
    }

    /// Writes to every page, so that no later access meets a page fault.
    pub fn populate(&self) {
        let mut at = 0;
        while at < self.len() {
            // Not a store of a constant: a file's contents stay.
            self.store_u64(at, self.load_u64(at));
            at += 4096;
        }
    }

    /// # Safety
    /// `offset` and the access were checked, `width` is this processor's.
    #[inline(always)]
    unsafe fn one(&self, access: &Access, offset: u64, width: cpu::Width) {
        let (from, end) = (self.at(offset), self.at(offset + access.len).cast_const());
        // SAFETY: the caller checked the range; nobody has references into a mapping.
        unsafe {
            match access.what {
                Move::Load => width.load(from, end),
                Move::Store => width.store(from, end, offset),
                Move::StoreNt => width.store_nt(from, end, offset),
                Move::Copy => {
                    let to = self.at(offset + access.len / 2);
                    width.copy(from, to.cast_const(), to);
                }
                Move::StoreEvict => {
                    let mut at = offset;
                    while at < offset + access.len {
                        width.store(self.at(at), self.at(at + LINE), offset);
                        cpu::evict(self.at(at));
                        at += LINE;
                    }
                }
                Move::StoreFlush => {
                    let flush = Offer::of_this_cpu().flush;
                    let mut at = offset;
                    while at < offset + access.len {
                        let next = (at + access.flush_every).min(offset + access.len);
                        width.store(self.at(at), self.at(next), offset);
                        while at < next {
                            flush.line(self.at(at));
                            at += LINE;
                        }
                    }
                }
            }
        }
    }

    fn check_accesses(&self, access: &Access, offsets: &[u64]) {
        let whole_lines = |bytes: u64| bytes > 0 && bytes.is_multiple_of(LINE);
        assert!(whole_lines(access.len), "an access of {} bytes is not of whole lines", access.len);
        assert!(
            whole_lines(access.flush_every) || access.what != Move::StoreFlush,
            "flushes every {} bytes are not of whole lines",
            access.flush_every
        );
        assert!(
            access.len.is_multiple_of(2 * LINE) || access.what != Move::Copy,
            "a copy within {} bytes is not of whole lines",
            access.len
        );
        assert!(access.wait_every > 0, "there is no waiting after every 0 accesses");
        let highest = offsets.iter().copied().max().unwrap_or(0);
        let bits = offsets.iter().fold(0, |bits, offset| bits | offset);
        assert!(bits.is_multiple_of(LINE), "an offset is no multiple of 64");
        let count = if offsets.is_empty() { 0 } else { access.len };
        if access.what == Move::Load {
            check_range(Space::len(self), highest, count);
        } else {
            self.check_storable(highest, count);
        }
    }
}

impl Access {
    fn is_cached_store(&self) -> bool {
        matches!(self.what, Move::Store | Move::StoreFlush)
    }

    /// An access of one line that waits for nothing.
    #[must_use]
    pub fn of_line(what: Move) -> Access {
        Access { what, len: LINE, flush_every: LINE, wait: Wait::None, wait_every: 1, pause_spins: 0 }
    }
}

/// Waits for what the kind of fence waits for.
#[inline(always)]
pub fn wait(wait: Wait) {
    match wait {
        Wait::None => {}
        Wait::Stores => isa::fence(),
        Wait::All => cpu::fence_all(),
    }
}

/// What moves lines on this processor: instructions and their width.
#[must_use]
pub fn width() -> &'static str {
    cpu::Width::detect().name()
}

/// Turns of an empty loop, about one cycle each.
#[inline(always)]
fn spin(turns: u64) {
    for _ in 0..turns {
        // SAFETY: no instruction at all; it keeps the compiler from removing the loop.
        unsafe { std::arch::asm!("", options(nomem, nostack, preserves_flags)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every width that this processor has, not only the one that it prefers.
    #[test]
    fn every_width_fills_and_reads_lines() {
        #[cfg(target_arch = "x86_64")]
        let widths = [
            (cpu::Width::Sse2, true),
            (cpu::Width::Avx2, std::arch::is_x86_feature_detected!("avx2")),
            (cpu::Width::Avx512, std::arch::is_x86_feature_detected!("avx512f")),
        ];
        #[cfg(target_arch = "aarch64")]
        let widths = [(cpu::Width::Neon, true)];
        let memory = Mapped::anonymous(4096).expect("a page");
        for (width, _) in widths.into_iter().filter(|(_, here)| *here) {
            for past_cache in [false, true] {
                let (from, end) = (memory.at(64), memory.at(256));
                let word = if past_cache { 0x0123_4567_89ab_cdef } else { 0xfedc_ba98_7654_3210 };
                // SAFETY: three lines of the mapping; the processor was asked for the width.
                unsafe {
                    if past_cache {
                        width.store_nt(from, end, word)
                    } else {
                        width.store(from, end, word)
                    }
                    width.load(from, end);
                }
                isa::fence();
                let words: Vec<u64> = (0..64).map(|word| memory.load_u64(8 * word)).collect();
                assert_eq!(words[..8], [0; 8], "{width:?}");
                assert_eq!(words[8..32], [word; 24], "{width:?}");
                assert_eq!(words[32..], [0; 32], "{width:?}");
            }
        }
    }
}
