//! The process: its beginning, forks, the next program, its end.

use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::Ordering;

use libc::{RTLD_DI_LINKMAP, RTLD_LAZY, RTLD_NODELETE, RTLD_NOLOAD};

use crate::channel;
use crate::children;
use crate::files::next::usual;
use crate::kin;
use crate::kinds;
use crate::local::{NEW, STARTING, hooks, local};
use crate::map;
use crate::module;
use crate::real::real;
use crate::scratch;
use crate::session::{attach, session};
use crate::sys;
use crate::thread;
use crate::wire::MODE_COUNT;
use crate::{file_lock, files};

/// Before the constructors of all that was linked against this library.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// After their destructors.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

unsafe extern "C" {
    /// Registers functions to be called around `fork`; the last argument is the library that they are in.
    fn __register_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        library: *const c_void,
    ) -> c_int;
}

extern "C" fn begin() {
    #[cfg(target_arch = "x86_64")]
    crate::hooks::prepare();
    kinds::prepare();
    files::prepare();
    crate::jump::prepare();
    thread::prepare();
    let local = local();
    // What happens before the thread's start is our doing, even if it is the program's `memcpy` that we call.
    local.stage.set(STARTING);
    local.stream.clear();
    found::prepare();
    children::prepare();
    attach();
    if let Some(session) = session() {
        session.publish_leftovers();
        module::update();
    }
    // Constructors that ran before ours (libstdc++ allocates in its own) have started the thread without a session.
    local.stream.clear();
    local.stage.set(NEW);
    if session().is_some() {
        local.stream.make_room(0);
        kin::arrive();
    }
    // Registered before anybody else's, hence called before them in the child. After the thread's start: this allocates,
    // and the program's own `malloc` makes records.
    // SAFETY: a function that stays as long as the process.
    unsafe { __register_atfork(Some(kin::expecting), None, Some(forked), core::ptr::null()) };
}

extern "C" fn end() {
    files::flush();
    file_lock::end();
    kin::leave();
    thread::end(local());
    count_all();
}

/// In the child of a fork.
pub extern "C" fn forked() {
    thread::after_fork(local());
    children::after_fork();
    kin::after_fork();
    map::after_fork();
    files::after_fork();
    if let Some(session) = session() {
        module::forked(session, session.forked());
    }
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

/// Tells the thread's end if it is the process's: not a child's that borrows its parent's memory, nor one that a handler sees to.
fn end_thread() {
    let local = local();
    if local.handlers.get() == 0
        && session().is_some_and(|session| session.pid.load(Ordering::Relaxed) == sys::pid())
    {
        file_lock::end();
        channel::end();
        kin::leave();
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
        usual!(abort())
    }
}

/// Interposed: the library is closed but stays mapped, because run descriptors in it are still referred to, and so
/// that no code address ever means two things.
#[unsafe(no_mangle)]
pub extern "C" fn dlclose(handle: *mut c_void) -> c_int {
    if session().is_some() {
        keep_mapped(handle);
    }
    let real = real!(c"dlclose" as fn(*mut c_void) -> c_int);
    // SAFETY: the caller's argument.
    unsafe { real(handle) }
}

fn keep_mapped(handle: *mut c_void) {
    let close = real!(c"dlclose" as fn(*mut c_void) -> c_int);
    let mut library: *const LinkMap = core::ptr::null();
    // SAFETY: asks for the library's record; a wrong handle is an error. The name is a C string.
    unsafe {
        if libc::dlinfo(handle, RTLD_DI_LINKMAP, (&raw mut library).cast()) == 0 && !library.is_null() {
            let again = libc::dlopen((*library).name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
            if !again.is_null() {
                close(again);
            }
        }
    }
}

/// The part of the dynamic linker's record of a library that is public.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const core::ffi::c_char,
}

/// Does something and goes on to the C library's function. The arguments, of which there may be any number, and the stack are as
/// the caller left them.
macro_rules! executes {
    ($($name:ident = $text:literal, $first:ident;)*) => { $(
        /// Entry of the function of the same name.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "call {next}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                next = sym next::$name,
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(
                "stp x29, x30, [sp, -80]!",
                "stp x0, x1, [sp, 16]",
                "stp x2, x3, [sp, 32]",
                "stp x4, x5, [sp, 48]",
                "stp x6, x7, [sp, 64]",
                "bl {next}",
                "mov x16, x0",
                "ldp x0, x1, [sp, 16]",
                "ldp x2, x3, [sp, 32]",
                "ldp x4, x5, [sp, 48]",
                "ldp x6, x7, [sp, 64]",
                "ldp x29, x30, [sp], 80",
                "br x16",
                next = sym next::$name,
            );
        }
    )*
    /// What each of them does before it goes on, with its first argument, and where.
    mod next {
        $(pub extern "C" fn $name(argument: usize) -> usize {
            super::$first(argument);
            crate::real::required(&super::found::$name, $text)
        })*
    }
    /// Where each goes on.
    #[allow(non_upper_case_globals)] // they are called as the functions
    mod found {
        use core::sync::atomic::{AtomicUsize, Ordering};

        $(pub static $name: AtomicUsize = AtomicUsize::new(0);)*

        /// Looks for all of them: a program may call them where it can't wait for the dynamic linker, in a signal handler or in a
        /// fork's child.
        pub fn prepare() {
            $($name.store(crate::real::next($text), Ordering::Relaxed);)*
        }
    } };
}

/// The thread may not come to tell anything else.
fn becoming(_: usize) {
    if is_copy() {
        return;
    }
    kin::becoming();
    local().stream.close();
}

/// Whether this is a child that was made behind our back and has a copy of its parent's memory: the chunk that it finds there is the
/// parent's, who goes on writing.
fn is_copy() -> bool {
    local().bare.get() != 0
        && session().is_some_and(|session| session.pid.load(Ordering::Relaxed) != sys::pid())
}

/// The child borrows this process's memory: what it tells, this thread tells.
fn lending(_: usize) {
    local().bare.set(0);
    kin::starting(0);
}

/// A system call, perhaps one that makes a child, or a program of this process of which we know nothing.
fn calling(number: usize) {
    let number = number.cast_signed() as c_long;
    #[cfg(target_arch = "x86_64")]
    let forks = matches!(number, libc::SYS_fork | libc::SYS_vfork);
    #[cfg(not(target_arch = "x86_64"))]
    let forks = false;
    if forks || [libc::SYS_clone, libc::SYS_clone3].contains(&number) {
        local().bare.set(1);
        kin::starting(0);
    } else if [libc::SYS_execve, libc::SYS_execveat].contains(&number) {
        kin::expecting();
    }
}

executes! {
    execve = c"execve", becoming;
    execv = c"execv", becoming;
    execvp = c"execvp", becoming;
    execvpe = c"execvpe", becoming;
    execl = c"execl", becoming;
    execlp = c"execlp", becoming;
    execle = c"execle", becoming;
    execveat = c"execveat", becoming;
    fexecve = c"fexecve", becoming;
    vfork = c"vfork", lending;
    syscall = c"syscall", calling;
}
