//! Magic numbers and constants of CRIU's images (`criu/include/magic.h`, `images/*.proto`, `criu/include/image.h`).

/// Stands before the magic number of most files.
pub const COMMON: u32 = 0x5456_4319;
/// `inventory.img`, which has no common number before its own.
pub const INVENTORY: u32 = 0x5831_3116;
/// `pstree.img`.
pub const PSTREE: u32 = 0x5027_3030;
/// `core-TID.img`.
pub const CORE: u32 = 0x5505_3847;
/// `ids-PID.img`.
pub const IDS: u32 = 0x5443_2030;
/// `mm-PID.img`.
pub const MM: u32 = 0x5749_2820;
/// `pagemap-PID.img`.
pub const PAGEMAP: u32 = 0x5608_4025;
/// `files.img`.
pub const FILES: u32 = 0x5630_3138;
/// `fdinfo-ID.img`.
pub const FDINFO: u32 = 0x5621_3732;
/// `fs-PID.img`.
pub const FS: u32 = 0x5140_3912;
/// `pipes-data.img`.
pub const PIPES_DATA: u32 = 0x5645_3709;
/// `memfd.img`.
pub const MEMFD: u32 = 0x4845_3499;
/// `seccomp.img`.
pub const SECCOMP: u32 = 0x6441_3049;
/// `timens-0.img`.
pub const TIMENS: u32 = 0x4311_4433;
/// `remap-fpath.img`.
pub const REMAP: u32 = 0x5913_3954;

/// Kinds of files (`fd_types`).
pub const REG: u64 = 1;
#[allow(missing_docs)]
pub const PIPE: u64 = 2;
#[allow(missing_docs)]
pub const EVENTFD: u64 = 6;
#[allow(missing_docs)]
pub const EVENTPOLL: u64 = 7;
#[allow(missing_docs)]
pub const SIGNALFD: u64 = 9;
#[allow(missing_docs)]
pub const TIMERFD: u64 = 17;
#[allow(missing_docs)]
pub const MEMORY: u64 = 18;

/// The field of `file_entry` that holds a kind, and the kind's name.
pub const KINDS: [(u64, u32, &str); 21] = [
    (1, 3, "file"),
    (2, 18, "pipe"),
    (3, 17, "named pipe"),
    (4, 4, "internet socket"),
    (5, 16, "local socket"),
    (6, 8, "eventfd"),
    (7, 9, "epoll"),
    (8, 13, "inotify"),
    (9, 10, "signalfd"),
    (10, 6, "packet socket"),
    (11, 19, "terminal"),
    (12, 14, "fanotify"),
    (13, 7, "netlink socket"),
    (14, 5, "namespace"),
    (15, 11, "TUN device"),
    (16, 15, "external file"),
    (17, 12, "timerfd"),
    (18, 20, "memfd"),
    (19, 21, "BPF map"),
    (20, 22, "pidfd"),
    (65534, 19, "controlling terminal"),
];

/// Status of a mapping: an ordinary one.
pub const REGULAR: u64 = 1;
#[allow(missing_docs)]
pub const VSYSCALL: u64 = 1 << 2;
#[allow(missing_docs)]
pub const VDSO: u64 = 1 << 3;
#[allow(missing_docs)]
pub const HEAP: u64 = 1 << 5;
#[allow(missing_docs)]
pub const FILE_PRIVATE: u64 = 1 << 6;
#[allow(missing_docs)]
pub const FILE_SHARED: u64 = 1 << 7;
#[allow(missing_docs)]
pub const ANON_SHARED: u64 = 1 << 8;
#[allow(missing_docs)]
pub const ANON_PRIVATE: u64 = 1 << 9;
#[allow(missing_docs)]
pub const SYSV: u64 = 1 << 10;
#[allow(missing_docs)]
pub const SOCKET: u64 = 1 << 11;
#[allow(missing_docs)]
pub const VVAR: u64 = 1 << 12;
#[allow(missing_docs)]
pub const AIO: u64 = 1 << 13;
#[allow(missing_docs)]
pub const MAPS_MEMFD: u64 = 1 << 14;

/// Flags of a range of pages: they are in an image taken before this one.
pub const IN_PARENT: u64 = 1;
#[allow(missing_docs)]
pub const LAZY: u64 = 2;
#[allow(missing_docs)]
pub const PRESENT: u64 = 4;

/// States of a task.
pub const ALIVE: u64 = 1;
#[allow(missing_docs)]
pub const STOPPED: u64 = 6;

/// Parts of the extended state: field of `user_x86_xsave_entry`, number of the part, bytes of an element, elements.
pub const XSAVE: [(u32, u32, usize, usize); 7] =
    [(2, 2, 4, 64), (3, 3, 8, 8), (4, 4, 8, 8), (5, 5, 8, 8), (6, 6, 8, 64), (7, 7, 8, 128), (8, 9, 4, 2)];
