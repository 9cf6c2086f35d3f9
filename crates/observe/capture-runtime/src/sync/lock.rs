//! Locks and other synchronisation objects of the C library: POSIX's and C11's.
//!
//! A lock's position in the global order is taken after it was obtained and before it is given up. Semaphores
//! and barriers are not held by anybody; for them it is recorded where threads meet. None of these calls is
//! recorded as a fence: what the C library executes within them is no promise.
//!
//! A thread parks its chunk while it may have to wait (see `base/session.rs`). A lock is therefore tried
//! first: where it can be had at once, as nearly always, there is nothing to park.

use core::ffi::{c_int, c_uint, c_void};

use libc::{
    pthread_barrier_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_spinlock_t, sem_t, timespec,
};

use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::record::record_position;
use crate::sync::object::met;
use abi::kind;

type Mutex = *mut pthread_mutex_t;
type RwLock = *mut pthread_rwlock_t;
type Spin = *mut pthread_spinlock_t;
type Condition = *mut pthread_cond_t;
type Time = *const timespec;

const EXCLUSIVE: u8 = 0;
const SHARED: u8 = 1;
/// C11's `thrd_success`.
const SUCCESS: c_int = 0;

/// Records that a lock was obtained, if so.
#[inline]
fn locked(pc: u64, shared: u8, lock: u64, result: c_int) -> c_int {
    // The owner of a robust mutex has died: the lock is the caller's nevertheless.
    if result == SUCCESS || result == libc::EOWNERDEAD {
        record_position(kind::LOCK, shared, pc, [lock]);
    }
    result
}

/// Records that a lock is about to be given up.
#[inline]
fn unlocking(pc: u64, lock: u64) {
    record_position(kind::UNLOCK, 0, pc, [lock]);
}

/// Obtains a lock, by `attempt` or else by `wait`.
#[inline]
fn lock(
    pc: u64,
    shared: u8,
    lock: u64,
    attempt: impl FnOnce() -> c_int,
    wait: impl FnOnce() -> c_int,
) -> c_int {
    let mut result = attempt();
    if result != SUCCESS && result != libc::EOWNERDEAD {
        result = local().stream.parked(wait);
    }
    locked(pc, shared, lock, result)
}

/// Waits on a condition, which gives the mutex up and obtains it again.
fn wait(pc: u64, condition: *const c_void, mutex: u64, wait: impl FnOnce() -> c_int) -> c_int {
    unlocking(pc, mutex);
    let result = met(pc, condition, || local().stream.parked(wait));
    record_position(kind::LOCK, EXCLUSIVE, pc, [mutex]);
    result
}

/// Calls the C library's function of the same name.
macro_rules! next {
    ($name:literal($($arg:ident: $type:ty),*)) => {{
        let real = real!($name as fn($($type),*) -> c_int);
        // SAFETY: the caller's arguments.
        move || unsafe { real($($arg),*) }
    }};
}

