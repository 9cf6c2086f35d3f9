//! What the seam costs: `Mapped` against hand-written pointer code on the same pages, and `Recorded` per
//! event.
//!
//! `cargo bench -p pmem` measures; `cargo test -p pmem` runs the same on small sizes. Both sides of a row run in turns, and the
//! fastest turn of each counts; a turn is shorter than a scheduler's time slice, so that on a busy machine
//! some are undisturbed. The file is in memory, because a disk's page cache would write-protect pages now and
//! then. The checksums of both sides are compared.

use std::arch::asm;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use event::Discard;
use pmem::Mapped;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use space::{Recorded, Recording, Space};

/// How much to do.
struct Size {
    /// Bytes of the space.
    bytes: u64,
    /// Operations of a turn.
    operations: u64,
    /// Turns of each side.
    turns: u32,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let size = if full {
        Size { bytes: 64 << 20, operations: 1 << 13, turns: 1500 }
    } else {
        Size { bytes: 1 << 20, operations: 1 << 12, turns: 2 }
    };
    let file = File::from(memfd_create("space", MemfdFlags::CLOEXEC).expect("a file in memory"));
    file.set_len(size.bytes).expect("room for the file");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let space = Mapped::open(&path).expect("the file can be mapped");
    let raw = Raw::open(&file, size.bytes);
    for page in (0..size.bytes).step_by(4096) {
        space.store_u64(page, 0);
        assert_eq!(raw.word(page / 8).load(Relaxed), 0);
    }
    println!("{}, {} MiB file", pmem::isa::Offer::of_this_cpu(), size.bytes >> 20);
    println!("{:<34}{:>12}{:>12}{:>10}", "per operation", "direct/ns", "seam/ns", "ratio");
    compare(
        &size,
        "8-byte loads, random",
        |turn| raw_loads(&raw, &size, turn),
        |turn| seam_loads(&space, &size, turn),
    );
    let small = Size { bytes: 1 << 14, ..size };
    compare(
        &small,
        "8-byte loads, random, in L1",
        |turn| raw_loads(&raw, &small, turn),
        |turn| seam_loads(&space, &small, turn),
    );
    compare(
        &size,
        "8-byte stores, random",
        |turn| raw_stores(&raw, &size, turn),
        |turn| seam_stores(&space, &size, turn),
    );
    compare(
        &small,
        "8-byte stores, random, in L1",
        |turn| raw_stores(&raw, &small, turn),
        |turn| seam_stores(&space, &small, turn),
    );
    if ["clwb", "dc cvac"].contains(&pmem::isa::Offer::of_this_cpu().flush.name()) {
        compare(
            &size,
            "append 64 B, flush, fence",
            |_| raw_append(&raw, &size),
            |_| seam_append(&space, &size),
        );
        compare(
            &size,
            "append 8 B, flush, fence",
            |_| raw_commit(&raw, &size),
            |_| seam_commit(&space, &size),
        );
    } else {
        println!("skipped: appends; the hand-written side knows only clwb and dc cvac");
    }
    record(&size, space);
}

/// Runs both sides in turns and prints a row.
fn compare(size: &Size, what: &str, by_hand: impl Fn(u64) -> u64, seam: impl Fn(u64) -> u64) {
    let (mut hand_ns, mut seam_ns) = (f64::MAX, f64::MAX);
    for turn in 0..size.turns {
        let timed = |side: &dyn Fn(u64) -> u64, best: &mut f64| {
            let start = Instant::now();
            let checksum = black_box(side(u64::from(turn) + 1));
            *best = best.min(start.elapsed().as_nanos() as f64 / size.operations as f64);
            checksum
        };
        let sums = if turn % 2 == 0 {
            let hand = timed(&by_hand, &mut hand_ns);
            (hand, timed(&seam, &mut seam_ns))
        } else {
            let seam = timed(&seam, &mut seam_ns);
            (timed(&by_hand, &mut hand_ns), seam)
        };
        assert_eq!(sums.0, sums.1, "{what}: both sides do the same");
    }
    println!("{what:<34}{hand_ns:>12.2}{seam_ns:>12.2}{:>10.3}", seam_ns / hand_ns);
}

/// Prints what an event costs, beside what its access costs alone.
fn record(size: &Size, space: Mapped) {
    let mut bare = [f64::MAX; 2];
    for _ in 0..size.turns {
        bare[0] = bare[0].min(mixed(&space, size, false));
        bare[1] = bare[1].min(mixed(&space, size, true));
    }
    let recorded = Recorded::new(space, Discard, &Recording::persistent("bench", "space"));
    let recorded = recorded.expect("the sink takes everything");
    let mut numbered = [f64::MAX; 2];
    for _ in 0..size.turns {
        numbered[0] = numbered[0].min(mixed(&recorded, size, false));
        numbered[1] = numbered[1].min(mixed(&recorded, size, true));
    }
    println!("{:<34}{:>12}{:>12}{:>10}", "per event", "access/ns", "recorded/ns", "event/ns");
    for (i, what) in ["loads and stores", "with a flush and fence every 32"].iter().enumerate() {
        println!("{what:<34}{:>12.2}{:>12.2}{:>10.2}", bare[i], numbered[i], numbered[i] - bare[i]);
    }
    recorded.finish().expect("the sink takes everything");
}

