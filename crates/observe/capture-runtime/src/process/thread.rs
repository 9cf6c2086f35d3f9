//! Threads: start, end, join.
//!
//! A thread that was made by `pthread_create` or `thrd_create` gets its number from its creator, so that the
//! creator can tell it; any other thread (the first, one made by a raw `clone`, a fork's child) gets one when
//! it makes its first record. The end is recorded by the destructor of a thread-specific key, put off to the
//! last round, because other destructors may still do something.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{pthread_attr_t, pthread_t, timespec};

use crate::base::session::session;
use crate::base::sys;
use crate::memory::alloc;
use crate::real::next::real;
use crate::state::local::{ENDED, Local, NEW, RUNNING, caller, hooks, local};
use crate::state::scratch;
use crate::stream::first;
use crate::stream::meeting::{acquired, released};
use crate::stream::record::record_position_kept;
use abi::kind;

/// Rounds of destructors that the C library is willing to do, but one.
const ROUNDS_PUT_OFF: u32 = 3;
/// How often a joiner lets others run before it goes to sleep until the thread has a number,
const GIVE_WAYS: u32 = 1_000;
/// and for how many milliseconds it then sleeps before it takes the thread for one that never gets a number,
/// as those may that were not made through the functions here.
const DOZES: u32 = 1_000;

/// What stands for the cancellation of a thread, where a synchronisation has an address, beside the thread's
/// handle.
const CANCELLED: u64 = 1 << 63 | 1 << 56;

/// Whether a thread was ever cancelled.
static CANCELLING: AtomicBool = AtomicBool::new(false);

/// Makes the key. Called once, from the library's constructor.
pub fn prepare() {
    first::prepare(at_thread_end);
}

extern "C" fn at_thread_end(_: *mut c_void) {
    let local = local();
    if local.put_off.get() < ROUNDS_PUT_OFF {
        local.put_off.set(local.put_off.get() + 1);
        return first::set_specific();
    }
    end(local);
}

/// Records the end of the calling thread; what it does from now on is lost.
pub fn end(local: &Local) {
    if local.stage.get() != RUNNING {
        return;
    }
    if CANCELLING.load(Ordering::Relaxed) {
        // SAFETY: takes nothing.
        acquired(0, CANCELLED | unsafe { libc::pthread_self() });
    }
    record_position_kept(kind::THREAD_END, 0, 0, []);
    local.stream.close();
    local.handler.close();
    local.stage.set(ENDED);
    scratch::put_back(local.scratch.replace(0));
}

/// After a fork, in the child: nothing of the parent's is ours.
pub fn after_fork(local: &Local) {
    local.stream.clear();
    local.interrupted.clear();
    local.handler.clear();
    local.own_handlers.clear();
    local.number.set(local.forking.replace(0));
    local.put_off.set(0);
    local.stage.set(NEW);
    scratch::keep_only(local.scratch.get());
}

/// What a new thread is to do.
#[repr(C)]
struct Task {
    function: usize,
    argument: usize,
    number: u32,
    /// Bytes that its stack may have.
    stack: usize,
}

/// A function and its argument, in the registers that C returns two words in.
#[repr(C)]
struct Start {
    function: usize,
    argument: usize,
}

/// Where a new thread begins. Nothing of ours stays on its stack: it may be unwound.
#[unsafe(naked)]
unsafe extern "C" fn entry(task: *mut c_void) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "lea rsi, [rsp + 8]",
        "sub rsp, 8",
        "call {begin}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        begin = sym begin,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "mov x1, sp",
        "stp x29, x30, [sp, -16]!",
        "bl {begin}",
        "ldp x29, x30, [sp], 16",
        "mov x16, x0",
        "mov x0, x1",
        "br x16",
        begin = sym begin,
    );
}

/// The new thread's task, and the address above the frame of its function.
extern "C" fn begin(task: *mut Task, top: u64) -> Start {
    // SAFETY: `spawn` made it for this thread alone.
    let Task { function, argument, number, stack } = unsafe { task.read() };
    alloc::release(task.cast());
    if let Some(session) = session() {
        session.stack(number, top, stack as u64, function as u64);
    }
    let local = local();
    local.number.set(number);
    local.stream.make_room(0);
    Start { function, argument }
}

/// Creates a thread by `create`, which gets a function and an argument instead of the program's.
fn spawn(
    function: usize,
    argument: usize,
    attributes: *const pthread_attr_t,
    create: impl FnOnce(usize, *mut c_void) -> c_int,
) -> c_int {
    let pc = caller();
    let Some(session) = session() else { return create(function, argument as *mut c_void) };
    let task = alloc::obtain(size_of::<Task>()).cast::<Task>();
    if task.is_null() {
        return create(function, argument as *mut c_void);
    }
    let number = session.two_threads();
    // SAFETY: fresh memory of that size.
    unsafe { task.write(Task { function, argument, number: number + 1, stack: stack_bytes(attributes) }) };
    record_position_kept(kind::SPAWN, 0, pc, [number.into()]);
    let result = create(entry as *const () as usize, task.cast());
    if result != 0 {
        alloc::release(task.cast());
    }
    result
}

