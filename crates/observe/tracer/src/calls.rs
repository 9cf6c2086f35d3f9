//! What each system call does to files: looked at before it runs, decoded when it has returned.

use event::{Note, Op};
use libc::c_long;
use nix::unistd::Pid;

use crate::aio::PGETEVENTS;
use crate::look;
use crate::opened::{Descriptors, Open};

/// The number, arguments and name of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What a sync covers.
#[derive(Clone, Debug)]
pub enum Synced {
    /// All files.
    All,
    /// A file or folder; whether only its contents.
    Whole { path: String, data_only: bool },
    /// Bytes of a file.
    Range { path: String, from: u64, len: u64 },
}

/// What was known when the call began.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The paths that it names.
    pub paths: Vec<String>,
    /// The length of the file at the first of them; `None` if there is none.
    pub len: Option<u64>,
    /// To whom the call says something.
    pub says: Option<Says>,
}

/// To whom a call says something that counts as said when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Standard output.
    Printed,
    /// Where acknowledgements go.
    Acked,
}

/// A change of a file, in paths.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Bytes at an offset.
    Write(String, u64, Vec<u8>),
    /// Bytes that are in a file: offset, length. They are read from it, piece by piece.
    Copy(String, u64, u64),
    /// The bytes just written are synced: offset, length, data only.
    RangeSync(String, u64, u32, bool),
    /// A new length.
    Truncate(String, u64),
    /// An empty file or folder.
    Create(String, bool),
    /// One path.
    Unlink(String),
    /// Old path, new path.
    Rename(String, String),
    /// Both paths.
    Exchange(String, String),
    /// A path that the file has, a new one.
    Link(String, String),
    /// A path and its target.
    Symlink(String, String),
    /// Bytes taken out.
    Collapse(String, u64, u64),
    /// Zeros put in.
    Insert(String, u64, u64),
    /// A shared mapping.
    Map(String),
    /// Something that is not followed: the call, the file.
    Missed(&'static str, String),
    /// Something about a call on a file that changes nothing by itself.
    Noted(String, Note),
}

