//! The C library's streams (`FILE *`): files that the user named are opened as streams whose reads and writes
//! are ours.
//!
//! What a stream writes, and when, is the C library's own business: it calls itself by names that nobody can
//! stand in front of. So the stream of a watched file that may be written to is made with `fopencookie`, has
//! a buffer of the size that it would have had, and hands on to us what goes to the kernel. It is like any
//! other but that it takes no wide characters, and that its descriptor is not the C library's to know: we
//! answer `fileno`.
//!
//! A write is the doing of whoever called the stream function that led to it: see [`super::entries`].

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use libc::{FILE, O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_RDWR, O_TRUNC, O_WRONLY, off_t, size_t, ssize_t};

use super::contents::{opening, ordinary, write_through};
use super::named::{HERE, watching};
use crate::base::sys;
use crate::real::calls::{self, Functions, real_call};
use crate::real::heap;
use crate::state::local::{caller, hooks, local};

/// Bytes of a stream's buffer if the kernel does not say.
const BUFFER: usize = 4096;

/// A stream of ours. Never freed: the next one takes its place.
struct Stream {
    /// Null while it is opened, and when it is closed.
    file: AtomicPtr<FILE>,
    /// -1: nobody's.
    fd: AtomicI32,
    buffer: AtomicPtr<c_char>,
    next: AtomicPtr<Stream>,
}

static STREAMS: AtomicPtr<Stream> = AtomicPtr::new(null_mut());

fn streams() -> impl Iterator<Item = &'static Stream> {
    let mut at = STREAMS.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        // SAFETY: null, or one that is never freed.
        let stream = unsafe { at.as_ref() }?;
        at = stream.next.load(Ordering::Acquire);
        Some(stream)
    })
}

/// A place for a stream of this descriptor.
fn place(fd: c_int) -> Option<&'static Stream> {
    let free =
        |stream: &&Stream| stream.fd.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if let Some(stream) = streams().find(free) {
        return Some(stream);
    }
    // SAFETY: asks for memory.
    let memory = unsafe { heap::malloc(size_of::<Stream>()) }.cast::<Stream>();
    if memory.is_null() {
        return None;
    }
    let first = STREAMS.load(Ordering::Acquire);
    let stream = Stream {
        file: AtomicPtr::new(null_mut()),
        fd: AtomicI32::new(fd),
        buffer: AtomicPtr::new(null_mut()),
        next: AtomicPtr::new(first),
    };
    // SAFETY: memory of that size, aligned for anything.
    let stream = unsafe {
        memory.write(stream);
        &*memory
    };
    while let Err(first) = STREAMS.compare_exchange(
        stream.next.load(Ordering::Relaxed),
        memory,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        stream.next.store(first, Ordering::Relaxed);
    }
    Some(stream)
}

/// # Safety
/// What [`stream_of`] gave the C library.
unsafe fn of_cookie(cookie: *mut c_void) -> (&'static Stream, c_int) {
    // SAFETY: the caller's; it is never freed.
    let stream = unsafe { &*cookie.cast::<Stream>() };
    (stream, stream.fd.load(Ordering::Relaxed))
}

unsafe extern "C" fn read(cookie: *mut c_void, to: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library gives what it was given.
    let (_, fd) = unsafe { of_cookie(cookie) };
    real_call!(read(fd, to.cast(), len))
}

unsafe extern "C" fn write(cookie: *mut c_void, from: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: as above.
    let (_, fd) = unsafe { of_cookie(cookie) };
    // An error is 0 here, and never less.
    write_through(local().streaming.get(), fd, from.cast(), len).max(0)
}

unsafe extern "C" fn seek(cookie: *mut c_void, offset: *mut off_t, whence: c_int) -> c_int {
    // SAFETY: as above.
    let (_, fd) = unsafe { of_cookie(cookie) };
    // SAFETY: the C library's place for it, both ways.
    let at = unsafe { sys::call(libc::SYS_lseek, [fd as usize, *offset as usize, whence as usize, 0, 0, 0]) };
    if at >= 0 {
        // SAFETY: as above.
        unsafe { *offset = at as off_t };
        return 0;
    }
    // SAFETY: `errno` is the thread's own.
    unsafe { *libc::__errno_location() = -at as c_int };
    -1
}

unsafe extern "C" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: as above.
    let (stream, fd) = unsafe { of_cookie(cookie) };
    stream.file.store(null_mut(), Ordering::Relaxed);
    // SAFETY: what we gave it; the C library has written out what was in it.
    unsafe { heap::free(stream.buffer.swap(null_mut(), Ordering::Relaxed).cast()) };
    let result = real_call!(close(fd));
    stream.fd.store(-1, Ordering::Release);
    result
}

/// What a mode asks for, in the flags of `open`. `None`: a stream of wide characters, or one that is not
/// written to.
pub fn flags_of(mode: &[u8]) -> Option<c_int> {
    let end = mode.iter().position(|&byte| byte == b',').unwrap_or(mode.len());
    let (mode, wide) = mode.split_at(end);
    let first = match mode.first()? {
        b'r' => 0,
        b'w' => O_CREAT | O_TRUNC,
        b'a' => O_CREAT | O_APPEND,
        _ => return None,
    };
    let access = match (mode.contains(&b'+'), mode[0]) {
        (true, _) => O_RDWR,
        (false, b'r') => return None,
        (false, _) => O_WRONLY,
    };
    let flag = |byte: u8, flag: c_int| if mode.contains(&byte) { flag } else { 0 };
    wide.is_empty().then_some(first | access | flag(b'x', O_EXCL) | flag(b'e', O_CLOEXEC))
}

