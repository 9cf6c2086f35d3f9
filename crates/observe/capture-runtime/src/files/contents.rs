//! Contents: opening, writing, truncating.

use core::ffi::{c_char, c_int, c_void};

use libc::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_ZERO_RANGE, O_APPEND, O_CREAT, O_DSYNC, O_SYNC, O_TMPFILE, O_TRUNC, O_WRONLY, RWF_APPEND,
    RWF_DSYNC, RWF_SYNC, iovec, mode_t, off_t, size_t, ssize_t,
};

use super::named::{self, HERE, Path, watching};
use super::{order_lock, record};
use crate::base::sys;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks};
use crate::sync::channel;
use abi::file;

/// A kernel's result as the C library gives it.
pub fn result(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        // SAFETY: `errno` is the thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result
}

/// Opens a file that may be made or truncated by it. `None`: it can't, the call is to take the ordinary way.
pub fn opening(pc: u64, folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> Option<c_int> {
    // SAFETY: the program's arguments.
    opening_by(pc, folder, name, flags, || unsafe { named::open(folder, name, flags, mode) })
}

/// As [`opening`], where `open` is the call and gives the kernel's result.
pub fn opening_by(
    pc: u64,
    folder: c_int,
    name: *const c_char,
    flags: c_int,
    open: impl FnOnce() -> isize,
) -> Option<c_int> {
    let nameless = flags & O_TMPFILE == O_TMPFILE;
    if !watching() || flags & (O_CREAT | O_TRUNC) == 0 && !nameless {
        return None;
    }
    let held = order_lock::hold();
    // SAFETY: the program's name.
    let before = if nameless { None } else { unsafe { named::status_at(folder, name) } };
    if before.is_some_and(|status| !named::is_ordinary(&status)) {
        // To open a FIFO may take for ever.
        return None;
    }
    let fd = open();
    if fd >= 0
        && let Some(path) = Path::of(fd as c_int).and_then(Path::watched)
    {
        match before {
            None => record::operation(file::CREATE, pc, &path, 0),
            Some(_) if flags & O_TRUNC != 0 => record::operation(file::TRUNCATE, pc, &path, 0),
            Some(_) => {}
        }
    }
    drop(held);
    Some(result(fd) as c_int)
}

/// The watched file behind a descriptor, if it is an ordinary one.
pub fn ordinary(fd: c_int) -> Option<Path> {
    Path::of(fd)?.watched().filter(|_| sys::status(fd).is_some_and(|status| named::is_ordinary(&status)))
}

/// Where a write goes.
#[derive(Clone, Copy)]
pub enum Target {
    /// To the file's position, or its end.
    Position,
    /// To an offset.
    Offset(off_t),
}

/// Carries out a write to a watched file and records it. `None`: it is no such file, the call is to take the
/// ordinary way.
#[inline(always)]
pub fn writing(
    pc: u64,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    target: Target,
    flags: c_int,
) -> Option<ssize_t> {
    if watching() { write_watched(pc, fd, parts, count, target, flags) } else { None }
}

#[cold]
fn write_watched(
    pc: u64,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    target: Target,
    flags: c_int,
) -> Option<ssize_t> {
    let path = ordinary(fd)?;
    let held = order_lock::hold();
    // With an offset of -1 this call takes the file's position.
    let (at, fitting) = match target {
        Target::Position => (-1, true),
        Target::Offset(offset) => (offset, offset >= 0),
    };
    if !fitting {
        return Some(result(-(libc::EINVAL as isize)));
    }
    let args = [fd as usize, parts as usize, count as isize as usize, at as usize, 0, flags as usize];
    // SAFETY: the program's arguments.
    let written = unsafe { sys::call(libc::SYS_pwritev2, args) };
    if let Ok(len @ 1..) = u64::try_from(written) {
        let opened = named::flags(fd);
        let appended = opened & O_APPEND != 0 || flags & RWF_APPEND != 0;
        let end = match target {
            Target::Position if flags & RWF_APPEND == 0 => named::position(fd),
            _ if appended => sys::status(fd).map(|status| status.st_size as u64),
            Target::Position => named::position(fd),
            Target::Offset(offset) => Some(offset as u64 + len),
        };
        let from = end.unwrap_or(len).saturating_sub(len);
        // SAFETY: the kernel has read as many bytes of as many parts.
        unsafe {
            let parts = core::slice::from_raw_parts(parts, count as usize);
            record::written(pc, &path, from, len, parts);
        }
        if opened & O_SYNC == O_SYNC || flags & RWF_SYNC != 0 {
            record::record_range(file::RANGE_SYNC, pc, &path, [from, len]);
        } else if opened & O_DSYNC != 0 || flags & RWF_DSYNC != 0 {
            record::record_range(file::RANGE_DATA_SYNC, pc, &path, [from, len]);
        }
    }
    drop(held);
    Some(result(written))
}

/// As [`writing`] with one part.
#[inline(always)]
pub fn write_one(pc: u64, fd: c_int, from: *const c_void, len: size_t, target: Target) -> Option<ssize_t> {
    if !watching() {
        return None;
    }
    let part = iovec { iov_base: from.cast_mut(), iov_len: len };
    write_watched(pc, fd, &raw const part, 1, target, 0)
}

/// Writes to the file's position, and records it if the file is watched.
pub fn write_through(pc: u64, fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    write_one(pc, fd, from, len, Target::Position).unwrap_or_else(|| real_call!(write(fd, from, len)))
}

/// Carries out a change of a file's length and records the new one, if it is another.
pub fn resize(pc: u64, fd: c_int, change: impl FnOnce() -> c_int) -> c_int {
    let Some(path) = watching().then(|| ordinary(fd)).flatten() else { return change() };
    let _held = order_lock::hold();
    let bytes = || sys::status(fd).map(|status| status.st_size);
    let before = bytes();
    let result = change();
    if result == 0
        && let Some(after) = bytes().filter(|after| Some(*after) != before)
    {
        record::operation(file::TRUNCATE, pc, &path, after as u64);
    }
    result
}

/// Carries out a change of the length of the file of a name, and records it.
pub fn truncating(pc: u64, name: *const c_char, len: off_t, change: impl FnOnce() -> c_int) -> c_int {
    if !watching() {
        return change();
    }
    let _held = order_lock::hold();
    let result = change();
    if result == 0
        // SAFETY: the program's name, which led to a file.
        && let Some(path) = unsafe { Path::behind(HERE, name) }.and_then(Path::watched)
    {
        record::operation(file::TRUNCATE, pc, &path, len as u64);
    }
    result
}

/// Carries out `allocate` and records what it did to the file.
pub fn allocating(
    pc: u64,
    fd: c_int,
    mode: c_int,
    [offset, len]: [off_t; 2],
    allocate: impl FnOnce() -> c_int,
) -> c_int {
    let what = match mode & !FALLOC_FL_KEEP_SIZE {
        FALLOC_FL_COLLAPSE_RANGE => file::COLLAPSE,
        FALLOC_FL_INSERT_RANGE => file::INSERT,
        _ => return resize(pc, fd, || zeroing(pc, fd, mode, [offset, len], allocate)),
    };
    let Some(path) = watching().then(|| ordinary(fd)).flatten() else { return allocate() };
    let _held = order_lock::hold();
    let result = allocate();
    if result == 0 {
        record::record_range(what, pc, &path, [offset as u64, len as u64]);
    }
    result
}

/// Carries out `allocate` and records the zeros that it made.
fn zeroing(
    pc: u64,
    fd: c_int,
    mode: c_int,
    [offset, len]: [off_t; 2],
    allocate: impl FnOnce() -> c_int,
) -> c_int {
    /// Of Linux 6.17: as `FALLOC_FL_ZERO_RANGE`, with the zeros written.
    const WRITE_ZEROES: c_int = 0x80;
    let result = allocate();
    if result == 0
        && mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | WRITE_ZEROES) != 0
        && watching()
        && let Some(path) = ordinary(fd)
    {
        let end = sys::status(fd).map_or(0, |status| status.st_size as u64);
        let from = (offset as u64).min(end);
        record::zeroed(pc, &path, from, (offset as u64).saturating_add(len as u64).min(end) - from);
    }
    result
}

