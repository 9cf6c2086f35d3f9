//! The `malloc` family. Allocations from a size on are runs of pages of the memory that wears; all others are
//! the C library's.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::heap;
use crate::lock::Lock;
use crate::runs::Runs;

type Memory = *mut c_void;

/// Where the memory that wears begins and ends; nowhere as long as there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
/// Allocations of so many bytes and more come from it.
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// The runs, once there is memory.
static RUNS: Lock<Option<Runs>> = Lock::new(None);

/// Holds the lock, for a fork.
pub fn lock() {
    RUNS.lock();
}

/// Gives the lock back.
pub fn unlock() {
    RUNS.unlock();
}

fn with<R>(work: impl FnOnce(&mut Runs) -> Option<R>) -> Option<R> {
    RUNS.with(|runs| runs.as_mut().and_then(work))
}

/// Lets allocations of `from` bytes and more come from `pages` pages of `page` bytes at `base`.
pub fn begin(base: *mut u8, pages: u32, page: usize, from: usize) {
    RUNS.with(|runs| *runs = Some(Runs::new(pages)));
    PAGE.store(page, Ordering::Relaxed);
    BASE.store(base.expose_provenance(), Ordering::Relaxed);
    END.store(base.addr() + pages as usize * page, Ordering::Release);
    FROM.store(from.max(1), Ordering::Release);
}

/// Pages that have been in use at some time: those below.
pub fn used() -> u32 {
    with(|runs| Some(runs.top())).unwrap_or(0)
}

/// The same for who holds the lock.
pub fn used_under_lock() -> u32 {
    // SAFETY: the caller holds the lock.
    unsafe { RUNS.with_held(|runs| runs.as_ref().map_or(0, Runs::top)) }
}

fn is_ours(memory: Memory) -> bool {
    let at = memory.addr();
    at >= BASE.load(Ordering::Relaxed) && at < END.load(Ordering::Relaxed)
}

fn page_of(memory: Memory) -> u32 {
    ((memory.addr() - BASE.load(Ordering::Relaxed)) / PAGE.load(Ordering::Relaxed)) as u32
}

/// Memory that wears, and whether it is zeros; null if there is none left.
fn take(len: usize, align: usize) -> (Memory, bool) {
    let page = PAGE.load(Ordering::Relaxed);
    let Ok(pages) = u32::try_from(len.div_ceil(page).max(1)) else { return (ptr::null_mut(), false) };
    // The first page lies at a multiple of its size, so larger alignments are of the address.
    if align > page {
        return (ptr::null_mut(), false);
    }
    let Some((first, new)) = with(|runs| runs.take(pages, 1)) else { return (ptr::null_mut(), false) };
    let at = BASE.load(Ordering::Relaxed) + first as usize * page;
    (ptr::with_exposed_provenance_mut(at), new)
}

/// Bytes of memory that is ours.
fn room(memory: Memory) -> usize {
    with(|runs| runs.len(page_of(memory))).unwrap_or(0) as usize * PAGE.load(Ordering::Relaxed)
}

fn large(len: usize) -> bool {
    len >= FROM.load(Ordering::Relaxed)
}

fn allocate(len: usize, align: usize, other: impl FnOnce() -> Memory) -> Memory {
    let memory = if large(len) { take(len, align).0 } else { ptr::null_mut() };
    if memory.is_null() { other() } else { memory }
}

fn fail(error: c_int) -> Memory {
    // SAFETY: `errno` is the thread's own.
    unsafe { *libc::__errno_location() = error };
    ptr::null_mut()
}

/// As the C standard has it; as all below.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(len: usize) -> Memory {
    if large(len) { allocate(len, 16, || heap::malloc(len)) } else { heap::malloc(len) }
}

/// Memory that wears, whatever its size; to be freed by `free`.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_wear_malloc(len: usize) -> Memory {
    let memory = if END.load(Ordering::Relaxed) == 0 { ptr::null_mut() } else { take(len, 16).0 };
    if memory.is_null() { heap::malloc(len) } else { memory }
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, len: usize) -> Memory {
    let Some(bytes) = count.checked_mul(len) else { return fail(libc::ENOMEM) };
    if !large(bytes) {
        return heap::calloc(count, len);
    }
    let (memory, new) = take(bytes, 16);
    if memory.is_null() {
        return heap::calloc(count, len);
    }
    if !new {
        // SAFETY: memory that was just given, of so many bytes at least.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
    }
    memory
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(memory: Memory) {
    if !is_ours(memory) {
        // SAFETY: the caller's memory, which is the C library's.
        return unsafe { heap::free(memory) };
    }
    let given = with(|runs| Some(runs.give(page_of(memory))));
    debug_assert_eq!(given, Some(true), "memory that was allocated");
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(memory: Memory, len: usize) -> Memory {
    let ours = is_ours(memory);
    if !ours && !large(len) {
        // SAFETY: the caller's memory, which is the C library's.
        return unsafe { heap::realloc(memory, len) };
    }
    if memory.is_null() {
        return malloc(len);
    }
    let had = if ours { room(memory) } else { usable(memory) };
    if len == 0 {
        // SAFETY: the caller's memory.
        unsafe { free(memory) };
        return ptr::null_mut();
    }
    if ours && large(len) && len <= had && len > had / 2 {
        return memory;
    }
    let new = malloc(len);
    if !new.is_null() {
        // SAFETY: both have so many bytes, and the old one is the caller's to give.
        unsafe {
            ptr::copy_nonoverlapping(memory.cast::<u8>(), new.cast::<u8>(), had.min(len));
            free(memory);
        }
    }
    new
}

/// See above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(memory: Memory, count: usize, len: usize) -> Memory {
    match count.checked_mul(len) {
        // SAFETY: the caller's arguments.
        Some(bytes) => unsafe { realloc(memory, bytes) },
        None => fail(libc::ENOMEM),
    }
}

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, len: usize) -> Memory {
    allocate(len, alignment, || heap::memalign(alignment, len))
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

/// See above.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(memory: Memory) -> usize {
    match memory {
        memory if memory.is_null() => 0,
        memory if is_ours(memory) => room(memory),
        memory => usable(memory),
    }
}

/// Bytes of memory of the C library's.
fn usable(memory: Memory) -> usize {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let mut found = REAL.load(Ordering::Relaxed);
    if found == 0 {
        // SAFETY: a name in C's form.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) }.addr();
        REAL.store(found, Ordering::Relaxed);
    }
    if found == 0 {
        return 0;
    }
    let real = ptr::with_exposed_provenance::<c_void>(found);
    // SAFETY: the C library's function of that name has that type, and the memory is its own.
    unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn(Memory) -> usize>(real)(memory) }
}
