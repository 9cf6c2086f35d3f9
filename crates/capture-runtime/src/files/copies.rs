//! Copies that the kernel makes from file to file, told as writes of what was copied.

use core::ffi::{c_int, c_uint};

use libc::{O_APPEND, off_t, size_t, ssize_t};

use super::calls::ordinary;
use super::kernel::{self, Path, complain, watching};
use super::next::usual;
use super::{order, tell};
use crate::local::{caller, hooks};

/// Carries out a copy into `to`, at the offset that is at `to_at` or at the file's position, and tells it if the file is watched. The calls
/// move the offsets, or the positions, behind what they copied.
///
/// # Safety
/// The offsets are null or valid places.
unsafe fn copying(
    pc: u64,
    [from, to]: [c_int; 2],
    [from_at, to_at]: [*mut off_t; 2],
    copy: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(path) = watching().then(|| ordinary(to)).flatten() else { return copy() };
    let _held = order::hold();
    let copied = copy();
    if let Ok(len @ 1..) = u64::try_from(copied) {
        // SAFETY: the caller's.
        let behind = |fd, at: *mut off_t| match unsafe { at.as_ref() } {
            Some(at) => Some(*at as u64),
            None if kernel::flags(fd) & O_APPEND != 0 => {
                kernel::status(fd).map(|status| status.st_size as u64)
            }
            None => kernel::position(fd),
        };
        let [source, place] =
            [behind(from, from_at), behind(to, to_at)].map(|end| end.unwrap_or(len).saturating_sub(len));
        tell::copied(pc, &path, place, len, |buffer, at| {
            // SAFETY: into the buffer.
            let read = unsafe {
                libc::pread(from, buffer.as_mut_ptr().cast(), buffer.len(), (source + at) as off_t)
            };
            usize::try_from(read).unwrap_or(0)
        });
    }
    copied
}

/// Complains of a sync of everything.
fn not_told(what: &[u8], fd: Option<c_int>) {
    if watching() {
        match fd.and_then(Path::of) {
            Some(path) => complain(what, path.bytes()),
            None => complain(what, b"/"),
        }
    }
}

hooks! {
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t {
        let copy = || usual!(copy_file_range(from, from_at, to, to_at, len, flags));
        // SAFETY: the program's, which the kernel takes as well.
        unsafe { copying(caller(), [from, to], [from_at, to_at], copy) }
    }
    fn sendfile(to: c_int, from: c_int, from_at: *mut off_t, len: size_t) -> ssize_t {
        let copy = || usual!(sendfile(to, from, from_at, len));
        // SAFETY: as above.
        unsafe { copying(caller(), [from, to], [from_at, core::ptr::null_mut()], copy) }
    }
    fn sendfile64(to: c_int, from: c_int, from_at: *mut off_t, len: size_t) -> ssize_t {
        let copy = || usual!(sendfile(to, from, from_at, len));
        // SAFETY: as above.
        unsafe { copying(caller(), [from, to], [from_at, core::ptr::null_mut()], copy) }
    }
    fn sync() -> () {
        not_told(b"sync of all files", None);
        usual!(sync());
    }
    fn syncfs(fd: c_int) -> c_int {
        not_told(b"sync of all files (syncfs)", Some(fd));
        usual!(syncfs(fd))
    }
}
