//! Sockets that listen and locked files, handed from a source to a target on the same machine: whoever connects meanwhile
//! waits for the process instead of being refused, the address need not be free, and nobody else gets the lock.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use fam::Stream;

use crate::copies::Copies;
use crate::image::{FileKind, Image};

/// So many at most in one message.
const MOST: usize = 200;
const ROOM: usize = 16 + MOST * 4;

/// Copies of what a stopped tree has open and a target cannot open anew while the source has it: sockets that
/// listen, files with a lock of the open file's. By the index of their descriptions.
#[must_use]
pub fn unique(image: &Image) -> Vec<(usize, OwnedFd)> {
    let mut found = copies(image, |kind| {
        matches!(kind, FileKind::Socket { backlog: Some(_), .. } | FileKind::Path { flock: Some(_), .. })
    });
    for process in &image.processes {
        for lock in process.locks.iter().filter(|lock| lock.of_open_file) {
            let Some(fd) = process.fds.iter().find(|fd| fd.fd == lock.fd) else { continue };
            let copy = Copies::new(process.pid).and_then(|copies| copies.get(fd.fd));
            if found.iter().all(|(index, _)| *index != fd.description) {
                found.extend(copy.ok().map(|copy| (fd.description, copy)));
            }
        }
    }
    found.truncate(MOST);
    found
}

/// Copies of its connections that do not move.
#[must_use]
pub fn connections(image: &Image) -> Vec<OwnedFd> {
    let found = copies(image, |kind| matches!(kind, FileKind::Socket { closed: true, .. }));
    found.into_iter().map(|(_, copy)| copy).collect()
}

/// Ends connections for those at their other ends.
pub fn hang_up(connections: Vec<OwnedFd>) {
    for one in connections {
        // SAFETY: no memory is involved.
        unsafe { libc::shutdown(one.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn copies(image: &Image, wanted: fn(&FileKind) -> bool) -> Vec<(usize, OwnedFd)> {
    let wanted = image.descriptions.iter().enumerate().filter(|(_, one)| wanted(&one.kind));
    let copy = |(index, _)| {
        let (pid, fd) = image.processes.iter().find_map(|process| {
            let fd = process.fds.iter().find(|fd| fd.description == index)?;
            Some((process.pid, fd.fd))
        })?;
        Some((index, Copies::new(pid).and_then(|copies| copies.get(fd)).ok()?))
    };
    wanted.filter_map(copy).collect()
}

/// Sends file descriptors; the other side calls [`receive`].
///
/// # Errors
/// If the other side is gone.
pub fn send(stream: &Stream, fds: &[(usize, OwnedFd)]) -> io::Result<()> {
    let numbers: Vec<RawFd> = fds.iter().map(|(_, fd)| fd.as_raw_fd()).collect();
    let mut room = [0_u64; ROOM / 8];
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: plain numbers and pointers; all zero is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    let bytes = (numbers.len() * 4) as u32;
    // SAFETY: `room` has place for the head and `MOST` numbers, and is aligned for it; all outlives the call.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(bytes) as usize;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(bytes) as usize;
        std::ptr::copy_nonoverlapping(
            numbers.as_ptr().cast::<u8>(),
            libc::CMSG_DATA(head),
            numbers.len() * 4,
        );
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    if sent == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Receives the file descriptors of these descriptions.
///
/// # Errors
/// If the other side is gone, or sends something else.
pub fn receive(stream: &Stream, indices: &[usize]) -> io::Result<HashMap<usize, OwnedFd>> {
    let mut room = [0_u64; ROOM / 8];
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: plain numbers and pointers; all zero is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&room);
    let mut found = Vec::new();
    // SAFETY: buffers are as long as said and outlive the call; the kernel wrote the message that is read, and the
    // descriptors in it are new and nobody else's.
    unsafe {
        if libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) != 1 {
            return Err(io::Error::last_os_error());
        }
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if !head.is_null() && (*head).cmsg_type == libc::SCM_RIGHTS {
            let count = ((*head).cmsg_len - libc::CMSG_LEN(0) as usize) / 4;
            let data = libc::CMSG_DATA(head).cast::<RawFd>();
            found.extend((0..count).map(|at| OwnedFd::from_raw_fd(data.add(at).read_unaligned())));
        }
    }
    if found.len() != indices.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(indices.iter().copied().zip(found).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn descriptors_cross_a_socket() {
        let (one, other) = UnixStream::pair().expect("a pair");
        let (one, other) = (Stream::from(one), Stream::from(other));
        let fd = || OwnedFd::from(std::fs::File::open("/proc/self/status").expect("there"));
        send(&one, &[(3, fd()), (9, fd())]).expect("sent");
        let found = receive(&other, &[3, 9]).expect("received");
        assert!(found.len() == 2 && found.contains_key(&9), "{found:?}");
        send(&one, &[(3, fd())]).expect("sent");
        assert!(receive(&other, &[3, 9]).is_err(), "fewer than were named");
        drop(one);
        assert!(receive(&other, &[1]).is_err(), "gone");
    }
}
