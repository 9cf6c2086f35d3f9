//! Copies that the kernel makes from file to file, recorded as writes of what was copied.

use core::ffi::{c_int, c_uint};
use core::ptr::null_mut;

use libc::{O_APPEND, off_t, size_t, ssize_t};

use super::contents::ordinary;
use super::named::{self, Path, complain, watching};
use super::{order_lock, record};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks};

/// Carries out a copy into `to`, at the offset that is at `to_at` or at the file's position, and records it
/// if the file is watched. The calls move the offset, or the position, behind what they copied; it is read
/// back from there.
///
/// # Safety
/// The offset is null or a valid place.
pub unsafe fn copying(pc: u64, to: c_int, to_at: *mut off_t, copy: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(path) = watching().then(|| ordinary(to)).flatten() else { return copy() };
    let _held = order_lock::hold();
    let copied = copy();
    if let Ok(len @ 1..) = u64::try_from(copied) {
        // SAFETY: the caller's.
        let end = match unsafe { to_at.as_ref() } {
            Some(at) => Some(*at as u64),
            None if named::flags(to) & O_APPEND != 0 => sys::status(to).map(|status| status.st_size as u64),
            None => named::position(to),
        };
        let from = end.unwrap_or(len).saturating_sub(len);
        read_back(pc, &path, to, [from, len]);
    }
    copied
}

/// Records a write of the bytes at this offset, as many, which it reads from the file.
pub fn read_back(pc: u64, path: &Path, fd: c_int, [from, len]: [u64; 2]) {
    let Some(own) = named::reopen(fd) else {
        return complain(b"a write into a file that can't be read", path.bytes());
    };
    record::copied(pc, path, from, len, |buffer, at| {
        let (into, len, at) = (buffer.as_mut_ptr() as usize, buffer.len(), (from + at) as usize);
        // SAFETY: into the buffer.
        let read = unsafe { sys::call(libc::SYS_pread64, [own as usize, into, len, at, 0, 0]) };
        usize::try_from(read).unwrap_or(0)
    });
    sys::close(own);
}

hooks! {
    fn copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t {
        let copy = || real_call!(copy_file_range(from, from_at, to, to_at, len, flags));
        // SAFETY: the program's, which the kernel takes as well.
        unsafe { copying(caller(), to, to_at, copy) }
    }
    fn sendfile(to: c_int, from: c_int, from_at: *mut off_t, len: size_t) -> ssize_t {
        let copy = || real_call!(sendfile(to, from, from_at, len));
        // SAFETY: no offset.
        unsafe { copying(caller(), to, null_mut(), copy) }
    }
    fn sendfile64(to: c_int, from: c_int, from_at: *mut off_t, len: size_t) -> ssize_t {
        let copy = || real_call!(sendfile(to, from, from_at, len));
        // SAFETY: no offset.
        unsafe { copying(caller(), to, null_mut(), copy) }
    }
    fn splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t {
        let copy = || real_call!(splice(from, from_at, to, to_at, len, flags));
        // SAFETY: the program's, which the kernel takes as well.
        unsafe { copying(caller(), to, to_at, copy) }
    }
}
