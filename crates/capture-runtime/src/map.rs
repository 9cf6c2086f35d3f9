//! `mmap` and its kin: which mappings are persistent memory.
//!
//! A shared mapping of a file is persistent if the file lies on a mount with DAX or under `/dev/shm`, is a DAX device,
//! or is one that the user named, with `--pmem` or with `--files`. Those are told and kept in a table, so that their end
//! is told too.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use libc::{MAP_SHARED, MAP_SHARED_VALIDATE, MREMAP_FIXED, MREMAP_MAYMOVE, c_long};

use crate::before;
use crate::files::{self, is_watched};
use crate::glob::is_named;
use crate::local::{caller, hooks};
use crate::session::session;
use crate::stream::{record, record_text};
use crate::sys;
use crate::wire::{SESSION_ENV, kind};

/// Persistent ranges at one time that are kept track of.
const RANGES: usize = 1024;
/// Bytes kept of a path.
const PATH_BYTES: usize = 512;

#[derive(Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    /// Where in the file it starts.
    offset: u64,
    path: [u8; PATH_BYTES],
    path_len: usize,
}

const UNUSED: Range = Range { start: 0, end: 0, offset: 0, path: [0; PATH_BYTES], path_len: 0 };

/// The persistent ranges, behind a lock that nobody sleeps under.
struct Ranges {
    locked: AtomicBool,
    ranges: UnsafeCell<[Range; RANGES]>,
}
// SAFETY: `ranges` is touched only under `locked`.
unsafe impl Sync for Ranges {}

static PERSISTENT: Ranges =
    Ranges { locked: AtomicBool::new(false), ranges: UnsafeCell::new([UNUSED; RANGES]) };

