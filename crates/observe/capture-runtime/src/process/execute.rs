//! The next program of the process, and system calls that make processes behind the C library's back.

use core::ffi::c_long;
use core::sync::atomic::Ordering;

use crate::base::session::session;
use crate::base::sys;
use crate::process::{by_number, tree};
use crate::state::local::local;

/// Looks the functions up that go on. Called once, from the library's constructor.
pub fn prepare() {
    found::prepare();
}

/// Does something and goes on to the C library's function. The arguments, of which there may be any number,
/// and the stack are as the caller left them.
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
    /// What each of them does before it goes on, with its first argument, and where: to a place of ours, or
    /// to
    /// the C library's function.
    mod next {
        $(pub extern "C" fn $name(argument: usize) -> usize {
            match super::$first(argument) {
                0 => crate::real::next::required(&super::found::$name, $text),
                place => place,
            }
        })*
    }
    /// Where each goes on.
    #[allow(non_upper_case_globals)] // they are called as the functions
    mod found {
        use core::sync::atomic::{AtomicUsize, Ordering};

        $(pub static $name: AtomicUsize = AtomicUsize::new(0);)*

        /// Looks for all of them: a program may call them where it can't wait for the dynamic linker, in a
        /// signal handler or in a fork's child.
        pub fn prepare() {
            $($name.store(crate::real::next::next($text), Ordering::Relaxed);)*
        }
    } };
}

/// The thread may not come to record anything else.
fn becoming(_: usize) -> usize {
    if !is_copy() {
        tree::becoming();
        local().stream.close();
    }
    0
}

/// Whether this is a child that was made behind our back and has a copy of its parent's memory: the chunk
/// that it finds there is the parent's, who goes on writing.
fn is_copy() -> bool {
    local().bare.get() != 0
        && session().is_some_and(|session| session.pid.load(Ordering::Relaxed) != sys::pid())
}

/// The child borrows this process's memory: what it records, this thread records.
fn lending(_: usize) -> usize {
    local().bare.set(0);
    tree::starting(0);
    0
}

/// A system call, perhaps one that makes a child, or a program of this process of which we know nothing; or
/// one on files, which goes to a place of ours.
fn calling(number: usize) -> usize {
    let number = number.cast_signed() as c_long;
    #[cfg(target_arch = "x86_64")]
    let forks = matches!(number, libc::SYS_fork | libc::SYS_vfork);
    #[cfg(not(target_arch = "x86_64"))]
    let forks = false;
    if forks || [libc::SYS_clone, libc::SYS_clone3].contains(&number) {
        local().bare.set(1);
        tree::starting(0);
    } else if [libc::SYS_execve, libc::SYS_execveat].contains(&number) {
        tree::expecting();
    }
    by_number::place(number)
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
