//! What `/proc` and the memory of a stopped thread say.

use std::fs;
use std::io::IoSliceMut;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Bytes that one call moves at most, as the kernel bounds it.
const CALL_MAX: usize = 0x7fff_f000;
/// Bytes of memory that are read at once.
const PIECE: usize = 16 << 20;
/// The longest path that the kernel takes.
const PATH_MAX: usize = 4096;

/// Bytes of the thread's memory; fewer where the rest is not mapped.
pub fn memory(pid: Pid, address: u64, len: usize) -> Vec<u8> {
    let (mut bytes, len) = (Vec::new(), len.min(CALL_MAX));
    // A length that a program gives may be far more than it has.
    while bytes.len() < len {
        let (had, piece) = (bytes.len(), (len - bytes.len()).min(PIECE));
        bytes.resize(had + piece, 0);
        let base = (address as usize).wrapping_add(had);
        let remote = [RemoteIoVec { base, len: piece }];
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes[had..])], &remote).unwrap_or(0);
        if read < piece {
            bytes.truncate(had + read);
            break;
        }
    }
    bytes
}

/// The bytes of a vector of buffers, up to `total` of them.
pub fn gathered(pid: Pid, vector: u64, count: u64, total: u64) -> Vec<u8> {
    let (mut bytes, total) = (Vec::new(), total.min(CALL_MAX as u64));
    for entry in memory(pid, vector, count.min(1024) as usize * 16).chunks_exact(16) {
        let (base, len) = entry.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let rest = total.saturating_sub(bytes.len() as u64);
        bytes.extend(memory(pid, number(base), number(len).min(rest) as usize));
    }
    bytes
}

/// All bytes of a vector of buffers; `None` if they are more than `most`, or not all are there.
pub fn vector(pid: Pid, vector: u64, count: u64, most: u64) -> Option<Vec<u8>> {
    const ENTRIES: u64 = 1024;
    let entries = memory(pid, vector, count.min(ENTRIES) as usize * 16);
    let length = |entry: &[u8]| entry[8..].try_into().map_or(u64::MAX, u64::from_ne_bytes);
    let total = entries.chunks_exact(16).map(length).try_fold(0_u64, u64::checked_add)?;
    let whole = count <= ENTRIES && entries.len() as u64 == count * 16 && total <= most;
    let bytes = whole.then(|| gathered(pid, vector, count, total))?;
    (bytes.len() as u64 == total).then_some(bytes)
}

/// Bytes of the thread's memory up to the first page that is not mapped.
pub fn pages(pid: Pid, address: u64, len: usize) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut remote = Vec::new();
    let (mut from, end) = (address as usize, (address as usize).saturating_add(len));
    while from < end {
        let next = (from / PAGE + 1).saturating_mul(PAGE).min(end);
        remote.push(RemoteIoVec { base: from, len: next - from });
        from = next;
    }
    let mut bytes = vec![0; len];
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &remote).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

fn text(pid: Pid, address: u64) -> Option<String> {
    let mut bytes = Vec::new();
    while bytes.len() < PATH_MAX {
        let at = address.checked_add(bytes.len() as u64)?;
        let piece = memory(pid, at, 256 - (at % 256) as usize);
        if piece.is_empty() {
            return None;
        }
        if let Some(end) = piece.iter().position(|&byte| byte == 0) {
            bytes.extend_from_slice(&piece[..end]);
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.extend(piece);
    }
    None
}

/// The text at an address, for the target of a symbolic link.
pub fn string(pid: Pid, address: u64) -> Option<String> {
    text(pid, address)
}

/// The path of an open file; if it has none, a name that stands for the file itself.
pub fn descriptor(pid: Pid, fd: i32) -> Option<String> {
    named(pid, fd).filter(|name| is_file_name(name))
}

/// As [`descriptor`], and of what is no file what the kernel writes.
pub fn named(pid: Pid, fd: i32) -> Option<String> {
    let path = link(pid, fd)?;
    if path.starts_with('/') && path.ends_with(" (deleted)") {
        let about = fs::metadata(format!("/proc/{pid}/fd/{fd}")).ok()?;
        return Some(format!("{UNNAMED}{}:{}", about.dev(), about.ino()));
    }
    Some(path)
}

/// Whether what [`named`] says is of a file.
pub fn is_file_name(name: &str) -> bool {
    name.starts_with('/') || name.starts_with(UNNAMED)
}

/// Whether something is at a path: a link counts, wherever it leads.
pub fn is_there(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// How the names of files begin that have no path.
pub const UNNAMED: &str = "inode:";

/// What a descriptor is of, as the kernel writes it.
pub fn link(pid: Pid, fd: i32) -> Option<String> {
    Some(fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_string_lossy().into_owned())
}

/// Whether a path had bytes that are no UTF-8, which the events' names can't have.
pub fn is_foreign(path: &str) -> bool {
    path.contains(char::REPLACEMENT_CHARACTER)
}

/// The descriptor that a path below `/proc` means.
pub fn by_descriptor(path: &str) -> Option<i32> {
    let (folder, fd) = path.rsplit_once('/')?;
    (folder.starts_with("/proc/") && folder.ends_with("/fd") || folder == "/dev/fd")
        .then(|| fd.parse().ok())?
}

/// A length in whole pages, as the kernel takes it: one that overflows is none.
pub fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(4096).unwrap_or(0)
}

/// What of files is mapped in a range of addresses: path, offset in the file, bytes.
pub fn mapped(pid: Pid, address: u64, len: u64) -> Vec<(String, u64, u64)> {
    let end = address.saturating_add(len);
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let piece = |line: &str| {
        let mut fields = line.splitn(6, ' ');
        let (from, to) = fields.next()?.split_once('-')?;
        let (from, to) = (u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?);
        let shared = fields.next()?.ends_with('s');
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let path = fields.nth(2)?.trim_start();
        let (first, last) = (from.max(address), to.min(end));
        (shared && first < last && path.starts_with('/'))
            .then(|| (path.to_owned(), offset + (first - from), last - first))
    };
    maps.lines().filter_map(piece).collect()
}

/// Whether there is something at a path that is neither a file nor a folder: a pipe, a device, a socket.
pub fn is_special(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// Whether there is an ordinary file at a path.
pub fn is_file(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|about| about.is_file())
}

/// The path of what a process executes.
pub fn program(pid: Pid) -> String {
    let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    path.display().to_string()
}

/// The program that a process executes, if it would have gained rights by that.
pub fn gains_rights(pid: Pid) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let about = fs::metadata(&path).ok()?;
    let owner = fs::metadata(format!("/proc/{pid}")).ok()?;
    let user = about.mode() & libc::S_ISUID != 0 && about.uid() != owner.uid();
    let group = about.mode() & libc::S_ISGID != 0 && about.gid() != owner.gid();
    (user || group).then(|| path.display().to_string())
}