impl Call {
    /// The call's name, for sites.
    pub fn name(&self) -> &'static str {
        match self.number {
            libc::SYS_write => "write",
            libc::SYS_pwrite64 => "pwrite",
            libc::SYS_writev => "writev",
            libc::SYS_pwritev | libc::SYS_pwritev2 => "pwritev",
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => "open",
            libc::SYS_truncate | libc::SYS_ftruncate => "truncate",
            libc::SYS_fallocate => "fallocate",
            libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => "rename",
            libc::SYS_link | libc::SYS_linkat => "link",
            libc::SYS_symlink | libc::SYS_symlinkat => "symlink",
            libc::SYS_unlink | libc::SYS_unlinkat => "unlink",
            libc::SYS_rmdir => "rmdir",
            libc::SYS_mkdir | libc::SYS_mkdirat => "mkdir",
            libc::SYS_fsync => "fsync",
            libc::SYS_fdatasync => "fdatasync",
            libc::SYS_sync_file_range => "sync_file_range",
            libc::SYS_syncfs => "syncfs",
            libc::SYS_sync => "sync",
            libc::SYS_msync => "msync",
            libc::SYS_mmap => "mmap",
            libc::SYS_madvise => "madvise",
            libc::SYS_copy_file_range => "copy_file_range",
            libc::SYS_sendfile => "sendfile",
            libc::SYS_splice => "splice",
            libc::SYS_mknod | libc::SYS_mknodat => "mknod",
            libc::SYS_ioctl => "ioctl",
            libc::SYS_io_uring_setup => "io_uring_setup",
            libc::SYS_io_submit => "io_submit",
            libc::SYS_io_getevents | PGETEVENTS => "io_getevents",
            libc::SYS_io_destroy => "io_destroy",
            libc::SYS_sendto => "sendto",
            libc::SYS_sendmsg => "sendmsg",
            libc::SYS_ptrace => "ptrace",
            libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_fsetxattr => "setxattr",
            libc::SYS_removexattr | libc::SYS_lremovexattr | libc::SYS_fremovexattr => "removexattr",
            _ => "system call",
        }
    }

    /// What a sync is of; `None` if the call is none.
    pub fn sync(&self, pid: Pid) -> Option<Vec<Synced>> {
        let [first, len, flags, ..] = self.arguments;
        let whole = |data_only| {
            let path = look::descriptor(pid, first as i32);
            path.into_iter().map(|path| Synced::Whole { path, data_only }).collect()
        };
        match self.number {
            libc::SYS_fsync => Some(whole(false)),
            libc::SYS_fdatasync => Some(whole(true)),
            libc::SYS_sync | libc::SYS_syncfs => Some(vec![Synced::All]),
            libc::SYS_msync if flags as i32 & libc::MS_SYNC != 0 => {
                let ranges = look::mapped(pid, first, look::whole_pages(len));
                Some(ranges.into_iter().map(|(path, from, len)| Synced::Range { path, from, len }).collect())
            }
            _ => None,
        }
    }

    /// Whether the call changes files and waits for nobody: such calls are let through one at a time, so that their
    /// order, and where each wrote, is known.
    pub fn alone(&self) -> bool {
        self.number != libc::SYS_sendfile && self.number != libc::SYS_splice && self.number != libc::SYS_mmap
    }

    /// The descriptor of a call that writes or sends by one, and does nothing else.
    pub fn written_to(&self) -> Option<i32> {
        matches!(
            self.number,
            libc::SYS_write
                | libc::SYS_pwrite64
                | libc::SYS_writev
                | libc::SYS_pwritev
                | libc::SYS_pwritev2
                | libc::SYS_sendto
                | libc::SYS_sendmsg
        )
        .then_some(self.arguments[0] as i32)
    }

    /// Whether files may have other names afterwards.
    pub fn renames(&self) -> bool {
        self.name() == "rename"
    }

    /// Whether the call is answered with `ENOSYS`, so that the program falls back to calls that are seen.
    pub fn refused(&self) -> bool {
        self.number == libc::SYS_io_uring_setup
    }

    /// The paths that the call names, and the length of the first file.
    pub fn before(&self, pid: Pid) -> Before {
        let [a, b, c, d, ..] = self.arguments;
        let here = libc::AT_FDCWD;
        let at = |folder: u64, address: u64| look::path(pid, folder as i32, address);
        let named: Vec<Option<String>> = match self.number {
            // These follow a symbolic link.
            libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_truncate
            | libc::SYS_setxattr
            | libc::SYS_removexattr => {
                vec![look::path(pid, here, a).map(look::target)]
            }
            libc::SYS_openat | libc::SYS_openat2 => vec![at(a, b).map(look::target)],
            libc::SYS_lsetxattr
            | libc::SYS_lremovexattr
            | libc::SYS_mknod
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_mkdir => vec![look::path(pid, here, a)],
            libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat => vec![at(a, b)],
            libc::SYS_rename | libc::SYS_link => vec![look::path(pid, here, a), look::path(pid, here, b)],
            libc::SYS_linkat
                if self.arguments[4] as i32 & (libc::AT_EMPTY_PATH | libc::AT_SYMLINK_FOLLOW) != 0 =>
            {
                vec![look::linked(pid, a as i32, b), at(c, d)]
            }
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => vec![at(a, b), at(c, d)],
            libc::SYS_symlink => vec![look::path(pid, here, b), look::string(pid, a)],
            libc::SYS_symlinkat => vec![at(b, c), look::string(pid, a)],
            libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_ioctl
            | libc::SYS_fsetxattr
            | libc::SYS_fremovexattr => vec![look::descriptor(pid, a as i32)],
            libc::SYS_madvise => {
                look::mapped(pid, a, look::whole_pages(b)).into_iter().map(|(path, ..)| Some(path)).collect()
            }
            _ => Vec::new(),
        };
        let paths: Option<Vec<String>> = named.into_iter().collect();
        let paths = paths.unwrap_or_default();
        let len = paths.first().and_then(|path| look::length(path));
        Before { paths, len, says: None }
    }

    /// What the call did, given what it returned.
    pub fn after(
        &self,
        pid: Pid,
        before: &Before,
        result: u64,
        descriptors: &mut Descriptors,
    ) -> Option<Vec<Deed>> {
        let [a, b, c, d, ..] = self.arguments;
        let one = || before.paths.first().cloned();
        let two = || Some((one()?, before.paths.get(1)?.clone()));
        let fd = |number: u64| (pid, number as i32);
        Some(match self.number {
            libc::SYS_write => {
                written(fd(a), descriptors, None, 0, result, || look::memory(pid, b, result as usize))?
            }
            libc::SYS_pwrite64 => {
                written(fd(a), descriptors, Some(d), 0, result, || look::memory(pid, b, result as usize))?
            }
            libc::SYS_writev => {
                written(fd(a), descriptors, None, 0, result, || look::gathered(pid, b, c, result))?
            }
            libc::SYS_pwritev | libc::SYS_pwritev2 => {
                let flags = if self.number == libc::SYS_pwritev2 { self.arguments[5] as i32 } else { 0 };
                let offset = (d as i64 != -1).then_some(d);
                written(fd(a), descriptors, offset, flags, result, || look::gathered(pid, b, c, result))?
            }
            libc::SYS_sendfile => copied(pid, a, None, result)?,
            libc::SYS_copy_file_range | libc::SYS_splice => {
                let given = (d != 0).then(|| look::memory(pid, d, 8));
                let end = given.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
                copied(pid, c, end, result)?
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
                opened(look::descriptor(pid, result as i32)?, before.len)?
            }
            libc::SYS_truncate | libc::SYS_ftruncate => vec![Deed::Truncate(one()?, b)],
            libc::SYS_fallocate => allocated(one()?, b as i32, c, d, before.len?),
            libc::SYS_rename | libc::SYS_renameat => two().map(|(from, to)| vec![Deed::Rename(from, to)])?,
            libc::SYS_renameat2 => two().map(|(from, to)| vec![renamed(from, to, self.arguments[4])])?,
            libc::SYS_link | libc::SYS_linkat => two().map(|(from, to)| vec![Deed::Link(from, to)])?,
            libc::SYS_symlink | libc::SYS_symlinkat => {
                two().map(|(path, target)| vec![Deed::Symlink(path, target)])?
            }
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => vec![Deed::Unlink(one()?)],
            libc::SYS_mkdir | libc::SYS_mkdirat => vec![Deed::Create(one()?, true)],
            libc::SYS_mmap => {
                let fd = self.arguments[4] as i32;
                let writable = look::position(pid, fd)?.1 & libc::O_ACCMODE == libc::O_RDWR;
                writable.then(|| Some(vec![Deed::Map(look::descriptor(pid, fd)?)]))??
            }
            libc::SYS_madvise => emptied(pid, a, b),
            libc::SYS_mknod if b as u32 & libc::S_IFMT == libc::S_IFREG => vec![Deed::Create(one()?, false)],
            libc::SYS_mknodat if c as u32 & libc::S_IFMT == libc::S_IFREG => {
                vec![Deed::Create(one()?, false)]
            }
            libc::SYS_ioctl => vec![Deed::Missed("ioctl that clones or moves extents", one()?)],
            libc::SYS_setxattr
            | libc::SYS_lsetxattr
            | libc::SYS_fsetxattr
            | libc::SYS_removexattr
            | libc::SYS_lremovexattr
            | libc::SYS_fremovexattr => {
                let name = look::string(pid, b)?;
                let kept = name.starts_with("user.") || name.starts_with("trusted.");
                kept.then(|| Some(vec![Deed::Missed(self.name(), one()?)]))??
            }
            _ => return None,
        })
    }
}

