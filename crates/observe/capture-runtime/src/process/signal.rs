//! Signal handlers record into a stream of their own.
//!
//! A handler may interrupt code in line between any two of its instructions, so it must not touch the
//! thread's stream. We therefore install a handler of ours in front of the program's, which puts the stream
//! aside. A handler that interrupts a handler finds the second stream in use; its records are lost.
//!
//! A handler that is left by `siglongjmp` never comes back to us. The next time that the stream asks for room
//! above the handler's frame, or outside of the stack for signal handlers if it worked there, the thread's
//! own stream is taken up again; `process/jump.rs` sees to it that the next record asks.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use libc::{SIG_DFL, SIG_ERR, SIG_IGN, sighandler_t, siginfo_t};

use crate::state::local::local;
use crate::state::stream::Stream;
use crate::stream::switch::{OUTERMOST, SWITCHING, resume, signal_stack};
use crate::stream::{busy, own_handlers};
use crate::sync::signals;

/// Signals that there are, plus 1.
const SIGNALS: usize = 65;

/// The program's handler of each signal.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// What the program said of it.
static FLAGS: [AtomicI32; SIGNALS] = [const { AtomicI32::new(0) }; SIGNALS];

unsafe extern "C" {
    /// The C library's own, which nobody interposes.
    fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
}

/// Stands before every handler of the program.
extern "C" fn enter(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let handler = HANDLERS.get(signal as usize).map_or(0, |handler| handler.load(Ordering::Acquire));
    if handler == 0 {
        return;
    }
    // SAFETY: the program gave it as a handler; one that takes the signal only ignores the other arguments.
    let handler =
        unsafe { core::mem::transmute::<usize, extern "C" fn(c_int, *mut siginfo_t, *mut c_void)>(handler) };
    let local = local();
    let once = FLAGS[signal as usize].load(Ordering::Relaxed) & libc::SA_RESETHAND != 0;
    if busy::puts_off(local, signal, once, info, context) {
        return;
    }
    let (caller, site) = (local.caller.get(), local.site.get());
    let depth = local.handlers.get();
    if depth == 0 {
        let frame = &raw const handler as usize;
        local.handlers.set(SWITCHING);
        busy::begins(local, local.stream.is_read(), local.stream.is_open());
        local.interrupted.replace(&local.stream);
        local.stream.replace(&local.handler);
        local.handler_stack.set(frame);
        local.signal_stack.set(signal_stack());
        local.handlers.set(OUTERMOST);
        signals::got(0);
        own_handlers::begun(local);
        handler(signal, info, context);
        signals::handled();
        own_handlers::ends(local);
        local.handlers.set(SWITCHING);
        resume(local);
    } else {
        if depth == OUTERMOST {
            // In case that this handler and the one below are both left by a jump.
            local.handler.replace(&local.stream);
        }
        local.handlers.set(if depth == SWITCHING { SWITCHING } else { depth + 1 });
        let interrupted = Stream::default();
        interrupted.replace(&local.stream);
        local.stream.replace(&Stream::lost());
        handler(signal, info, context);
        local.stream.replace(&interrupted);
    }
    local.handlers.set(depth);
    local.caller.set(caller);
    local.site.set(site);
}

/// As `sigaction`, with ours in front of the new handler and the program's in the answer.
fn install(signal: c_int, new: Option<&libc::sigaction>, old: Option<&mut libc::sigaction>) -> c_int {
    let (Some(slot), Some(flags)) = (HANDLERS.get(signal as usize), FLAGS.get(signal as usize)) else {
        // SAFETY: both are null or valid. The number is wrong, which the C library says.
        return unsafe { __sigaction(signal, as_pointer(new), core::ptr::null_mut()) };
    };
    let (before, flags_before) = (slot.load(Ordering::Acquire), flags.load(Ordering::Relaxed));
    let mut ours = new.copied();
    if let Some(action) = &mut ours {
        let program = action.sa_sigaction;
        if program != SIG_DFL && program != SIG_IGN {
            // First the program's: when ours is called, it must be there.
            slot.store(program, Ordering::Release);
            flags.store(action.sa_flags, Ordering::Relaxed);
            busy::installed();
            action.sa_sigaction = enter as *const () as usize;
            action.sa_flags |= libc::SA_SIGINFO;
        }
    }
    // SAFETY: zero bytes are a valid `sigaction`.
    let mut was: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: both are null or valid.
    let result = unsafe { __sigaction(signal, as_pointer(ours.as_ref()), &mut was) };
    if result != 0 {
        slot.store(before, Ordering::Release);
        flags.store(flags_before, Ordering::Relaxed);
    } else if let Some(old) = old {
        *old = was;
        if was.sa_sigaction == enter as *const () as usize {
            old.sa_sigaction = before;
            if flags_before & libc::SA_SIGINFO == 0 {
                old.sa_flags &= !libc::SA_SIGINFO;
            }
        }
    }
    result
}

fn as_pointer<T>(option: Option<&T>) -> *const T {
    option.map_or(core::ptr::null(), |reference| reference)
}

/// As `signal` with these flags.
fn set_handler(signal: c_int, handler: sighandler_t, flags: c_int) -> sighandler_t {
    // SAFETY: zero bytes are a valid `sigaction`: no flags, no signals blocked.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { core::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    if flags & libc::SA_NODEFER == 0 && (1..=64).contains(&signal) {
        // SAFETY: on the 64-bit targets a set begins with a word that has a bit for each of the kernel's
        // signals; a wrong number is found by `install`.
        unsafe { *(&raw mut new.sa_mask).cast::<u64>() |= 1 << (signal - 1) };
    }
    if install(signal, Some(&new), Some(&mut old)) == 0 { old.sa_sigaction } else { SIG_ERR }
}

/// Interposed. `old` may be the same as `new`.
///
/// # Safety
/// As C's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's pointers are null or valid.
    let copy = unsafe { new.as_ref() }.copied();
    // SAFETY: as above.
    install(signal, copy.as_ref(), unsafe { old.as_mut() })
}

/// Interposed: BSD's meaning, as in the C library.
#[unsafe(no_mangle)]
pub extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESTART)
}

/// Interposed.
#[unsafe(no_mangle)]
pub extern "C" fn bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESTART)
}

/// Interposed.
#[unsafe(no_mangle)]
pub extern "C" fn ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESTART)
}

/// Interposed: what `signal` is with strict ISO C.
#[unsafe(no_mangle)]
pub extern "C" fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}

/// Interposed.
#[unsafe(no_mangle)]
pub extern "C" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    set_handler(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
}
