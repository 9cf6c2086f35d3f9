//! Atomic operations: carried out here, in place of the compiler's.
//!
//! In the pool each is a region of its own (`sfr::Thread::atomic`). Elsewhere one that releases is announced
//! before it happens, and one that acquires after it. A relaxed one orders nothing, but for what fences say:
//! a release fence releases an object that stands for all fences, and whoever acquires acquires that, too; an
//! acquire fence acquires everything, since any relaxed load before it may have seen any release.
//!
//! The operations are sequentially consistent whatever was asked for.

use std::ffi::c_int;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence, fence,
};

use sfr::Kind;
use space::Space as _;

use crate::local::{object, with};
use crate::pool::opened;
use crate::{mapping, window};

const RELEASE: u8 = 3;

fn releases(order: c_int) -> bool {
    order as u8 & 7 >= RELEASE
}

/// Whether an operation of that order acquires.
pub fn acquires(order: c_int) -> bool {
    !matches!(order as u8 & 7, 0 | RELEASE)
}

/// What stands for all fences.
const FENCES: u64 = 1 << 62;
/// Whether the program has used a fence that releases.
static FENCED: AtomicBool = AtomicBool::new(false);

/// Whatever others have released is acquired.
pub fn acquired(address: usize) {
    with(|thread, _| {
        thread.acquire(object(address));
        if FENCED.load(Ordering::Relaxed) {
            thread.acquire(FENCES);
        }
    });
}

/// What this thread has done is released.
pub fn released(address: usize) {
    with(|thread, _| thread.release(object(address)));
}

/// Carries an operation out: a region of its own in the pool, else between a release and an acquire.
#[inline(always)]
pub fn carry_out<R>(
    address: usize,
    bytes: usize,
    kind: Kind,
    order: c_int,
    operation: impl FnOnce() -> R,
) -> R {
    let Some(open) = opened() else {
        if window::contains(address) && kind != Kind::Load {
            mapping::mark(address, bytes);
        }
        return operation();
    };
    if window::contains(address)
        && let Some((offset, _)) = open.part(address, bytes)
    {
        let mut operation = Some(operation);
        let result = with(|thread, open| {
            let done = thread.atomic(offset, bytes as u64, kind, |space| {
                let result = operation.take().map(|operation| operation());
                if open.recorded && kind != Kind::Load {
                    // Once more, so that the recording hears of it.
                    let mut now = vec![0; bytes];
                    space.load(offset, &mut now);
                    space.store(offset, &now);
                }
                result
            });
            if acquires(order) && FENCED.load(Ordering::Relaxed) {
                thread.acquire(FENCES);
            }
            done
        });
        return match result.flatten() {
            Some(result) => result,
            // Within a call of ours, as a handler of a fault may be.
            None => operation
                .take()
                .map_or_else(|| crate::failure::end("an operation was lost"), |operation| operation()),
        };
    }
    if kind != Kind::Load && releases(order) {
        released(address);
    }
    let result = operation();
    if kind != Kind::Store && acquires(order) {
        acquired(address);
    }
    result
}

macro_rules! operations {
    ($($type:ty, $atomic:ty: $load:ident $store:ident $exchange:ident $strong:ident $weak:ident $value:ident {
        $($name:ident $method:ident)*
    })*) => { $(
        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $load(at: *const $type, order: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at.cast_mut()) };
            carry_out(at as usize, size_of::<$type>(), Kind::Load, order, || cell.load(Ordering::SeqCst))
        }

        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $store(at: *mut $type, value: $type, order: c_int) {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let how = if order as u8 & 7 == 5 { Ordering::SeqCst } else { Ordering::Release };
            carry_out(at as usize, size_of::<$type>(), Kind::Store, order, || cell.store(value, how));
        }

        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $exchange(at: *mut $type, value: $type, order: c_int) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let change = || cell.swap(value, Ordering::SeqCst);
            carry_out(at as usize, size_of::<$type>(), Kind::ReadModifyWrite, order, change)
        }

        $(
            /// The operation of that name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(at: *mut $type, value: $type, order: c_int) -> $type {
                // SAFETY: the program says that an atomic is there.
                let cell = unsafe { <$atomic>::from_ptr(at) };
                let change = || cell.$method(value, Ordering::SeqCst);
                carry_out(at as usize, size_of::<$type>(), Kind::ReadModifyWrite, order, change)
            }
        )*

        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $value(
            at: *mut $type,
            old: $type,
            new: $type,
            order: c_int,
            failing: c_int,
        ) -> $type {
            // SAFETY: the program says that an atomic is there.
            let cell = unsafe { <$atomic>::from_ptr(at) };
            let exchange = || match cell.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(seen) | Err(seen) => seen,
            };
            // What fails acquires by the other order; the stronger of both does no harm.
            let order = if acquires(failing) && !acquires(order) { 4 } else { order };
            carry_out(at as usize, size_of::<$type>(), Kind::ReadModifyWrite, order, exchange)
        }

        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $strong(
            at: *mut $type,
            expected: *mut $type,
            new: $type,
            order: c_int,
            failing: c_int,
        ) -> c_int {
            // SAFETY: what it compares with is the program's.
            let old = unsafe { expected.read_unaligned() };
            // SAFETY: the caller's arguments.
            let seen = unsafe { $value(at, old, new, order, failing) };
            if seen != old {
                if window::contains(expected as usize) {
                    crate::local::announce(expected as usize, size_of::<$type>());
                }
                // SAFETY: as above.
                unsafe { expected.write_unaligned(seen) };
            }
            c_int::from(seen == old)
        }

        /// The operation of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $weak(
            at: *mut $type,
            expected: *mut $type,
            new: $type,
            order: c_int,
            failing: c_int,
        ) -> c_int {
            // SAFETY: the caller's arguments.
            unsafe { $strong(at, expected, new, order, failing) }
        }
    )* };
}