/// What `renameat2` does with these flags.
fn renamed(from: String, to: String, flags: u64) -> Deed {
    match flags as u32 {
        flags if flags & libc::RENAME_WHITEOUT != 0 => Deed::Missed("rename with RENAME_WHITEOUT", from),
        flags if flags & libc::RENAME_EXCHANGE != 0 => Deed::Exchange(from, to),
        _ => Deed::Rename(from, to),
    }
}

/// What an open did to the file, whose length was `before`.
fn opened(path: String, before: Option<u64>) -> Option<Vec<Deed>> {
    if path.starts_with(look::UNNAMED) {
        return Some(vec![Deed::Create(path, false)]);
    }
    match (before, look::length(&path)) {
        (None, _) => Some(vec![Deed::Create(path, false)]),
        (Some(old), Some(0)) if old > 0 => Some(vec![Deed::Truncate(path, 0)]),
        _ => None,
    }
}

/// `RWF_DSYNC`, `RWF_SYNC` of `pwritev2`.
const RWF: [i32; 2] = [2, 4];

/// What a call that writes or sends a vector or one buffer said.
pub fn said(call: &Call, pid: Pid, count: u64) -> Vec<u8> {
    let [_, buffer, entries, ..] = call.arguments;
    match call.number {
        libc::SYS_writev => look::gathered(pid, buffer, entries, count),
        libc::SYS_sendmsg => {
            // msg_iov and msg_iovlen of `struct msghdr`.
            let head = look::memory(pid, buffer.saturating_add(16), 16);
            let number = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
            match (number(0), number(8)) {
                (Some(vector), Some(entries)) => look::gathered(pid, vector, entries, count),
                _ => Vec::new(),
            }
        }
        _ => look::memory(pid, buffer, count as usize),
    }
}

