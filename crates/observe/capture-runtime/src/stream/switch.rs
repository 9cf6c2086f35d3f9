//! Back to the thread's own stream, when a signal handler is done or was left by a jump.

use crate::base::sys;
use crate::state::local::Local;
use crate::stream::own_handlers;

/// [`Local::handlers`]: streams are being exchanged.
pub const SWITCHING: u32 = 1;
/// [`Local::handlers`]: a handler is at work that did not interrupt another.
pub const OUTERMOST: u32 = 2;

/// Takes the thread's own stream up again.
pub fn resume(local: &Local) {
    if !local.stream.is_lost() {
        local.handler.replace(&local.stream);
    }
    local.stream.replace(&local.interrupted);
    local.stream.limit_of_loads.set(0);
    local.handler_stack.set(0);
}

/// If the outermost handler was left by a jump, takes the thread's own stream up again. `here` is the address
/// of something on the caller's stack.
pub fn left_by_jump(local: &Local, here: usize) {
    let frame = local.handler_stack.get();
    let (start, end) = local.signal_stack.get();
    let left = if start == end { here > frame && !on_signal_stack() } else { here < start || here >= end };
    if local.handlers.get() >= OUTERMOST && frame != 0 && left {
        local.handlers.set(SWITCHING);
        if !local.stream.is_lost() {
            own_handlers::ends(local);
        }
        resume(local);
        local.handlers.set(0);
    }
}

fn on_signal_stack() -> bool {
    let (start, end) = signal_stack();
    start != end
}

/// Where the stack for signal handlers begins and ends, if the caller is on it; else zeros.
pub fn signal_stack() -> (usize, usize) {
    let mut stack = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    let args = [0, &raw mut stack as usize, 0, 0, 0, 0];
    // SAFETY: only asks; `stack` is a valid place.
    let result = unsafe { sys::call(libc::SYS_sigaltstack, args) };
    let start = stack.ss_sp as usize;
    if result == 0 && stack.ss_flags & libc::SS_ONSTACK != 0 {
        (start, start + stack.ss_size)
    } else {
        (0, 0)
    }
}
