//! Processes that the program forks: what they did before they ended is known to who waited for them.
//!
//! A child's first thread gets its number from the parent, as a thread does from its creator, and tells its end when the process ends in
//! order. If it was killed, the parent tells the ends of its threads.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{CLONE_SETTLS, CLONE_VM, WEXITED, WNOHANG, WNOWAIT, id_t, pid_t, rusage, siginfo_t};

use crate::files::next::usual;
use crate::kin;
use crate::local::{caller, hooks, local};
use crate::process::{_exit, forked};
use crate::real::{next, real, required};
use crate::session::session;
use crate::stream::record_position_kept;
use crate::wire::kind;

/// Children that are kept track of at one time.
const CHILDREN: usize = 256;

/// Processes and above them their first thread's number, plus 1; 0: unused.
static ALIVE: [AtomicU64; CHILDREN] = [const { AtomicU64::new(0) }; CHILDREN];

fn add(pid: pid_t, number: u32) {
    let child = u64::from(number + 1) << 32 | u64::from(pid.cast_unsigned());
    for place in &ALIVE {
        if place.compare_exchange(0, child, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// The number of the first thread of a child that has ended.
fn take(pid: pid_t) -> Option<u32> {
    let of_child = |place: &&AtomicU64| place.load(Ordering::Acquire) as u32 == pid.cast_unsigned();
    let child = ALIVE.iter().find(of_child)?.swap(0, Ordering::AcqRel);
    ((child >> 32) as u32).checked_sub(1)
}

/// After a fork, in the child: the parent's children are not its own.
pub fn after_fork() {
    for place in &ALIVE {
        place.store(0, Ordering::Relaxed);
    }
}

/// Whether a process with this status is there no more.
fn has_ended(status: c_int) -> bool {
    libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
}

fn ended(pc: u64, pid: pid_t) {
    let number = take(pid);
    // Threads that could not tell their end, because the process was killed or another thread ended it.
    if let Some(session) = session() {
        let mut from = 0;
        while let Some((at, left)) = session.unfinished(pid.cast_unsigned(), from) {
            from = at + 1;
            let told = local().stream.parked(|| session.end_for(at, &left));
            if told && Some(left.thread) != number {
                record_position_kept(kind::JOIN, 0, pc, [left.thread.into()]);
            }
        }
    }
    if let Some(number) = number {
        record_position_kept(kind::JOIN, 0, pc, [number.into()]);
    }
    kin::waited(pc, pid);
}

/// The C library's `clone`, the variable arguments included.
type Clone = unsafe extern "C" fn(
    extern "C" fn(*mut c_void) -> c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    usize,
    usize,
    usize,
) -> c_int;

/// The C library's `_Fork`; 0 before glibc 2.34.
static BARE_FORK: AtomicUsize = AtomicUsize::new(0);
/// The C library's `clone`.
static CLONE: AtomicUsize = AtomicUsize::new(0);

/// Looks for what may be called in a signal handler, where the dynamic linker can't be asked.
pub fn prepare() {
    BARE_FORK.store(next(c"_Fork"), Ordering::Relaxed);
    CLONE.store(next(c"clone"), Ordering::Relaxed);
}

/// Makes a child by `fork`.
fn forking(pc: u64, fork: impl FnOnce() -> pid_t) -> pid_t {
    let Some(session) = session() else { return fork() };
    let number = session.two_threads();
    record_position_kept(kind::SPAWN, 0, pc, [number.into()]);
    local().forking.set(number + 1);
    let pid = fork();
    local().forking.set(0);
    if pid > 0 {
        add(pid, number);
    }
    pid
}

/// What a child made by `clone` is to do.
#[repr(C)]
struct Start {
    run: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// In the child of a `clone` that has a copy of its parent's memory.
extern "C" fn begin(start: *mut c_void) -> c_int {
    // SAFETY: the parent passes one that is on its stack, of which this is a copy.
    let Start { run, argument } = unsafe { start.cast::<Start>().read() };
    forked();
    // The C library would end it without a word.
    _exit(run(argument))
}

/// Waits by `wait`, which gives a child and writes its status.
fn waiting(pc: u64, status: *mut c_int, options: c_int, wait: impl FnOnce(*mut c_int) -> pid_t) -> pid_t {
    if session().is_none() {
        return wait(status);
    }
    let mut own = 0;
    let told = if status.is_null() { &raw mut own } else { status };
    let result = if options & WNOHANG != 0 { wait(told) } else { local().stream.parked(|| wait(told)) };
    // SAFETY: ours, or where the program wants it.
    if result > 0 && has_ended(unsafe { told.read() }) {
        ended(pc, result);
    }
    result
}

hooks! {
    fn fork() -> pid_t {
        forking(caller(), || usual!(fork()))
    }
    fn _Fork() -> pid_t {
        let found = required(&BARE_FORK, c"_Fork");
        // SAFETY: the C library's function of that name has that type.
        let real = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> pid_t>(found) };
        forking(caller(), || {
            kin::expecting();
            // SAFETY: as the program calls it.
            let pid = unsafe { real() };
            if pid == 0 {
                // It calls nobody's handlers.
                forked();
            }
            pid
        })
    }

    // The last three are there if the flags say so.
    fn clone(
        run: extern "C" fn(*mut c_void) -> c_int,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent: usize,
        storage: usize,
        child: usize,
    ) -> c_int {
        let pc = caller();
        let found = required(&CLONE, c"clone");
        // SAFETY: the C library's function of that name takes these.
        let real = unsafe { core::mem::transmute::<usize, Clone>(found) };
        if flags & (CLONE_VM | CLONE_SETTLS) != 0 {
            local().bare.set(u32::from(flags & CLONE_VM == 0));
            kin::starting(pc);
            // SAFETY: the caller's arguments.
            return unsafe { real(run, stack, flags, argument, parent, storage, child) };
        }
        let mut start = Start { run, argument };
        forking(pc, || {
            kin::expecting();
            // SAFETY: the caller's arguments, but for `begin`, which takes what it gets.
            unsafe { real(begin, stack, flags, (&raw mut start).cast(), parent, storage, child) }
        })
    }

    fn wait(status: *mut c_int) -> pid_t {
        waiting(caller(), status, 0, |status| usual!(wait(status)))
    }
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        waiting(caller(), status, options, |status| usual!(waitpid(pid, status, options)))
    }
    fn wait3(status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        let real = real!(c"wait3" as fn(*mut c_int, c_int, *mut rusage) -> pid_t);
        // SAFETY: the caller's arguments, or a place of ours.
        waiting(caller(), status, options, |status| unsafe { real(status, options, usage) })
    }
    fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        let real = real!(c"wait4" as fn(pid_t, *mut c_int, c_int, *mut rusage) -> pid_t);
        // SAFETY: as above.
        waiting(caller(), status, options, |status| unsafe { real(pid, status, options, usage) })
    }
    fn waitid(kind: c_uint, id: id_t, info: *mut siginfo_t, options: c_int) -> c_int {
        let pc = caller();
        let real = real!(c"waitid" as fn(c_uint, id_t, *mut siginfo_t, c_int) -> c_int);
        // SAFETY: the caller's arguments.
        let wait = || unsafe { real(kind, id, info, options) };
        let result = if session().is_none() || options & WNOHANG != 0 { wait() } else { local().stream.parked(wait) };
        if result == 0 && !info.is_null() && options & WEXITED != 0 && options & WNOWAIT == 0 {
            // SAFETY: the kernel has written it.
            let (pid, code) = unsafe { ((*info).si_pid(), (*info).si_code) };
            if matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED) {
                ended(pc, pid);
            }
        }
        result
    }
}