fn written(
    (pid, fd): (Pid, i32),
    descriptors: &mut Descriptors,
    offset: Option<u64>,
    rwf: i32,
    count: u64,
    bytes: impl FnOnce() -> Vec<u8>,
) -> Option<Vec<Deed>> {
    let Open { name: path, position, flags, .. } = descriptors.of(pid, fd, false)?;
    if !look::is_file_name(&path) {
        return None;
    }
    let offset = match offset {
        None => position.checked_sub(count)?,
        // Linux appends whatever the offset is.
        Some(_) if flags & libc::O_APPEND != 0 => look::length(&path)?.checked_sub(count)?,
        Some(offset) => offset,
    };
    let mut deeds = vec![Deed::Write(path.clone(), offset, bytes())];
    if flags & libc::O_DIRECT != 0 {
        deeds.insert(0, Deed::Noted(path.clone(), Note::Direct { path: path.clone() }));
    }
    let whole = flags & libc::O_SYNC == libc::O_SYNC || rwf & RWF[1] != 0;
    if whole || flags & libc::O_DSYNC != 0 || rwf & RWF[0] != 0 {
        deeds.push(Deed::RangeSync(path, offset, u32::try_from(count).ok()?, !whole));
    }
    Some(deeds)
}

/// What the kernel copied into a file, read back from it.
fn copied(pid: Pid, fd: u64, end: Option<u64>, count: u64) -> Option<Vec<Deed>> {
    let path = look::descriptor(pid, fd as i32)?;
    let end = end.or_else(|| look::position(pid, fd as i32).map(|position| position.0))?;
    Some(vec![Deed::Copy(path, end.checked_sub(count)?, count)])
}

/// What of a write with `O_DIRECT` is no multiple of a sector; `None` if all is, or it is another call.
pub fn unaligned(call: &Call, pid: Pid) -> Option<Deed> {
    let [fd, buffer, third, fourth, ..] = call.arguments;
    let path = look::descriptor(pid, fd as i32)?;
    let (position, flags) = look::position(pid, fd as i32)?;
    if flags & libc::O_DIRECT == 0 {
        return None;
    }
    let mut pieces = Vec::new();
    let offset = match call.number {
        libc::SYS_write | libc::SYS_pwrite64 => {
            pieces.push((buffer, third));
            if call.number == libc::SYS_write { position } else { fourth }
        }
        libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            for entry in look::memory(pid, buffer, third.min(1024) as usize * 16).chunks_exact(16) {
                let (base, len) = entry.split_at(8);
                let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
                pieces.push((number(base), number(len)));
            }
            if call.number == libc::SYS_writev { position } else { fourth }
        }
        _ => return None,
    };
    let wrong = |number: u64| !number.is_multiple_of(SECTOR);
    let what = match pieces.iter().find(|piece| wrong(piece.0) || wrong(piece.1)) {
        _ if wrong(offset) => format!("its offset, {offset},"),
        Some(&(_, len)) if wrong(len) => format!("its length, {len} B,"),
        Some(&(base, _)) => format!("its buffer's address, which is {} beyond one,", base % SECTOR),
        None => return None,
    };
    Some(Deed::Noted(path.clone(), Note::Unaligned { path, what }))
}

