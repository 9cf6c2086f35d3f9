//! The `malloc` family and mappings: memory is the C library's and the kernel's; large blocks are noted, small ones by a sample.
//!
//! Of small allocations one byte in [`PERIOD`] is drawn, and its allocation noted with the weight that it then stands for. The
//! period grows with the samples taken, so that these grow as the root of the bytes; both limits double while a program
//! allocates so much that call stacks would take too long.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::heap;
use crate::remedies;
use crate::sites::{STATE, State, Way, maybe};
use crate::stack::Stack;

type Memory = *mut c_void;

/// Allocations of so many bytes and more are noted; none before the process has begun.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Mean number of bytes between two samples of smaller ones.
static PERIOD: AtomicUsize = AtomicUsize::new(512 << 10);
/// What each sample adds to it.
const STEP: usize = 4 << 10;
/// Blocks that were noted.
static NOTED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Bytes until the next sample, once it is drawn.
    static LEFT: Cell<isize> = const { Cell::new(-1) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// Notes allocations of `from` bytes and more from now on.
pub fn begin(from: usize) {
    FROM.store(from.max(1), Ordering::Release);
}

/// Notes nothing any more.
pub fn end() {
    FROM.store(usize::MAX, Ordering::Release);
}

/// Blocks noted so far, and the limits.
pub fn noted() -> (u64, usize, usize) {
    (NOTED.load(Ordering::Relaxed), FROM.load(Ordering::Relaxed), PERIOD.load(Ordering::Relaxed))
}

/// Call stacks take too long: fewer of them.
pub fn fewer() {
    let from = FROM.load(Ordering::Relaxed);
    if from < 1 << 30 {
        FROM.store(from * 2, Ordering::Relaxed);
        PERIOD.store(PERIOD.load(Ordering::Relaxed) * 2, Ordering::Relaxed);
    }
}

/// Behind it, the C library may store to a block that it has not returned yet: its own bytes, zeros, copies.
#[inline]
fn begins(len: usize) {
    if len >= FROM.load(Ordering::Relaxed) {
        crate::log::begins();
    }
}

fn with(work: impl FnOnce(&mut State)) {
    STATE.with(|state| {
        if let Some(state) = state {
            work(state);
        }
    });
}

#[inline]
fn took(memory: Memory, len: usize) {
    let from = FROM.load(Ordering::Relaxed);
    if len >= from {
        return note(memory, len, 1.0, Way::Heap, true);
    }
    // One look at the thread's own memory: the call that finds it is not free.
    let left = LEFT.with(|held| {
        let left = held.get().wrapping_sub(len as isize);
        held.set(left);
        left
    });
    if left < 0 {
        sample(memory, len, from);
    }
}

#[cold]
fn sample(memory: Memory, len: usize, from: usize) {
    let period = PERIOD.load(Ordering::Relaxed) as f64;
    let mut random = RANDOM.get();
    let first = random == 0;
    if first {
        random = ptr::from_ref(&random).addr() as u64 | 1;
    }
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    RANDOM.set(random);
    let uniform = ((random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    LEFT.set((-uniform.ln() * period) as isize);
    if !first && from != usize::MAX {
        let chance = 1.0 - (-(len as f64) / period).exp();
        PERIOD.fetch_add(STEP, Ordering::Relaxed);
        note(memory, len, 1.0 / chance.max(1e-9), Way::Heap, false);
    }
}

#[cold]
fn note(memory: Memory, len: usize, weight: f64, way: Way, large: bool) {
    // Taking a stack may allocate.
    if memory.is_null() || BUSY.replace(true) {
        return;
    }
    let stack = Stack::here();
    NOTED.fetch_add(1, Ordering::Relaxed);
    let mut remedy = None;
    with(|state| {
        let key = state.note(memory.addr(), len, weight, &stack, way, large);
        remedy = state.remedies.of(key).filter(|_| large).map(|remedy| (key, remedy));
    });
    // It may take long, so nobody waits for it under the lock.
    if let Some((key, remedy)) = remedy {
        let (bytes, done) = remedies::apply(remedy, memory.addr(), len, way == Way::Heap);
        with(|state| state.remedies.did(key, remedy, bytes, done));
    }
    BUSY.set(false);
}

#[inline]
fn gone(memory: Memory) {
    if maybe(memory.addr()) {
        with(|state| state.forget(memory.addr()));
    }
}

/// As the C standard has it; as all below.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(len: usize) -> Memory {
    begins(len);
    let memory = heap::malloc(len);
    took(memory, len);
    memory
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, len: usize) -> Memory {
    let bytes = count.saturating_mul(len);
    begins(bytes);
    let memory = heap::calloc(count, len);
    took(memory, bytes);
    memory
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: Memory) {
    gone(memory);
    // SAFETY: the caller's memory, which is the C library's.
    unsafe { heap::free(memory) };
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(memory: Memory, len: usize) -> Memory {
    // The kernel moves no mappings that were split.
    gone(memory);
    begins(len);
    // SAFETY: the caller's memory, which is the C library's.
    let new = unsafe { heap::realloc(memory, len) };
    if len > 0 {
        took(new, len);
    }
    new
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(memory: Memory, count: usize, len: usize) -> Memory {
    let Some(bytes) = count.checked_mul(len) else {
        // SAFETY: `errno` is the thread's own.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        return ptr::null_mut();
    };
    // SAFETY: the caller's arguments.
    unsafe { realloc(memory, bytes) }
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, len: usize) -> Memory {
    begins(len);
    let memory = heap::memalign(alignment, len);
    took(memory, len);
    memory
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, len: usize) -> Memory {
    memalign(alignment, len)
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(len: usize) -> Memory {
    memalign(4096, len)
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(len: usize) -> Memory {
    memalign(4096, len.next_multiple_of(4096))
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(into: *mut Memory, alignment: usize, len: usize) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let memory = memalign(alignment, len);
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's place for a pointer.
    unsafe { into.write(memory) };
    0
}

/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(
    address: Memory,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> Memory {
    // SAFETY: the caller's arguments.
    let at = unsafe { libc::syscall(libc::SYS_mmap, address, len, protection, flags, file, offset) };
    let memory = ptr::with_exposed_provenance_mut::<c_void>(at as usize);
    let reserved = protection == libc::PROT_NONE;
    if at != -1 && FROM.load(Ordering::Relaxed) != usize::MAX && !BUSY.get() {
        if flags & libc::MAP_FIXED != 0 {
            with(|state| state.forget_range(at as usize, at as usize + len));
        }
        if len >= FROM.load(Ordering::Relaxed) && !reserved {
            note(memory, len, 1.0, Way::Mapping, true);
        }
    }
    memory
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    address: Memory,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> Memory {
    // SAFETY: the caller's arguments.
    unsafe { mmap(address, len, protection, flags, file, offset) }
}

/// As the system call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(memory: Memory, len: usize) -> c_int {
    if FROM.load(Ordering::Relaxed) != usize::MAX && !BUSY.get() {
        with(|state| state.forget_range(memory.addr(), memory.addr() + len));
    }
    // SAFETY: the caller's arguments.
    unsafe { libc::syscall(libc::SYS_munmap, memory, len) as c_int }
}

/// As `strandline_tier.h` has it: what lives in the range is of the structure with that name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sl_tag(memory: Memory, len: usize, name: *const c_char) -> c_int {
    const ARGUMENT: c_int = -1;
    if memory.is_null() || name.is_null() {
        return ARGUMENT;
    }
    if FROM.load(Ordering::Relaxed) != usize::MAX && !BUSY.replace(true) {
        // SAFETY: the caller's text, with a zero at its end.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        with(|state| state.tag(memory.addr(), memory.addr().saturating_add(len.max(1)), &name));
        BUSY.set(false);
    }
    0
}
