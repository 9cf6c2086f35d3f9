//! Sockets, seen through a copy of their file descriptor.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use crate::image::{FileKind, SocketAddress};

/// What a socket is.
pub enum Found {
    /// It can move.
    Moves(FileKind),
    /// It is connected to `peer`.
    Connected {
        /// How it would be as one that its peer has closed.
        closed: FileKind,
        /// In words.
        what: String,
    },
    /// Connected to another local socket.
    Local {
        /// Its type.
        kind: i32,
        /// The peer's inode (0: unknown).
        peer: u64,
        /// Which directions are shut down: 1 of receiving, 2 of sending.
        shutdown: u8,
        /// Options: level, name, value.
        options: Vec<(i32, i32, i32)>,
    },
    /// It cannot move: what it is.
    Other(String),
}

/// Whether the other end is closed.
pub fn hung_up(socket: &OwnedFd) -> bool {
    let mut one = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    unsafe { libc::poll(&raw mut one, 1, 0) == 1 && one.revents & libc::POLLHUP != 0 }
}

/// Options of `SOL_SOCKET`, TCP and IPv6 that are kept.
const OPTIONS: [(i32, i32); 12] = [
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_PASSCRED),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
];

/// Options of a connected local socket that are kept.
const LOCAL_OPTIONS: [i32; 4] = [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_PASSCRED, libc::SO_PEEK_OFF];

/// Whether what a socket of a process that runs has to be read next has file descriptors with it. One whose
/// owner peeks on from where it was is left alone.
pub fn passes_descriptors(socket: &OwnedFd) -> bool {
    let peeks_on = get_option(socket, libc::SOL_SOCKET, libc::SO_PEEK_OFF).is_some_and(|at| at >= 0);
    !peeks_on && peek(socket, &mut [0; 1]).is_ok_and(|(_, passed)| passed)
}

/// Looks at what a socket has to be read next, without taking it out: its length, and whether file
/// descriptors come with it.
///
/// # Errors
/// If there is nothing, or the socket is closed.
pub fn peek(socket: &OwnedFd, into: &mut [u8]) -> io::Result<(usize, bool)> {
    // The kernel passes at most 253 descriptors at a time.
    let mut room = [0_u64; 256];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: plain numbers and pointers; all zero is an empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&room);
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let mut passed = false;
    // SAFETY: buffers are as long as said and outlive the calls; the kernel wrote what is walked through, and the
    // descriptors in it are new and nobody else's.
    unsafe {
        let len = libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags);
        let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS {
                passed = true;
                let count = ((*head).cmsg_len - libc::CMSG_LEN(0) as usize) / size_of::<RawFd>();
                let data = libc::CMSG_DATA(head).cast::<RawFd>();
                (0..count).for_each(|at| drop(OwnedFd::from_raw_fd(data.add(at).read_unaligned())));
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
        Ok((len, passed))
    }
}

/// Looks at a copy of a socket.
pub fn look(socket: &OwnedFd, inode: u64) -> Found {
    let option = |name| get_option(socket, libc::SOL_SOCKET, name).unwrap_or(0);
    let (family, kind, protocol) =
        (option(libc::SO_DOMAIN), option(libc::SO_TYPE), option(libc::SO_PROTOCOL));
    let listens = option(libc::SO_ACCEPTCONN) != 0;
    let peer = address(socket, true);
    if family == libc::AF_UNIX && !listens && peer.is_some() {
        let options = LOCAL_OPTIONS
            .iter()
            .filter_map(|name| Some((libc::SOL_SOCKET, *name, get_option(socket, libc::SOL_SOCKET, *name)?)));
        let (peer, shutdown) = unix_state(inode);
        return Found::Local { kind, peer, shutdown, options: options.collect() };
    }
    if ![libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].contains(&family) {
        return Found::Other(format!("a socket of address family {family}"));
    }
    let families = |level| match level {
        libc::IPPROTO_TCP => protocol == libc::IPPROTO_TCP,
        libc::IPPROTO_IPV6 => family == libc::AF_INET6,
        _ => true,
    };
    let options = OPTIONS.iter().filter(|(level, _)| families(*level));
    let options =
        options.filter_map(|(level, name)| Some((*level, *name, get_option(socket, *level, *name)?)));
    let bound = address(socket, false).filter(|bytes| is_bound(bytes));
    let found = FileKind::Socket {
        family,
        kind,
        protocol,
        bound: bound.map(SocketAddress),
        backlog: listens.then(|| backlog(inode)),
        options: options.collect(),
        closed: false,
    };
    match peer {
        Some(peer) if family != libc::AF_UNIX => {
            let closed = FileKind::Socket {
                family,
                kind,
                protocol,
                bound: None,
                backlog: None,
                options: vec![],
                closed: true,
            };
            Found::Connected { closed, what: format!("a connection to {}", in_words(&peer)) }
        }
        _ => Found::Moves(found),
    }
}

