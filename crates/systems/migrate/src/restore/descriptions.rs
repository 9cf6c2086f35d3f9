//! Open files made again, in the restoring process, from which its children have them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use crate::copies::owned;
use crate::error::{Error, Result};
use crate::image::{Description, FileKind, Image, time_left};

/// Flags that `open` acts on once; all others belong to the description.
const ONCE: i32 = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC | libc::O_NOCTTY;

/// `_IOW('T', 0, u64)`.
const TFD_IOC_SET_TICKS: libc::Ioctl = 0x4008_5400;

/// Makes the descriptions of an image, in its order. `shared` is its shared memory; those of `given` are there already.
///
/// # Errors
/// If one cannot be made.
pub fn open_all(image: &Image, shared: &[OwnedFd], given: &HashMap<usize, OwnedFd>) -> Result<Vec<OwnedFd>> {
    let mut ends = Ends::default();
    let mut all = Vec::new();
    for (index, one) in image.descriptions.iter().enumerate() {
        let what = || match &one.kind {
            FileKind::Path { path, .. } => path.clone(),
            other => format!("{other:?}").chars().take(60).collect(),
        };
        let made = match given.get(&index) {
            Some(known) => known.try_clone(),
            None => open(one, image, shared, &mut ends),
        };
        all.push(made.map_err(|error| Error::file(what(), "cannot be opened", error))?);
    }
    Ok(all)
}

fn open(one: &Description, image: &Image, shared: &[OwnedFd], ends: &mut Ends) -> io::Result<OwnedFd> {
    // SAFETY: buffers and structures outlive the calls.
    unsafe {
        let made = match &one.kind {
            FileKind::Path { path, flock, .. } => {
                let name = CString::new(path.as_str())?;
                let made = owned(libc::open(name.as_ptr(), one.flags & !ONCE | libc::O_CLOEXEC).into())?;
                libc::lseek(made.as_raw_fd(), one.position as i64, libc::SEEK_SET);
                if let Some(lock) = flock
                    && libc::flock(made.as_raw_fd(), lock | libc::LOCK_NB) < 0
                {
                    return Err(io::Error::other("another process has locked it (flock)"));
                }
                return Ok(made);
            }
            FileKind::Inherited { fd, .. } => {
                return owned(libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 3).into());
            }
            FileKind::Pipe { inode, .. } => pipe(*inode, one, image, &mut ends.pipes)?,
            FileKind::Event { count, semaphore } => {
                let made = owned(libc::eventfd(0, if *semaphore { libc::EFD_SEMAPHORE } else { 0 }).into())?;
                if *count > 0 && libc::write(made.as_raw_fd(), count.to_ne_bytes().as_ptr().cast(), 8) != 8 {
                    return Err(io::Error::last_os_error());
                }
                made
            }
            FileKind::Timer { clock, ticks, set_flags, value, interval } => {
                let made = owned(libc::timerfd_create(*clock, 0).into())?;
                let time = |pair: [i64; 2]| libc::timespec { tv_sec: pair[0], tv_nsec: pair[1] };
                let left = time_left(*value, *interval, *ticks > 0);
                let setting = libc::itimerspec { it_interval: time(*interval), it_value: time(left) };
                // The value is what remained, whatever it was set by.
                let flags = set_flags & !libc::TFD_TIMER_ABSTIME;
                if libc::timerfd_settime(made.as_raw_fd(), flags, &raw const setting, std::ptr::null_mut())
                    < 0
                {
                    return Err(io::Error::last_os_error());
                }
                if *ticks > 0 && libc::ioctl(made.as_raw_fd(), TFD_IOC_SET_TICKS, &raw const *ticks) < 0 {
                    return Err(io::Error::last_os_error());
                }
                made
            }
            FileKind::Signals(mask) => owned(libc::syscall(libc::SYS_signalfd4, -1, &raw const *mask, 8, 0))?,
            FileKind::Epoll(_) => owned(libc::epoll_create1(0).into())?,
            FileKind::Memory(index) => {
                let base = shared.get(*index).ok_or(io::ErrorKind::InvalidData)?;
                let name = CString::new(format!("/proc/self/fd/{}", base.as_raw_fd()))?;
                let made = owned(libc::open(name.as_ptr(), one.flags & !ONCE | libc::O_CLOEXEC).into())?;
                libc::lseek(made.as_raw_fd(), one.position as i64, libc::SEEK_SET);
                return Ok(made);
            }
            FileKind::Socket { .. } => socket(&one.kind)?,
            FileKind::SocketPair { inode, peer, kind, .. } => {
                pair(*inode, *peer, *kind, image, &mut ends.sockets)?
            }
        };
        let flags = libc::O_NONBLOCK | libc::O_APPEND | libc::O_ASYNC | libc::O_DIRECT;
        libc::fcntl(made.as_raw_fd(), libc::F_SETFL, one.flags & flags);
        Ok(made)
    }
}

