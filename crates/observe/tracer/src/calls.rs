//! What each system call does to files: looked at before it runs, decoded when it has returned.

use event::Op;
use libc::c_long;
use nix::unistd::Pid;

use crate::look;

/// The number, arguments and name of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its number.
    pub number: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// What was known when the call began.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The paths that it names.
    pub paths: Vec<String>,
    /// The length of the file at the first of them; `None` if there is none.
    pub len: Option<u64>,
}

/// A change of a file, in paths.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Bytes at an offset.
    Write(String, u64, Vec<u8>),
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
    /// A shared mapping: address, length.
    Map(String, u64, u64),
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
            libc::SYS_copy_file_range => "copy_file_range",
            libc::SYS_sendfile => "sendfile",
            libc::SYS_splice => "splice",
            _ => "system call",
        }
    }

    /// The file that a sync is of, and whether only its contents; an empty path for all files.
    pub fn sync(&self, pid: Pid, mapped: impl Fn(u64) -> Option<String>) -> Option<(String, bool)> {
        let [first, _, third, ..] = self.arguments;
        match self.number {
            libc::SYS_fsync => Some((look::descriptor(pid, first as i32)?, false)),
            libc::SYS_fdatasync => Some((look::descriptor(pid, first as i32)?, true)),
            libc::SYS_sync | libc::SYS_syncfs => Some((String::new(), false)),
            libc::SYS_msync if third as i32 & libc::MS_SYNC != 0 => Some((mapped(first)?, true)),
            _ => None,
        }
    }

    /// The paths that the call names, and the length of the first file.
    pub fn before(&self, pid: Pid) -> Before {
        let [a, b, c, d, ..] = self.arguments;
        let here = libc::AT_FDCWD;
        let at = |folder: u64, address: u64| look::path(pid, folder as i32, address);
        let named: Vec<Option<String>> = match self.number {
            libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_truncate
            | libc::SYS_unlink
            | libc::SYS_rmdir
            | libc::SYS_mkdir => vec![look::path(pid, here, a)],
            libc::SYS_openat | libc::SYS_openat2 | libc::SYS_unlinkat | libc::SYS_mkdirat => vec![at(a, b)],
            libc::SYS_rename | libc::SYS_link => vec![look::path(pid, here, a), look::path(pid, here, b)],
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => vec![at(a, b), at(c, d)],
            libc::SYS_symlink => vec![look::path(pid, here, b), look::string(pid, a)],
            libc::SYS_symlinkat => vec![at(b, c), look::string(pid, a)],
            libc::SYS_ftruncate | libc::SYS_fallocate => vec![look::descriptor(pid, a as i32)],
            _ => Vec::new(),
        };
        let paths: Option<Vec<String>> = named.into_iter().collect();
        let paths = paths.unwrap_or_default();
        let len = paths.first().and_then(|path| look::length(path));
        Before { paths, len }
    }

    /// What the call did, given what it returned.
    pub fn after(&self, pid: Pid, before: &Before, result: u64) -> Option<Vec<Deed>> {
        let [a, b, c, d, ..] = self.arguments;
        let one = || before.paths.first().cloned();
        let two = || Some((one()?, before.paths.get(1)?.clone()));
        Some(match self.number {
            libc::SYS_write => written(pid, a, None, 0, result, || look::memory(pid, b, result as usize))?,
            libc::SYS_pwrite64 => {
                written(pid, a, Some(d), 0, result, || look::memory(pid, b, result as usize))?
            }
            libc::SYS_writev => written(pid, a, None, 0, result, || gathered(pid, b, c, result))?,
            libc::SYS_pwritev | libc::SYS_pwritev2 => {
                let flags = if self.number == libc::SYS_pwritev2 { self.arguments[5] as i32 } else { 0 };
                let offset = (d as i64 != -1).then_some(d);
                written(pid, a, offset, flags, result, || gathered(pid, b, c, result))?
            }
            libc::SYS_sendfile => copied(pid, a, None, result)?,
            libc::SYS_copy_file_range | libc::SYS_splice => {
                let given = (d != 0).then(|| look::memory(pid, d, 8));
                let end = given.and_then(|bytes| Some(u64::from_ne_bytes(bytes.try_into().ok()?)));
                copied(pid, c, end, result)?
            }
            libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
                let path = look::descriptor(pid, result as i32)?;
                match (before.len, look::length(&path)) {
                    (None, _) => vec![Deed::Create(path, false)],
                    (Some(old), Some(0)) if old > 0 => vec![Deed::Truncate(path, 0)],
                    _ => return None,
                }
            }
            libc::SYS_truncate | libc::SYS_ftruncate => vec![Deed::Truncate(one()?, b)],
            libc::SYS_fallocate => allocated(one()?, b as i32, c, d, before.len?),
            libc::SYS_rename | libc::SYS_renameat => two().map(|(from, to)| vec![Deed::Rename(from, to)])?,
            libc::SYS_renameat2 => {
                let (from, to) = two()?;
                match self.arguments[4] as u32 & libc::RENAME_EXCHANGE {
                    0 => vec![Deed::Rename(from, to)],
                    _ => vec![Deed::Exchange(from, to)],
                }
            }
            libc::SYS_link | libc::SYS_linkat => two().map(|(from, to)| vec![Deed::Link(from, to)])?,
            libc::SYS_symlink | libc::SYS_symlinkat => {
                two().map(|(path, target)| vec![Deed::Symlink(path, target)])?
            }
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => vec![Deed::Unlink(one()?)],
            libc::SYS_mkdir | libc::SYS_mkdirat => vec![Deed::Create(one()?, true)],
            libc::SYS_mmap => vec![Deed::Map(look::descriptor(pid, self.arguments[4] as i32)?, result, b)],
            _ => return None,
        })
    }
}

