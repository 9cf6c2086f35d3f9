//! libpmem, and the functions that libpmem2 hands out.
//!
//! The library is not instrumented, so we tell what it does, on a processor with `clwb`: a flush is a `clwb`
//! of each line, a drain an `sfence`, and a copy or fill of [`NON_TEMPORAL_FROM`] bytes or more is done with
//! non-temporal stores, which need no flush. Where the library is linked statically and the linker found our
//! functions first, there is no real one; then we do it ourselves.

use core::ffi::{c_int, c_uint, c_void};

use crate::memory::access::{about_to_store, load, stored};
use crate::state::local::{caller, hooks, local};
use crate::stream::record::record;
use abi::{access, flush, kind};

/// Bytes from which libpmem copies with non-temporal stores.
const NON_TEMPORAL_FROM: usize = 256;

const NO_DRAIN: c_uint = 1;
const NON_TEMPORAL: c_uint = 2;
const TEMPORAL: c_uint = 4;
const WRITE_COMBINE: c_uint = 8;
const WRITE_BACK: c_uint = 16;
const NO_FLUSH: c_uint = 32;

/// Runs a function of the library, which calls others of its own through the same names that we interpose.
fn inside<T>(real: impl FnOnce() -> T) -> T {
    let depth = &local().in_library;
    depth.set(depth.get() + 1);
    let result = real();
    depth.set(depth.get() - 1);
    result
}

/// Whether the program called, not the library itself.
fn called_by_program() -> bool {
    local().in_library.get() == 0
}

/// Records a flush of all lines that the range touches.
pub fn record_flush(pc: u64, addr: *const c_void, len: usize) {
    if len > 0 && called_by_program() {
        record(kind::FLUSH, flush::CLWB, pc, [addr as u64, len as u64]);
    }
}

/// Records a drain.
pub fn record_drain(pc: u64) {
    if called_by_program() {
        record(kind::FENCE, 0, pc, []);
    }
}

/// Records a copy's or fill's stores, which have been executed, and what makes them persistent.
pub fn record_stores(pc: u64, to: *const c_void, len: usize, flags: c_uint) {
    if !called_by_program() {
        return;
    }
    let asked = flags & (NON_TEMPORAL | WRITE_COMBINE) != 0;
    let forbidden = flags & (TEMPORAL | WRITE_BACK) != 0;
    let non_temporal = flags & NO_FLUSH == 0 && !forbidden && (asked || len >= NON_TEMPORAL_FROM);
    if non_temporal {
        stored(access::STORE_NT, pc, to as u64, len as u64);
    } else {
        stored(access::STORE, pc, to as u64, len as u64);
        if flags & NO_FLUSH == 0 {
            record_flush(pc, to, len);
        }
    }
    if flags & (NO_DRAIN | NO_FLUSH) == 0 {
        record_drain(pc);
    }
}

/// The library's function of the same name, if it is there.
macro_rules! library {
    ($name:literal as fn($($type:ty),*) $(-> $result:ty)?) => {{
        static CACHE: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
        let mut found = CACHE.load(core::sync::atomic::Ordering::Relaxed);
        if found == 0 {
            found = crate::real::next::next($name);
            CACHE.store(found, core::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: null, or the library's function of that name, which has that type.
        unsafe { core::mem::transmute::<usize, Option<unsafe extern "C" fn($($type),*) $(-> $result)?>>(found) }
    }};
}

/// Our own flush, for want of the library's.
fn flush_lines(addr: *const c_void, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (addr as usize & !63..addr as usize + len).step_by(64) {
        // SAFETY: inside the lines that the caller's range touches; every x86-64 has the instruction.
        unsafe { core::arch::x86_64::_mm_clflush(line as *const u8) };
    }
    #[cfg(target_arch = "aarch64")]
    for line in (addr as usize & !63..addr as usize + len).step_by(64) {
        // SAFETY: inside the lines that the caller's range touches.
        unsafe { core::arch::asm!("dc cvac, {}", in(reg) line, options(nostack)) };
    }
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}

fn copy(
    pc: u64,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
    real: Option<Copy>,
) -> *mut c_void {
    if called_by_program() {
        about_to_store();
        load(pc, from as u64, len as u64);
    }
    match real {
        // SAFETY: the caller's arguments.
        Some(real) => inside(|| unsafe { real(to, from, len, flags) }),
        None => {
            // SAFETY: as above.
            unsafe { core::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), len) };
            flush_lines(to, len);
            to
        }
    };
    record_stores(pc, to, len, flags);
    to
}