impl Ranges {
    /// Calls `f` with the table.
    fn with<T>(&self, f: impl FnOnce(&mut [Range; RANGES]) -> T) -> T {
        // A signal handler that maps while its thread is in here would wait for ever; `mmap` is not
        // async-signal-safe by POSIX, so it may not.
        while self.locked.swap(true, Ordering::Acquire) {
            sys::give_way();
        }
        // SAFETY: under the lock.
        let result = f(unsafe { &mut *self.ranges.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    fn add(&self, start: u64, end: u64, offset: u64, path: &[u8]) {
        self.with(|ranges| {
            if let Some(unused) = ranges.iter_mut().find(|range| range.end == 0) {
                let path_len = path.len().min(PATH_BYTES);
                (unused.start, unused.end, unused.offset, unused.path_len) = (start, end, offset, path_len);
                unused.path[..path_len].copy_from_slice(&path[..path_len]);
            }
        });
    }

    /// Takes `start..end` out of the next range that it overlaps; the part taken out, and the path of its file.
    fn take(&self, start: u64, end: u64) -> Option<Range> {
        self.with(|ranges| {
            let at = ranges.iter().position(|range| range.start < end && start < range.end)?;
            let whole = ranges[at];
            let from = whole.start.max(start);
            let offset = whole.offset + (from - whole.start);
            let taken = Range { start: from, end: whole.end.min(end), offset, ..whole };
            ranges[at].end = if whole.start < taken.start { taken.start } else { 0 };
            if taken.end < whole.end
                && let Some(unused) = ranges.iter_mut().find(|range| range.end == 0)
            {
                *unused =
                    Range { start: taken.end, offset: whole.offset + (taken.end - whole.start), ..whole };
            }
            Some(taken)
        })
    }

    /// Whether any of it lies in `start..end`.
    fn overlap(&self, start: u64, end: u64) -> bool {
        self.with(|ranges| ranges.iter().any(|range| range.start < end && start < range.end))
    }
}

/// After a fork: nobody else holds the lock.
pub fn after_fork() {
    PERSISTENT.locked.store(false, Ordering::Release);
}

/// Tells that what of a range is persistent goes.
pub fn tell_unmapped(pc: u64, start: u64, len: u64) {
    if session().is_none() {
        return;
    }
    finish_record();
    while let Some(taken) = PERSISTENT.take(start, start.saturating_add(len)) {
        let room = crate::local::local().stream.room_kept(3);
        room.write(crate::wire::header(kind::UNMAP, 0, pc), &[taken.start, taken.end - taken.start]);
    }
}

/// The thread's last store may be to memory that goes: its bytes are read now.
fn finish_record() {
    crate::local::local().stream.finish_record();
}

fn tell_mapped(pc: u64, start: u64, len: u64, offset: u64, path: &[u8]) {
    let len = len.next_multiple_of(4096);
    PERSISTENT.add(start, start + len, offset, path);
    record_text(kind::MAP, pc, [start, len], path);
    if offset != 0 {
        let room = crate::local::local().stream.room_kept(3);
        room.write(crate::wire::header(kind::MAP_OFFSET, 0, pc), &[start, offset]);
    }
}

/// Tells that the pages of a persistent mapping are about to be written to their file.
pub fn tell_synced(pc: u64, start: u64, len: u64) {
    if session().is_some() && PERSISTENT.overlap(start, start.saturating_add(len)) {
        record(kind::MAP_SYNC, 0, pc, [start, len]);
    }
}

/// Tells that a library mapped the rest of a file that is persistent whatever its name (address, length and offset), and that it has `made` it
/// if so; whether it is one of those whose calls are told of.
pub fn mapped_by_library(pc: u64, path: &CStr, [start, len, offset]: [u64; 3], made: bool) -> bool {
    let Some(fd) = sys::open(path, libc::O_RDONLY) else { return false };
    let mut buffer = [0; 4096];
    let watched = path_of(fd, &mut buffer).is_some_and(|path| {
        if made {
            files::made(pc, fd, offset + len);
        }
        before::keep(fd, path);
        tell_mapped(pc, start, len, offset, path);
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
    let mut name = [0; 32];
    let mut text = sys::Text::new(&mut name);
    text.push(SESSION_ENV.as_bytes());
    // SAFETY: the name is a C string; programs that change their environment while threads run are broken anyway.
    let ours = unsafe { libc::getenv(text.c_str().as_ptr()) };
    // SAFETY: `getenv` gives a C string.
    !ours.is_null() && unsafe { CStr::from_ptr(ours) }.to_bytes() == path
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

fn map(
    pc: u64,
    addr: usize,
    len: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 {
        tell_unmapped(pc, addr as u64, len as u64);
    }
    let args = [addr, len, protection as usize, flags as usize, fd as isize as usize, offset as usize];
    // SAFETY: the caller's arguments.
    let at = result(unsafe { sys::call(libc::SYS_mmap, args) });
    let shared = matches!(flags & libc::MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    if at != libc::MAP_FAILED && shared && flags & libc::MAP_ANONYMOUS == 0 && session().is_some() {
        let mut buffer = [0; 4096];
        if let Some(path) = path_of(fd, &mut buffer)
            && is_persistent(fd, path)
        {
            before::keep(fd, path);
            tell_mapped(pc, at as u64, len as u64, offset as u64, path);
        }
    }
    at
}

hooks! {
    fn mmap(addr: usize, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map(caller(), addr, len, protection, flags, fd, offset)
    }
    fn mmap64(addr: usize, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
        map(caller(), addr, len, protection, flags, fd, offset)
    }
    fn munmap(addr: usize, len: usize) -> c_int {
        tell_unmapped(caller(), addr as u64, len as u64);
        // SAFETY: the caller's arguments.
        let failed = result(unsafe { sys::call(libc::SYS_munmap as c_long, [addr, len, 0, 0, 0, 0]) });
        if failed == libc::MAP_FAILED { -1 } else { 0 }
    }
    fn mprotect(start: usize, len: usize, protection: c_int) -> c_int {
        finish_record();
        // SAFETY: the caller's arguments.
        let failed = result(unsafe { sys::call(libc::SYS_mprotect, [start, len, protection as usize, 0, 0, 0]) });
        if failed == libc::MAP_FAILED { -1 } else { 0 }
    }
    fn shmdt(start: usize) -> c_int {
        finish_record();
        // SAFETY: the caller's arguments.
        let failed = result(unsafe { sys::call(libc::SYS_shmdt, [start, 0, 0, 0, 0, 0]) });
        if failed == libc::MAP_FAILED { -1 } else { 0 }
    }
    fn mremap(old: usize, old_len: usize, len: usize, flags: c_int, new: usize) -> *mut c_void {
        let pc = caller();
        finish_record();
        // Told before and taken back if it fails: another thread may get the old range at once.
        let moved = PERSISTENT.take(old as u64, old as u64 + old_len as u64);
        if let Some(range) = moved {
            let room = crate::local::local().stream.room_kept(3);
            room.write(crate::wire::header(kind::UNMAP, 0, pc), &[range.start, range.end - range.start]);
        }
        let new = if flags & (MREMAP_FIXED | MREMAP_MAYMOVE) == MREMAP_FIXED | MREMAP_MAYMOVE { new } else { 0 };
        // SAFETY: the caller's arguments.
        let at = result(unsafe { sys::call(libc::SYS_mremap, [old, old_len, len, flags as usize, new, 0]) });
        if let Some(range) = moved {
            let (start, len) =
                if at == libc::MAP_FAILED { (range.start, range.end - range.start) } else { (at as u64, len as u64) };
            tell_mapped(pc, start, len, range.offset, &range.path[..range.path_len]);
        }
        at
    }
}
