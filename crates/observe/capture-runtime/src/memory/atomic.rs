//! The compiler's hooks in place of atomic operations: each does the operation and records it.
//!
//! A release's position in the global order is taken before the operation and an acquire's after it, so that
//! of two operations where one reads what the other wrote the positions come in that order. Where stored
//! bytes are recorded, every operation has a position, whatever order was asked for, and stores to one word
//! have theirs in the order in which they were made (`stream/word_lock.rs`).
//!
//! The operations are sequentially consistent whatever was asked for, except that a store which need not
//! be is a plain release, as compiled code would do.

use core::cell::Cell;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence};

use crate::base::session::{Attached, session};
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::RELEASE;
use crate::stream::record::record;
use crate::stream::word_lock::WordLock;
use abi::atomic::{IN_ORDER, LOAD, READ_MODIFY_WRITE, STORE};
use abi::{access, header, kind};

const RELAXED: u8 = 0;
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

/// Whether each operation is to have a position of its own.
#[inline(always)]
fn in_order() -> bool {
    session().is_some_and(Attached::values)
}

/// Does `operation` on `len` bytes at `addr` and records it, where no stored bytes are recorded.
#[inline(always)]
fn carry_out<T>(
    pc: u64,
    access: u8,
    order: u8,
    (addr, len): (u64, usize),
    operation: impl FnOnce() -> T,
) -> T {
    if order == RELAXED && access != READ_MODIFY_WRITE {
        // It orders nothing, and no instruction does what others would not.
        let room = local().stream.room(3);
        let result = operation();
        let access = if access == LOAD { access::LOAD } else { access::STORE };
        room.write_access(header(kind::ACCESS, access, pc), addr, len as u64);
        return result;
    }
    let room = local().stream.room(5);
    let released = if access != LOAD && releases(order) { room.position() } else { 0 };
    let result = operation();
    let acquired = if access != STORE && acquires(order) { room.position() } else { 0 };
    room.write(header(kind::ATOMIC, access | order << 4, pc), &[addr, len as u64, released, acquired]);
    result
}

#[inline(always)]
fn load<V>(pc: u64, order: u8, addr: u64, load: impl FnOnce() -> V) -> V {
    if !in_order() {
        return carry_out(pc, LOAD, order, (addr, size_of::<V>()), load);
    }
    let room = local().stream.room(5);
    let value = load();
    let acquired = room.position();
    let len = size_of::<V>() as u64;
    room.write(header(kind::ATOMIC, LOAD | IN_ORDER | order << 4, pc), &[addr, len, 0, acquired]);
    value
}

#[inline(always)]
fn store<V>(pc: u64, order: u8, addr: u64, value: V, store: impl FnOnce(&V)) {
    if !in_order() {
        return carry_out(pc, STORE, order, (addr, size_of::<V>()), || store(&value));
    }
    let room = local().stream.room(5);
    let lock = WordLock::take(addr);
    let released = room.position();
    store(&value);
    drop(lock);
    let len = size_of::<V>() as u64;
    room.write(header(kind::ATOMIC, STORE | IN_ORDER | order << 4, pc), &[addr, len, released, 0]);
    local().stream.stored((&raw const value).cast(), size_of::<V>());
}

/// Does `modify`, which gives the value before; `after` makes of it the one that was stored.
#[inline(always)]
fn modify<V: Copy>(
    pc: u64,
    order: u8,
    addr: u64,
    modify: impl FnOnce() -> V,
    after: impl FnOnce(V) -> V,
) -> V {
    if !in_order() {
        return carry_out(pc, READ_MODIFY_WRITE, order, (addr, size_of::<V>()), modify);
    }
    let room = local().stream.room(5);
    let lock = WordLock::take(addr);
    let positions = [room.position(), room.position()];
    let before = modify();
    drop(lock);
    let len = size_of::<V>() as u64;
    let header = header(kind::ATOMIC, READ_MODIFY_WRITE | IN_ORDER | order << 4, pc);
    room.write(header, &[addr, len, positions[0], positions[1]]);
    let stored = after(before);
    local().stream.stored((&raw const stored).cast(), size_of::<V>());
    before
}

