//! Synchronisation by the threads library: a release before the call, an acquire after it.
//!
//! The C library's objects lie in the program's ordinary memory. One that lies in the pool works, too, but
//! what the C library stores in it is not undone by recovery: a program makes it anew when it opens the pool.

use std::ffi::{c_int, c_void};

use crate::atomics::{acquired, released};
use crate::local::{boundary, local, object, with};
use crate::real::real;

type Object = *mut c_void;
type Time = *const libc::timespec;

/// A lock was taken.
fn locked(lock: Object) {
    with(|thread, _| thread.lock(object(lock as usize)));
}

/// A lock will be given up.
fn unlocking(lock: Object) {
    with(|thread, _| thread.unlock(object(lock as usize)));
}

/// Calls the C library's function of the same name.
macro_rules! call {
    ($name:ident($($arg:ident: $type:ty),*) -> $result:ty) => {{
        let name = const {
            match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!(),
            }
        };
        let real = $crate::real::real!(name, fn($($type),*) -> $result);
        // SAFETY: the caller's arguments.
        unsafe { real($($arg),*) }
    }};
}
pub(crate) use call;

/// Functions that take their first argument, a lock, if they return 0. Before they may wait, the region ends,
/// so that what the thread did does not wait with it.
macro_rules! takers {
    ($($name:ident($lock:ident: $first:ty $(, $arg:ident: $type:ty)*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($lock: $first $(, $arg: $type)*) -> c_int {
            let result = call!($name($lock: $first $(, $arg: $type)*) -> c_int);
            // A robust mutex of a thread that died is taken with an error.
            if result == 0 || result == libc::EOWNERDEAD {
                locked($lock);
            }
            result
        }
    )* };
}

takers! {
    pthread_mutex_lock(lock: Object);
    pthread_mutex_trylock(lock: Object);
    pthread_mutex_timedlock(lock: Object, time: Time);
    pthread_mutex_clocklock(lock: Object, clock: c_int, time: Time);
    pthread_rwlock_rdlock(lock: Object);
    pthread_rwlock_wrlock(lock: Object);
    pthread_rwlock_tryrdlock(lock: Object);
    pthread_rwlock_trywrlock(lock: Object);
    pthread_rwlock_timedrdlock(lock: Object, time: Time);
    pthread_rwlock_timedwrlock(lock: Object, time: Time);
    pthread_rwlock_clockrdlock(lock: Object, clock: c_int, time: Time);
    pthread_rwlock_clockwrlock(lock: Object, clock: c_int, time: Time);
    pthread_spin_lock(lock: Object);
    pthread_spin_trylock(lock: Object);
    mtx_lock(lock: Object);
    mtx_trylock(lock: Object);
    mtx_timedlock(lock: Object, time: Time);
}

macro_rules! givers {
    ($($name:ident;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(lock: Object) -> c_int {
            unlocking(lock);
            call!($name(lock: Object) -> c_int)
        }
    )* };
}

givers! {
    pthread_mutex_unlock;
    pthread_rwlock_unlock;
    pthread_spin_unlock;
    mtx_unlock;
}

/// Interposed: the lock of a stream, which threads may hold for whatever they like.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn flockfile(stream: Object) {
    call!(flockfile(stream: Object) -> ());
    locked(stream);
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftrylockfile(stream: Object) -> c_int {
    let result = call!(ftrylockfile(stream: Object) -> c_int);
    if result == 0 {
        locked(stream);
    }
    result
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn funlockfile(stream: Object) {
    unlocking(stream);
    call!(funlockfile(stream: Object) -> ());
}

/// Waits for a condition: the lock is given up and taken again.
fn waiting(condition: Object, lock: Object, wait: impl FnOnce() -> c_int) -> c_int {
    with(|thread, _| thread.begin_wait(object(lock as usize)));
    let retaken = Retaken(lock);
    let result = wait();
    drop(retaken);
    if result == 0 {
        acquired(condition as usize);
    }
    result
}

/// A lock that is taken again, too, where the thread is cancelled while it waits.
struct Retaken(Object);

impl Drop for Retaken {
    fn drop(&mut self) {
        with(|thread, _| thread.end_wait(object(self.0 as usize)));
    }
}

macro_rules! waits {
    ($($name:ident($condition:ident, $lock:ident $(, $arg:ident: $type:ty)*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($condition: Object, $lock: Object $(, $arg: $type)*) -> c_int {
            waiting($condition, $lock, || call!($name($condition: Object, $lock: Object $(, $arg: $type)*) -> c_int))
        }
    )* };
}

waits! {
    pthread_cond_wait(condition, lock);
    pthread_cond_timedwait(condition, lock, time: Time);
    pthread_cond_clockwait(condition, lock, clock: c_int, time: Time);
    cnd_wait(condition, lock);
    cnd_timedwait(condition, lock, time: Time);
}

/// Functions that release their first argument.
macro_rules! releasers {
    ($($name:ident;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(object: Object) -> c_int {
            released(object as usize);
            call!($name(object: Object) -> c_int)
        }
    )* };
}

releasers! {
    pthread_cond_signal;
    pthread_cond_broadcast;
    cnd_signal;
    cnd_broadcast;
    sem_post;
}

/// Functions that acquire their first argument if they return 0.
macro_rules! acquirers {
    ($($name:ident($object:ident $(, $arg:ident: $type:ty)*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($object: Object $(, $arg: $type)*) -> c_int {
            boundary();
            let result = call!($name($object: Object $(, $arg: $type)*) -> c_int);
            if result == 0 {
                acquired($object as usize);
            }
            result
        }
    )* };
}

acquirers! {
    sem_wait(semaphore);
    sem_trywait(semaphore);
    sem_timedwait(semaphore, time: Time);
    sem_clockwait(semaphore, clock: c_int, time: Time);
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: Object) -> c_int {
    released(barrier as usize);
    let result = call!(pthread_barrier_wait(barrier: Object) -> c_int);
    acquired(barrier as usize);
    result
}

/// Calls the routine of the `once` in progress and releases what it did. An exception may pass through.
extern "C-unwind" fn routine() {
    let (routine, once) = local(|local| (local.routine.get(), local.once.get()));
    // SAFETY: the program's routine, which takes nothing.
    let function = unsafe { std::mem::transmute::<usize, extern "C-unwind" fn()>(routine) };
    function();
    released(once);
}

/// A `once` in progress, until it is done or left by an exception.
struct InProgress(usize, usize);

impl InProgress {
    fn new(once: Object, function: usize) -> Self {
        local(|local| InProgress(local.routine.replace(function), local.once.replace(once as usize)))
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        local(|local| {
            local.routine.set(self.0);
            local.once.set(self.1);
        });
    }
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_once(once: Object, function: usize) -> c_int {
    let progress = InProgress::new(once, function);
    let real = real!(c"pthread_once", fn(Object, usize) -> c_int);
    // SAFETY: the caller's argument, and a function that takes nothing.
    let result = unsafe { real(once, routine as *const () as usize) };
    drop(progress);
    acquired(once as usize);
    result
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn call_once(once: Object, function: usize) {
    let progress = InProgress::new(once, function);
    let real = real!(c"call_once", fn(Object, usize));
    // SAFETY: the caller's argument, and a function that takes nothing.
    unsafe { real(once, routine as *const () as usize) };
    drop(progress);
    acquired(once as usize);
}

/// Interposed: the first use of a variable of a function in C++.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_acquire(guard: Object) -> c_int {
    let result = call!(__cxa_guard_acquire(guard: Object) -> c_int);
    acquired(guard as usize);
    result
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __cxa_guard_release(guard: Object) {
    released(guard as usize);
    let real = real!(c"__cxa_guard_release", fn(Object));
    // SAFETY: the caller's argument.
    unsafe { real(guard) };
}