hooks! {
    fn pthread_mutex_lock(mutex: Mutex) -> c_int {
        let (attempt, wait) = (next!(c"pthread_mutex_trylock"(mutex: Mutex)), next!(c"pthread_mutex_lock"(mutex: Mutex)));
        lock(caller(), EXCLUSIVE, mutex as u64, attempt, wait)
    }
    fn pthread_mutex_trylock(mutex: Mutex) -> c_int {
        let pc = caller();
        locked(pc, EXCLUSIVE, mutex as u64, next!(c"pthread_mutex_trylock"(mutex: Mutex))())
    }
    fn pthread_mutex_timedlock(mutex: Mutex, until: Time) -> c_int {
        let attempt = next!(c"pthread_mutex_trylock"(mutex: Mutex));
        lock(caller(), EXCLUSIVE, mutex as u64, attempt, next!(c"pthread_mutex_timedlock"(mutex: Mutex, until: Time)))
    }
    fn pthread_mutex_clocklock(mutex: Mutex, clock: c_int, until: Time) -> c_int {
        let attempt = next!(c"pthread_mutex_trylock"(mutex: Mutex));
        let wait = next!(c"pthread_mutex_clocklock"(mutex: Mutex, clock: c_int, until: Time));
        lock(caller(), EXCLUSIVE, mutex as u64, attempt, wait)
    }
    fn pthread_mutex_unlock(mutex: Mutex) -> c_int {
        unlocking(caller(), mutex as u64);
        next!(c"pthread_mutex_unlock"(mutex: Mutex))()
    }

    fn pthread_rwlock_rdlock(rwlock: RwLock) -> c_int {
        let attempt = next!(c"pthread_rwlock_tryrdlock"(rwlock: RwLock));
        lock(caller(), SHARED, rwlock as u64, attempt, next!(c"pthread_rwlock_rdlock"(rwlock: RwLock)))
    }
    fn pthread_rwlock_tryrdlock(rwlock: RwLock) -> c_int {
        let pc = caller();
        locked(pc, SHARED, rwlock as u64, next!(c"pthread_rwlock_tryrdlock"(rwlock: RwLock))())
    }
    fn pthread_rwlock_timedrdlock(rwlock: RwLock, until: Time) -> c_int {
        let attempt = next!(c"pthread_rwlock_tryrdlock"(rwlock: RwLock));
        let wait = next!(c"pthread_rwlock_timedrdlock"(rwlock: RwLock, until: Time));
        lock(caller(), SHARED, rwlock as u64, attempt, wait)
    }
    fn pthread_rwlock_wrlock(rwlock: RwLock) -> c_int {
        let attempt = next!(c"pthread_rwlock_trywrlock"(rwlock: RwLock));
        lock(caller(), EXCLUSIVE, rwlock as u64, attempt, next!(c"pthread_rwlock_wrlock"(rwlock: RwLock)))
    }
    fn pthread_rwlock_trywrlock(rwlock: RwLock) -> c_int {
        let pc = caller();
        locked(pc, EXCLUSIVE, rwlock as u64, next!(c"pthread_rwlock_trywrlock"(rwlock: RwLock))())
    }
    fn pthread_rwlock_timedwrlock(rwlock: RwLock, until: Time) -> c_int {
        let attempt = next!(c"pthread_rwlock_trywrlock"(rwlock: RwLock));
        let wait = next!(c"pthread_rwlock_timedwrlock"(rwlock: RwLock, until: Time));
        lock(caller(), EXCLUSIVE, rwlock as u64, attempt, wait)
    }
    fn pthread_rwlock_unlock(rwlock: RwLock) -> c_int {
        unlocking(caller(), rwlock as u64);
        next!(c"pthread_rwlock_unlock"(rwlock: RwLock))()
    }

    fn pthread_spin_lock(spin: Spin) -> c_int {
        let attempt = next!(c"pthread_spin_trylock"(spin: Spin));
        lock(caller(), EXCLUSIVE, spin as u64, attempt, next!(c"pthread_spin_lock"(spin: Spin)))
    }
    fn pthread_spin_trylock(spin: Spin) -> c_int {
        let pc = caller();
        locked(pc, EXCLUSIVE, spin as u64, next!(c"pthread_spin_trylock"(spin: Spin))())
    }
    fn pthread_spin_unlock(spin: Spin) -> c_int {
        unlocking(caller(), spin as u64);
        next!(c"pthread_spin_unlock"(spin: Spin))()
    }

    fn pthread_cond_wait(condition: Condition, mutex: Mutex) -> c_int {
        let real = next!(c"pthread_cond_wait"(condition: Condition, mutex: Mutex));
        wait(caller(), condition.cast(), mutex as u64, real)
    }
    fn pthread_cond_timedwait(condition: Condition, mutex: Mutex, until: Time) -> c_int {
        let real = next!(c"pthread_cond_timedwait"(condition: Condition, mutex: Mutex, until: Time));
        wait(caller(), condition.cast(), mutex as u64, real)
    }
    fn pthread_cond_clockwait(condition: Condition, mutex: Mutex, clock: c_int, until: Time) -> c_int {
        let real = next!(c"pthread_cond_clockwait"(condition: Condition, mutex: Mutex, clock: c_int, until: Time));
        wait(caller(), condition.cast(), mutex as u64, real)
    }

    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
        let pc = caller();
        released(pc, barrier as u64);
        let result = local().stream.parked(next!(c"pthread_barrier_wait"(barrier: *mut pthread_barrier_t)));
        acquired(pc, barrier as u64);
        result
    }

    fn sem_post(semaphore: *mut sem_t) -> c_int {
        released(caller(), semaphore as u64);
        next!(c"sem_post"(semaphore: *mut sem_t))()
    }
    fn sem_wait(semaphore: *mut sem_t) -> c_int {
        taken(caller(), semaphore, next!(c"sem_wait"(semaphore: *mut sem_t)))
    }
    fn sem_trywait(semaphore: *mut sem_t) -> c_int {
        taken(caller(), semaphore, next!(c"sem_trywait"(semaphore: *mut sem_t)))
    }
    fn sem_timedwait(semaphore: *mut sem_t, until: Time) -> c_int {
        taken(caller(), semaphore, next!(c"sem_timedwait"(semaphore: *mut sem_t, until: Time)))
    }
    fn sem_clockwait(semaphore: *mut sem_t, clock: c_uint, until: Time) -> c_int {
        taken(caller(), semaphore, next!(c"sem_clockwait"(semaphore: *mut sem_t, clock: c_uint, until: Time)))
    }

    fn mtx_lock(mutex: *mut c_void) -> c_int {
        let (attempt, wait) = (next!(c"mtx_trylock"(mutex: *mut c_void)), next!(c"mtx_lock"(mutex: *mut c_void)));
        lock(caller(), EXCLUSIVE, mutex as u64, attempt, wait)
    }
    fn mtx_trylock(mutex: *mut c_void) -> c_int {
        let pc = caller();
        locked(pc, EXCLUSIVE, mutex as u64, next!(c"mtx_trylock"(mutex: *mut c_void))())
    }
    fn mtx_timedlock(mutex: *mut c_void, until: Time) -> c_int {
        let attempt = next!(c"mtx_trylock"(mutex: *mut c_void));
        lock(caller(), EXCLUSIVE, mutex as u64, attempt, next!(c"mtx_timedlock"(mutex: *mut c_void, until: Time)))
    }
    fn mtx_unlock(mutex: *mut c_void) -> c_int {
        unlocking(caller(), mutex as u64);
        next!(c"mtx_unlock"(mutex: *mut c_void))()
    }
    fn cnd_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int {
        let real = next!(c"cnd_wait"(condition: *mut c_void, mutex: *mut c_void));
        wait(caller(), condition, mutex as u64, real)
    }
    fn cnd_timedwait(condition: *mut c_void, mutex: *mut c_void, until: Time) -> c_int {
        let real = next!(c"cnd_timedwait"(condition: *mut c_void, mutex: *mut c_void, until: Time));
        wait(caller(), condition, mutex as u64, real)
    }
}

/// Waits for a semaphore, and records it if it was had.
fn taken(pc: u64, semaphore: *mut sem_t, wait: impl FnOnce() -> c_int) -> c_int {
    let result = local().stream.parked(wait);
    if result == SUCCESS {
        acquired(pc, semaphore as u64);
    }
    result
}
