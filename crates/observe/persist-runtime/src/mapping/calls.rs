//! The C library's functions that map files, sync and change them, as the program calls them.

use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use super::dirty::{self, PAGE};
use super::file::{File, Identity, identity_of, status};
use super::image::Image;
use super::journal::{Journal, path_of};
use super::process::MOVES;
use super::table::{Shared, alone, any, table, within};
use crate::calls::sends;
use crate::failure::say;
use crate::local::boundary;
use crate::sync::call;
use crate::window;

/// Objects of shared memory, which no crash is to survive.
static SHARED_MEMORY: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// Sets `errno` by an error, and says what C can't.
fn fail(path: &Path, error: &Error) {
    let errno = error.raw_os_error();
    if errno.is_none() {
        say(&error.to_string());
    } else if error.kind() == ErrorKind::WouldBlock {
        say(&format!(
            "{}: another process maps it by --persist=msync, which one at a time can",
            path.display()
        ));
    }
    set_errno(errno.unwrap_or(libc::EINVAL));
}

fn set_errno(errno: c_int) {
    // SAFETY: `errno` is the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The result for C.
fn answer(path: &Path, result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            fail(path, &error);
            -1
        }
    }
}

/// The name of an open file.
fn path_of_descriptor(fd: c_int) -> Result<PathBuf> {
    let link = format!("/proc/self/fd/{fd}\0");
    let mut name = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: a C string, and a place for so many bytes.
    let len = unsafe { libc::syscall(libc::SYS_readlink, link.as_ptr(), name.as_mut_ptr(), name.len()) };
    let len = usize::try_from(len).map_err(|_| Error::last_os_error())?;
    name.truncate(len);
    Ok(PathBuf::from(OsStr::from_bytes(&name)))
}

/// The image of an open file, if it has one.
fn image_of(fd: c_int) -> Option<Shared> {
    let status = status(fd).ok()?;
    table().of((status.st_dev, status.st_ino))
}

/// What the program asks to be mapped.
struct Request {
    address: usize,
    bytes: usize,
    protection: c_int,
    kind: c_int,
    fd: c_int,
    offset: i64,
}

/// Maps a file as an image; `None` if that is none of ours.
fn map(request: &Request) -> Option<usize> {
    let kind = request.kind & libc::MAP_TYPE;
    let shared = kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE;
    if !dirty::is_on() || !shared || request.kind & libc::MAP_ANONYMOUS != 0 || request.bytes == 0 {
        return None;
    }
    let page = usize::try_from(request.offset).ok().filter(|offset| offset.is_multiple_of(PAGE))?;
    let status = status(request.fd).ok()?;
    let identity = (status.st_dev, status.st_ino);
    let mut table = table();
    let known = table.of(identity);
    let named = status.st_mode & libc::S_IFMT == libc::S_IFREG && status.st_nlink > 0;
    let wanted = named && request.protection & libc::PROT_WRITE != 0;
    let is_object = || SHARED_MEMORY.lock().unwrap_or_else(PoisonError::into_inner).contains(&identity);
    if known.is_none() && (!wanted || is_object()) {
        return None;
    }
    let path = path_of_descriptor(request.fd).unwrap_or_default();
    let range = page..page.checked_add(request.bytes)?.checked_next_multiple_of(PAGE)?;
    let fixed = request.kind & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) != 0;
    let made = (|| {
        let image = match &known {
            Some(image) => image.clone(),
            None if fixed => return Err(Error::from_raw_os_error(libc::ENOTSUP)),
            None => {
                let image = Image::new(request.fd, identity, path.clone(), status.st_mode & 0o777)?;
                table.add(image, range.end)?
            }
        };
        let mapped = {
            let mut image = alone(&image);
            if range.end > image.room {
                Err(Error::from_raw_os_error(libc::ENOMEM))
            } else if fixed && image.area + range.start != request.address {
                Err(Error::from_raw_os_error(libc::ENOTSUP))
            } else {
                image.map(range.clone(), request.protection, request.kind)
            }
        };
        if mapped.is_err() && !alone(&image).is_mapped() {
            // The first error is the one to tell.
            _ = alone(&image).close();
            table.remove(&image);
        }
        mapped
    })();
    Some(made.unwrap_or_else(|error| {
        if error.raw_os_error() == Some(libc::ENOTSUP) {
            say(&format!(
                "{}: mapped at an address of the program's choice, which --persist=msync can't",
                path.display()
            ));
        }
        fail(&path, &error);
        usize::MAX
    }))
}