/// Pipes and pairs of sockets of which a part has been asked for.
#[derive(Default)]
struct Ends {
    /// Both ends, to read and to write.
    pipes: HashMap<u64, (OwnedFd, OwnedFd)>,
    /// The other sockets.
    sockets: HashMap<u64, OwnedFd>,
}

/// A description of a pipe's, of which there may be several for each end, or one for both; the pipe is made and filled
/// when it is first asked for.
unsafe fn pipe(
    inode: u64,
    one: &Description,
    image: &Image,
    pipes: &mut HashMap<u64, (OwnedFd, OwnedFd)>,
) -> io::Result<OwnedFd> {
    if let Entry::Vacant(free) = pipes.entry(inode) {
        // Its descriptions are opened anew; none of these two blocks us, whatever it is to hold.
        // SAFETY: `ends` outlives the call, and what it returns is ours.
        let (from, into) = unsafe {
            let mut ends = [0; 2];
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) < 0 {
                return Err(io::Error::last_os_error());
            }
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let same = image.descriptions.iter().filter_map(|other| match &other.kind {
            FileKind::Pipe { inode: same, capacity, content } if *same == inode => Some((*capacity, content)),
            _ => None,
        });
        if let Some(capacity) = same.clone().map(|(capacity, _)| capacity).max().filter(|most| *most > 0) {
            // SAFETY: no memory is involved.
            unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, capacity) };
        }
        // Images of older versions give what it holds with each of its read ends.
        if let Some((_, content)) = same.clone().find(|(_, content)| !content.is_empty()) {
            // SAFETY: `content` is as long as said.
            let written = unsafe { libc::write(into.as_raw_fd(), content.as_ptr().cast(), content.len()) };
            if written < 0 {
                return Err(io::Error::last_os_error());
            }
            if written < content.len() as isize {
                return Err(io::Error::other(format!(
                    "it does not take the {} bytes that it held",
                    content.len()
                )));
            }
        }
        free.insert((from, into));
    }
    let access = one.flags & libc::O_ACCMODE;
    let (from, into) = &pipes[&inode];
    let end = if access == libc::O_WRONLY { into } else { from };
    let name = CString::new(format!("/proc/self/fd/{}", end.as_raw_fd()))?;
    // SAFETY: `name` outlives the call.
    owned(unsafe { libc::open(name.as_ptr(), access | libc::O_NONBLOCK | libc::O_CLOEXEC) }.into())
}

