//! A thread and its own signal handlers, in order.
//!
//! To who looks at the order of stores a handler is a thread, and one that comes by itself (a timer's) has met nobody. But it goes on
//! behind what its own thread has done, and the thread goes on behind it. Where stored bytes are recorded, for checks, a handler's beginning
//! therefore takes a position for its thread. The thread itself makes the record of it, a release, before its next one, and an acquire:
//! nobody else may write into its stream.
//!
//! Positions must come in the order of their records, so no handler may begin between a record's position and the record.
//! A signal that comes while one is being made ([`Busy`]) is put off: our handler returns with all signals blocked, and when the
//! record is there the thread sends itself the signal again. That takes as long as a record, and where a handler runs is
//! nobody's promise. Faults, and handlers that the kernel forgets when it calls them, are not put off.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use libc::siginfo_t;

use crate::atomic::{acquired, released};
use crate::local::{self, Local, local};
use crate::session::{Attached, session};
use crate::sys;
use crate::wire::MODE_RECORD;

/// What stands for a thread and its handlers where a synchronisation has an address.
const OWN: u64 = 1 << 63 | 1 << 57;

/// Words of a `siginfo_t`, which are the kernel's business.
const INFO_WORDS: usize = 16;
const _: () = assert!(size_of::<siginfo_t>() == 8 * INFO_WORDS);
/// Bytes of the kernel's set of signals.
const KERNEL_SET_BYTES: usize = 8;
/// Signals that a fault of the thread's own raises.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Whether the program has handlers.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// What a thread and its handlers tell each other. Plain numbers, zero at first.
#[repr(C)]
#[derive(Default)]
pub struct OwnHandlers {
    /// 1: a record is being made.
    busy: Cell<u32>,
    /// 1: the thread sleeps, and has told a release before.
    released_already: Cell<u32>,
    /// The signal that was put off; 0: none.
    put_off: Cell<u32>,
    /// 1: a handler has ended since the thread's last record.
    ended: Cell<u32>,
    /// The signals that were blocked before one was put off.
    blocked: Cell<u64>,
    /// What came with the signal that was put off.
    info: Cell<[u64; INFO_WORDS]>,
    /// Position of the record that was open when a handler began; 0: none was.
    open: Cell<u64>,
    /// Position of the release before a handler; 0: none.
    release: Cell<u64>,
}

/// The session, if handlers are put in order.
fn followed() -> Option<&'static Attached> {
    session().filter(|session| session.values() && session.mode() == MODE_RECORD)
}

/// The program has got a handler.
pub fn installed() {
    INSTALLED.store(true, Ordering::Relaxed);
}

/// While this lives, signals are put off.
pub struct Busy(bool);

impl Busy {
    /// Nothing is put off.
    pub const NOT: Busy = Busy(false);

    /// Begins to put off; not in a handler, and not twice.
    pub fn begin(local: &Local) -> Busy {
        let own = &local.own_handlers;
        if own.busy.get() != 0 || local.handlers.get() != 0 || followed().is_none() {
            return Busy::NOT;
        }
        own.busy.set(1);
        compiler_fence(Ordering::SeqCst);
        Busy(true)
    }
}

impl Drop for Busy {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 {
            end();
        }
    }
}

fn end() {
    let own = &local().own_handlers;
    compiler_fence(Ordering::SeqCst);
    own.busy.set(0);
    compiler_fence(Ordering::SeqCst);
    if own.put_off.get() != 0 {
        own.send_again();
    }
}

impl OwnHandlers {
    /// Whether a signal waits for the record that is being made.
    pub fn has_put_off(&self) -> bool {
        self.put_off.get() != 0
    }

    /// Whether the thread has to tell of handlers.
    pub fn is_pending(&self) -> bool {
        self.ended.get() != 0
    }

    /// What the thread has to tell of handlers that have ended: the position of the release before them, or 0.
    pub fn take(&self) -> u64 {
        self.ended.set(0);
        self.release.replace(0)
    }

    /// The position that a handler took for the record that was open.
    pub fn take_open(&self) -> Option<u64> {
        Some(self.open.replace(0)).filter(|&position| position != 0)
    }

    /// In the child of a fork: nothing is to be told.
    pub fn clear(&self) {
        self.take();
        self.take_open();
        self.released_already.set(0);
    }

    fn send_again(&self) {
        let signal = self.put_off.replace(0);
        let (mut info, blocked) = (self.info.get(), self.blocked.get());
        // SAFETY: takes nothing, touches nothing.
        let thread = unsafe { sys::call(libc::SYS_gettid, [0; 6]) } as usize;
        let to = [sys::pid() as usize, thread, signal as usize];
        let at = info.as_mut_ptr() as usize;
        // SAFETY: a signal to this thread, with what the kernel once gave; it is blocked until the call below.
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

/// Puts a signal off that has come while a record is being made; false if it is to be handled now. `once`: the kernel has forgotten its handler.
pub fn puts_off(
    local: &Local,
    signal: c_int,
    once: bool,
    info: *const siginfo_t,
    context: *mut c_void,
) -> bool {
    let own = &local.own_handlers;
    if own.busy.get() == 0 || once || FAULTS.contains(&signal) || info.is_null() || context.is_null() {
        return false;
    }
    // SAFETY: the kernel gave both to our handler, which was installed with SA_SIGINFO; of the set of signals its first word is the kernel's.
    unsafe {
        own.info.set(info.cast::<[u64; INFO_WORDS]>().read_unaligned());
        let set = (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>();
        own.blocked.set(set.read());
        set.write(FAULTS.iter().fold(u64::MAX, |set, fault| set & !(1 << (fault - 1))));
    }
    own.put_off.set(signal.cast_unsigned());
    true
}

/// A handler is about to begin on top of the thread's own stream; `recorded`: somebody reads it, `open`: its last record is open.
pub fn begins(local: &Local, recorded: bool, open: bool) {
    let own = &local.own_handlers;
    let Some(session) = followed() else { return };
    let told = recorded && local.stage.get() == local::RUNNING && own.released_already.get() == 0;
    if !told || own.busy.get() != 0 || own.release.get() != 0 {
        return;
    }
    if open && own.open.get() == 0 {
        own.open.set(session.position());
    }
    own.release.set(session.position());
}

/// In the handler's stream, at its beginning.
pub fn begun(local: &Local) {
    if followed().is_some() {
        acquired(0, address(local));
    }
}

/// In the handler's stream, at its end.
pub fn ends(local: &Local) {
    if followed().is_some() {
        released(0, address(local));
        local.own_handlers.ended.set(1);
    }
}

/// What stands for the thread and its handlers.
pub fn address(local: &Local) -> u64 {
    OWN | u64::from(local.number.get())
}

/// The thread is about to sleep: handlers that come meanwhile find that it has told a release.
pub fn falls_asleep(local: &Local) {
    if INSTALLED.load(Ordering::Relaxed) && local.handlers.get() == 0 && followed().is_some() {
        let _busy = Busy::begin(local);
        released(0, address(local));
        local.own_handlers.released_already.set(1);
    }
}

/// It sleeps no longer.
pub fn wakes(local: &Local) {
    local.own_handlers.released_already.set(0);
}
