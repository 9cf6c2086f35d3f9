//! libpmem2 hands out functions that fit a mapping; we hand out ours, which call them.
//!
//! The library has few different ones of each kind, so each kind has [`SLOTS`] of ours, and a function that
//! is handed out gets the first slot that is free or its own already. Beyond that it is handed out as it is.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::memory::access::{about_to_store, load};
use crate::memory::pmem::{Copy, Set, record_drain, record_flush, record_stores};
use crate::real::next::real;
use crate::state::local::{caller, hooks};

/// Functions of one kind that we can stand in front of.
const SLOTS: usize = 4;

type Slots = [AtomicUsize; SLOTS];
type Flush = unsafe extern "C" fn(*const c_void, usize);
type Drain = unsafe extern "C" fn();

static PERSIST: Slots = [const { AtomicUsize::new(0) }; SLOTS];
static FLUSH: Slots = [const { AtomicUsize::new(0) }; SLOTS];
static DRAIN: Slots = [const { AtomicUsize::new(0) }; SLOTS];
static MEMCPY: Slots = [const { AtomicUsize::new(0) }; SLOTS];
static MEMMOVE: Slots = [const { AtomicUsize::new(0) }; SLOTS];
static MEMSET: Slots = [const { AtomicUsize::new(0) }; SLOTS];

/// The function of ours that stands for `real`.
fn ours(real: usize, slots: &Slots, functions: [usize; SLOTS]) -> usize {
    if real == 0 {
        return 0;
    }
    for (slot, ours) in slots.iter().zip(functions) {
        let found = slot.compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire);
        if found.is_ok() || found == Err(real) {
            return ours;
        }
    }
    real
}

/// The function that was handed out for slot `at`.
fn real_of(slots: &Slots, at: usize) -> usize {
    slots[at].load(Ordering::Acquire)
}

fn persist(at: usize, addr: *const c_void, len: usize) {
    let pc = caller();
    record_flush(pc, addr, len);
    record_drain(pc);
    // SAFETY: libpmem2 gave it as such a function; the arguments are the caller's.
    unsafe { core::mem::transmute::<usize, Flush>(real_of(&PERSIST, at))(addr, len) };
}

fn flush(at: usize, addr: *const c_void, len: usize) {
    record_flush(caller(), addr, len);
    // SAFETY: as above.
    unsafe { core::mem::transmute::<usize, Flush>(real_of(&FLUSH, at))(addr, len) };
}

fn drain(at: usize) {
    record_drain(caller());
    // SAFETY: as above.
    unsafe { core::mem::transmute::<usize, Drain>(real_of(&DRAIN, at))() };
}

fn copy(
    slots: &Slots,
    at: usize,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    let pc = caller();
    about_to_store();
    load(pc, from as u64, len as u64);
    // SAFETY: as above.
    let result = unsafe { core::mem::transmute::<usize, Copy>(real_of(slots, at))(to, from, len, flags) };
    record_stores(pc, to, len, flags);
    result
}

fn set(at: usize, to: *mut c_void, byte: c_int, len: usize, flags: c_uint) -> *mut c_void {
    let pc = caller();
    about_to_store();
    // SAFETY: as above.
    let result = unsafe { core::mem::transmute::<usize, Set>(real_of(&MEMSET, at))(to, byte, len, flags) };
    record_stores(pc, to, len, flags);
    result
}

/// Defines the functions of a slot.
macro_rules! slots {
    ($($at:literal: $persist:ident $flush:ident $drain:ident $memcpy:ident $memmove:ident $memset:ident;)*) => {
        hooks! { $(
            fn $persist(addr: *const c_void, len: usize) {
                persist($at, addr, len);
            }
            fn $flush(addr: *const c_void, len: usize) {
                flush($at, addr, len);
            }
            fn $drain() {
                drain($at);
            }
            fn $memcpy(to: *mut c_void, from: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
                copy(&MEMCPY, $at, to, from, len, flags)
            }
            fn $memmove(to: *mut c_void, from: *const c_void, len: usize, flags: c_uint) -> *mut c_void {
                copy(&MEMMOVE, $at, to, from, len, flags)
            }
            fn $memset(to: *mut c_void, byte: c_int, len: usize, flags: c_uint) -> *mut c_void {
                set($at, to, byte, len, flags)
            }
        )* }
        unsafe extern "C" {
            $(fn $persist(); fn $flush(); fn $drain(); fn $memcpy(); fn $memmove(); fn $memset();)*
        }
        hooks! {
            fn pmem2_get_persist_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_persist_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument; as below.
                ours(unsafe { real(map) }, &PERSIST, [$($persist as *const () as usize),*])
            }
            fn pmem2_get_flush_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_flush_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument.
                ours(unsafe { real(map) }, &FLUSH, [$($flush as *const () as usize),*])
            }
            fn pmem2_get_drain_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_drain_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument.
                ours(unsafe { real(map) }, &DRAIN, [$($drain as *const () as usize),*])
            }
            fn pmem2_get_memcpy_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_memcpy_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument.
                ours(unsafe { real(map) }, &MEMCPY, [$($memcpy as *const () as usize),*])
            }
            fn pmem2_get_memmove_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_memmove_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument.
                ours(unsafe { real(map) }, &MEMMOVE, [$($memmove as *const () as usize),*])
            }
            fn pmem2_get_memset_fn(map: *mut c_void) -> usize {
                let real = real!(c"pmem2_get_memset_fn" as fn(*mut c_void) -> usize);
                // SAFETY: the caller's argument.
                ours(unsafe { real(map) }, &MEMSET, [$($memset as *const () as usize),*])
            }
        }
    };
}

slots! {
    0: strandline_pmem2_persist_0 strandline_pmem2_flush_0 strandline_pmem2_drain_0
        strandline_pmem2_memcpy_0 strandline_pmem2_memmove_0 strandline_pmem2_memset_0;
    1: strandline_pmem2_persist_1 strandline_pmem2_flush_1 strandline_pmem2_drain_1
        strandline_pmem2_memcpy_1 strandline_pmem2_memmove_1 strandline_pmem2_memset_1;
    2: strandline_pmem2_persist_2 strandline_pmem2_flush_2 strandline_pmem2_drain_2
        strandline_pmem2_memcpy_2 strandline_pmem2_memmove_2 strandline_pmem2_memset_2;
    3: strandline_pmem2_persist_3 strandline_pmem2_flush_3 strandline_pmem2_drain_3
        strandline_pmem2_memcpy_3 strandline_pmem2_memmove_3 strandline_pmem2_memset_3;
}
