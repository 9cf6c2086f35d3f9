//! System calls that the program makes by an instruction of its own, in inline assembly.
//!
//! They are carried out as they are. Those that change a file which the user named are not recorded, and
//! that is said.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_long, c_void};

use super::around;
use super::named::{HERE, Path, complain_of, watching};
use crate::memory::instructions::slow;

/// What a call's first arguments are.
#[derive(Clone, Copy)]
enum About {
    /// A descriptor.
    File,
    /// A name.
    Name,
    /// A folder's descriptor and a name.
    InFolder,
    /// A source, and a descriptor as the third.
    ToFile,
    /// Everything.
    All,
}

const CALLS: &[(c_long, About, &[u8])] = &[
    (libc::SYS_write, About::File, b"write"),
    (libc::SYS_pwrite64, About::File, b"pwrite"),
    (libc::SYS_writev, About::File, b"writev"),
    (libc::SYS_pwritev, About::File, b"pwritev"),
    (libc::SYS_pwritev2, About::File, b"pwritev2"),
    (libc::SYS_fsync, About::File, b"fsync"),
    (libc::SYS_fdatasync, About::File, b"fdatasync"),
    (libc::SYS_sync_file_range, About::File, b"sync_file_range"),
    (libc::SYS_ftruncate, About::File, b"ftruncate"),
    (libc::SYS_fallocate, About::File, b"fallocate"),
    (libc::SYS_sendfile, About::File, b"sendfile"),
    (libc::SYS_copy_file_range, About::ToFile, b"copy_file_range"),
    (libc::SYS_splice, About::ToFile, b"splice"),
    (libc::SYS_truncate, About::Name, b"truncate"),
    (libc::SYS_creat, About::Name, b"creat"),
    (libc::SYS_rename, About::Name, b"rename"),
    (libc::SYS_unlink, About::Name, b"unlink"),
    (libc::SYS_link, About::Name, b"link"),
    (libc::SYS_mkdir, About::Name, b"mkdir"),
    (libc::SYS_rmdir, About::Name, b"rmdir"),
    (libc::SYS_renameat, About::InFolder, b"renameat"),
    (libc::SYS_renameat2, About::InFolder, b"renameat2"),
    (libc::SYS_unlinkat, About::InFolder, b"unlinkat"),
    (libc::SYS_linkat, About::InFolder, b"linkat"),
    (libc::SYS_mkdirat, About::InFolder, b"mkdirat"),
    (libc::SYS_sync, About::All, b"sync"),
    (libc::SYS_syncfs, About::All, b"syncfs"),
];

/// What the hook saved: flags, `rsi`, `rdx`, `rcx`, `rax` (the call's number).
#[repr(C)]
struct Saved {
    flags: u64,
    second: u64,
    third: u64,
    rcx: u64,
    number: u64,
}

extern "C" fn announced(pc: u64, first: u64, saved: *const Saved) {
    if !watching() {
        return;
    }
    // SAFETY: the hook's own stack.
    let saved = unsafe { &*saved };
    let number = saved.number as c_long;
    if number == libc::SYS_io_uring_setup {
        return around::ring_at(pc);
    }
    if number == libc::SYS_io_submit {
        // SAFETY: the program's arguments: how many, and the list.
        return unsafe { around::submitting(pc, saved.second as usize, saved.third as *const *const c_void) };
    }
    let Some(&(_, about, name)) = CALLS.iter().find(|(known, ..)| *known == number) else { return };
    let path = match about {
        About::File => Path::of(first as c_int),
        About::ToFile => Path::of(saved.third as c_int),
        // SAFETY: the program's name.
        About::Name => unsafe { Path::to(HERE, first as *const c_char) },
        // SAFETY: as above.
        About::InFolder => unsafe { Path::to(first as c_int, saved.second as *const c_char) },
        About::All => return complain_of(pc, name, b""),
    };
    if let Some(path) = path.and_then(Path::watched) {
        complain_of(pc, name, path.bytes());
    }
}

/// Called before a `syscall`; changes nothing.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_hook_system_call() {
    naked_asm!(
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "lahf",
        "seto al",
        "push rax",
        "mov rax, qword ptr [rsp + 40]",
        "mov rdx, rsp",
        "lea rcx, [rip + {announced}]",
        "call {save}",
        "pop rax",
        "add al, 0x7f",
        "sahf",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
        announced = sym announced,
        save = sym slow,
    );
}