/// Runs `ours` as one piece; `None` if it has nothing to do with the call, or the thread is within one.
fn ours<R>(ours: impl FnOnce() -> Option<R>) -> Option<R> {
    let mut errno = None;
    let result = within(|| {
        let result = ours();
        // SAFETY: `errno` is the calling thread's own.
        errno = result.is_some().then(|| unsafe { *libc::__errno_location() });
        result
    });
    if let Some(errno) = errno {
        set_errno(errno);
    }
    result.flatten()
}

macro_rules! maps {
    ($($name:ident)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            address: usize, bytes: usize, protection: c_int, kind: c_int, fd: c_int, offset: i64,
        ) -> usize {
            let request = Request { address, bytes, protection, kind, fd, offset };
            if dirty::is_on() && let Some(at) = ours(|| map(&request)) {
                return at;
            }
            call!($name(address: usize, bytes: usize, protection: c_int, kind: c_int, fd: c_int, offset: i64) -> usize)
        }
    )* };
}

maps! { mmap mmap64 }

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn munmap(address: usize, bytes: usize) -> c_int {
    let unmap = || {
        let mut table = table();
        let image = table.at(address)?;
        let mut held = alone(&image);
        if !address.is_multiple_of(PAGE) || bytes == 0 {
            return Some(answer(&held.path, Err(Error::from_raw_os_error(libc::EINVAL))));
        }
        let begin = address - held.area;
        let end = begin.saturating_add(bytes).min(held.room).next_multiple_of(PAGE);
        let mut result = held.unmap(begin..end);
        if result.is_ok() && !held.is_mapped() {
            result = held.close();
            let path = held.path.clone();
            drop(held);
            table.remove(&image);
            return Some(answer(&path, result));
        }
        Some(answer(&held.path, result))
    };
    if any()
        && window::contains(address)
        && let Some(result) = ours(unmap)
    {
        return result;
    }
    call!(munmap(address: usize, bytes: usize) -> c_int)
}

/// Interposed. What is only to be begun waits for the next call that is to end it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn msync(address: usize, bytes: usize, flags: c_int) -> c_int {
    let sync = || {
        let image = table().at(address)?;
        let mut image = alone(&image);
        let known = libc::MS_ASYNC | libc::MS_INVALIDATE | libc::MS_SYNC;
        let both = libc::MS_ASYNC | libc::MS_SYNC;
        if !address.is_multiple_of(PAGE) || flags & !known != 0 || flags & both == both {
            return Some(answer(&image.path, Err(Error::from_raw_os_error(libc::EINVAL))));
        }
        if flags & libc::MS_SYNC == 0 {
            return Some(0);
        }
        let begin = address - image.area;
        let end = begin.saturating_add(bytes).min(image.room).next_multiple_of(PAGE);
        let result = image.commit(begin..end);
        Some(answer(&image.path, result))
    };
    if any()
        && window::contains(address)
        && let Some(result) = ours(sync)
    {
        return result;
    }
    boundary();
    call!(msync(address: usize, bytes: usize, flags: c_int) -> c_int)
}

/// Interposed: a mapping grows where it is.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn mremap(
    address: usize,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
) -> usize {
    let remap = || {
        let image = table().at(address)?;
        let mut image = alone(&image);
        let begin = address - image.area;
        let (old_end, new_end) =
            (begin + old.next_multiple_of(PAGE), begin.saturating_add(new.next_multiple_of(PAGE)));
        let result = if flags & libc::MREMAP_FIXED != 0 || !address.is_multiple_of(PAGE) || new == 0 {
            Err(Error::from_raw_os_error(libc::EINVAL))
        } else if new_end > image.room {
            Err(Error::from_raw_os_error(libc::ENOMEM))
        } else if new_end > old_end {
            image.grow(begin..old_end, new_end)
        } else {
            image.unmap(new_end..old_end)
        };
        Some(if answer(&image.path, result) == 0 { address } else { usize::MAX })
    };
    if any()
        && window::contains(address)
        && let Some(result) = ours(remap)
    {
        return result;
    }
    call!(mremap(address: usize, old: usize, new: usize, flags: c_int, to: usize) -> usize)
}

/// Interposed: of a shared mapping, giving pages back loses nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn madvise(address: usize, bytes: usize, advice: c_int) -> c_int {
    let loses = matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE);
    if any() && window::contains(address) && loses {
        return 0;
    }
    call!(madvise(address: usize, bytes: usize, advice: c_int) -> c_int)
}