/// A stream of ours for a descriptor of a watched file. `None`: it is no such file, or there is no memory.
fn stream_of(fd: c_int, mode: *const c_char) -> Option<*mut FILE> {
    ordinary(fd)?;
    let stream = place(fd)?;
    let functions = Functions { read, write, seek, close };
    let cookie: *const Stream = stream;
    let file = real_call!(fopencookie(cookie.cast_mut().cast(), mode, functions));
    if file.is_null() {
        stream.fd.store(-1, Ordering::Release);
        return None;
    }
    let bytes = sys::status(fd).map_or(BUFFER, |status| usize::try_from(status.st_blksize).unwrap_or(BUFFER));
    // SAFETY: asks for memory, which the stream has until it is closed.
    unsafe {
        let buffer = heap::malloc(bytes).cast::<c_char>();
        if !buffer.is_null() && calls::setvbuf(file, buffer, libc::_IOFBF, bytes) == 0 {
            stream.buffer.store(buffer, Ordering::Relaxed);
        }
    }
    stream.file.store(file, Ordering::Release);
    Some(file)
}

/// The descriptor of a stream of ours.
pub fn descriptor(file: *mut FILE) -> Option<c_int> {
    if file.is_null() {
        return None;
    }
    let found = streams().find(|stream| stream.file.load(Ordering::Acquire) == file)?;
    Some(found.fd.load(Ordering::Relaxed))
}

/// The C library's marks of what a stream is not used for, in the first word of a `FILE`.
const NO_READS: c_int = 4;
const NO_WRITES: c_int = 8;
const APPENDING: c_int = 0x1000;

/// `freopen` of a stream of ours, which the C library can't do: the same stream and descriptor, of another
/// file. `None`: it is no stream of ours.
///
/// # Safety
/// The name is a C string or null, the mode a C string.
pub unsafe fn reopen(
    pc: u64,
    name: *const c_char,
    mode: *const c_char,
    file: *mut FILE,
) -> Option<*mut FILE> {
    let fd = descriptor(file)?;
    real_call!(fflush(file));
    // SAFETY: the caller's.
    let letters = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let flags = flags_of(letters).unwrap_or(libc::O_RDONLY);
    let mut own = [0; 32];
    let mut text = sys::Text::new(&mut own);
    text.push(b"/proc/self/fd/");
    text.number(fd as u64);
    let own = text.c_str();
    let name = if name.is_null() { own.as_ptr() } else { name };
    let opened =
        opening(pc, HERE, name, flags, 0o666).unwrap_or_else(|| real_call!(open(name, flags, 0o666)));
    let to = [opened as usize, fd as usize, (flags & O_CLOEXEC) as usize, 0, 0, 0];
    // SAFETY: both are open; the stream's descriptor is ours.
    if opened < 0 || unsafe { sys::call(libc::SYS_dup3, to) } < 0 {
        real_call!(fclose(file));
        return Some(null_mut());
    }
    sys::close(opened);
    let unused = match flags & libc::O_ACCMODE {
        O_RDWR => 0,
        O_WRONLY => NO_READS,
        _ => NO_WRITES,
    };
    let appending = if flags & O_APPEND == 0 { 0 } else { APPENDING };
    // SAFETY: a stream begins with a word of such marks.
    unsafe {
        let marks = file.cast::<c_int>();
        *marks = *marks & !(NO_READS | NO_WRITES | APPENDING) | unused | appending;
    }
    // Forgets what was read, and where.
    let end = if appending == 0 { libc::SEEK_SET } else { libc::SEEK_END };
    real_call!(fseek(file, 0, end));
    // SAFETY: a stream that is open.
    unsafe { calls::clearerr(file) };
    Some(file)
}

fn open_stream(pc: u64, name: *const c_char, mode: *const c_char) -> *mut FILE {
    if !watching() {
        return real_call!(fopen(name, mode));
    }
    local().streaming.set(pc);
    // SAFETY: the program's mode.
    let Some(flags) = flags_of(unsafe { CStr::from_ptr(mode) }.to_bytes()) else {
        return real_call!(fopen(name, mode));
    };
    let all = 0o666;
    let fd = opening(pc, HERE, name, flags, all).unwrap_or_else(|| real_call!(open(name, flags, all)));
    if fd < 0 {
        return null_mut();
    }
    stream_of(fd, mode).unwrap_or_else(|| real_call!(fdopen(fd, mode)))
}

hooks! {
    fn fopen(name: *const c_char, mode: *const c_char) -> *mut FILE {
        open_stream(caller(), name, mode)
    }
    fn fopen64(name: *const c_char, mode: *const c_char) -> *mut FILE {
        open_stream(caller(), name, mode)
    }
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
        local().streaming.set(caller());
        // SAFETY: the program's mode.
        let ours = watching() && flags_of(unsafe { CStr::from_ptr(mode) }.to_bytes()).is_some();
        let stream = if ours { stream_of(fd, mode) } else { None };
        stream.unwrap_or_else(|| real_call!(fdopen(fd, mode)))
    }
    fn fileno(file: *mut FILE) -> c_int {
        descriptor(file).unwrap_or_else(|| real_call!(fileno(file)))
    }
    fn fileno_unlocked(file: *mut FILE) -> c_int {
        descriptor(file).unwrap_or_else(|| real_call!(fileno(file)))
    }
}

/// Writes out what is left in the streams, as the C library does when the program ends, but while it still
/// can be recorded.
pub fn flush() {
    for stream in streams() {
        let file = stream.file.load(Ordering::Acquire);
        if !file.is_null() {
            real_call!(fflush(file));
        }
    }
}