/// `RWF_DSYNC`, `RWF_SYNC` of `pwritev2`.
const RWF: [i32; 2] = [2, 4];

fn written(
    pid: Pid,
    fd: u64,
    offset: Option<u64>,
    rwf: i32,
    count: u64,
    bytes: impl FnOnce() -> Vec<u8>,
) -> Option<Vec<Deed>> {
    let path = look::descriptor(pid, fd as i32)?;
    let (position, flags) = look::position(pid, fd as i32)?;
    let offset = match offset {
        None => position.checked_sub(count)?,
        // Linux appends whatever the offset is.
        Some(_) if flags & libc::O_APPEND != 0 => look::length(&path)?.checked_sub(count)?,
        Some(offset) => offset,
    };
    let mut deeds = vec![Deed::Write(path.clone(), offset, bytes())];
    let whole = flags & libc::O_SYNC == libc::O_SYNC || rwf & RWF[1] != 0;
    if whole || flags & libc::O_DSYNC != 0 || rwf & RWF[0] != 0 {
        deeds.push(Deed::RangeSync(path, offset, u32::try_from(count).ok()?, !whole));
    }
    Some(deeds)
}

/// The bytes of a vector of buffers.
fn gathered(pid: Pid, vector: u64, count: u64, total: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in look::memory(pid, vector, count.min(1024) as usize * 16).chunks_exact(16) {
        let (base, len) = entry.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let rest = total.saturating_sub(bytes.len() as u64);
        bytes.extend(look::memory(pid, number(base), number(len).min(rest) as usize));
    }
    bytes
}

/// What the kernel copied into a file, read back from it.
fn copied(pid: Pid, fd: u64, end: Option<u64>, count: u64) -> Option<Vec<Deed>> {
    let path = look::descriptor(pid, fd as i32)?;
    let end = end.or_else(|| look::position(pid, fd as i32).map(|position| position.0))?;
    let offset = end.checked_sub(count)?;
    let bytes = look::contents(&path, offset, count as usize);
    Some(vec![Deed::Write(path, offset, bytes)])
}

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
        deeds.push(Deed::Write(path.clone(), offset, vec![0; (end.min(before) - offset) as usize]));
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 && end > before {
        deeds.push(Deed::Truncate(path, end));
    }
    deeds
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
        Deed::Map(..) => return Ok(None),
    }))
}

impl Deed {
    /// The paths that it changes.
    pub fn paths(&self) -> Vec<&str> {
        match self {
            Deed::Write(path, ..)
            | Deed::RangeSync(path, ..)
            | Deed::Truncate(path, _)
            | Deed::Create(path, _)
            | Deed::Unlink(path)
            | Deed::Symlink(path, _)
            | Deed::Collapse(path, ..)
            | Deed::Insert(path, ..)
            | Deed::Map(path, ..) => vec![path],
            Deed::Rename(from, to) | Deed::Exchange(from, to) | Deed::Link(from, to) => vec![from, to],
        }
    }
}
