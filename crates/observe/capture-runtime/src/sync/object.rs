//! Objects of the C library in persistent memory: what it puts there when it makes one, and conditions.
//!
//! A process may keep its locks in a file that it maps. What the library stores there when an object is made,
//! made consistent or destroyed is recorded as the caller's store; by then it is done. What it stores when a
//! lock is obtained or given up is not: consumers know these objects by the records of `lock.rs`.

use core::ffi::{c_int, c_uint, c_void};
use core::mem::size_of;

use libc::{
    pthread_barrier_t, pthread_barrierattr_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t,
    pthread_mutexattr_t, pthread_rwlock_t, pthread_rwlockattr_t, pthread_spinlock_t, sem_t,
};

use crate::base::persistent::is_in_persistent;
use crate::memory::received::{about_to_receive, placed};
use crate::real::next::real;
use crate::state::local::{caller, hooks};
use crate::stream::meeting::released;

/// Has the C library store to an object of a type, and records what is there then.
fn changed<T>(pc: u64, object: *const T, change: impl FnOnce() -> c_int) -> c_int {
    if !is_in_persistent(object as u64, size_of::<T>() as u64) {
        return change();
    }
    about_to_receive();
    let result = change();
    placed(pc, object.cast(), size_of::<T>() as isize);
    result
}

/// Records, before a call on it, that there is a condition of the library's, if it is in persistent memory.
pub fn met(pc: u64, condition: *const c_void, call: impl FnOnce() -> c_int) -> c_int {
    if is_in_persistent(condition as u64, size_of::<pthread_cond_t>() as u64) {
        released(pc, condition as u64);
    }
    call()
}

macro_rules! objects {
    ($($name:ident $text:literal ($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*);)*) => {
        hooks! { $(
            fn $name($object: *mut $type $(, $arg: $arg_type)*) -> c_int {
                let (pc, real) = (caller(), real!($text as fn(*mut $type $(, $arg_type)*) -> c_int));
                // SAFETY: the caller's arguments.
                changed(pc, $object, || unsafe { real($object $(, $arg)*) })
            }
        )* }
    };
}

objects! {
    pthread_mutex_init c"pthread_mutex_init" (object: pthread_mutex_t, with: *const pthread_mutexattr_t);
    pthread_mutex_consistent c"pthread_mutex_consistent" (object: pthread_mutex_t);
    pthread_mutex_destroy c"pthread_mutex_destroy" (object: pthread_mutex_t);
    pthread_rwlock_init c"pthread_rwlock_init" (object: pthread_rwlock_t, with: *const pthread_rwlockattr_t);
    pthread_rwlock_destroy c"pthread_rwlock_destroy" (object: pthread_rwlock_t);
    pthread_spin_init c"pthread_spin_init" (object: pthread_spinlock_t, shared: c_int);
    pthread_spin_destroy c"pthread_spin_destroy" (object: pthread_spinlock_t);
    pthread_cond_init c"pthread_cond_init" (object: pthread_cond_t, with: *const pthread_condattr_t);
    pthread_cond_destroy c"pthread_cond_destroy" (object: pthread_cond_t);
    pthread_barrier_init c"pthread_barrier_init"
        (object: pthread_barrier_t, with: *const pthread_barrierattr_t, count: c_uint);
    pthread_barrier_destroy c"pthread_barrier_destroy" (object: pthread_barrier_t);
    sem_init c"sem_init" (object: sem_t, shared: c_int, value: c_uint);
    sem_destroy c"sem_destroy" (object: sem_t);
    mtx_init c"mtx_init" (object: pthread_mutex_t, kind: c_int);
    cnd_init c"cnd_init" (object: pthread_cond_t);
}

hooks! {
    fn pthread_cond_signal(condition: *mut pthread_cond_t) -> c_int {
        let (pc, real) = (caller(), real!(c"pthread_cond_signal" as fn(*mut pthread_cond_t) -> c_int));
        // SAFETY: the caller's argument.
        met(pc, condition.cast(), || unsafe { real(condition) })
    }
    fn pthread_cond_broadcast(condition: *mut pthread_cond_t) -> c_int {
        let (pc, real) = (caller(), real!(c"pthread_cond_broadcast" as fn(*mut pthread_cond_t) -> c_int));
        // SAFETY: the caller's argument.
        met(pc, condition.cast(), || unsafe { real(condition) })
    }
    fn cnd_signal(condition: *mut c_void) -> c_int {
        let (pc, real) = (caller(), real!(c"cnd_signal" as fn(*mut c_void) -> c_int));
        // SAFETY: the caller's argument.
        met(pc, condition, || unsafe { real(condition) })
    }
    fn cnd_broadcast(condition: *mut c_void) -> c_int {
        let (pc, real) = (caller(), real!(c"cnd_broadcast" as fn(*mut c_void) -> c_int));
        // SAFETY: the caller's argument.
        met(pc, condition, || unsafe { real(condition) })
    }
}
