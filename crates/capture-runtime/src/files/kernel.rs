//! What the kernel says of descriptors and paths.

use core::ffi::{CStr, c_char, c_int};

use libc::{AT_FDCWD, O_CLOEXEC, O_PATH, stat};

use crate::glob::is_named;
use crate::session::session;
use crate::sys;
use crate::wire::MODE_RECORD;

/// Bytes of the longest path that is told; as long as the longest text of a record.
pub const PATH_BYTES: usize = 1024;

/// Whether the user named any files, and is told of them.
#[inline]
pub fn watching() -> bool {
    session().is_some_and(|session| session.head().files_patterns_len != 0 && session.mode() == MODE_RECORD)
}

/// Whether the user named the file of this path, or a folder around it.
pub fn is_watched(path: &[u8]) -> bool {
    let Some(session) = session() else { return false };
    let head = session.head();
    let patterns = &head.files_patterns[..(head.files_patterns_len as usize).min(head.files_patterns.len())];
    !patterns.is_empty() && is_named(path, patterns)
}

/// The absolute path of a file or folder.
pub struct Path {
    bytes: [u8; PATH_BYTES],
    len: usize,
}

impl Path {
    /// The path.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The path, if the user named it.
    pub fn watched(self) -> Option<Path> {
        is_watched(self.bytes()).then_some(self)
    }

    /// `None`, and a complaint if the user named the file, if it is longer than can be told.
    fn new(path: &[u8]) -> Option<Path> {
        let mut bytes = [0; PATH_BYTES];
        let Some(place) = bytes.get_mut(..path.len()) else {
            if is_watched(path) {
                complain(b"a path of more than 1024 bytes", path);
            }
            return None;
        };
        place.copy_from_slice(path);
        Some(Path { bytes, len: path.len() })
    }

    /// The path of an open file that has one.
    pub fn of(fd: c_int) -> Option<Path> {
        let mut name = [0; 32];
        let mut text = sys::Text::new(&mut name);
        text.push(b"/proc/self/fd/");
        text.number(u64::try_from(fd).ok()?);
        let mut buffer = [0; PATH_BYTES + 64];
        let path = sys::read_link(text.c_str(), &mut buffer)?;
        // A pipe has none; a file without a name is gone whatever happens.
        if path.first() != Some(&b'/') || (path.ends_with(b" (deleted)") && status(fd)?.st_nlink == 0) {
            return None;
        }
        Path::new(path)
    }

    /// The path of the file that a name leads to.
    ///
    /// # Safety
    /// The name is a C string.
    pub unsafe fn behind(folder: c_int, name: *const c_char) -> Option<Path> {
        // SAFETY: the caller's.
        let fd = unsafe { open(folder, name, O_PATH, 0) };
        let path = Path::of(c_int::try_from(fd).ok().filter(|fd| *fd >= 0)?);
        sys::close(fd as c_int);
        path
    }

    /// The path that a name itself is, of a file that need not be there: its folder's path and its last part.
    ///
    /// # Safety
    /// The name is a C string.
    pub unsafe fn to(folder: c_int, name: *const c_char) -> Option<Path> {
        if name.is_null() {
            return None;
        }
        // SAFETY: the caller's.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let end = name.iter().rposition(|&byte| byte != b'/')? + 1;
        let start = name[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let last = &name[start..end];
        if last == b"." || last == b".." {
            return None;
        }
        let mut buffer = [0; libc::PATH_MAX as usize];
        let mut text = sys::Text::new(&mut buffer);
        text.push(if start == 0 { b"." } else { &name[..start] });
        // SAFETY: a C string.
        let parent = unsafe { Path::behind(folder, text.c_str().as_ptr()) }?;
        let mut whole = sys::Text::new(&mut buffer);
        whole.push(parent.bytes());
        if parent.bytes() != b"/" {
            whole.push(b"/");
        }
        whole.push(last);
        Path::new(whole.c_str().to_bytes())
    }
}

/// Says once on standard error what is not told of a file that the user named.
pub fn complain(what: &[u8], path: &[u8]) {
    use core::sync::atomic::{AtomicU32, Ordering};
    static COMPLAINTS: AtomicU32 = AtomicU32::new(0);
    if COMPLAINTS.fetch_add(1, Ordering::Relaxed) < 10 {
        sys::complain(&[b"strandline: not recorded: ", what, b", ", path, b"\n"]);
    }
}

/// The kernel's status of an open file.
pub fn status(fd: c_int) -> Option<stat> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut found: stat = unsafe { core::mem::zeroed() };
    // SAFETY: `found` is a valid place and has the kernel's layout on the 64-bit targets.
    let result = unsafe { sys::call(libc::SYS_fstat, [fd as usize, &raw mut found as usize, 0, 0, 0, 0]) };
    (result == 0).then_some(found)
}

/// The kernel's status of the file that a name leads to.
///
/// # Safety
/// The name is a C string.
pub unsafe fn status_at(folder: c_int, name: *const c_char) -> Option<stat> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut found: stat = unsafe { core::mem::zeroed() };
    let args = [folder as isize as usize, name as usize, &raw mut found as usize, 0, 0, 0];
    // SAFETY: the name is the caller's; `found` as above.
    (unsafe { sys::call(libc::SYS_newfstatat, args) } == 0).then_some(found)
}

/// Whether it is an ordinary file.
pub fn is_ordinary(status: &stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFREG
}

/// Whether it is a folder.
pub fn is_folder(status: &stat) -> bool {
    status.st_mode & libc::S_IFMT == libc::S_IFDIR
}

/// Opens a file; the kernel's result.
///
/// # Safety
/// The name is a C string.
pub unsafe fn open(folder: c_int, name: *const c_char, flags: c_int, mode: libc::mode_t) -> isize {
    let flags = if flags & O_PATH != 0 { flags | O_CLOEXEC } else { flags };
    let args = [folder as isize as usize, name as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: the caller's.
    unsafe { sys::call(libc::SYS_openat, args) }
}

/// The flags that a file was opened with.
pub fn flags(fd: c_int) -> c_int {
    // SAFETY: only a question.
    (unsafe { sys::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) }) as c_int
}

/// Where the next byte goes.
pub fn position(fd: c_int) -> Option<u64> {
    // SAFETY: only a question.
    let at = unsafe { sys::call(libc::SYS_lseek, [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) };
    u64::try_from(at).ok()
}

/// The working directory, as a folder for names.
pub const HERE: c_int = AT_FDCWD;
