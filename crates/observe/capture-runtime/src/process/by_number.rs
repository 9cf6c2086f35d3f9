//! System calls that a program makes by their numbers, with the C library's `syscall`: those that
//! change files or map them are recorded as the functions of the same name are.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::ptr::null_mut;

use libc::{iovec, mode_t, off_t, ssize_t};

use crate::base::sys;
use crate::files::contents::{
    Target, allocating, opening, opening_by, resize, result, truncating, write_one, writing,
};
use crate::files::copies::copying;
use crate::files::named::HERE;
use crate::files::names::{change, linking, linking_to, making, renaming};
use crate::files::syncs::{slow, syncing, syncing_all};
use crate::files::{around, attributes};
use crate::mapping::map;
use crate::state::local::{caller, hooks};
use abi::file;

unsafe extern "C" {
    /// The entry below.
    safe fn strandline_syscall();
}

/// Where a call of this number is to go; 0: to the C library.
pub fn place(number: c_long) -> usize {
    #[cfg(target_arch = "x86_64")]
    let is_ours = is_ours(number) || of_paths::is_ours(number);
    #[cfg(not(target_arch = "x86_64"))]
    let is_ours = is_ours(number);
    if is_ours { strandline_syscall as *const () as usize } else { 0 }
}

fn is_ours(number: c_long) -> bool {
    matches!(
        number,
        libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_ftruncate
            | libc::SYS_truncate
            | libc::SYS_fallocate
            | libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync
            | libc::SYS_syncfs
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_unlinkat
            | libc::SYS_mkdirat
            | libc::SYS_linkat
            | libc::SYS_symlinkat
            | libc::SYS_copy_file_range
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_msync
            | libc::SYS_io_submit
            | libc::SYS_io_uring_setup
            | libc::SYS_ioctl
            | libc::SYS_madvise
            | libc::SYS_mknodat
            | libc::SYS_setxattr
            | libc::SYS_lsetxattr
            | libc::SYS_fsetxattr
            | libc::SYS_removexattr
            | libc::SYS_lremovexattr
            | libc::SYS_fremovexattr
    )
}

/// A call as it was made.
#[derive(Clone, Copy)]
struct Call {
    pc: u64,
    number: c_long,
    args: [usize; 6],
}

impl Call {
    /// The kernel's result as the C library gives it.
    fn made(self) -> isize {
        // SAFETY: the program's arguments.
        result(unsafe { sys::call(self.number, self.args) })
    }

    fn int(self, at: usize) -> c_int {
        self.args[at] as c_int
    }

    fn name(self, at: usize) -> *const c_char {
        self.args[at] as *const c_char
    }

    /// As a function of the C library whose result is an `int`.
    fn status(self) -> c_int {
        self.made() as c_int
    }

    /// What the call does, recorded; `None`: it concerns no file that is recorded.
    fn contents(self) -> Option<isize> {
        let Call { pc, args, .. } = self;
        let fd = self.int(0);
        let (bytes, parts) = (args[1] as *const c_void, args[1] as *const iovec);
        let at = |offset: usize| Target::Offset(offset as off_t);
        Some(match self.number {
            libc::SYS_openat => opening(pc, fd, self.name(1), self.int(2), args[3] as mode_t)? as isize,
            libc::SYS_openat2 => {
                // SAFETY: the program's `open_how`, which begins with the flags.
                let flags = unsafe { (args[2] as *const u64).as_ref() }.copied()? as c_int;
                // SAFETY: the program's arguments.
                let open = || unsafe { sys::call(self.number, args) };
                opening_by(pc, fd, self.name(1), flags, open)? as isize
            }
            libc::SYS_write => write_one(pc, fd, bytes, args[2], Target::Position)?,
            libc::SYS_pwrite64 => write_one(pc, fd, bytes, args[2], at(args[3]))?,
            libc::SYS_writev => writing(pc, fd, parts, self.int(2), Target::Position, 0)?,
            libc::SYS_pwritev => writing(pc, fd, parts, self.int(2), at(args[3]), 0)?,
            libc::SYS_pwritev2 => {
                let target = if args[3] == usize::MAX { Target::Position } else { at(args[3]) };
                writing(pc, fd, parts, self.int(2), target, self.int(5))?
            }
            libc::SYS_ftruncate => resize(pc, fd, || self.status()) as isize,
            libc::SYS_truncate => truncating(pc, self.name(0), args[1] as off_t, || self.status()) as isize,
            libc::SYS_fallocate => {
                let range = [args[2], args[3]].map(|number| number as off_t);
                allocating(pc, fd, self.int(1), range, || self.status()) as isize
            }
            // SAFETY: the offset is the program's, which the kernel takes as well.
            libc::SYS_copy_file_range | libc::SYS_splice => unsafe {
                copying(pc, self.int(2), args[3] as *mut off_t, || self.made() as ssize_t)
            },
            // SAFETY: no offset.
            libc::SYS_sendfile => unsafe { copying(pc, fd, null_mut(), || self.made() as ssize_t) },
            _ => return None,
        })
    }