/// Changes bytes of a file by other means than a mapping, with its image held: no record may undo that, and pages that do
/// not show it by themselves get it.
fn changing(fd: c_int, offset: Option<u64>, bytes: u64, change: impl FnOnce() -> isize) -> isize {
    if !any() {
        return change();
    }
    let mut change = Some(change);
    let done = ours(|| {
        let image = image_of(fd)?;
        let mut image = alone(&image);
        // Where it will be, if it does not say, is anyone's guess.
        let released = match offset {
            Some(offset) => image.release(offset, bytes),
            None => image.release(0, u64::MAX),
        };
        if let Err(error) = released {
            fail(&image.path, &error);
            return Some(-1);
        }
        let done = change.take()?();
        // SAFETY: `errno` is the calling thread's own.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: of any descriptor it says where it is.
        let behind = || unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) } as i64;
        if let Ok(done) = u64::try_from(done)
            && done > 0
            && let Some(offset) = offset.or_else(|| u64::try_from(behind()).ok()?.checked_sub(done))
        {
            image.refresh(offset, done);
        }
        set_errno(errno);
        Some(done)
    });
    done.or_else(|| change.map(|change| change())).unwrap_or(-1)
}

macro_rules! writes {
    ($($name:ident($second:ident: $type:ty, $third:ident: $of:ty $(, $at:ident)?);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, $second: $type, $third: $of $(, $at: i64)?) -> isize {
            sends();
            let offset: [Option<u64>; _] = [$(u64::try_from($at).ok(),)? None];
            changing(fd, offset[0], BYTES_OF.$name($third as usize), || {
                call!($name(fd: c_int, $second: $type, $third: $of $(, $at: i64)?) -> isize)
            })
        }
    )* };
}

/// How many bytes calls write at most, by their third argument.
struct BytesOf;
const BYTES_OF: BytesOf = BytesOf;

#[allow(clippy::unused_self)]
impl BytesOf {
    fn write(&self, bytes: usize) -> u64 {
        bytes as u64
    }
    fn pwrite(&self, bytes: usize) -> u64 {
        bytes as u64
    }
    fn pwrite64(&self, bytes: usize) -> u64 {
        bytes as u64
    }
    fn writev(&self, _: usize) -> u64 {
        u64::from(u32::MAX)
    }
    fn pwritev(&self, _: usize) -> u64 {
        u64::from(u32::MAX)
    }
    fn pwritev64(&self, _: usize) -> u64 {
        u64::from(u32::MAX)
    }
}

writes! {
    write(from: *const c_void, bytes: usize);
    pwrite(from: *const c_void, bytes: usize, at);
    pwrite64(from: *const c_void, bytes: usize, at);
    writev(pieces: *const c_void, count: c_int);
    pwritev(pieces: *const c_void, count: c_int, at);
    pwritev64(pieces: *const c_void, count: c_int, at);
}

macro_rules! changes {
    ($($name:ident(fd $(, $arg:ident: $type:ty)*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int $(, $arg: $type)*) -> c_int {
            sends();
            changing(fd, None, u64::MAX, || call!($name(fd: c_int $(, $arg: $type)*) -> c_int) as isize) as c_int
        }
    )* };
}

changes! {
    ftruncate(fd, length: i64);
    ftruncate64(fd, length: i64);
    fallocate(fd, mode: c_int, offset: i64, bytes: i64);
    fallocate64(fd, mode: c_int, offset: i64, bytes: i64);
}

macro_rules! syncs {
    ($($name:ident)*) => { $(
        /// Interposed: what the system would do with a shared mapping's pages, atomically.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int) -> c_int {
            sends();
            let sync = || {
                let image = image_of(fd)?;
                let mut image = alone(&image);
                let result = image.commit_all();
                (answer(&image.path, result) != 0).then_some(-1)
            };
            if any() && let Some(failed) = ours(sync) {
                return failed;
            }
            call!($name(fd: c_int) -> c_int)
        }
    )* };
}

syncs! { fsync fdatasync }

/// Copies what a journal has into its file, where a crash left one.
fn recover(path: *const c_char) {
    if !dirty::is_on() || path.is_null() {
        return;
    }
    within(|| {
        // SAFETY: the program says that a string is there.
        let name = unsafe { CStr::from_ptr(path) };
        let path = Path::new(OsStr::from_bytes(name.to_bytes()));
        // The journal has the name that the system has for the file.
        let Ok(path) = resolved(path) else { return };
        let journal = path_of(&path);
        let Ok(journal_name) = std::ffi::CString::new(journal.as_os_str().as_bytes()) else { return };
        if identity_of(&journal_name).is_err() {
            return;
        }
        let recovered = File::open(name, libc::O_RDWR, 0)
            .and_then(|file| Journal::open(&path, &file, None).map(|journal| (file, journal)));
        match recovered {
            Ok((_, Some(journal))) => journal.remove(),
            // It is in use, by us or another process.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => say(&format!("{}: {error}", journal.display())),
            Ok((_, None)) => {}
        }
    });
}