operations! {
    u8, AtomicU8: __tsan_atomic8_load __tsan_atomic8_store __tsan_atomic8_exchange
        __tsan_atomic8_compare_exchange_strong __tsan_atomic8_compare_exchange_weak
        __tsan_atomic8_compare_exchange_val {
        __tsan_atomic8_fetch_add fetch_add __tsan_atomic8_fetch_sub fetch_sub __tsan_atomic8_fetch_and fetch_and
        __tsan_atomic8_fetch_or fetch_or __tsan_atomic8_fetch_xor fetch_xor __tsan_atomic8_fetch_nand fetch_nand
    }
    u16, AtomicU16: __tsan_atomic16_load __tsan_atomic16_store __tsan_atomic16_exchange
        __tsan_atomic16_compare_exchange_strong __tsan_atomic16_compare_exchange_weak
        __tsan_atomic16_compare_exchange_val {
        __tsan_atomic16_fetch_add fetch_add __tsan_atomic16_fetch_sub fetch_sub
        __tsan_atomic16_fetch_and fetch_and __tsan_atomic16_fetch_or fetch_or
        __tsan_atomic16_fetch_xor fetch_xor __tsan_atomic16_fetch_nand fetch_nand
    }
    u32, AtomicU32: __tsan_atomic32_load __tsan_atomic32_store __tsan_atomic32_exchange
        __tsan_atomic32_compare_exchange_strong __tsan_atomic32_compare_exchange_weak
        __tsan_atomic32_compare_exchange_val {
        __tsan_atomic32_fetch_add fetch_add __tsan_atomic32_fetch_sub fetch_sub
        __tsan_atomic32_fetch_and fetch_and __tsan_atomic32_fetch_or fetch_or
        __tsan_atomic32_fetch_xor fetch_xor __tsan_atomic32_fetch_nand fetch_nand
    }
    u64, AtomicU64: __tsan_atomic64_load __tsan_atomic64_store __tsan_atomic64_exchange
        __tsan_atomic64_compare_exchange_strong __tsan_atomic64_compare_exchange_weak
        __tsan_atomic64_compare_exchange_val {
        __tsan_atomic64_fetch_add fetch_add __tsan_atomic64_fetch_sub fetch_sub
        __tsan_atomic64_fetch_and fetch_and __tsan_atomic64_fetch_or fetch_or
        __tsan_atomic64_fetch_xor fetch_xor __tsan_atomic64_fetch_nand fetch_nand
    }
    u128, crate::wide::AtomicU128: __tsan_atomic128_load __tsan_atomic128_store __tsan_atomic128_exchange
        __tsan_atomic128_compare_exchange_strong __tsan_atomic128_compare_exchange_weak
        __tsan_atomic128_compare_exchange_val {
        __tsan_atomic128_fetch_add fetch_add __tsan_atomic128_fetch_sub fetch_sub
        __tsan_atomic128_fetch_and fetch_and __tsan_atomic128_fetch_or fetch_or
        __tsan_atomic128_fetch_xor fetch_xor __tsan_atomic128_fetch_nand fetch_nand
    }
}

/// A fence.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_thread_fence(order: c_int) {
    if releases(order) {
        FENCED.store(true, Ordering::SeqCst);
        with(|thread, _| thread.release(FENCES));
    }
    fence(Ordering::SeqCst);
    if acquires(order) {
        with(|thread, _| {
            thread.acquire(FENCES);
            thread.acquire_all();
        });
    }
}

/// A fence between a thread and its signal handlers.
#[unsafe(no_mangle)]
pub extern "C" fn __tsan_atomic_signal_fence(_order: c_int) {
    compiler_fence(Ordering::SeqCst);
}