/// Bytes that one call may empty.
const ZEROS: u64 = 256 << 20;
/// Bytes of the smallest unit that devices write.
const SECTOR: u64 = 512;

fn allocated(path: String, mode: i32, offset: u64, len: u64, before: u64) -> Vec<Deed> {
    let end = offset.saturating_add(len);
    if mode & libc::FALLOC_FL_COLLAPSE_RANGE != 0 {
        return vec![Deed::Collapse(path, offset, len)];
    }
    if mode & libc::FALLOC_FL_INSERT_RANGE != 0 {
        return vec![Deed::Insert(path, offset, len)];
    }
    let mut deeds = Vec::new();
    if mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0 && offset < before {
        let len = end.min(before) - offset;
        if len > ZEROS {
            return vec![Deed::Missed("a call that empties more than 256 MiB at once", path)];
        }
        deeds.push(Deed::Write(path.clone(), offset, vec![0; len as usize]));
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > before {
        deeds.push(Deed::Truncate(path, end));
    }
    deeds
}

/// What of files is mapped at a range of addresses that was removed: it has a hole.
fn emptied(pid: Pid, address: u64, len: u64) -> Vec<Deed> {
    let hole = |(path, from, len): (String, u64, u64)| {
        let before = look::length(&path).unwrap_or(0);
        allocated(path, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, from, len, before)
    };
    look::mapped(pid, address, look::whole_pages(len)).into_iter().flat_map(hole).collect()
}

/// The operation that a deed on numbered names is.
pub fn operation(
    deed: &Deed,
    mut name: impl FnMut(&str) -> Result<event::NameId, event::SinkError>,
) -> Result<Option<Op>, event::SinkError> {
    Ok(Some(match deed {
        Deed::Write(path, offset, bytes) => {
            Op::FileWrite { file: name(path)?, offset: *offset, len: bytes.len() as u32 }
        }
        Deed::RangeSync(path, offset, len, data_only) => {
            Op::FileRangeSync { file: name(path)?, offset: *offset, len: *len, data_only: *data_only }
        }
        Deed::Truncate(path, len) => Op::FileTruncate { file: name(path)?, len: *len },
        Deed::Create(path, folder) => Op::FileCreate { file: name(path)?, folder: *folder },
        Deed::Unlink(path) => Op::Unlink { file: name(path)? },
        Deed::Rename(from, to) => Op::Rename { from: name(from)?, to: name(to)? },
        Deed::Exchange(from, to) => Op::Exchange { from: name(from)?, to: name(to)? },
        Deed::Link(from, to) => Op::Link { from: name(from)?, to: name(to)? },
        Deed::Symlink(path, target) => Op::Symlink { file: name(path)?, target: name(target)? },
        Deed::Collapse(path, offset, len) => {
            Op::FileCollapse { file: name(path)?, offset: *offset, len: *len }
        }
        Deed::Insert(path, offset, len) => Op::FileInsert { file: name(path)?, offset: *offset, len: *len },
        Deed::Noted(_, note) => Op::Phase { name: name(&note.name())? },
        Deed::Map(..) | Deed::Missed(..) | Deed::Copy(..) => return Ok(None),
    }))
}

impl Deed {
    /// The paths that it changes.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Deed::Write(path, ..)
            | Deed::Copy(path, ..)
            | Deed::RangeSync(path, ..)
            | Deed::Truncate(path, _)
            | Deed::Create(path, _)
            | Deed::Unlink(path)
            | Deed::Symlink(path, _)
            | Deed::Collapse(path, ..)
            | Deed::Insert(path, ..)
            | Deed::Map(path)
            | Deed::Missed(_, path)
            | Deed::Noted(path, _) => vec![path],
            Deed::Rename(from, to) | Deed::Exchange(from, to) | Deed::Link(from, to) => vec![from, to],
        }
    }
}
