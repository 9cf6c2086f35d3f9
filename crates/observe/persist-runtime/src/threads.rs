//! Threads of the program: what the parent did comes before what the child does, and that before what comes
//! after a join.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::pthread_t;

use crate::atomics::{acquired, released};
use crate::local::{boundary, object, with, writing};
use crate::real::real;

/// What a new thread is to do.
struct Task {
    function: usize,
    argument: usize,
    /// What the parent released.
    token: usize,
}

/// Numbers that stand for starts of threads; no address is as low.
static TOKENS: AtomicUsize = AtomicUsize::new(8);

/// What stands for a thread's end.
fn end_of(thread: pthread_t) -> usize {
    thread as usize ^ 1 << 60
}

extern "C-unwind" fn begin(task: *mut c_void) -> *mut c_void {
    // SAFETY: made by `spawn` for this thread alone.
    let task = unsafe { Box::from_raw(task.cast::<Task>()) };
    let Task { function, argument, token } = *task;
    // The first touch may take memory, which a handler must not.
    crate::local::local(|local| local.touched.set(false));
    acquired(token);
    // SAFETY: the program's function.
    let function =
        unsafe { std::mem::transmute::<usize, extern "C-unwind" fn(usize) -> *mut c_void>(function) };
    function(argument)
}

fn spawn(function: usize, argument: usize, create: impl FnOnce(usize, *mut c_void) -> c_int) -> c_int {
    let token = TOKENS.fetch_add(8, Ordering::Relaxed);
    released(token);
    let task = Box::into_raw(Box::new(Task { function, argument, token }));
    let result = create(begin as *const () as usize, task.cast());
    if result != 0 {
        // SAFETY: no thread has got it.
        drop(unsafe { Box::from_raw(task) });
    }
    result
}

/// The calling thread ends: called with the thread's log at hand.
pub fn ends() {
    // SAFETY: takes nothing.
    let own = end_of(unsafe { libc::pthread_self() });
    crate::local::local(|local| {
        local.inside.set(false);
        with(|thread, _| thread.release(object(own)));
        local.inside.set(true);
    });
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: usize,
    argument: usize,
) -> c_int {
    let real = real!(
        c"pthread_create",
        fn(*mut pthread_t, *const libc::pthread_attr_t, usize, *mut c_void) -> c_int
    );
    // SAFETY: the caller's arguments, but for the function, which has the same type.
    let create = |function, argument| unsafe { real(thread, attributes, function, argument) };
    spawn(function, argument, |function, argument| {
        writing(&[(thread as usize, 8)], || create(function, argument))
    })
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    function: usize,
    argument: usize,
) -> c_int {
    let real = real!(c"thrd_create", fn(*mut pthread_t, usize, *mut c_void) -> c_int);
    // SAFETY: as above; an integer comes back in the register that a pointer does.
    let create = |function, argument| unsafe { real(thread, function, argument) };
    spawn(function, argument, |function, argument| {
        writing(&[(thread as usize, 8)], || create(function, argument))
    })
}

macro_rules! joins {
    ($($name:ident: $c:literal, $bytes:literal (result: $of:ty $(, $arg:ident: $type:ty)*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(thread: pthread_t, result: $of $(, $arg: $type)*) -> c_int {
            boundary();
            let real = real!($c, fn(pthread_t, $of $(, $type)*) -> c_int);
            // SAFETY: the caller's arguments.
            let joined = writing(&[(result as usize, $bytes)], || unsafe { real(thread, result $(, $arg)*) });
            if joined == 0 {
                acquired(end_of(thread));
            }
            joined
        }
    )* };
}

joins! {
    pthread_join: c"pthread_join", 8 (result: *mut *mut c_void);
    pthread_tryjoin_np: c"pthread_tryjoin_np", 8 (result: *mut *mut c_void);
    pthread_timedjoin_np: c"pthread_timedjoin_np", 8 (result: *mut *mut c_void, time: *const libc::timespec);
    pthread_clockjoin_np: c"pthread_clockjoin_np", 8 (result: *mut *mut c_void, clock: c_int, time: *const libc::timespec);
    thrd_join: c"thrd_join", 4 (result: *mut c_int);
}
