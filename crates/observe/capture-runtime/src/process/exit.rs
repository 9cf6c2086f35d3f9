//! The end of a process, in order or by `_exit`: its records are completed and counted, and its end is known
//! to who waits for it.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use abi::MODE_COUNT;

use crate::base::session::session;
use crate::base::sys;
use crate::files::{around, reopened, streams};
use crate::process::{thread, tree};
use crate::real::calls::real_call;
use crate::state::local::{hooks, local};
use crate::state::scratch;
use crate::sync::{channel, file_lock};

/// The process ends in order.
pub extern "C" fn end() {
    streams::flush();
    reopened::flush();
    around::look();
    file_lock::end();
    tree::leave();
    thread::end(local());
    count_all();
}

/// Counts what the threads have not counted yet: the process is about to end.
fn count_all() {
    if let Some(session) = session().filter(|session| session.mode() == MODE_COUNT) {
        scratch::for_each_owner(|owner| {
            owner.stream.count(session);
            // While a handler is at work, the one stream is here, else the other one.
            let other = if owner.handlers.get() > 0 { &owner.interrupted } else { &owner.handler };
            other.count(session);
        });
    }
}

/// Records the thread's end if it is the process's: not a child's that borrows its parent's memory, nor one
/// that a handler sees to.
fn end_thread() {
    let local = local();
    if local.handlers.get() == 0
        && session().is_some_and(|session| session.pid.load(Ordering::Relaxed) == sys::pid())
    {
        around::look();
        file_lock::end();
        channel::end();
        tree::leave();
        thread::end(local);
    }
}

/// Interposed: destructors do not run.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    end_thread();
    count_all();
    loop {
        // SAFETY: ends the process.
        unsafe { sys::call(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Interposed: as `_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

hooks! {
    fn abort() -> ! {
        local().stream.finish();
        real_call!(abort())
    }
}
