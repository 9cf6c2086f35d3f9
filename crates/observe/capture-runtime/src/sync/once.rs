//! What is done once, by whoever comes first: `pthread_once`, `call_once`, and C++'s static variables of
//! functions.
//!
//! Whoever comes later, or waits meanwhile, goes on behind what the first one did. That one's end is recorded
//! before the others are let go on: behind the function, but still within the C library's.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use crate::base::sys;
use crate::real::next::{next, real};
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};

/// What [`first`] keeps while the function runs.
#[repr(C)]
struct Frame {
    object: u64,
    pc: u64,
}

/// Stands in for the function. Exceptions may pass through it.
#[unsafe(naked)]
unsafe extern "C" fn first() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_def_cfa_offset 32",
        "mov rdi, rsp",
        "call {begin}",
        "call rax",
        "mov rdi, rsp",
        "call {end}",
        "add rsp, 24",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        ".cfi_startproc",
        "sub sp, sp, 32",
        ".cfi_def_cfa_offset 32",
        "str x30, [sp, 16]",
        ".cfi_offset x30, -16",
        "mov x0, sp",
        "bl {begin}",
        "blr x0",
        "mov x0, sp",
        "bl {end}",
        "ldr x30, [sp, 16]",
        "add sp, sp, 32",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        begin = sym begin,
        end = sym end,
    );
}

extern "C" fn begin(frame: *mut Frame) -> usize {
    let (function, object, pc) = local().once.get();
    // SAFETY: room on the stack of `first`.
    unsafe { frame.write(Frame { object, pc }) };
    function
}

extern "C" fn end(frame: *const Frame) {
    // SAFETY: `begin` wrote it.
    let Frame { object, pc } = unsafe { frame.read() };
    released(pc, object);
}

/// Has `function` carried out once, as `object` says, by `real`, which gets another function in its stead.
fn once<T>(object: u64, function: usize, real: impl FnOnce(usize) -> T) -> T {
    let pc = caller();
    let stream = &local().stream;
    // The function records, so the chunk is not parked while others wait for it.
    stream.finish_record();
    local().once.set((function, object, pc));
    let result = real(first as *const () as usize);
    acquired(pc, object);
    result
}

/// The state of a static variable, in its guard's second byte, where there is no C++ library to keep it.
const UNDER_WAY: u8 = 1;

/// The C++ library's function of that name, if there is such a library apart from the program.
macro_rules! guard {
    ($name:literal as fn($guard:expr) -> $result:ty) => {{
        static CACHE: AtomicUsize = AtomicUsize::new(UNKNOWN);
        let mut found = CACHE.load(Ordering::Relaxed);
        if found == UNKNOWN {
            found = next($name);
            CACHE.store(found, Ordering::Relaxed);
        }
        // SAFETY: the library's function of that name has that type; the argument is the program's.
        (found != 0).then(|| unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn(*mut AtomicU8) -> $result>(found)($guard)
        })
    }};
}

/// A function that was not looked for yet.
const UNKNOWN: usize = 1;

/// A guard's bytes: whether the variable is there, and whether somebody makes it.
fn bytes(guard: *mut AtomicU8) -> [&'static AtomicU8; 2] {
    // SAFETY: a guard has eight bytes and stays as long as the program's code.
    unsafe { [&*guard, &*guard.add(1)] }
}

/// What the C++ library does: 1 if the caller is to make the variable, 0 once it is there.
fn acquire(guard: *mut AtomicU8) -> c_int {
    let [done, state] = bytes(guard);
    loop {
        if done.load(Ordering::Acquire) != 0 {
            return 0;
        }
        if state.swap(UNDER_WAY, Ordering::AcqRel) == 0 {
            return 1;
        }
        sys::give_way();
    }
}

hooks! {
    fn pthread_once(control: *mut c_int, function: usize) -> c_int {
        let real = real!(c"pthread_once" as fn(*mut c_int, usize) -> c_int);
        // SAFETY: the caller's arguments, but for the function, which has the same type.
        once(control as u64, function, |function| unsafe { real(control, function) })
    }

    fn call_once(flag: *mut c_void, function: usize) {
        let real = real!(c"call_once" as fn(*mut c_void, usize));
        // SAFETY: as above.
        once(flag as u64, function, |function| unsafe { real(flag, function) })
    }

    fn __cxa_guard_acquire(guard: *mut AtomicU8) -> c_int {
        let pc = caller();
        let wait = || guard!(c"__cxa_guard_acquire" as fn(guard) -> c_int).unwrap_or_else(|| acquire(guard));
        let result = local().stream.parked(wait);
        acquired(pc, guard as u64);
        result
    }

    fn __cxa_guard_release(guard: *mut AtomicU8) {
        released(caller(), guard as u64);
        if guard!(c"__cxa_guard_release" as fn(guard) -> ()).is_none() {
            let [done, state] = bytes(guard);
            done.store(1, Ordering::Release);
            state.store(0, Ordering::Release);
        }
    }

    fn __cxa_guard_abort(guard: *mut AtomicU8) {
        released(caller(), guard as u64);
        if guard!(c"__cxa_guard_abort" as fn(guard) -> ()).is_none() {
            bytes(guard)[1].store(0, Ordering::Release);
        }
    }
}
