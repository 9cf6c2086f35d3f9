//! System calls, and functions of the C library that write where the program says.
//!
//! A system call ends the region. What will be written into the pool is announced before the call, as far as
//! it may reach. Of scattered reads each piece is.

use std::ffi::{c_int, c_uint, c_void};

use crate::local::{announce, boundary};
use crate::sync::call;
use crate::window;

type Pointer = *mut c_void;

/// So many bytes will be written there.
fn will_write(to: Pointer, bytes: usize) {
    if window::contains(to as usize) {
        announce(to as usize, bytes);
    }
}

macro_rules! calls {
    ($($begin:ident: $name:ident($($arg:ident: $type:ty),*) -> $result:ty $(, writes($to:expr, $bytes:expr))?;)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            $begin();
            $(will_write($to, $bytes);)?
            call!($name($($arg: $type),*) -> $result)
        }
    )* };
}

/// For what is no system call, as a rule.
fn no_boundary() {}

calls! {
    boundary: read(fd: c_int, to: Pointer, bytes: usize) -> isize, writes(to, bytes);
    boundary: pread(fd: c_int, to: Pointer, bytes: usize, at: i64) -> isize, writes(to, bytes);
    boundary: pread64(fd: c_int, to: Pointer, bytes: usize, at: i64) -> isize, writes(to, bytes);
    boundary: recv(fd: c_int, to: Pointer, bytes: usize, flags: c_int) -> isize, writes(to, bytes);
    boundary: recvfrom(fd: c_int, to: Pointer, bytes: usize, flags: c_int, from: Pointer, len: Pointer) -> isize, writes(to, bytes);
    boundary: getrandom(to: Pointer, bytes: usize, flags: c_uint) -> isize, writes(to, bytes);
    boundary: write(fd: c_int, from: Pointer, bytes: usize) -> isize;
    boundary: pwrite(fd: c_int, from: Pointer, bytes: usize, at: i64) -> isize;
    boundary: pwrite64(fd: c_int, from: Pointer, bytes: usize, at: i64) -> isize;
    boundary: writev(fd: c_int, pieces: Pointer, count: c_int) -> isize;
    boundary: pwritev(fd: c_int, pieces: Pointer, count: c_int, at: i64) -> isize;
    boundary: send(fd: c_int, from: Pointer, bytes: usize, flags: c_int) -> isize;
    boundary: sendto(fd: c_int, from: Pointer, bytes: usize, flags: c_int, to: Pointer, len: c_uint) -> isize;
    boundary: sendmsg(fd: c_int, message: Pointer, flags: c_int) -> isize;
    boundary: poll(fds: Pointer, count: usize, time: c_int) -> c_int;
    boundary: ppoll(fds: Pointer, count: usize, time: Pointer, mask: Pointer) -> c_int;
    boundary: select(count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer) -> c_int;
    boundary: epoll_wait(fd: c_int, events: Pointer, count: c_int, time: c_int) -> c_int;
    boundary: epoll_pwait(fd: c_int, events: Pointer, count: c_int, time: c_int, mask: Pointer) -> c_int;
    boundary: nanosleep(time: Pointer, rest: Pointer) -> c_int;
    boundary: clock_nanosleep(clock: c_int, flags: c_int, time: Pointer, rest: Pointer) -> c_int;
    boundary: usleep(time: c_uint) -> c_int;
    boundary: sleep(time: c_uint) -> c_uint;
    boundary: sched_yield() -> c_int;
    boundary: fsync(fd: c_int) -> c_int;
    boundary: fdatasync(fd: c_int) -> c_int;
    boundary: accept(fd: c_int, address: Pointer, len: Pointer) -> c_int;
    boundary: accept4(fd: c_int, address: Pointer, len: Pointer, flags: c_int) -> c_int;
    boundary: connect(fd: c_int, address: Pointer, len: c_uint) -> c_int;
    boundary: wait(status: Pointer) -> c_int;
    boundary: waitpid(process: c_int, status: Pointer, flags: c_int) -> c_int;
    boundary: pause() -> c_int;
    boundary: kill(process: c_int, signal: c_int) -> c_int;
    boundary: raise(signal: c_int) -> c_int;
    boundary: rename(from: Pointer, to: Pointer) -> c_int;
    boundary: unlink(path: Pointer) -> c_int;
    boundary: fwrite(from: Pointer, bytes: usize, count: usize, file: Pointer) -> usize;
    boundary: fputs(text: Pointer, file: Pointer) -> c_int;
    boundary: puts(text: Pointer) -> c_int;
    boundary: fflush(file: Pointer) -> c_int;
    boundary: fread(to: Pointer, bytes: usize, count: usize, file: Pointer) -> usize, writes(to, bytes.saturating_mul(count));
    boundary: fgets(to: Pointer, bytes: c_int, file: Pointer) -> Pointer, writes(to, bytes.max(0) as usize);
    no_boundary: getcwd(to: Pointer, bytes: usize) -> Pointer, writes(to, bytes);
    no_boundary: clock_gettime(clock: c_int, to: Pointer) -> c_int, writes(to, 16);
    no_boundary: gettimeofday(to: Pointer, zone: Pointer) -> c_int, writes(to, 16);
    no_boundary: time(to: Pointer) -> i64, writes(to, 8);
    boundary: stat(path: Pointer, to: Pointer) -> c_int, writes(to, 144);
    boundary: fstat(fd: c_int, to: Pointer) -> c_int, writes(to, 144);
    boundary: lstat(path: Pointer, to: Pointer) -> c_int, writes(to, 144);
    no_boundary: qsort(to: Pointer, count: usize, bytes: usize, compare: usize) -> (), writes(to, bytes.saturating_mul(count));
}

/// Announces the pieces of a scattered read.
fn pieces(pieces: *const libc::iovec, count: c_int) {
    for piece in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program says that so many pieces are there.
        let piece = unsafe { pieces.add(piece).read() };
        will_write(piece.iov_base, piece.iov_len);
    }
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readv(fd: c_int, to: *const libc::iovec, count: c_int) -> isize {
    boundary();
    pieces(to, count);
    call!(readv(fd: c_int, to: *const libc::iovec, count: c_int) -> isize)
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn preadv(fd: c_int, to: *const libc::iovec, count: c_int, at: i64) -> isize {
    boundary();
    pieces(to, count);
    call!(preadv(fd: c_int, to: *const libc::iovec, count: c_int, at: i64) -> isize)
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    boundary();
    // SAFETY: the program's message, or null, which the system refuses.
    if let Some(message) = unsafe { message.as_ref() } {
        pieces(message.msg_iov, message.msg_iovlen as c_int);
    }
    call!(recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize)
}