/// Nanoseconds per event of a loop of loads and stores in 16 KiB.
#[inline(never)]
fn mixed<S: Space>(space: &S, size: &Size, fences: bool) -> f64 {
    let words = size.bytes.min(1 << 14) / 8;
    let mut events = 0;
    let mut sum = 0u64;
    let start = Instant::now();
    for i in 0..size.operations {
        let at = i % words * 8;
        space.store_u64(at, i);
        sum = sum.wrapping_add(space.load_u64(at ^ 64));
        events += 2;
        if fences && i % 16 == 15 {
            space.flush(at, 8);
            space.fence();
            events += 2;
        }
    }
    let elapsed = start.elapsed().as_nanos() as f64;
    assert!(black_box(sum) > 0);
    elapsed / f64::from(events)
}

/// The same file, accessed directly.
struct Raw {
    base: *mut u8,
}

impl Raw {
    fn open(file: &File, bytes: u64) -> Raw {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; it stays until the program ends.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes as usize, protection, MapFlags::SHARED, file, 0) };
        Raw { base: base.expect("the file can be mapped").cast() }
    }

    #[inline(always)]
    fn word(&self, index: u64) -> &AtomicU64 {
        // SAFETY: the callers below keep to the mapping, and access it atomically only.
        unsafe { &*self.base.cast::<AtomicU64>().add(index as usize) }
    }

    #[inline(always)]
    fn flush(&self, index: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the address is mapped; `main` ran on a processor with `clwb`, or the ratio would mean
        // nothing.
        unsafe {
            asm!("clwb [{}]", in(reg) self.word(index), options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: the address is mapped.
        unsafe {
            asm!("dc cvac, {}", in(reg) self.word(index), options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn fence() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: no operands.
        unsafe {
            asm!("sfence", options(nostack, preserves_flags));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: no operands.
        unsafe {
            asm!("dsb sy", options(nostack, preserves_flags));
        }
    }
}

/// Offsets that no prefetcher guesses.
fn step(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[inline(never)]
fn raw_loads(raw: &Raw, size: &Size, turn: u64) -> u64 {
    let (mut state, mut sum) = (turn, 0u64);
    for _ in 0..size.operations {
        sum = sum.wrapping_add(raw.word(step(&mut state) & (size.bytes / 8 - 1)).load(Relaxed));
    }
    sum
}

#[inline(never)]
fn seam_loads<S: Space>(space: &S, size: &Size, turn: u64) -> u64 {
    let (mut state, mut sum) = (turn, 0u64);
    for _ in 0..size.operations {
        sum = sum.wrapping_add(space.load_u64((step(&mut state) & (size.bytes / 8 - 1)) * 8));
    }
    sum
}

#[inline(never)]
fn raw_stores(raw: &Raw, size: &Size, turn: u64) -> u64 {
    let mut state = turn;
    for i in 0..size.operations {
        raw.word(step(&mut state) & (size.bytes / 8 - 1)).store(i, Relaxed);
    }
    state
}

#[inline(never)]
fn seam_stores<S: Space>(space: &S, size: &Size, turn: u64) -> u64 {
    let mut state = turn;
    for i in 0..size.operations {
        space.store_u64((step(&mut state) & (size.bytes / 8 - 1)) * 8, i);
    }
    state
}

#[inline(never)]
fn raw_append(raw: &Raw, size: &Size) -> u64 {
    let mut record = [[7u8; 8]; 8];
    for i in 0..size.operations {
        record[0] = i.to_le_bytes();
        let first = i * 8 % (size.bytes / 8);
        for (at, word) in (first..).zip(&record) {
            raw.word(at).store(u64::from_le_bytes(*word), Relaxed);
        }
        raw.flush(first);
        Raw::fence();
    }
    raw.word(0).load(Relaxed)
}

#[inline(never)]
fn seam_append<S: Space>(space: &S, size: &Size) -> u64 {
    let mut record = [7u8; 64];
    for i in 0..size.operations {
        record[..8].copy_from_slice(&i.to_le_bytes());
        let first = i * 64 % size.bytes;
        space.store(first, &record);
        space.flush(first, 64);
        space.fence();
    }
    space.load_u64(0)
}

#[inline(never)]
fn raw_commit(raw: &Raw, size: &Size) -> u64 {
    for i in 0..size.operations {
        let at = i % (size.bytes / 8);
        raw.word(at).store(i, Relaxed);
        raw.flush(at);
        Raw::fence();
    }
    raw.word(0).load(Relaxed)
}

#[inline(never)]
fn seam_commit<S: Space>(space: &S, size: &Size) -> u64 {
    for i in 0..size.operations {
        let at = i * 8 % size.bytes;
        space.store_u64(at, i);
        space.flush(at, 8);
        space.fence();
    }
    space.load_u64(0)
}
