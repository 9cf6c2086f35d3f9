//! What a thread and its own signal handlers leave for each other: plain numbers, all zero at first.
//! [`crate::stream::busy`] says why.

use core::cell::Cell;

use libc::siginfo_t;

use crate::base::sys;

/// Words of a `siginfo_t`, which are the kernel's business.
pub const INFO_WORDS: usize = 16;
const _: () = assert!(size_of::<siginfo_t>() == 8 * INFO_WORDS);
/// Bytes of the kernel's set of signals.
const KERNEL_SET_BYTES: usize = 8;
/// What a thread and its handlers exchange. Plain numbers, zero at first.
#[repr(C)]
#[derive(Default)]
pub struct OwnHandlers {
    /// 1: a record is being made.
    pub busy: Cell<u32>,
    /// 1: the thread sleeps, and has recorded a release before.
    pub released_already: Cell<u32>,
    /// The signal that was put off; 0: none.
    pub put_off: Cell<u32>,
    /// 1: a handler has ended since the thread's last record.
    pub ended: Cell<u32>,
    /// The signals that were blocked before one was put off.
    pub blocked: Cell<u64>,
    /// What came with the signal that was put off.
    pub info: Cell<[u64; INFO_WORDS]>,
    /// Position of the record that was open when a handler began; 0: none was.
    pub open: Cell<u64>,
    /// Position of the release before a handler; 0: none.
    pub release: Cell<u64>,
}

impl OwnHandlers {
    /// Whether a signal waits for the record that is being made.
    pub fn has_put_off(&self) -> bool {
        self.put_off.get() != 0
    }

    /// Whether the thread has to record handlers.
    pub fn is_pending(&self) -> bool {
        self.ended.get() != 0
    }

    /// What the thread has to record handlers that have ended: the position of the release before them, or 0.
    pub fn take(&self) -> u64 {
        self.ended.set(0);
        self.release.replace(0)
    }

    /// The position that a handler took for the record that was open.
    pub fn take_open(&self) -> Option<u64> {
        Some(self.open.replace(0)).filter(|&position| position != 0)
    }

    /// In the child of a fork: nothing is to be recorded.
    pub fn clear(&self) {
        self.take();
        self.take_open();
        self.released_already.set(0);
    }

    /// The thread sends itself the signal that was put off, and unblocks signals.
    pub fn send_again(&self) {
        let signal = self.put_off.replace(0);
        let (mut info, blocked) = (self.info.get(), self.blocked.get());
        // SAFETY: takes nothing, touches nothing.
        let thread = unsafe { sys::call(libc::SYS_gettid, [0; 6]) } as usize;
        let to = [sys::pid() as usize, thread, signal as usize];
        let at = info.as_mut_ptr() as usize;
        // SAFETY: a signal to this thread, with what the kernel once gave; it is blocked until the call
        // below.
        let sent = unsafe { sys::call(libc::SYS_rt_tgsigqueueinfo, [to[0], to[1], to[2], at, 0, 0]) };
        if sent != 0 {
            // The user's queue of signals is full; without its companions one can always be sent.
            // SAFETY: as above.
            unsafe { sys::call(libc::SYS_tgkill, [to[0], to[1], to[2], 0, 0, 0]) };
        }
        let set = &raw const blocked as usize;
        let how = [libc::SIG_SETMASK as usize, set, 0, KERNEL_SET_BYTES, 0, 0];
        // SAFETY: the set is valid for the call. The signal's handler runs before it returns.
        unsafe { sys::call(libc::SYS_rt_sigprocmask, how) };
    }
}