/// How large the stack of a thread with these attributes, or with none, may become; 0 if that is not known.
fn stack_bytes(attributes: *const pthread_attr_t) -> usize {
    let mut bytes = 0;
    if !attributes.is_null() {
        // SAFETY: the caller's attributes.
        unsafe { libc::pthread_attr_getstacksize(attributes, &mut bytes) };
        return bytes;
    }
    let mut usual = core::mem::MaybeUninit::<pthread_attr_t>::uninit();
    // SAFETY: they are initialised, asked and done with; they hold no memory.
    unsafe {
        if libc::pthread_attr_init(usual.as_mut_ptr()) == 0 {
            libc::pthread_attr_getstacksize(usual.as_ptr(), &mut bytes);
            libc::pthread_attr_destroy(usual.as_mut_ptr());
        }
    }
    bytes
}

/// The number of a thread that can still be joined, plus 1; 0 if it has none.
fn number_of(thread: usize) -> u32 {
    let local = local();
    // SAFETY: takes nothing.
    let own = unsafe { libc::pthread_self() } as usize;
    // A thread's handle is the address of the C library's record of it, which lies at the same distance from
    // each thread's initial thread-local storage.
    let theirs = thread.wrapping_add((local as *const Local as usize).wrapping_sub(own)) as *const Local;
    for attempt in 0..GIVE_WAYS + DOZES {
        // SAFETY: the storage of a thread that can be joined exists. The thread writes the number once,
        // early.
        let number = unsafe { (&raw const (*theirs).number).cast::<u32>().read_volatile() };
        if number != 0 {
            return number;
        }
        if attempt < GIVE_WAYS {
            sys::give_way();
        } else {
            sys::doze();
        }
    }
    0
}

/// Joins by `join`, which gives 0 once the thread has ended.
fn joined(thread: usize, join: impl FnOnce() -> c_int) -> c_int {
    let pc = caller();
    if session().is_none() {
        return join();
    }
    let number = number_of(thread);
    let result = local().stream.parked(join);
    if result == 0 && number != 0 {
        record_position_kept(kind::JOIN, 0, pc, [u64::from(number - 1)]);
    }
    result
}

hooks! {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const pthread_attr_t,
        function: usize,
        argument: usize,
    ) -> c_int {
        let real = real!(c"pthread_create" as fn(*mut pthread_t, *const pthread_attr_t, usize, *mut c_void) -> c_int);
        // SAFETY: the caller's arguments, but for the function, which has the same type.
        spawn(function, argument, attributes, |function, argument| unsafe {
            real(thread, attributes, function, argument)
        })
    }

    fn thrd_create(thread: *mut usize, function: usize, argument: usize) -> c_int {
        let real = real!(c"thrd_create" as fn(*mut usize, usize, *mut c_void) -> c_int);
        // SAFETY: as above.
        spawn(function, argument, core::ptr::null(), |function, argument| unsafe { real(thread, function, argument) })
    }

    fn pthread_cancel(thread: pthread_t) -> c_int {
        let real = real!(c"pthread_cancel" as fn(pthread_t) -> c_int);
        CANCELLING.store(true, Ordering::Relaxed);
        released(caller(), CANCELLED | thread);
        // SAFETY: the caller's argument.
        unsafe { real(thread) }
    }

    fn pthread_join(thread: pthread_t, result: *mut *mut c_void) -> c_int {
        let real = real!(c"pthread_join" as fn(pthread_t, *mut *mut c_void) -> c_int);
        // SAFETY: the caller's arguments.
        joined(thread as usize, || unsafe { real(thread, result) })
    }

    fn pthread_tryjoin_np(thread: pthread_t, result: *mut *mut c_void) -> c_int {
        let real = real!(c"pthread_tryjoin_np" as fn(pthread_t, *mut *mut c_void) -> c_int);
        // SAFETY: the caller's arguments.
        joined(thread as usize, || unsafe { real(thread, result) })
    }

    fn pthread_timedjoin_np(thread: pthread_t, result: *mut *mut c_void, until: *const timespec) -> c_int {
        let real = real!(c"pthread_timedjoin_np" as fn(pthread_t, *mut *mut c_void, *const timespec) -> c_int);
        // SAFETY: the caller's arguments.
        joined(thread as usize, || unsafe { real(thread, result, until) })
    }

    fn thrd_join(thread: usize, result: *mut c_int) -> c_int {
        let real = real!(c"thrd_join" as fn(usize, *mut c_int) -> c_int);
        // SAFETY: the caller's arguments.
        joined(thread, || unsafe { real(thread, result) })
    }
}