/// Position and flags of an open file.
pub fn position(pid: Pid, fd: i32) -> Option<(u64, i32)> {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Some((field("pos:")?.parse().ok()?, i32::from_str_radix(field("flags:")?, 8).ok()?))
}

/// The path that a call means: absolute, its folder without symbolic links, the last part as it is.
pub fn path(pid: Pid, folder: i32, address: u64) -> Option<String> {
    let given = text(pid, address)?;
    let base = match folder {
        libc::AT_FDCWD => fs::read_link(format!("/proc/{pid}/cwd")).ok()?,
        fd => fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?,
    };
    if given.is_empty() {
        return Some(base.to_string_lossy().into_owned());
    }
    let whole: PathBuf = base.join(given.trim_end_matches('/'));
    let path = match (whole.parent().and_then(|parent| parent.canonicalize().ok()), whole.file_name()) {
        (Some(parent), Some(name)) => parent.join(name),
        _ => whole.canonicalize().ok()?,
    };
    Some(path.to_string_lossy().into_owned())
}

/// Where a path leads if there is a symbolic link.
pub fn target(path: String) -> String {
    let link = fs::symlink_metadata(&path).is_ok_and(|about| about.is_symlink());
    let real = link.then(|| fs::canonicalize(&path).ok()?.into_os_string().into_string().ok()).flatten();
    real.unwrap_or(path)
}

/// The file that `linkat` links, where it follows a link or takes a descriptor.
pub fn linked(pid: Pid, folder: i32, address: u64) -> Option<String> {
    let given = text(pid, address)?;
    match (given.is_empty(), by_descriptor(&given)) {
        (true, _) => descriptor(pid, folder),
        (false, Some(fd)) => descriptor(pid, fd),
        (false, None) => path(pid, folder, address).map(target),
    }
}

/// The paths in a folder, in order.
pub fn entries(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let path = |entry: fs::DirEntry| entry.path().into_os_string().into_string().ok();
    let mut paths: Vec<String> = entries.flatten().filter_map(path).collect();
    paths.sort_unstable();
    paths
}

/// Bytes of an ordinary file as it is now: to read from a pipe would take what is in it.
pub fn contents(path: &str, offset: u64, len: usize) -> Vec<u8> {
    if !is_file(path) {
        return Vec::new();
    }
    let mut bytes = vec![0; len];
    let Ok(file) = fs::File::open(path) else { return Vec::new() };
    let mut read = 0;
    while read < len {
        match file.read_at(&mut bytes[read..], offset.saturating_add(read as u64)) {
            Ok(0) | Err(_) => break,
            Ok(count) => read += count,
        }
    }
    bytes.truncate(read);
    bytes
}

/// The length of the file at a path; `None` without one.
pub fn length(path: &str) -> Option<u64> {
    fs::metadata(path).ok().map(|about| about.len())
}

/// Whether the program that a process executes is a 32-bit one.
pub fn is_32_bit(pid: Pid) -> bool {
    let head = contents(&format!("/proc/{pid}/exe"), 0, 5);
    head.starts_with(b"\x7fELF") && head.get(4) == Some(&1)
}

/// Whether a path is one of the patterns, or below one.
pub fn matches(patterns: &[String], path: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.contains(['*', '?']) {
        true => glob(pattern.as_bytes(), path.as_bytes()),
        false => Path::new(path).starts_with(pattern),
    })
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => text.is_empty(),
        (Some((b'*', rest)), None) => glob(rest, text),
        (Some((b'*', rest)), Some((_, behind))) => glob(rest, text) || glob(pattern, behind),
        (Some((b'?', rest)), Some((_, behind))) => glob(rest, behind),
        (Some((one, rest)), Some((other, behind))) => one == other && glob(rest, behind),
        (Some(_), None) => false,
    }
}
