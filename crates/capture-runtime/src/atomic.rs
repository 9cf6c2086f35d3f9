//! The compiler's hooks in place of atomic operations: each does the operation and tells it.
//!
//! A release's position in the global order is taken before the operation and an acquire's after it, so that of two
//! operations where one reads what the other wrote the positions come in that order.
//!
//! The operations are sequentially consistent whatever was asked for, except that a store which need not
//! be is a plain release, as compiled code would do.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

use crate::local::{caller, hooks, local};
use crate::stream::record;
use crate::wire::{header, kind};

const LOAD: u8 = 0;
const STORE: u8 = 1;
const READ_MODIFY_WRITE: u8 = 2;

const RELAXED: u8 = 0;
const RELEASE: u8 = 3;
const ACQ_REL: u8 = 4;
const SEQ_CST: u8 = 5;

/// A C11 order as the compiler passes it; the bits above are hints.
#[inline]
fn order(order: c_int) -> u8 {
    (order as u8 & 7).min(SEQ_CST)
}

fn releases(order: u8) -> bool {
    matches!(order, RELEASE | ACQ_REL | SEQ_CST)
}

fn acquires(order: u8) -> bool {
    !matches!(order, RELAXED | RELEASE)
}

/// Does `operation` on `len` bytes at `addr` and tells it.
#[inline(always)]
pub fn atomic<T>(pc: u64, access: u8, order: u8, addr: u64, len: u64, operation: impl FnOnce() -> T) -> T {
    let room = local().stream.room(5);
    let released = if access != LOAD && releases(order) { room.position() } else { 0 };
    let result = operation();
    let acquired = if access != STORE && acquires(order) { room.position() } else { 0 };
    room.write(header(kind::ATOMIC, access | order << 4, pc), &[addr, len, released, acquired]);
    if access != LOAD {
        local().stream.stored(addr as *const u8, len as usize);
    }
    result
}

/// Tells that a synchronisation object of the C library was changed before a wait or to end one.
pub fn released(pc: u64, addr: u64, len: u64) {
    atomic(pc, READ_MODIFY_WRITE, RELEASE, addr, len, || ());
}

/// Tells that a wait for a synchronisation object of the C library has ended.
pub fn acquired(pc: u64, addr: u64, len: u64) {
    atomic(pc, READ_MODIFY_WRITE, 2, addr, len, || ());
}

/// Compares and exchanges: true and `expected`, or false and what was there.
///
/// An attempt that is bound to fail is a load only, so that it takes no position as a release.
#[inline(always)]
fn compare_exchange<T: PartialEq + Copy>(
    pc: u64,
    orders: (c_int, c_int),
    addr: u64,
    expected: T,
    load: impl Fn() -> T,
    exchange: impl Fn() -> Result<T, T>,
) -> Result<T, T> {
    let len = size_of::<T>() as u64;
    let seen = atomic_unless(pc, order(orders.1), addr, len, &load, |&seen| seen == expected);
    match seen {
        Some(other) => Err(other),
        None => atomic(pc, READ_MODIFY_WRITE, order(orders.0), addr, len, exchange),
    }
}

/// Loads, and tells it unless the value is what `but` says.
#[inline(always)]
fn atomic_unless<T>(
    pc: u64,
    order: u8,
    addr: u64,
    len: u64,
    load: impl Fn() -> T,
    but: impl Fn(&T) -> bool,
) -> Option<T> {
    if but(&load()) {
        return None;
    }
    let value = atomic(pc, LOAD, order, addr, len, load);
    if but(&value) { None } else { Some(value) }
}