unsafe fn socket(kind: &FileKind) -> io::Result<OwnedFd> {
    let FileKind::Socket { family, kind, protocol, bound, backlog, options, closed } = kind else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: buffers outlive the calls.
    unsafe {
        let made = owned(libc::socket(*family, *kind | libc::SOCK_CLOEXEC, *protocol).into())?;
        let fd = made.as_raw_fd();
        for (level, name, value) in options {
            libc::setsockopt(fd, *level, *name, (&raw const *value).cast(), 4);
        }
        if let Some(address) = bound {
            if *family == libc::AF_UNIX && address.0.get(2).is_some_and(|byte| *byte != 0) {
                let name: Vec<u8> = address.0[2..].iter().copied().take_while(|byte| *byte != 0).collect();
                libc::unlink(CString::new(name)?.as_ptr());
            }
            if libc::bind(fd, address.0.as_ptr().cast(), address.0.len() as libc::socklen_t) < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        if let Some(backlog) = backlog
            && libc::listen(fd, *backlog) < 0
        {
            return Err(io::Error::last_os_error());
        }
        if *closed {
            // Not connected: reads end, writes fail, an epoll reports a hang-up.
            libc::shutdown(fd, libc::SHUT_RDWR);
        }
        Ok(made)
    }
}

unsafe fn pair(
    inode: u64,
    peer: u64,
    kind: i32,
    image: &Image,
    pairs: &mut HashMap<u64, OwnedFd>,
) -> io::Result<OwnedFd> {
    if let Some(end) = pairs.remove(&inode) {
        return Ok(end);
    }
    // SAFETY: `ends` outlives the call, and what it returns is ours.
    let (mine, other) = unsafe {
        let mut ends = [0; 2];
        if libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    for one in &image.descriptions {
        let FileKind::SocketPair { inode: end, content, .. } = &one.kind else { continue };
        let sender = if *end == inode {
            &other
        } else if *end == peer {
            &mine
        } else {
            continue;
        };
        // The kernel counts what it keeps beside the bytes, too.
        let room: usize = content.iter().map(|packet| 2 * packet.len() + 4096).sum();
        set_option(sender, libc::SO_SNDBUFFORCE, room as i32);
        for packet in content {
            // SAFETY: `packet` is as long as said.
            let sent = unsafe {
                libc::send(sender.as_raw_fd(), packet.as_ptr().cast(), packet.len(), libc::MSG_DONTWAIT)
            };
            if sent != packet.len() as isize {
                return Err(io::Error::last_os_error());
            }
        }
    }
    for (number, socket) in [(inode, &mine), (peer, &other)] {
        as_it_was(number, socket, image);
    }
    // Without a peer the other end is closed now, as it was.
    if peer != 0 {
        pairs.insert(peer, other);
    }
    Ok(mine)
}

/// Options of one of a pair of sockets, and what is shut down of it.
fn as_it_was(inode: u64, socket: &OwnedFd, image: &Image) {
    let is = |one: &&Description| matches!(one.kind, FileKind::SocketPair { inode: end, .. } if end == inode);
    let Some(one) = image.descriptions.iter().find(is) else { return };
    let FileKind::SocketPair { options, shutdown, .. } = &one.kind else { return };
    for (_, name, value) in options {
        match *name {
            // The kernel says twice what it was asked for.
            libc::SO_SNDBUF => set_option(socket, libc::SO_SNDBUFFORCE, value / 2),
            libc::SO_RCVBUF => set_option(socket, libc::SO_RCVBUFFORCE, value / 2),
            other => set_option(socket, other, *value),
        }
    }
    for (bit, how) in [(1, libc::SHUT_RD), (2, libc::SHUT_WR)] {
        if shutdown & bit != 0 {
            // SAFETY: no memory is involved.
            unsafe { libc::shutdown(socket.as_raw_fd(), how) };
        }
    }
}

/// Sets an option of `SOL_SOCKET`; as far as the kernel lets us without privileges.
fn set_option(socket: &OwnedFd, name: i32, value: i32) {
    let set = |name: i32| {
        let value = &raw const value;
        // SAFETY: `value` is as long as said and outlives the call.
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, value.cast(), 4) }
    };
    if set(name) < 0 {
        match name {
            libc::SO_SNDBUFFORCE => drop(set(libc::SO_SNDBUF)),
            libc::SO_RCVBUFFORCE => drop(set(libc::SO_RCVBUF)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// An image with these open files alone.
    fn image(descriptions: Vec<Description>) -> Image {
        let empty = r#"{"kernel":"","boot":"","monotonic_ns":0,"vdso":0,"processes":[],"descriptions":[],"shared":[],"page_files":[]}"#;
        Image { descriptions, ..serde_json::from_str(empty).expect("an image") }
    }

    fn end(flags: i32, capacity: i32, content: &[u8]) -> Description {
        let kind = FileKind::Pipe { inode: 9, capacity, content: content.to_vec() };
        Description { kind, flags, position: 0, owner: 0 }
    }

    fn opened(descriptions: Vec<Description>) -> Result<Vec<std::fs::File>> {
        let all = open_all(&image(descriptions), &[], &HashMap::new())?;
        Ok(all.into_iter().map(std::fs::File::from).collect())
    }

    fn held(mut from: &std::fs::File) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 16];
        let len = from.read(&mut bytes).unwrap_or(0);
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn a_pipe_is_filled_once_however_many_of_its_ends_have_its_content() {
        let (reads, writes) = (libc::O_RDONLY | libc::O_NONBLOCK, libc::O_WRONLY);
        let cases: [[&[u8]; 2]; 3] = [[b"held", b"held"], [b"held", b""], [b"", b"held"]];
        for contents in cases {
            let ends = contents.map(|content| end(reads, 1 << 16, content)).into_iter();
            let all = opened(ends.chain([end(writes, 1 << 16, b"")]).collect()).expect("opened");
            assert_eq!((held(&all[0]), held(&all[1])), (b"held".to_vec(), Vec::new()), "{contents:?}");
            (&all[2]).write_all(b"more").expect("room");
            assert_eq!(held(&all[1]), b"more");
        }
    }

    #[test]
    fn a_pipe_has_its_size_again_and_one_that_does_not_take_its_content_is_an_error() {
        let both = libc::O_RDWR | libc::O_NONBLOCK;
        let all = opened(vec![end(both, 1 << 13, b"")]).expect("opened");
        // SAFETY: no memory is involved.
        assert_eq!(unsafe { libc::fcntl(all[0].as_raw_fd(), libc::F_GETPIPE_SZ) }, 1 << 13);
        let error = opened(vec![end(both, 1 << 12, &[7; 5000])]).expect_err("too much").to_string();
        assert!(error.contains("5000 bytes that it held"), "{error}");
    }
}