fn set(pc: u64, to: *mut c_void, byte: c_int, len: usize, flags: c_uint, real: Option<Set>) -> *mut c_void {
    about_to_store();
    match real {
        // SAFETY: the caller's arguments.
        Some(real) => inside(|| unsafe { real(to, byte, len, flags) }),
        None => {
            // SAFETY: as above.
            unsafe { core::ptr::write_bytes(to.cast::<u8>(), byte as u8, len) };
            flush_lines(to, len);
            to
        }
    };
    record_stores(pc, to, len, flags);
    to
}

/// A copying function with flags.
pub type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void;
/// A filling function with flags.
pub type Set = unsafe extern "C" fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void;

fn real_memmove() -> Option<Copy> {
    library!(c"pmem_memmove" as fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void)
}

fn real_memcpy() -> Option<Copy> {
    library!(c"pmem_memcpy" as fn(*mut c_void, *const c_void, usize, c_uint) -> *mut c_void)
}

fn real_memset() -> Option<Set> {
    library!(c"pmem_memset" as fn(*mut c_void, c_int, usize, c_uint) -> *mut c_void)
}

/// Flushes by the library's `real`, records it and, if so, the drain.
fn flushed(addr: *const c_void, len: usize, drain: bool, real: impl FnOnce() -> Option<c_int>) -> c_int {
    let pc = caller();
    record_flush(pc, addr, len);
    if drain {
        record_drain(pc);
    }
    inside(real).unwrap_or_else(|| {
        flush_lines(addr, len);
        0
    })
}

hooks! {
    fn pmem_persist(addr: *const c_void, len: usize) {
        let real = library!(c"pmem_persist" as fn(*const c_void, usize));
        // SAFETY: the caller's arguments.
        flushed(addr, len, true, || real.map(|real| unsafe { real(addr, len) }).map(|()| 0));
    }
    fn pmem_flush(addr: *const c_void, len: usize) {
        let real = library!(c"pmem_flush" as fn(*const c_void, usize));
        // SAFETY: the caller's arguments.
        flushed(addr, len, false, || real.map(|real| unsafe { real(addr, len) }).map(|()| 0));
    }
    fn pmem_deep_flush(addr: *const c_void, len: usize) {
        let real = library!(c"pmem_deep_flush" as fn(*const c_void, usize));
        // SAFETY: the caller's arguments.
        flushed(addr, len, false, || real.map(|real| unsafe { real(addr, len) }).map(|()| 0));
    }
    fn pmem_deep_persist(addr: *const c_void, len: usize) -> c_int {
        let real = library!(c"pmem_deep_persist" as fn(*const c_void, usize) -> c_int);
        // SAFETY: the caller's arguments.
        flushed(addr, len, true, || real.map(|real| unsafe { real(addr, len) }))
    }
    fn pmem_msync(addr: *const c_void, len: usize) -> c_int {
        let real = library!(c"pmem_msync" as fn(*const c_void, usize) -> c_int);
        // SAFETY: the caller's arguments.
        flushed(addr, len, true, || real.map(|real| unsafe { real(addr, len) }))
    }
    fn pmem_drain() {
        record_drain(caller());
        if let Some(real) = library!(c"pmem_drain" as fn()) {
            // SAFETY: takes nothing.
            inside(|| unsafe { real() });
        }
    }
    fn pmem_deep_drain(addr: *const c_void, len: usize) -> c_int {
        record_drain(caller());
        let real = library!(c"pmem_deep_drain" as fn(*const c_void, usize) -> c_int);
        // SAFETY: the caller's arguments.
        real.map_or(0, |real| inside(|| unsafe { real(addr, len) }))
    }

    fn pmem_memmove(to: *mut c_void, from: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
        copy(caller(), to, from, len, flags, real_memmove())
    }
    fn pmem_memmove_persist(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len, 0, real_memmove())
    }
    fn pmem_memmove_nodrain(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len, NO_DRAIN, real_memmove())
    }
    fn pmem_memcpy(to: *mut c_void, from: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
        copy(caller(), to, from, len, flags, real_memcpy())
    }
    fn pmem_memcpy_persist(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len, 0, real_memcpy())
    }
    fn pmem_memcpy_nodrain(to: *mut c_void, from: *const c_void, len: usize) -> *mut c_void {
        copy(caller(), to, from, len, NO_DRAIN, real_memcpy())
    }
    fn pmem_memset(to: *mut c_void, byte: c_int, len: usize, flags: c_uint) -> *mut c_void {
        set(caller(), to, byte, len, flags, real_memset())
    }
    fn pmem_memset_persist(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
        set(caller(), to, byte, len, 0, real_memset())
    }
    fn pmem_memset_nodrain(to: *mut c_void, byte: c_int, len: usize) -> *mut c_void {
        set(caller(), to, byte, len, NO_DRAIN, real_memset())
    }
}