macro_rules! operations {
    ($($bits:literal $type:ty, $atomic:ty: $load:ident $store:ident $exchange:ident
       $strong:ident $weak:ident $value:ident { $($name:ident $method:ident)* })*) => { hooks! { $(
        fn $load(at: *const $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at.cast_mut()) };
            atomic(caller(), LOAD, order(mo), at as u64, $bits / 8, || cell.load(Ordering::SeqCst))
        }
        fn $store(at: *mut $type, value: $type, mo: c_int) {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let how = if order(mo) == SEQ_CST { Ordering::SeqCst } else { Ordering::Release };
            atomic(caller(), STORE, order(mo), at as u64, $bits / 8, || cell.store(value, how));
        }
        fn $exchange(at: *mut $type, value: $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let change = || cell.swap(value, Ordering::SeqCst);
            atomic(caller(), READ_MODIFY_WRITE, order(mo), at as u64, $bits / 8, change)
        }
        $(fn $name(at: *mut $type, value: $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let change = || cell.$method(value, Ordering::SeqCst);
            atomic(caller(), READ_MODIFY_WRITE, order(mo), at as u64, $bits / 8, change)
        })*
        fn $strong(at: *mut $type, expected: *mut $type, new: $type, mo: c_int, fail: c_int) -> c_int {
            // SAFETY: the program says that an atomic is there, and what it compares with is its own.
            let (cell, old) = unsafe { (<$atomic>::from_ptr(at), *expected) };
            let exchange = || cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
            let load = || cell.load(Ordering::SeqCst);
            match compare_exchange(caller(), (mo, fail), at as u64, old, load, exchange) {
                Ok(_) => 1,
                Err(seen) => {
                    // SAFETY: as above.
                    unsafe { *expected = seen };
                    0
                }
            }
        }
        fn $weak(at: *mut $type, expected: *mut $type, new: $type, mo: c_int, fail: c_int) -> c_int {
            // SAFETY: the program says that an atomic is there, and what it compares with is its own.
            let (cell, old) = unsafe { (<$atomic>::from_ptr(at), *expected) };
            let exchange = || cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
            let load = || cell.load(Ordering::SeqCst);
            match compare_exchange(caller(), (mo, fail), at as u64, old, load, exchange) {
                Ok(_) => 1,
                Err(seen) => {
                    // SAFETY: as above.
                    unsafe { *expected = seen };
                    0
                }
            }
        }
        fn $value(at: *mut $type, old: $type, new: $type, mo: c_int, fail: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let exchange = || cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
            let load = || cell.load(Ordering::SeqCst);
            match compare_exchange(caller(), (mo, fail), at as u64, old, load, exchange) {
                Ok(seen) | Err(seen) => seen,
            }
        }
    )* } };
}

operations! {
    8 u8, AtomicU8: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
        __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
        __tsan_atomic8_compare_exchange_val {
        __tsan_atomic8_fetch_add fetch_add __tsan_atomic8_fetch_sub fetch_sub __tsan_atomic8_fetch_and fetch_and
        __tsan_atomic8_fetch_or fetch_or __tsan_atomic8_fetch_xor fetch_xor __tsan_atomic8_fetch_nand fetch_nand
    }
    16 u16, AtomicU16: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
        __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
        __tsan_atomic16_compare_exchange_val {
        __tsan_atomic16_fetch_add fetch_add __tsan_atomic16_fetch_sub fetch_sub __tsan_atomic16_fetch_and fetch_and
        __tsan_atomic16_fetch_or fetch_or __tsan_atomic16_fetch_xor fetch_xor __tsan_atomic16_fetch_nand fetch_nand
    }
    32 u32, AtomicU32: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
        __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
        __tsan_atomic32_compare_exchange_val {
        __tsan_atomic32_fetch_add fetch_add __tsan_atomic32_fetch_sub fetch_sub __tsan_atomic32_fetch_and fetch_and
        __tsan_atomic32_fetch_or fetch_or __tsan_atomic32_fetch_xor fetch_xor __tsan_atomic32_fetch_nand fetch_nand
    }
    64 u64, AtomicU64: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
        __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
        __tsan_atomic64_compare_exchange_val {
        __tsan_atomic64_fetch_add fetch_add __tsan_atomic64_fetch_sub fetch_sub __tsan_atomic64_fetch_and fetch_and
        __tsan_atomic64_fetch_or fetch_or __tsan_atomic64_fetch_xor fetch_xor __tsan_atomic64_fetch_nand fetch_nand
    }
    128 u128, crate::wide::AtomicU128: __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange
        __tsan_atomic128_compare_exchange_strong __tsan_atomic128_compare_exchange_weak
        __tsan_atomic128_compare_exchange_val {
        __tsan_atomic128_fetch_add fetch_add __tsan_atomic128_fetch_sub fetch_sub
        __tsan_atomic128_fetch_and fetch_and __tsan_atomic128_fetch_or fetch_or
        __tsan_atomic128_fetch_xor fetch_xor __tsan_atomic128_fetch_nand fetch_nand
    }
}

hooks! {
    fn __tsan_atomic_thread_fence(mo: c_int) {
        let pc = caller();
        // On x86 only the strongest one is an instruction.
        if order(mo) == SEQ_CST {
            record(kind::FENCE, 1, pc, []);
        }
        fence(Ordering::SeqCst);
    }

    fn __tsan_atomic_signal_fence(_mo: c_int) {
        compiler_fence(Ordering::SeqCst);
    }
}