/// A path as the system has it for an open file: absolute, without links.
fn resolved(path: &Path) -> Result<PathBuf> {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a C string; the result is the caller's to free.
    let found = unsafe { libc::realpath(name.as_ptr(), std::ptr::null_mut()) };
    if found.is_null() {
        return Err(Error::last_os_error());
    }
    // SAFETY: a C string.
    let path = PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(found) }.to_bytes()));
    // SAFETY: as the function says.
    unsafe { libc::free(found.cast()) };
    Ok(path)
}

/// A file will be emptied, or get or lose its name: its image, if it has one, needs no journal for what is behind it.
fn leave(path: *const c_char) -> Option<Shared> {
    if !any() || path.is_null() {
        return None;
    }
    // SAFETY: the program says that a string is there.
    let image = table().of(identity_of(unsafe { CStr::from_ptr(path) }).ok()?)?;
    Some(image)
}

macro_rules! opens {
    ($($name:ident([$($before:ident: $of:ty)?] path $(, $arg:ident: $type:ty)*; $truncates:expr) -> $result:ty;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($before: $of,)? path: *const c_char $(, $arg: $type)*) -> $result {
            boundary();
            recover(path);
            if any() && $truncates {
                within(|| leave(path).map(|image| alone(&image).release(0, u64::MAX)));
            }
            call!($name($($before: $of,)? path: *const c_char $(, $arg: $type)*) -> $result)
        }
    )* };
}

opens! {
    open([] path, flags: c_int, mode: c_uint; flags & libc::O_TRUNC != 0) -> c_int;
    open64([] path, flags: c_int, mode: c_uint; flags & libc::O_TRUNC != 0) -> c_int;
    openat([directory: c_int] path, flags: c_int, mode: c_uint; flags & libc::O_TRUNC != 0) -> c_int;
    openat64([directory: c_int] path, flags: c_int, mode: c_uint; flags & libc::O_TRUNC != 0) -> c_int;
    creat([] path, mode: c_uint; true) -> c_int;
    creat64([] path, mode: c_uint; true) -> c_int;
    fopen([] path, how: *const c_char; true) -> *mut c_void;
    fopen64([] path, how: *const c_char; true) -> *mut c_void;
    truncate([] path, length: i64; true) -> c_int;
    truncate64([] path, length: i64; true) -> c_int;
}

/// Interposed: the journal has the file's name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    sends();
    recover(from);
    recover(to);
    let rename = || call!(rename(from: *const c_char, to: *const c_char) -> c_int);
    let moved = within(|| {
        let (image, replaced) = (leave(from), leave(to));
        for image in image.iter().chain(&replaced) {
            _ = alone(image).rename(None, 0);
        }
        let result = rename();
        // SAFETY: `errno` is the calling thread's own.
        let errno = unsafe { *libc::__errno_location() };
        let kept = [image, if result == 0 { None } else { replaced }];
        for (image, name) in kept.into_iter().zip([if result == 0 { to } else { from }, to]) {
            let Some(image) = image else { continue };
            // SAFETY: the program says that a string is there.
            let name = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
            let mut image = alone(&image);
            if let Err(error) = resolved(name).and_then(|name| image.rename(Some(name), 0o600)) {
                say(&format!("{}: {error}", image.path.display()));
            }
        }
        (result, errno)
    });
    match moved {
        Some((result, errno)) => {
            if result != 0 {
                set_errno(errno);
            }
            result
        }
        None => rename(),
    }
}

/// Interposed: a file without a name needs no journal.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unlink(path: *const c_char) -> c_int {
    sends();
    recover(path);
    within(|| {
        if let Some(image) = leave(path) {
            _ = alone(&image).rename(None, 0);
        }
    });
    call!(unlink(path: *const c_char) -> c_int)
}

/// Interposed: an object of shared memory is left as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    boundary();
    let fd = call!(shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int);
    if dirty::is_on()
        && let Ok(status) = status(fd)
    {
        within(|| {
            let mut known = SHARED_MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
            known.push((status.st_dev, status.st_ino));
        });
    }
    fd
}

/// Interposed: the process goes on in its child.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn daemon(stay: c_int, keep: c_int) -> c_int {
    boundary();
    MOVES.store(true, Ordering::Relaxed);
    let result = call!(daemon(stay: c_int, keep: c_int) -> c_int);
    MOVES.store(false, Ordering::Relaxed);
    result
}
