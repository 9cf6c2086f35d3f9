//! Open files in an image.

use serde::{Deserialize, Serialize};

/// An open file description, which several file descriptors of several processes may share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// What it is.
    pub kind: FileKind,
    /// `O_*` flags, those of opening and those of now.
    pub flags: i32,
    /// Its position in bytes.
    pub position: u64,
    /// Who gets its signals (`F_SETOWN`), 0 for nobody.
    pub owner: i32,
}

/// A file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fd {
    /// Its number.
    pub fd: i32,
    /// Its description, by index in `Image::descriptions`.
    pub description: usize,
    /// Whether it is closed by `execve`.
    pub close_on_exec: bool,
}

/// What an open file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// A file, a directory or a device without state, opened again by its path.
    Path {
        /// The path.
        path: String,
        /// Its length at the checkpoint, for a regular file.
        len: Option<u64>,
        /// `flock(2)`: the lock held, as its operation.
        flock: Option<i32>,
    },
    /// What the restoring command has open under that number (a terminal, a pipe or a socket to the outside).
    Inherited {
        /// 0, 1 or 2.
        fd: i32,
        /// What it was.
        was: String,
    },
    /// An end of a pipe between processes of the tree.
    Pipe {
        /// Which pipe.
        inode: u64,
        /// Its capacity in bytes.
        capacity: i32,
        /// What it holds. Given by one of its read ends.
        content: Vec<u8>,
    },
    /// `eventfd(2)`.
    Event {
        /// Its count.
        count: u64,
        /// `EFD_SEMAPHORE`.
        semaphore: bool,
    },
    /// `timerfd_create(2)`.
    Timer {
        /// Its clock.
        clock: i32,
        /// Expirations not yet read.
        ticks: u64,
        /// Flags of `timerfd_settime(2)`.
        set_flags: i32,
        /// Remaining time: seconds, nanoseconds.
        value: [i64; 2],
        /// Interval: seconds, nanoseconds.
        interval: [i64; 2],
    },
    /// `signalfd(2)`, with its mask.
    Signals(u64),
    /// `epoll_create(2)`.
    Epoll(Vec<Watch>),
    /// A memfd, by index in `Image::shared`.
    Memory(usize),
    /// A socket that listens or is only bound.
    Socket {
        /// Address family.
        family: i32,
        /// Type.
        kind: i32,
        /// Protocol.
        protocol: i32,
        /// What it is bound to.
        bound: Option<SocketAddress>,
        /// Its backlog, if it listens.
        backlog: Option<i32>,
        /// Options: level, name, value.
        options: Vec<(i32, i32, i32)>,
        /// Whether it was connected and is now closed from the other side.
        closed: bool,
    },
    /// One of two connected sockets between processes of the tree.
    SocketPair {
        /// Its inode.
        inode: u64,
        /// Its peer's; 0 if that is closed.
        peer: u64,
        /// Type.
        kind: i32,
        /// What its peer has sent and it has not yet read, packet by packet.
        content: Vec<Vec<u8>>,
        /// Which directions are shut down: 1 of receiving, 2 of sending.
        #[serde(default)]
        shutdown: u8,
        /// Options: level, name, value.
        #[serde(default)]
        options: Vec<(i32, i32, i32)>,
    },
}

/// A lock of a range of a file (`fcntl(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RangeLock {
    /// A file descriptor of the file.
    pub fd: i32,
    /// Whether it is the open file's (`F_OFD_SETLK`) and not the process's.
    pub of_open_file: bool,
    /// Whether it excludes readers, too.
    pub write: bool,
    /// The first byte.
    pub start: u64,
    /// Length in bytes; 0: to the end of the file, wherever that is.
    pub len: u64,
}

/// The bytes of a `sockaddr`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketAddress(pub Vec<u8>);

/// The time after which a restored periodic timer expires next, as seconds and a fraction. One that has
/// expired stands still and has no time left until somebody notices (`read`, delivery of its signal): its
/// next round starts at the restore.
#[must_use]
pub fn time_left(value: [i64; 2], interval: [i64; 2], unnoticed: bool) -> [i64; 2] {
    if unnoticed && value == [0; 2] { interval } else { value }
}

/// What an epoll watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The file descriptor.
    pub fd: i32,
    /// `EPOLL*`.
    pub events: u32,
    /// What it returns.
    pub data: u64,
}
