//! What a persistent file held when it was first mapped.
//!
//! Whoever checks a run for crashes needs it, and can't copy the file beforehand if only the program knows
//! its name. So the runtime copies it, before the program gets the mapping: once per path and session,
//! without the parts that are zero.

use core::ffi::c_int;

use libc::{O_CREAT, O_EXCL, O_RDONLY, O_WRONLY, SEEK_DATA, SEEK_HOLE};

use crate::base::session::session;
use crate::base::sys;
use crate::files::order_lock::hold;
use abi::{MODE_RECORD, kept_name};

/// Bytes that are copied or left out.
const PIECE: usize = 4096;
/// Bytes of the longest path.
const PATH_BYTES: usize = 1100;

/// Keeps what the file of this path holds, if that is wanted and was not done before.
pub fn keep(fd: c_int, path: &[u8]) {
    let Some(session) = session().filter(|session| session.mode() == MODE_RECORD) else { return };
    let folder = &session.head().keep_folder;
    let end = folder.iter().position(|&byte| byte == 0).unwrap_or(0);
    if end == 0 {
        return;
    }
    let mut bytes = [0; PATH_BYTES];
    let mut name = sys::Text::new(&mut bytes);
    for part in [&folder[..end], b"/", &kept_name(path)] {
        name.push(part);
    }
    // Another thread that maps the same file waits until it is copied.
    let _held = hold();
    let Some(to) = sys::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY) else { return };
    let mut bytes = [0; 32];
    let mut own = sys::Text::new(&mut bytes);
    own.push(b"/proc/self/fd/");
    own.number(fd.cast_unsigned().into());
    // A description of its own, so that the program's offset stays.
    if let Some(from) = sys::open(own.c_str(), O_RDONLY) {
        copy(from, to);
        sys::close(from);
    }
    sys::close(to);
}

fn copy(from: c_int, to: c_int) {
    let seek = |at: u64, what: c_int| {
        // SAFETY: touches no memory.
        unsafe { sys::call(libc::SYS_lseek, [from as usize, at as usize, what as usize, 0, 0, 0]) }
    };
    let len = sys::file_bytes(from).unwrap_or(0);
    // SAFETY: touches no memory.
    unsafe { sys::call(libc::SYS_ftruncate, [to as usize, len as usize, 0, 0, 0, 0]) };
    let mut at = 0;
    while at < len {
        let Ok(data) = u64::try_from(seek(at, SEEK_DATA)) else { return };
        let hole = u64::try_from(seek(data, SEEK_HOLE)).unwrap_or(len);
        at = data;
        while at < hole {
            at += copy_piece(from, to, at);
        }
    }
}

/// Copies the piece at `at`; where the next one begins.
fn copy_piece(from: c_int, to: c_int, at: u64) -> u64 {
    let mut piece = [0u8; PIECE];
    let place = piece.as_mut_ptr() as usize;
    // SAFETY: the piece is as long.
    let read = unsafe { sys::call(libc::SYS_pread64, [from as usize, place, PIECE, at as usize, 0, 0]) };
    let len = usize::try_from(read).unwrap_or(0);
    if piece[..len].iter().any(|&byte| byte != 0) {
        // SAFETY: as above.
        unsafe { sys::call(libc::SYS_pwrite64, [to as usize, place, len, at as usize, 0, 0]) };
    }
    // At the end, or where nothing can be read, there is no next one.
    if len == 0 { u64::MAX - at } else { len as u64 }
}
