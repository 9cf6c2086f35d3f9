//! The C library's functions behind ours.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use libc::{
    FILE, clockid_t, fd_set, fpos_t, iovec, mode_t, msghdr, nfds_t, off_t, pid_t, pollfd, pthread_t,
    sigset_t, sigval, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval, useconds_t,
};

use crate::real::next;

/// The C library's `cookie_io_functions_t`.
#[repr(C)]
pub struct Functions {
    pub read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    pub write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    pub seek: unsafe extern "C" fn(*mut c_void, *mut off_t, c_int) -> c_int,
    pub close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

/// Defines the functions, and [`prepare`].
macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        mod known {
            $(
                #[allow(non_upper_case_globals, reason = "named as the function that it stands for")]
                pub static $name: super::AtomicUsize = super::AtomicUsize::new(0);
            )*
        }

        /// Looks all of them up. Called once, from the library's constructor: some may be called by signal
        /// handlers, in which looking up is forbidden.
        pub fn prepare() {
            $(known::$name.store(next::next(const { name_of(concat!(stringify!($name), "\0")) }), Ordering::Relaxed);)*
        }

        $(
            /// The function of that name.
            ///
            /// # Safety
            /// As C's.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) -> $result {
                let found = next::required(&known::$name, const { name_of(concat!(stringify!($name), "\0")) });
                // SAFETY: the C library's function of that name has that type, or one of a variable number of
                // arguments that are passed the same way; the arguments are the caller's.
                unsafe {
                    core::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> $result>(found)($($arg),*)
                }
            }
        )*
    };
}

/// Calls the function of that name with what the program gave.
macro_rules! real_call {
    ($name:ident($($arg:expr),*)) => {{
        // SAFETY: the program's arguments, as it gave them.
        unsafe { $crate::real::calls::$name($($arg),*) }
    }};
}
pub(crate) use real_call;

const fn name_of(text: &str) -> &CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("it ends with its only zero byte"),
    }
}

functions! {
    open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat(folder: c_int, name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    __open_2(name: *const c_char, flags: c_int) -> c_int;
    __openat_2(folder: c_int, name: *const c_char, flags: c_int) -> c_int;
    write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t;
    read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    recvfrom(fd: c_int, to: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, from: *const c_void, len: size_t, flags: c_int, to: *const sockaddr, to_len: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    close(fd: c_int) -> c_int;
    poll(waits: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int;
    ppoll(waits: *mut pollfd, count: nfds_t, span: *const timespec, signals: *const sigset_t) -> c_int;
    select(below: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, span: *mut timeval) -> c_int;
    pselect(below: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, span: *const timespec, signals: *const sigset_t) -> c_int;
    epoll_wait(set: c_int, found: *mut c_void, most: c_int, milliseconds: c_int) -> c_int;
    epoll_pwait(set: c_int, found: *mut c_void, most: c_int, milliseconds: c_int, signals: *const sigset_t) -> c_int;
    flock(fd: c_int, operation: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int;
    lockf(fd: c_int, command: c_int, len: off_t) -> c_int;
    fork() -> pid_t;
    raise(signal: c_int) -> c_int;
    kill(process: pid_t, signal: c_int) -> c_int;
    pthread_kill(thread: pthread_t, signal: c_int) -> c_int;
    sigqueue(process: pid_t, signal: c_int, value: sigval) -> c_int;
    abort() -> !;
    wait(status: *mut c_int) -> pid_t;
    waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t;
    pread(fd: c_int, to: *mut c_void, len: size_t, offset: off_t) -> ssize_t;
    preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    getrandom(to: *mut c_void, len: size_t, flags: c_uint) -> ssize_t;
    pwrite(fd: c_int, from: *const c_void, len: size_t, offset: off_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    pwritev(fd: c_int, parts: *const iovec, count: c_int, offset: off_t) -> ssize_t;
    pwritev2(fd: c_int, parts: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t;
    pthread_sigqueue(thread: pthread_t, signal: c_int, value: sigval) -> c_int;
    pause() -> c_int;
    sigsuspend(set: *const sigset_t) -> c_int;
    sleep(seconds: c_uint) -> c_uint;
    usleep(microseconds: useconds_t) -> c_int;
    nanosleep(span: *const timespec, left: *mut timespec) -> c_int;
    clock_nanosleep(clock: clockid_t, flags: c_int, span: *const timespec, left: *mut timespec) -> c_int;
    thrd_sleep(span: *const timespec, left: *mut timespec) -> c_int;
    setxattr(
        path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int
    ) -> c_int;
    lsetxattr(
        path: *const c_char, name: *const c_char, value: *const c_void, len: size_t, flags: c_int
    ) -> c_int;
    fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, len: size_t, flags: c_int) -> c_int;
    removexattr(path: *const c_char, name: *const c_char) -> c_int;
    lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    fremovexattr(fd: c_int, name: *const c_char) -> c_int;
    fsync(fd: c_int) -> c_int;
    sync() -> ();
    syncfs(fd: c_int) -> c_int;
    copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint) -> ssize_t;
    splice(
        from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t;
    sendfile(to: c_int, from: c_int, from_at: *mut off_t, len: size_t) -> ssize_t;
    fdatasync(fd: c_int) -> c_int;
    msync(start: *mut c_void, len: size_t, flags: c_int) -> c_int;
    ftruncate(fd: c_int, len: off_t) -> c_int;
    truncate(name: *const c_char, len: off_t) -> c_int;
    fallocate(fd: c_int, mode: c_int, offset: off_t, len: off_t) -> c_int;
    posix_fallocate(fd: c_int, offset: off_t, len: off_t) -> c_int;
    rename(from: *const c_char, to: *const c_char) -> c_int;
    renameat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char) -> c_int;
    renameat2(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_uint) -> c_int;
    unlink(name: *const c_char) -> c_int;
    unlinkat(folder: c_int, name: *const c_char, flags: c_int) -> c_int;
    remove(name: *const c_char) -> c_int;
    rmdir(name: *const c_char) -> c_int;
    mkdir(name: *const c_char, mode: mode_t) -> c_int;
    mkdirat(folder: c_int, name: *const c_char, mode: mode_t) -> c_int;
    link(from: *const c_char, to: *const c_char) -> c_int;
    linkat(folder: c_int, from: *const c_char, other: c_int, to: *const c_char, flags: c_int) -> c_int;
    symlink(target: *const c_char, to: *const c_char) -> c_int;
    symlinkat(target: *const c_char, folder: c_int, to: *const c_char) -> c_int;
    mkdtemp(template: *mut c_char) -> *mut c_char;
    mkostemps(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fopen(name: *const c_char, mode: *const c_char) -> *mut FILE;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    freopen(name: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE;
    fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
    fileno(file: *mut FILE) -> c_int;
    fflush(file: *mut FILE) -> c_int;
    fclose(file: *mut FILE) -> c_int;
    fseek(file: *mut FILE, offset: c_long, whence: c_int) -> c_int;
    fseeko(file: *mut FILE, offset: off_t, whence: c_int) -> c_int;
    fsetpos(file: *mut FILE, at: *const fpos_t) -> c_int;
    rewind(file: *mut FILE) -> ();
    clearerr(file: *mut FILE) -> ();
    aio_write(block: *mut c_void) -> c_int;
    aio_fsync(kind: c_int, block: *mut c_void) -> c_int;
    lio_listio(mode: c_int, list: *const *const c_void, count: c_int, event: *mut c_void) -> c_int;
    ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int;
    setvbuf(file: *mut FILE, buffer: *mut c_char, mode: c_int, len: size_t) -> c_int;
}
