//! Sockets, seen through a copy of their file descriptor.

use std::os::fd::{AsRawFd as _, OwnedFd};

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
    /// Connected to another local socket: type and the peer's inode (0: unknown).
    Local(i32, u64),
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

/// Looks at a copy of a socket.
pub fn look(socket: &OwnedFd, inode: u64) -> Found {
    let option = |name| get_option(socket, libc::SOL_SOCKET, name).unwrap_or(0);
    let (family, kind, protocol) =
        (option(libc::SO_DOMAIN), option(libc::SO_TYPE), option(libc::SO_PROTOCOL));
    let listens = option(libc::SO_ACCEPTCONN) != 0;
    let peer = address(socket, true);
    if family == libc::AF_UNIX && !listens && peer.is_some() {
        return Found::Local(kind, unix_peer(inode));
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

fn get_option(socket: &OwnedFd, level: i32, name: i32) -> Option<i32> {
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

/// The inode of the peer of a connected Unix socket, by `sock_diag(7)`; 0 if it is not known.
fn unix_peer(inode: u64) -> u64 {
    const UNIX_DIAG_PEER: u16 = 2;
    let Some(reply) = ask_unix(inode) else { return 0 };
    // A header (16 bytes), `struct unix_diag_msg` (16 bytes), then attributes.
    let mut at = 32;
    while let Some(head) = reply.get(at..at + 4) {
        let (len, kind) =
            (usize::from(u16::from_ne_bytes([head[0], head[1]])), u16::from_ne_bytes([head[2], head[3]]));
        if kind == UNIX_DIAG_PEER {
            let value = reply.get(at + 4..at + 8).and_then(|bytes| bytes.try_into().ok());
            return value.map_or(0, |bytes| u64::from(u32::from_ne_bytes(bytes)));
        }
        at += len.max(4).next_multiple_of(4);
    }
    0
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
        use std::os::fd::FromRawFd as _;
        let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        let socket = (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?;
        let sent = libc::send(socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0);
        let mut reply = vec![0_u8; 4096];
        let len = libc::recv(socket.as_raw_fd(), reply.as_mut_ptr().cast(), reply.len(), 0);
        reply.truncate(usize::try_from(len).ok()?);
        (sent > 0).then_some(reply)
    }
}
