//! Processes that the program forks: what they did before they ended is known to who waited for them.
//!
//! A child's first thread gets its number from the parent, as a thread does from its creator, and records its
//! end when the process ends in order. If it was killed, the parent records the ends of its threads.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::{CLONE_SETTLS, CLONE_VM, WEXITED, WNOHANG, WNOWAIT, id_t, pid_t, rusage, siginfo_t};

use crate::base::session::session;
use crate::process::alive;
use crate::process::exit::_exit;
use crate::process::forked::forked;
use crate::process::tree;
use crate::real::calls::real_call;
use crate::real::next::{next, real, required};
use crate::state::local::{caller, hooks, local};
use crate::stream::record::record_position_kept;
use abi::kind;

/// Whether a process with this status is there no more.
fn has_ended(status: c_int) -> bool {
    libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
}

fn ended(pc: u64, pid: pid_t, killed: bool) {
    let number = alive::take(pid);
    if let Some(session) = session().filter(|_| killed && number.is_some()) {
        session.head().killed.fetch_add(1, Ordering::Relaxed);
    }
    // Threads that could not tell their end, because the process was killed or another thread ended it.
    if let Some(session) = session() {
        let mut from = 0;
        while let Some((at, left)) = session.unfinished(pid.cast_unsigned(), from) {
            from = at + 1;
            let recorded = local().stream.parked(|| session.end_for(at, &left));
            if recorded && Some(left.thread) != number {
                record_position_kept(kind::JOIN, 0, pc, [left.thread.into()]);
            }
        }
    }
    if let Some(number) = number {
        record_position_kept(kind::JOIN, 0, pc, [number.into()]);
    }
    tree::waited(pc, pid);
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
        alive::add(pid, number);
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
    let recorded = if status.is_null() { &raw mut own } else { status };
    let result =
        if options & WNOHANG != 0 { wait(recorded) } else { local().stream.parked(|| wait(recorded)) };
    // SAFETY: ours, or where the program wants it.
    let status = if result > 0 { unsafe { recorded.read() } } else { 0 };
    if result > 0 && has_ended(status) {
        ended(pc, result, libc::WIFSIGNALED(status));
    }
    result
}

hooks! {
    fn fork() -> pid_t {
        forking(caller(), || real_call!(fork()))
    }
    fn _Fork() -> pid_t {
        let found = required(&BARE_FORK, c"_Fork");
        // SAFETY: the C library's function of that name has that type.
        let real = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn() -> pid_t>(found) };
        forking(caller(), || {
            tree::expecting();
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
            tree::starting(pc);
            // SAFETY: the caller's arguments.
            return unsafe { real(run, stack, flags, argument, parent, storage, child) };
        }
        let mut start = Start { run, argument };
        forking(pc, || {
            tree::expecting();
            // SAFETY: the caller's arguments, but for `begin`, which takes what it gets.
            unsafe { real(begin, stack, flags, (&raw mut start).cast(), parent, storage, child) }
        })
    }

    fn wait(status: *mut c_int) -> pid_t {
        waiting(caller(), status, 0, |status| real_call!(wait(status)))
    }
    fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
        waiting(caller(), status, options, |status| real_call!(waitpid(pid, status, options)))
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
                ended(pc, pid, code != libc::CLD_EXITED);
            }
        }
        result
    }
}
