//! What the kernel says of descriptors and paths.

use core::ffi::{CStr, c_char, c_int};

use libc::{
    AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_PATH, O_TMPFILE, stat,
};

use crate::base::glob::is_named;
use crate::base::session::session;
use crate::base::sys;
use crate::files::caller::who;
use crate::state::local::caller;
use abi::MODE_RECORD;

/// Bytes of the longest path that is recorded; as long as the longest text of a record.
pub const PATH_BYTES: usize = 1024;

/// Whether the user named any files, and they are recorded.
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

/// The absolute path of a file or folder; of a file without a name, its number.
pub struct Path {
    bytes: [u8; PATH_BYTES],
    len: usize,
    /// Of a file without a name: whether it lies, or lay, where the user named it.
    nameless: Option<bool>,
}

/// What the kernel writes behind the path of a file that lost the name it was opened by.
const DELETED: &[u8] = b" (deleted)";

impl Path {
    /// The path.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether the user named it.
    pub fn is_watched(&self) -> bool {
        self.nameless.unwrap_or_else(|| is_watched(self.bytes()))
    }

    /// The path, if the user named it.
    pub fn watched(self) -> Option<Path> {
        self.is_watched().then_some(self)
    }

    /// `None`, and a complaint if the user named the file, if it is longer than can be recorded.
    fn new(path: &[u8]) -> Option<Path> {
        let mut bytes = [0; PATH_BYTES];
        let Some(place) = bytes.get_mut(..path.len()) else {
            if is_watched(path) {
                complain(b"a path of more than 1024 bytes", path);
            }
            return None;
        };
        place.copy_from_slice(path);
        Some(Path { bytes, len: path.len(), nameless: None })
    }

    /// The root.
    pub fn root() -> Option<Path> {
        Path::new(b"/")
    }

    /// What stands for the file itself, in no folder.
    pub fn nameless(status: &stat, watched: bool) -> Path {
        let mut bytes = [0; PATH_BYTES];
        let mut text = sys::Text::new(&mut bytes);
        text.push(b"inode ");
        text.number(status.st_dev);
        text.push(b":");
        text.number(status.st_ino);
        let len = text.c_str().to_bytes().len();
        Path { bytes, len, nameless: Some(watched) }
    }

    /// The path of an open file that has one, or may get one.
    pub fn of(fd: c_int) -> Option<Path> {
        Path::open(fd, |fd| flags(fd) & O_TMPFILE == O_TMPFILE)
    }

    /// As [`Path::of`], where `may_be_linked` says whether a file that has no name may get one.
    fn open(fd: c_int, may_be_linked: impl FnOnce(c_int) -> bool) -> Option<Path> {
        let mut name = [0; 32];
        let mut text = sys::Text::new(&mut name);
        text.push(b"/proc/self/fd/");
        text.number(u64::try_from(fd).ok()?);
        let mut buffer = [0; PATH_BYTES + 64];
        let path = sys::read_link(text.c_str(), &mut buffer)?;
        // A pipe has none.
        if path.first() != Some(&b'/') {
            return None;
        }
        if let Some(before) = path.strip_suffix(DELETED) {
            let status = sys::status(fd)?;
            let mut whole = [0; PATH_BYTES + 64];
            let mut text = sys::Text::new(&mut whole);
            text.push(path);
            // SAFETY: a C string.
            let there = unsafe { status_of(HERE, text.c_str().as_ptr()) };
            if !there.is_some_and(|there| is_same(&there, &status)) {
                // Without any name it is gone whatever happens, unless it gets one.
                let stays = status.st_nlink != 0 || may_be_linked(fd);
                return stays.then(|| Path::nameless(&status, is_watched(before)));
            }
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

    /// What a hard link to a name is a link to; with `AT_SYMLINK_FOLLOW`, what a symbolic link
    /// leads to.
    ///
    /// # Safety
    /// The name is a C string.
    pub unsafe fn linked(folder: c_int, name: *const c_char, flags: c_int) -> Option<Path> {
        // SAFETY: the caller's.
        if flags & AT_EMPTY_PATH != 0 && !name.is_null() && unsafe { *name } == 0 {
            return Path::open(folder, |_| true);
        }
        if flags & AT_SYMLINK_FOLLOW == 0 {
            // SAFETY: the caller's.
            return unsafe { Path::to(folder, name) };
        }
        // SAFETY: the caller's.
        let fd = c_int::try_from(unsafe { open(folder, name, O_PATH, 0) }).ok().filter(|fd| *fd >= 0)?;
        let path = Path::open(fd, |_| true);
        sys::close(fd);
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

/// Says that a call which changed a file that the user named is not recorded: a check of the run then has
/// no verdict.
pub fn complain(call: &[u8], path: &[u8]) {
    complain_of(who(caller()), call, path);
}

/// As [`complain`], of a call that was made at `pc`.
pub fn complain_of(pc: u64, call: &[u8], path: &[u8]) {
    if let Some(session) = session() {
        session.miss(pc, call, path);
    }
}

/// The kernel's status of the file that a name leads to.
///
/// # Safety
/// The name is a C string.
pub unsafe fn status_at(folder: c_int, name: *const c_char) -> Option<stat> {
    // SAFETY: the caller's.
    unsafe { status_with(folder, name, 0) }
}

/// The kernel's status of what a name is itself, be it a symbolic link.
///
/// # Safety
/// The name is a C string.
pub unsafe fn status_of(folder: c_int, name: *const c_char) -> Option<stat> {
    // SAFETY: the caller's.
    unsafe { status_with(folder, name, AT_SYMLINK_NOFOLLOW) }
}

unsafe fn status_with(folder: c_int, name: *const c_char, flags: c_int) -> Option<stat> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut found: stat = unsafe { core::mem::zeroed() };
    let args = [folder as isize as usize, name as usize, &raw mut found as usize, flags as usize, 0, 0];
    // SAFETY: the name is the caller's; `found` as above.
    (unsafe { sys::call(libc::SYS_newfstatat, args) } == 0).then_some(found)
}

/// Whether both are of one file.
pub fn is_same(a: &stat, b: &stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Whether any of what the user named lies on the file system of this device.
pub fn is_on(device: libc::dev_t) -> bool {
    let Some(session) = session() else { return false };
    let head = session.head();
    let patterns = &head.files_patterns[..(head.files_patterns_len as usize).min(head.files_patterns.len())];
    patterns.split(|&byte| byte == 0).filter(|pattern| !pattern.is_empty()).any(|pattern| {
        // A file that is not there yet lies where its folder does.
        let folder = pattern.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let status = |path: &[u8]| {
            let mut buffer = [0; PATH_BYTES];
            let mut text = sys::Text::new(&mut buffer);
            text.push(path);
            // SAFETY: a C string.
            unsafe { status_at(HERE, text.c_str().as_ptr()) }
        };
        let found = status(pattern).or_else(|| status(&pattern[..folder]));
        found.is_some_and(|found| found.st_dev == device)
    })
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

/// Opens a file once more, to be read.
pub fn reopen(fd: c_int) -> Option<c_int> {
    let mut name = [0; 32];
    let mut text = sys::Text::new(&mut name);
    text.push(b"/proc/self/fd/");
    text.number(u64::try_from(fd).ok()?);
    sys::open(text.c_str(), libc::O_RDONLY)
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