fn is_bound(bytes: &[u8]) -> bool {
    match bytes.first().map(|family| i32::from(*family)) {
        Some(libc::AF_UNIX) => bytes.len() > 2,
        _ => bytes.get(2..4).is_some_and(|port| port != [0, 0]),
    }
}

/// An option of a socket.
pub fn get_option(socket: &OwnedFd, level: i32, name: i32) -> Option<i32> {
    let mut value = 0_i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is as long as `len` says, and both outlive the call.
    let done =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    (done == 0).then_some(value)
}

/// Its own address or its peer's.
fn address(socket: &OwnedFd, peer: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; 128];
    let mut len = bytes.len() as libc::socklen_t;
    let pointer = bytes.as_mut_ptr().cast();
    // SAFETY: `bytes` is as long as `len` says, and both outlive the call.
    let done = unsafe {
        if peer {
            libc::getpeername(socket.as_raw_fd(), pointer, &raw mut len)
        } else {
            libc::getsockname(socket.as_raw_fd(), pointer, &raw mut len)
        }
    };
    bytes.truncate(len as usize);
    (done == 0).then_some(bytes)
}

fn in_words(address: &[u8]) -> String {
    let port = address.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
    match (address.first().map(|family| i32::from(*family)), address.len()) {
        (Some(libc::AF_INET), 8..) => {
            format!("{}.{}.{}.{}:{port}", address[4], address[5], address[6], address[7])
        }
        (Some(libc::AF_INET6), 24..) => {
            let bytes: [u8; 16] = address[8..24].try_into().unwrap_or_default();
            format!("[{}]:{port}", std::net::Ipv6Addr::from(bytes))
        }
        _ => "a peer".to_owned(),
    }
}

/// The backlog of a listening socket; the kernel tells it for TCP only by a netlink request, so a usual one is taken.
fn backlog(_inode: u64) -> i32 {
    511
}

/// The inode of the peer of a connected Unix socket, by `sock_diag(7)` (0 if it is not known), and which directions are
/// shut down.
fn unix_state(inode: u64) -> (u64, u8) {
    const UNIX_DIAG_PEER: u16 = 2;
    const UNIX_DIAG_SHUTDOWN: u16 = 6;
    let (mut peer, mut shutdown) = (0, 0);
    let reply = ask_unix(inode).unwrap_or_default();
    // A header (16 bytes), `struct unix_diag_msg` (16 bytes), then attributes.
    let mut at = 32;
    while let Some(head) = reply.get(at..at + 4) {
        let (len, kind) =
            (usize::from(u16::from_ne_bytes([head[0], head[1]])), u16::from_ne_bytes([head[2], head[3]]));
        match kind {
            UNIX_DIAG_PEER => {
                let value = reply.get(at + 4..at + 8).and_then(|bytes| bytes.try_into().ok());
                peer = value.map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes)));
            }
            UNIX_DIAG_SHUTDOWN => shutdown = reply.get(at + 4).copied().unwrap_or(0),
            _ => {}
        }
        at += len.max(4).next_multiple_of(4);
    }
    (peer, shutdown)
}

fn ask_unix(inode: u64) -> Option<Vec<u8>> {
    const NETLINK_SOCK_DIAG: i32 = 4;
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const UDIAG_SHOW_PEER: u32 = 4;
    let mut request = Vec::new();
    request.extend(40_u32.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    // Family, protocol, padding; states; inode; what to show; a cookie that fits any.
    request.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    request.extend(u32::MAX.to_ne_bytes());
    request.extend((inode as u32).to_ne_bytes());
    request.extend(UDIAG_SHOW_PEER.to_ne_bytes());
    request.extend([0xff; 8]);
    // SAFETY: the descriptor is owned by nobody else; buffers outlive the calls that use them.
    unsafe {
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        let socket = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?;
        let sent = libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        let mut reply = vec![0_u8; 4096];
        let len = libc::recv(socket.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0);
        reply.truncate(usize::try_from(len).ok()?);
        (sent > 0).then_some(reply)
    }
}