    fn names(self) -> Option<isize> {
        let Call { pc, args, .. } = self;
        let (folder, other) = (self.int(0), self.int(2));
        let both = [self.name(1), self.name(3)];
        let flags = args[4] as c_uint;
        let made = || self.status();
        Some(match self.number {
            libc::SYS_renameat => renaming(pc, [folder, other], both, 0, made),
            libc::SYS_renameat2 => renaming(pc, [folder, other], both, flags, made),
            libc::SYS_linkat => linking(pc, [folder, other], both, flags as c_int, made),
            libc::SYS_symlinkat => linking_to(pc, self.name(0), self.int(1), self.name(2), made),
            libc::SYS_unlinkat => change(pc, folder, self.name(1), file::UNLINK, made),
            libc::SYS_mknodat => making(pc, folder, self.name(1), other as mode_t, made),
            libc::SYS_mkdirat => change(pc, folder, self.name(1), file::CREATE_FOLDER, made),
            _ => return None,
        } as isize)
    }

    /// What the call does beside what is recorded, said.
    fn said(self) -> Option<isize> {
        let attribute = self.name(1);
        match self.number {
            libc::SYS_io_uring_setup => around::ring(),
            libc::SYS_ioctl => {
                let made = self.made();
                if made >= 0 {
                    around::requested(self.int(0), self.args[1] as c_ulong);
                }
                return Some(made);
            }
            number => {
                let (about, name) = attributes::by_number(number, self.args[0])?;
                // SAFETY: the program's names.
                return Some(
                    unsafe { attributes::changing(name, about, attribute, || self.made() as i64) } as isize
                );
            }
        }
        Some(self.made())
    }

    fn syncs_and_maps(self) -> Option<isize> {
        let Call { pc, args, .. } = self;
        match self.number {
            libc::SYS_fsync => syncing(pc, self.int(0), file::SYNC),
            libc::SYS_fdatasync => syncing(pc, self.int(0), file::DATA_SYNC),
            libc::SYS_sync => syncing_all(pc, None),
            libc::SYS_syncfs => syncing_all(pc, Some(self.int(0))),
            libc::SYS_msync => map::syncing(pc, args[0], args[1], self.int(2)),
            libc::SYS_madvise => {
                let range = [args[0], args[1]];
                return Some(map::advising(pc, range, self.int(2), || self.status()) as isize);
            }
            libc::SYS_mmap => {
                let [addr, len, ..] = args;
                let at = map::map(pc, addr, len, self.int(2), self.int(3), self.int(4), args[5] as i64);
                return Some(at as isize);
            }
            libc::SYS_munmap => return Some(map::unmap(pc, args[0], args[1]) as isize),
            libc::SYS_mremap => {
                return Some(map::remap(pc, [args[0], args[1], args[2]], self.int(3), args[4]) as isize);
            }
            libc::SYS_io_submit => {
                // SAFETY: the program's arguments: how many, and the list.
                unsafe { around::submitting(pc, args[1], args[2] as *const *const c_void) };
                return Some(self.made());
            }
            _ => return None,
        }
        Some(slow(|| self.made()))
    }
}

/// Calls that the newer architectures have only with a folder.
#[cfg(target_arch = "x86_64")]
mod of_paths {
    use super::*;

    pub fn is_ours(number: c_long) -> bool {
        matches!(
            number,
            libc::SYS_open
                | libc::SYS_creat
                | libc::SYS_rename
                | libc::SYS_unlink
                | libc::SYS_rmdir
                | libc::SYS_mkdir
                | libc::SYS_mknod
                | libc::SYS_link
                | libc::SYS_symlink
        )
    }

    impl Call {
        pub fn of_paths(self) -> Option<isize> {
            let Call { pc, args, .. } = self;
            let name = self.name(0);
            let both = [name, self.name(1)];
            let made = || self.status();
            Some(match self.number {
                libc::SYS_open => opening(pc, HERE, name, self.int(1), args[2] as mode_t)?,
                libc::SYS_creat => {
                    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                    opening(pc, HERE, name, flags, args[1] as mode_t)?
                }
                libc::SYS_rename => renaming(pc, [HERE; 2], both, 0, made),
                libc::SYS_unlink | libc::SYS_rmdir => change(pc, HERE, name, file::UNLINK, made),
                libc::SYS_mkdir => change(pc, HERE, name, file::CREATE_FOLDER, made),
                libc::SYS_mknod => making(pc, HERE, name, args[1] as mode_t, made),
                libc::SYS_link => linking(pc, [HERE; 2], both, 0, made),
                libc::SYS_symlink => linking_to(pc, name, HERE, self.name(1), made),
                _ => return None,
            } as isize)
        }
    }
}

hooks! {
    fn strandline_syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long {
        let call = Call { pc: caller(), number, args: [a, b, c, d, e, f] };
        let recorded = call.contents().or_else(|| call.names()).or_else(|| call.syncs_and_maps());
        let recorded = recorded.or_else(|| call.said());
        #[cfg(target_arch = "x86_64")]
        let recorded = recorded.or_else(|| call.of_paths());
        recorded.unwrap_or_else(|| call.made()) as c_long
    }
}