/// Compares and exchanges: true and `expected`, or false and what was there.
///
/// An attempt that is bound to fail is a load only, so that it takes no position as a release.
#[inline(always)]
fn compare_exchange<V: PartialEq + Copy>(
    pc: u64,
    orders: (c_int, c_int),
    addr: u64,
    [expected, new]: [V; 2],
    look: impl Fn() -> V,
    exchange: impl Fn() -> Result<V, V>,
) -> Result<V, V> {
    if look() != expected {
        let seen = load(pc, order(orders.1), addr, &look);
        if seen != expected {
            return Err(seen);
        }
    }
    let order = order(orders.0);
    if !in_order() {
        return carry_out(pc, READ_MODIFY_WRITE, order, (addr, size_of::<V>()), exchange);
    }
    let result = Cell::new(Err(expected));
    let attempt = || {
        result.set(exchange());
        result.get().unwrap_or_else(|seen| seen)
    };
    modify(pc, order, addr, attempt, |before| if result.get().is_ok() { new } else { before });
    result.get()
}

/// Compares and exchanges a word for a library that records what it does; what was there.
pub fn compare_exchange_word(pc: u64, cell: &AtomicU64, old: u64, new: u64) -> u64 {
    let exchange = || cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
    let load = || cell.load(Ordering::SeqCst);
    let orders = (SEQ_CST.into(), SEQ_CST.into());
    match compare_exchange(pc, orders, cell.as_ptr() as u64, [old, new], load, exchange) {
        Ok(seen) | Err(seen) => seen,
    }
}

/// What an operation stores.
macro_rules! after {
    (fetch_add($before:ident, $value:ident)) => {
        $before.wrapping_add($value)
    };
    (fetch_sub($before:ident, $value:ident)) => {
        $before.wrapping_sub($value)
    };
    (fetch_and($before:ident, $value:ident)) => {
        $before & $value
    };
    (fetch_or($before:ident, $value:ident)) => {
        $before | $value
    };
    (fetch_xor($before:ident, $value:ident)) => {
        $before ^ $value
    };
    (fetch_nand($before:ident, $value:ident)) => {
        !($before & $value)
    };
}

macro_rules! operations {
    ($($bits:literal $type:ty, $atomic:ty: $load:ident $store:ident $exchange:ident
       $strong:ident $weak:ident $value:ident { $($name:ident $method:ident)* })*) => { hooks! { $(
        fn $load(at: *const $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at.cast_mut()) };
            load(caller(), order(mo), at as u64, || cell.load(Ordering::SeqCst))
        }
        fn $store(at: *mut $type, value: $type, mo: c_int) {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let how = if order(mo) == SEQ_CST { Ordering::SeqCst } else { Ordering::Release };
            store(caller(), order(mo), at as u64, value, |&value| cell.store(value, how));
        }
        fn $exchange(at: *mut $type, value: $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            modify(caller(), order(mo), at as u64, || cell.swap(value, Ordering::SeqCst), |_| value)
        }
        $(fn $name(at: *mut $type, value: $type, mo: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let change = || cell.$method(value, Ordering::SeqCst);
            modify(caller(), order(mo), at as u64, change, |before: $type| after!($method(before, value)))
        })*
        fn $strong(at: *mut $type, expected: *mut $type, new: $type, mo: c_int, fail: c_int) -> c_int {
            // SAFETY: the program says that an atomic is there, and what it compares with is its own.
            let (cell, old) = unsafe { (<$atomic>::from_ptr(at), *expected) };
            let exchange = || cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
            let load = || cell.load(Ordering::SeqCst);
            match compare_exchange(caller(), (mo, fail), at as u64, [old, new], load, exchange) {
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
            match compare_exchange(caller(), (mo, fail), at as u64, [old, new], load, exchange) {
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
            match compare_exchange(caller(), (mo, fail), at as u64, [old, new], load, exchange) {
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
    128 u128, crate::memory::wide::AtomicU128: __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange
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
