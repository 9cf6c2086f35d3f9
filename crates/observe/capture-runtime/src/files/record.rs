//! The records.

use core::ffi::c_int;

use libc::iovec;

use super::caller::who;
use super::named::Path;
use super::order_lock::hold;
use crate::base::session::{Attached, session};
use crate::state::local::local;
use crate::stream::record::record_file;
use abi::file;

/// With values: bytes of one record of a write at most. The collector holds one record's bytes at a time.
const PIECE_BYTES: usize = 64 << 10;
/// What a range of zeros is written from.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];

/// Records an operation on one file, with a number where it has one.
pub fn operation(what: u8, pc: u64, path: &Path, number: u64) {
    record_range(what, pc, path, [number, 0]);
}

/// Records an operation on one file, with offset and length.
pub fn record_range(what: u8, pc: u64, path: &Path, numbers: [u64; 2]) {
    record_file(what, who(pc), numbers, [true, true], [path.bytes(), b""]);
}

/// Records an operation on two names: a renaming, an exchange, a link.
pub fn two_names(what: u8, pc: u64, from: &Path, to: &Path) {
    record_file(what, who(pc), [0, 0], [true, true], [from.bytes(), to.bytes()]);
}

/// Records the making of a symbolic link.
pub fn symlink(pc: u64, path: &Path, target: &[u8]) {
    record_file(file::SYMLINK, who(pc), [0, 0], [true, true], [path.bytes(), target]);
}

/// Records a write of the first `len` bytes that `parts` have, which has been done.
///
/// # Safety
/// The parts are memory that may be read.
pub unsafe fn written(pc: u64, path: &Path, offset: u64, len: u64, parts: &[iovec]) {
    if !session().is_some_and(Attached::values) {
        return record_file(file::WRITE, who(pc), [offset, len], [true, true], [path.bytes(), b""]);
    }
    let mut writing = Writing { pc: who(pc), path, offset, left: len, begun: false };
    for part in parts {
        // SAFETY: the caller's.
        unsafe { writing.part(part.iov_base.cast(), part.iov_len) };
    }
    writing.end();
}

/// Records a write of `len` bytes that `read` has: from the given one on, as many as it puts into the buffer.
pub fn copied(pc: u64, path: &Path, offset: u64, len: u64, mut read: impl FnMut(&mut [u8], u64) -> usize) {
    if !session().is_some_and(Attached::values) {
        return record_file(file::WRITE, who(pc), [offset, len], [true, true], [path.bytes(), b""]);
    }
    let mut writing = Writing { pc: who(pc), path, offset, left: len, begun: false };
    let mut buffer = [0; 4096];
    while writing.left > 0 {
        let read = read(&mut buffer, len - writing.left);
        if read == 0 {
            break;
        }
        // SAFETY: so many were read into it.
        unsafe { writing.part(buffer.as_ptr(), read) };
    }
    writing.end();
}

/// Records that a range of the file became zeros.
pub fn zeroed(pc: u64, path: &Path, offset: u64, len: u64) {
    if !session().is_some_and(Attached::values) {
        return record_file(file::WRITE, who(pc), [offset, len], [true, true], [path.bytes(), b""]);
    }
    let mut writing = Writing { pc: who(pc), path, offset, left: len, begun: false };
    while writing.left > 0 {
        // SAFETY: memory of that size.
        unsafe { writing.part(ZEROS.as_ptr(), ZEROS.len()) };
    }
    writing.end();
}

/// A write with its values, piece by piece.
struct Writing<'a> {
    pc: u64,
    path: &'a Path,
    offset: u64,
    /// Bytes still to be recorded.
    left: u64,
    begun: bool,
}

impl Writing<'_> {
    /// Records up to `len` bytes.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn part(&mut self, from: *const u8, len: usize) {
        let len = len.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        for at in (0..len).step_by(PIECE_BYTES) {
            let piece = (len - at).min(PIECE_BYTES);
            let enters = !core::mem::replace(&mut self.begun, true);
            let numbers = [self.offset, piece as u64];
            record_file(file::WRITE, self.pc, numbers, [enters, false], [self.path.bytes(), b""]);
            let stream = &local().stream;
            let most = stream.value_bytes().unwrap_or(piece);
            for within in (at..at + piece).step_by(most) {
                // SAFETY: within the caller's bytes.
                stream.stored(unsafe { from.add(within) }, most.min(at + piece - within));
            }
            self.offset += piece as u64;
            self.left -= piece as u64;
        }
    }

    /// Everything is recorded. A position is taken with its record, so the last one has no bytes.
    fn end(self) {
        if self.begun {
            record_file(file::DONE, self.pc, [0, 0], [false, true], [self.path.bytes(), b""]);
        }
    }
}

/// Records that a library has made the file that long, which we did not see, and has synced it.
pub fn made(pc: u64, fd: c_int, len: u64) {
    let _held = hold();
    if let Some(path) = Path::of(fd).and_then(Path::watched) {
        operation(file::TRUNCATE, pc, &path, len);
        operation(file::SYNC, pc, &path, 0);
    }
}