/// The definitions of a function and of its twin for large files, which is the same on the 64-bit targets.
macro_rules! twins {
    ($(fn $name:ident $twin:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => {
        hooks! { $(
            fn $name($($arg: $type),*) -> $result $body
            fn $twin($($arg: $type),*) -> $result $body
        )* }
    };
}

twins! {
    fn open open64(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        opening(caller(), HERE, name, flags, mode).unwrap_or_else(|| real_call!(open(name, flags, mode)))
    }
    fn openat openat64(folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
        opening(caller(), folder, name, flags, mode)
            .unwrap_or_else(|| real_call!(openat(folder, name, flags, mode)))
    }
    fn __open_2 __open64_2(name: *const c_char, flags: c_int) -> c_int {
        let pc = caller();
        let watched = if flags & O_CREAT == 0 { opening(pc, HERE, name, flags, 0) } else { None };
        watched.unwrap_or_else(|| real_call!(__open_2(name, flags)))
    }
    fn __openat_2 __openat64_2(folder: c_int, name: *const c_char, flags: c_int) -> c_int {
        let pc = caller();
        let watched = if flags & O_CREAT == 0 { opening(pc, folder, name, flags, 0) } else { None };
        watched.unwrap_or_else(|| real_call!(__openat_2(folder, name, flags)))
    }
    fn creat creat64(name: *const c_char, mode: mode_t) -> c_int {
        let flags = O_CREAT | O_WRONLY | O_TRUNC;
        opening(caller(), HERE, name, flags, mode).unwrap_or_else(|| real_call!(open(name, flags, mode)))
    }
    fn pwrite pwrite64(fd: c_int, from: *const c_void, len: size_t, offset: off_t) -> ssize_t {
        write_one(caller(), fd, from, len, Target::Offset(offset))
            .unwrap_or_else(|| real_call!(pwrite(fd, from, len, offset)))
    }
    fn pwritev pwritev64(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        writing(caller(), fd, parts, count, Target::Offset(offset), 0)
            .unwrap_or_else(|| real_call!(pwritev(fd, parts, count, offset)))
    }
    fn pwritev2 pwritev64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t {
        let target = if offset == -1 { Target::Position } else { Target::Offset(offset) };
        writing(caller(), fd, parts, count, target, flags)
            .unwrap_or_else(|| real_call!(pwritev2(fd, parts, count, offset, flags)))
    }
    fn ftruncate ftruncate64(fd: c_int, len: off_t) -> c_int {
        resize(caller(), fd, || real_call!(ftruncate(fd, len)))
    }
    fn truncate truncate64(name: *const c_char, len: off_t) -> c_int {
        truncating(caller(), name, len, || real_call!(truncate(name, len)))
    }
    fn fallocate fallocate64(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int {
        allocating(caller(), fd, mode, [offset, len], || real_call!(fallocate(fd, mode, offset, len)))
    }
    fn posix_fallocate posix_fallocate64(fd: c_int, offset: off_t, len: off_t) -> c_int {
        resize(caller(), fd, || real_call!(posix_fallocate(fd, offset, len)))
    }
}

hooks! {
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        let pc = caller();
        write_one(pc, fd, from, len, Target::Position).unwrap_or_else(|| {
            channel::sending(pc, fd);
            real_call!(write(fd, from, len))
        })
    }
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let pc = caller();
        writing(pc, fd, parts, count, Target::Position, 0).unwrap_or_else(|| {
            channel::sending(pc, fd);
            real_call!(writev(fd, parts, count))
        })
    }
}
