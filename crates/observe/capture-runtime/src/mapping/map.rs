//! `mmap` and its relatives: which mappings are persistent memory.
//!
//! A shared mapping of a file is persistent if the file lies on a mount with DAX or under `/dev/shm`, is a
//! DAX device, or is one that the user named, with `--pmem` or with `--files`. Those are recorded and kept in
//! a table, so that their end is recorded too.

use core::ffi::{CStr, c_int, c_void};

use libc::{MAP_SHARED, MAP_SHARED_VALIDATE, MREMAP_FIXED, MREMAP_MAYMOVE, MS_SYNC, c_long, size_t};

use crate::base::glob::is_named;
use crate::base::persistent::{PERSISTENT, Range, is_in_persistent};
use crate::base::session::session;
use crate::base::sys;
use crate::files::around::{is_ring, ring};
use crate::files::named::{PATH_BYTES, Path, complain, is_watched, watching};
use crate::files::order_lock;
use crate::files::record::{made as made_by_library, zeroed};
use crate::files::syncs::slow;
use crate::mapping::kept;
use crate::real::calls::real_call;
use crate::state::local::{caller, hooks};
use crate::stream::record::{record, record_text};
use abi::kind;

/// The advice that empties pieces of files, as it is named to the user.
const REMOVE: &[u8] = b"madvise(MADV_REMOVE)";

/// Records that what of a range is persistent goes.
pub fn record_unmapped(pc: u64, start: u64, len: u64) {
    if session().is_none() {
        return;
    }
    finish_record();
    while let Some(taken) = PERSISTENT.take(start, start.saturating_add(len)) {
        let room = crate::state::local::local().stream.room_kept(3);
        room.write(abi::header(kind::UNMAP, 0, pc), &[taken.start, taken.end - taken.start]);
    }
}

/// The thread's last store may be to memory that goes: its bytes are read now.
fn finish_record() {
    crate::state::local::local().stream.finish_record();
}

fn record_mapped(pc: u64, [start, len, offset]: [u64; 3], path: &[u8], file: [u64; 2]) {
    let len = len.next_multiple_of(4096);
    PERSISTENT.add([start, start + len, offset], path, file);
    record_text(kind::MAP, pc, [start, len], path);
    if offset != 0 {
        let room = crate::state::local::local().stream.room_kept(3);
        room.write(abi::header(kind::MAP_OFFSET, 0, pc), &[start, offset]);
    }
}

/// Records that the pages of a persistent mapping are about to be written to their file.
pub fn record_synced(pc: u64, start: u64, len: u64) {
    if is_in_persistent(start, len) {
        record(kind::MAP_SYNC, 0, pc, [start, len]);
    }
}

/// Records that a library mapped the rest of a file that is persistent whatever its name (address, length and
/// offset), and that it has `made` it if so; whether it is one of those whose calls are recorded.
pub fn mapped_by_library(pc: u64, path: &CStr, [start, len, offset]: [u64; 3], made: bool) -> bool {
    let Some(fd) = sys::open(path, libc::O_RDONLY) else { return false };
    let mut buffer = [0; 4096];
    let watched = path_of(fd, &mut buffer).is_some_and(|path| {
        if made {
            made_by_library(pc, fd, offset + len);
        }
        kept::keep(fd, path);
        record_mapped(pc, [start, len, offset], path, identity(fd));
        is_watched(path)
    });
    sys::close(fd);
    watched
}

/// The path of an open file, without the kernel's note that it was deleted.
fn path_of(fd: c_int, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut name = [0; 32];
    let mut text = sys::Text::new(&mut name);
    text.push(b"/proc/self/fd/");
    text.number(u64::try_from(fd).ok()?);
    let path = sys::read_link(text.c_str(), buffer)?;
    Some(path.strip_suffix(b" (deleted)").unwrap_or(path))
}

fn is_persistent(fd: c_int, path: &[u8]) -> bool {
    let Some(session) = session() else { return false };
    if is_session(path) {
        return false;
    }
    let head = session.head();
    let patterns = &head.pmem_patterns[..(head.pmem_patterns_len as usize).min(head.pmem_patterns.len())];
    path.starts_with(b"/dev/shm/")
        || path.starts_with(b"/dev/dax")
        || is_named(path, patterns)
        || is_watched(path)
        || sys::is_dax(fd)
}

/// Whether it is the file that we record into.
fn is_session(path: &[u8]) -> bool {
    session().is_some_and(|session| session.path() == path)
}

/// The kernel's result as the C library gives it.
fn result(result: isize) -> *mut c_void {
    if (-4095..0).contains(&result) {
        // SAFETY: `errno` is the thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return libc::MAP_FAILED;
    }
    result as *mut c_void
}

