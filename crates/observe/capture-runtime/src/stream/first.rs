//! Before a thread's first record: its scratch memory, its number, and the key whose destructor reports its
//! end.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::base::session::session;
use crate::state::local::{Local, RUNNING, STARTING};
use crate::state::scratch;

/// The thread-specific key, plus 1.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key, with this destructor. Called once, from the library's constructor.
pub fn prepare(at_thread_end: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: `key` is a valid place, and the destructor a function of the right type.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_thread_end)) } == 0 {
        KEY.store(key + 1, Ordering::Release);
    }
}

/// Before a thread's first record.
pub fn start(local: &Local) {
    local.stage.set(STARTING);
    if local.scratch.get() == 0 {
        local.scratch.set(scratch::get(local));
    }
    if let Some(session) = session() {
        if local.number.get() == 0 {
            local.number.set(session.two_threads() + 1);
        }
        let thread = local.number.get() - 1;
        let in_handler = local.handlers.get() > 0;
        let own = if in_handler { &local.interrupted } else { &local.stream };
        let handler = if in_handler { &local.stream } else { &local.handler };
        own.thread.set(thread);
        handler.thread.set(thread + 1);
        handler.by_handler.set(1);
    }
    let (values, calls) =
        session().map_or((false, false), |session| (session.values(), session.calls() && !session.values()));
    local.quiet[0].set(u32::from(!values && !calls));
    local.quiet[1].set(u32::from(!calls));
    set_specific();
    local.stage.set(RUNNING);
}

/// Has the destructor called when the thread ends, or once more.
pub fn set_specific() {
    let key = KEY.load(Ordering::Acquire);
    if key != 0 {
        // SAFETY: the key exists; any value but null gets the destructor called.
        unsafe { libc::pthread_setspecific(key - 1, (&raw const KEY).cast()) };
    }
}
