//! A thread and its own signal handlers, in order.
//!
//! A check of the order of stores takes a handler for a thread, and one that comes by itself (a timer's) has
//! met nobody. But it goes on behind what its own thread has done, and the thread goes on behind it. Where
//! stored bytes are recorded, for checks, a handler's beginning therefore takes a position for its thread.
//! The thread itself makes the record of it, a release, before its next one, and an acquire: nobody else may
//! write into its stream.
//!
//! Positions must come in the order of their records, so no handler may begin between a record's position and
//! the record. A signal that comes while one is being made ([`Busy`]) is put off: our handler returns with
//! all signals blocked, and when the record is there the thread sends itself the signal again. That takes as
//! long as a record, and where a handler runs is nobody's promise. Faults, and handlers that the kernel
//! forgets when it calls them, are not put off.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use abi::MODE_RECORD;
use libc::siginfo_t;

use crate::base::session::{Attached, session};
use crate::state::local::{self, Local, local};
use crate::state::own_handlers::INFO_WORDS;

/// What stands for a thread and its handlers where a synchronisation has an address.
const OWN: u64 = 1 << 63 | 1 << 57;

/// Signals that a fault of the thread's own raises.
const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Whether the program has handlers.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// The session, if handlers are put in order.
pub fn followed() -> Option<&'static Attached> {
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

/// Puts a signal off that has come while a record is being made; false if it is to be handled now. `once`:
/// the kernel has forgotten its handler.
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
    // SAFETY: the kernel gave both to our handler, which was installed with SA_SIGINFO; of the set of signals
    // its first word is the kernel's.
    unsafe {
        own.info.set(info.cast::<[u64; INFO_WORDS]>().read_unaligned());
        let set = (&raw mut (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>();
        own.blocked.set(set.read());
        set.write(FAULTS.iter().fold(u64::MAX, |set, fault| set & !(1 << (fault - 1))));
    }
    own.put_off.set(signal.cast_unsigned());
    true
}

/// A handler is about to begin on top of the thread's own stream; `recorded`: somebody reads it, `open`: its
/// last record is open.
pub fn begins(local: &Local, recorded: bool, open: bool) {
    let own = &local.own_handlers;
    let Some(session) = followed() else { return };
    let recorded = recorded && local.stage.get() == local::RUNNING && own.released_already.get() == 0;
    if !recorded || own.busy.get() != 0 || own.release.get() != 0 {
        return;
    }
    if open && own.open.get() == 0 {
        own.open.set(session.position());
    }
    own.release.set(session.position());
}

/// What stands for the thread and its handlers.
pub fn address(local: &Local) -> u64 {
    OWN | u64::from(local.number.get())
}

/// Whether the program has handlers.
pub fn has_handlers() -> bool {
    INSTALLED.load(Ordering::Relaxed)
}

/// It sleeps no longer.
pub fn wakes(local: &Local) {
    local.own_handlers.released_already.set(0);
}