/// `mmap`, recorded where it maps persistent memory.
pub fn map(
    pc: u64,
    addr: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 {
        record_unmapped(pc, addr as u64, len as u64);
    }
    let args = [addr, len, protection as usize, flags as usize, fd as isize as usize, offset as usize];
    // SAFETY: the caller's arguments.
    let at = result(unsafe { sys::call(libc::SYS_mmap, args) });
    let shared = matches!(flags & libc::MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    if at != libc::MAP_FAILED && shared && flags & libc::MAP_ANONYMOUS == 0 && session().is_some() {
        let mut buffer = [0; 4096];
        match path_of(fd, &mut buffer) {
            Some(path) if is_persistent(fd, path) => {
                kept::keep(fd, path);
                // A file that lost its name is not the one that may have it now.
                let now = if watching() && is_watched(path) { Path::of(fd) } else { None };
                let path = now.as_ref().map_or(path, Path::bytes);
                record_mapped(pc, [at as u64, len as u64, offset as u64], path, identity(fd));
            }
            Some(path) if is_ring(path) => ring(),
            _ => {}
        }
    }
    at
}

/// `munmap`, recorded.
pub fn unmap(pc: u64, addr: usize, len: usize) -> c_int {
    record_unmapped(pc, addr as u64, len as u64);
    // SAFETY: the caller's arguments.
    let failed = result(unsafe { sys::call(libc::SYS_munmap as c_long, [addr, len, 0, 0, 0, 0]) });
    if failed == libc::MAP_FAILED { -1 } else { 0 }
}

/// Records an `msync` that begins, if it waits for the file.
pub fn syncing(pc: u64, start: usize, len: usize, flags: c_int) {
    if flags & MS_SYNC != 0 {
        record_synced(pc, start as u64, len as u64);
    }
}

/// `mremap`, recorded.
pub fn remap(pc: u64, [old, old_len, len]: [usize; 3], flags: c_int, new: usize) -> *mut c_void {
    finish_record();
    // Recorded before and taken back if it fails: another thread may get the old range at once.
    let moved = PERSISTENT.take(old as u64, old as u64 + old_len as u64);
    if let Some(range) = moved {
        let room = crate::state::local::local().stream.room_kept(3);
        room.write(abi::header(kind::UNMAP, 0, pc), &[range.start, range.end - range.start]);
    }
    let new = if flags & (MREMAP_FIXED | MREMAP_MAYMOVE) == MREMAP_FIXED | MREMAP_MAYMOVE { new } else { 0 };
    // SAFETY: the caller's arguments.
    let at = result(unsafe { sys::call(libc::SYS_mremap, [old, old_len, len, flags as usize, new, 0]) });
    if let Some(range) = moved {
        let (start, len) = if at == libc::MAP_FAILED {
            (range.start, range.end - range.start)
        } else {
            (at as u64, len as u64)
        };
        record_mapped(pc, [start, len, range.offset], &range.path[..range.path_len], range.file);
    }
    at
}

/// The device and number of an open file.
fn identity(fd: c_int) -> [u64; 2] {
    sys::status(fd).map_or([0; 2], |status| [status.st_dev, status.st_ino])
}

/// Carries out an `madvise` of a range and records the holes that it makes in files.
pub fn advising(pc: u64, [start, len]: [usize; 2], advice: c_int, advise: impl FnOnce() -> c_int) -> c_int {
    finish_record();
    let end = start.saturating_add(len).checked_next_multiple_of(4096).unwrap_or(usize::MAX);
    let (start, end) = (start as u64, end as u64);
    if advice != libc::MADV_REMOVE || !watching() || !is_in_persistent(start, end - start) {
        return advise();
    }
    let _held = order_lock::hold();
    let result = advise();
    let mut from = start;
    while result == 0
        && from < end
        && let Some(range) = PERSISTENT.first(from, end)
    {
        emptied(pc, &range);
        from = range.end;
    }
    result
}

/// Records that what of a file a range maps became zeros.
fn emptied(pc: u64, range: &Range) {
    let path = &range.path[..range.path_len];
    let mut buffer = [0; PATH_BYTES];
    let mut name = sys::Text::new(&mut buffer);
    name.push(path);
    let Some(fd) = sys::open(name.c_str(), libc::O_RDONLY) else {
        return complain(REMOVE, path);
    };
    // Another file may have the name now.
    match sys::status(fd).filter(|status| [status.st_dev, status.st_ino] == range.file) {
        Some(status) => {
            if let Some(path) = Path::of(fd).and_then(Path::watched) {
                let end = (range.offset + (range.end - range.start)).min(status.st_size as u64);
                zeroed(pc, &path, range.offset, end.saturating_sub(range.offset));
            }
        }
        None => complain(REMOVE, path),
    }
    sys::close(fd);
}

hooks! {
    fn msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int {
        syncing(caller(), start as usize, len, flags);
        slow(|| real_call!(msync(start, len, flags)))
    }
    fn mmap(addr: usize, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map(caller(), addr, len, protection, flags, fd, offset)
    }
    fn mmap64(addr: usize, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map(caller(), addr, len, protection, flags, fd, offset)
    }
    fn munmap(addr: usize, len: usize) -> c_int {
        unmap(caller(), addr, len)
    }
    fn mprotect(start: usize, len: usize, protection: c_int) -> c_int {
        finish_record();
        // SAFETY: the caller's arguments.
        let failed = result(unsafe { sys::call(libc::SYS_mprotect, [start, len, protection as usize, 0, 0, 0]) });
        if failed == libc::MAP_FAILED { -1 } else { 0 }
    }
    fn madvise(start: usize, len: usize, advice: c_int) -> c_int {
        advising(caller(), [start, len], advice, || {
            // SAFETY: the caller's arguments.
            let failed = result(unsafe { sys::call(libc::SYS_madvise, [start, len, advice as usize, 0, 0, 0]) });
            if failed == libc::MAP_FAILED { -1 } else { 0 }
        })
    }
    fn shmdt(start: usize) -> c_int {
        finish_record();
        // SAFETY: the caller's arguments.
        let failed = result(unsafe { sys::call(libc::SYS_shmdt, [start, 0, 0, 0, 0, 0]) });
        if failed == libc::MAP_FAILED { -1 } else { 0 }
    }
    fn mremap(old: usize, old_len: usize, len: usize, flags: c_int, new: usize) -> *mut c_void {
        remap(caller(), [old, old_len, len], flags, new)
    }
}
