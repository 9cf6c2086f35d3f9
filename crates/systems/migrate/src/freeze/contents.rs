//! What pipes and pairs of sockets hold, copied without taking it out.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::copies::Copies;
use crate::error::{Error, Result};
use crate::image::FileKind;
use crate::inspect::{Files, get_option, peek};

/// Fills in the contents of pipes and of pairs of sockets.
///
/// # Errors
/// If they cannot be read.
pub fn fill(files: &mut Files) -> Result<()> {
    let mut filled = HashSet::new();
    for (description, (pid, fd)) in files.descriptions.iter_mut().zip(&files.holders) {
        let fail = |source| Error::Call { pid: *pid, what: format!("to read file descriptor {fd}"), source };
        let copy = || Copies::new(*pid)?.get(*fd);
        description.owner = 0;
        match &mut description.kind {
            FileKind::Pipe { inode, capacity, content } => {
                let copy = copy().map_err(fail)?;
                // SAFETY: no memory is involved.
                *capacity = unsafe { libc::fcntl(copy.as_raw_fd(), libc::F_GETPIPE_SZ) };
                // One of the descriptions of its read end is enough.
                if description.flags & libc::O_ACCMODE != libc::O_WRONLY && filled.insert(*inode) {
                    *content = pipe(&copy, *capacity).map_err(fail)?;
                }
            }
            FileKind::SocketPair { kind, content, .. } => {
                *content = socket(&copy().map_err(fail)?, *kind).map_err(fail)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a pipe holds: `tee` leaves it there.
fn pipe(source: &OwnedFd, capacity: i32) -> io::Result<Vec<u8>> {
    let mut ends = [0; 2];
    // SAFETY: `ends` outlives the call; what it returns is ours.
    let (from, into) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) < 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: no memory is involved; `bytes` is as long as said.
    unsafe {
        libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, capacity);
        let flags = libc::SPLICE_F_NONBLOCK;
        let copied = libc::tee(source.as_raw_fd(), into.as_raw_fd(), capacity as usize, flags);
        let Ok(copied) = usize::try_from(copied) else {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(Vec::new()) } else { Err(error) };
        };
        let mut bytes = vec![0; copied];
        let mut filled = 0;
        while filled < copied {
            let len = libc::read(from.as_raw_fd(), bytes[filled..].as_mut_ptr().cast(), copied - filled);
            match usize::try_from(len) {
                Ok(0) | Err(_) => return Err(io::Error::last_os_error()),
                Ok(len) => filled += len,
            }
        }
        Ok(bytes)
    }
}

/// What a socket has not yet read: a stream's bytes, or the first packets (peeking with an offset goes through them).
fn socket(source: &OwnedFd, kind: i32) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut offset = 0_i32;
    let set = |value: i32| {
        let value = &raw const value;
        // SAFETY: `value` is as long as said and outlives the call.
        unsafe { libc::setsockopt(source.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEEK_OFF, value.cast(), 4) }
    };
    let before = get_option(source, libc::SOL_SOCKET, libc::SO_PEEK_OFF).unwrap_or(-1);
    if set(0) < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut bytes = vec![0_u8; if kind == libc::SOCK_STREAM { 1 << 20 } else { 256 << 10 }];
    while let Ok((len, passed)) = peek(source, &mut bytes) {
        if passed {
            set(before);
            return Err(io::Error::other("file descriptors are on their way in it; try again"));
        }
        if len == 0 {
            break;
        }
        found.push(bytes[..len].to_vec());
        offset += len as i32;
        set(offset);
    }
    set(before);
    Ok(found)
}
