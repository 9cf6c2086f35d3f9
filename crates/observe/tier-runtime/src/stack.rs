//! Who called: the return addresses of a thread's stack, without this library's own.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames that are kept.
pub const DEPTH: usize = 12;

/// Where this library lies.
static OWN: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// A call stack, the innermost frame first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stack {
    frames: [usize; DEPTH],
    len: usize,
}

#[repr(C)]
struct Context(c_void);

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: extern "C" fn(*mut Context, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
}

/// Says where this library lies, so that its frames are left out.
pub fn begin(start: usize, end: usize) {
    OWN[0].store(start, Ordering::Relaxed);
    OWN[1].store(end, Ordering::Relaxed);
}

impl Stack {
    /// Of the calling thread.
    pub fn here() -> Stack {
        let mut stack = Stack::default();
        // SAFETY: the callback is given the address of a stack that lives until the call is over.
        unsafe { _Unwind_Backtrace(frame, (&raw mut stack).cast()) };
        stack
    }

    /// The return addresses.
    pub fn frames(&self) -> &[usize] {
        &self.frames[..self.len]
    }

    /// A number that is the same for the same frames.
    pub fn hash(&self) -> u64 {
        mix(self.frames().iter().map(|&frame| frame as u64))
    }
}

/// A number that is the same for the same words.
pub fn mix(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x9e37_79b9_7f4a_7c15u64, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        sum ^ (sum >> 29)
    })
}

extern "C" fn frame(context: *mut Context, argument: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: the unwinder's own context, as long as this call.
    let address = unsafe { _Unwind_GetIP(context) };
    // SAFETY: the stack that `here` gave.
    let stack = unsafe { &mut *argument.cast::<Stack>() };
    let own = (OWN[0].load(Ordering::Relaxed)..OWN[1].load(Ordering::Relaxed)).contains(&address);
    if own || address == 0 {
        return GO_ON;
    }
    stack.frames[stack.len] = address;
    stack.len += 1;
    if stack.len == DEPTH { STOP } else { GO_ON }
}
