//! System calls, and functions of the C library that write where the program says.
//!
//! A system call ends the region. What will be written into the pool is announced before the call, as far as
//! it may reach. Of scattered reads each piece is.

use std::ffi::{c_int, c_uint, c_void};

use crate::atomics::{acquired, released};
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

/// What stands for all that lies behind system calls: pipes, sockets, files, signals, other processes. What
/// a thread did before a call that sends anything comes before what follows a call that receives anything.
pub const SYSTEM: usize = 1 << 59;

/// Before a call by which others may learn of what this thread did.
pub fn sends() {
    released(SYSTEM);
}

/// After a call by which this thread may have learned of what others did.
pub fn received() {
    acquired(SYSTEM);
}

macro_rules! calls {
    ($(
        $before:ident $after:ident: $name:ident($($arg:ident: $type:ty),*) -> $result:ty
        $(, $to:ident: $bytes:expr)*;
    )*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $before();
            $(will_write($to, $bytes);)*
            let result = call!($name($($arg: $type),*) -> $result);
            $after();
            result
        }
    )* };
}

/// For what is no system call, as a rule, and nothing to wait for.
fn nothing() {}

calls! {
    boundary received: read(fd: c_int, to: Pointer, bytes: usize) -> isize, to: bytes;
    boundary received: pread(fd: c_int, to: Pointer, bytes: usize, at: i64) -> isize, to: bytes;
    boundary received: pread64(fd: c_int, to: Pointer, bytes: usize, at: i64) -> isize, to: bytes;
    boundary received: recv(fd: c_int, to: Pointer, bytes: usize, flags: c_int) -> isize, to: bytes;
    boundary received: recvfrom(
        fd: c_int, to: Pointer, bytes: usize, flags: c_int, from: Pointer, len: Pointer
    ) -> isize, to: bytes;
    boundary nothing: getrandom(to: Pointer, bytes: usize, flags: c_uint) -> isize, to: bytes;
    sends nothing: send(fd: c_int, from: Pointer, bytes: usize, flags: c_int) -> isize;
    sends nothing: sendto(
        fd: c_int, from: Pointer, bytes: usize, flags: c_int, to: Pointer, len: c_uint
    ) -> isize;
    sends nothing: sendmsg(fd: c_int, message: Pointer, flags: c_int) -> isize;
    sends nothing: sendfile(to: c_int, from: c_int, at: Pointer, bytes: usize) -> isize, at: 8;
    boundary received: poll(fds: Pointer, count: usize, time: c_int) -> c_int, fds: count.saturating_mul(8);
    boundary received: ppoll(fds: Pointer, count: usize, time: Pointer, mask: Pointer) -> c_int,
        fds: count.saturating_mul(8);
    boundary received: select(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer
    ) -> c_int, read: 128, write: 128, except: 128, time: 16;
    boundary received: pselect(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer, mask: Pointer
    ) -> c_int, read: 128, write: 128, except: 128;
    boundary received: epoll_wait(fd: c_int, events: Pointer, count: c_int, time: c_int) -> c_int,
        events: count.max(0) as usize * 12;
    boundary received: epoll_pwait(
        fd: c_int, events: Pointer, count: c_int, time: c_int, mask: Pointer
    ) -> c_int, events: count.max(0) as usize * 12;
    boundary received: nanosleep(time: Pointer, rest: Pointer) -> c_int, rest: 16;
    boundary received: clock_nanosleep(
        clock: c_int, flags: c_int, time: Pointer, rest: Pointer
    ) -> c_int, rest: 16;
    boundary received: usleep(time: c_uint) -> c_int;
    boundary received: sleep(time: c_uint) -> c_uint;
    boundary nothing: sched_yield() -> c_int;
    sends nothing: close(fd: c_int) -> c_int;
    sends nothing: shutdown(fd: c_int, how: c_int) -> c_int;
    sends received: flock(fd: c_int, operation: c_int) -> c_int;
    sends received: lockf(fd: c_int, command: c_int, bytes: i64) -> c_int;
    sends received: semop(set: c_int, operations: Pointer, count: usize) -> c_int;
    sends received: semtimedop(set: c_int, operations: Pointer, count: usize, time: Pointer) -> c_int;
    sends nothing: msgsnd(queue: c_int, message: Pointer, bytes: usize, flags: c_int) -> c_int;
    boundary received: msgrcv(queue: c_int, to: Pointer, bytes: usize, kind: i64, flags: c_int) -> isize,
        to: bytes.saturating_add(8);
    sends nothing: mq_send(queue: c_int, message: Pointer, bytes: usize, priority: c_uint) -> c_int;
    boundary received: mq_receive(queue: c_int, to: Pointer, bytes: usize, priority: Pointer) -> isize,
        to: bytes, priority: 4;
    sends nothing: eventfd_write(fd: c_int, value: u64) -> c_int;
    boundary received: eventfd_read(fd: c_int, to: Pointer) -> c_int, to: 8;
    boundary received: accept(fd: c_int, address: Pointer, len: Pointer) -> c_int;
    boundary received: accept4(fd: c_int, address: Pointer, len: Pointer, flags: c_int) -> c_int;
    sends nothing: connect(fd: c_int, address: Pointer, len: c_uint) -> c_int;
    boundary received: wait(status: Pointer) -> c_int, status: 4;
    boundary received: waitpid(process: c_int, status: Pointer, flags: c_int) -> c_int, status: 4;
    boundary received: pause() -> c_int;
    boundary received: sigsuspend(mask: Pointer) -> c_int;
    boundary received: sigwait(set: Pointer, signal: Pointer) -> c_int, signal: 4;
    boundary received: sigwaitinfo(set: Pointer, to: Pointer) -> c_int, to: 128;
    boundary received: sigtimedwait(set: Pointer, to: Pointer, time: Pointer) -> c_int, to: 128;
    sends nothing: kill(process: c_int, signal: c_int) -> c_int;
    sends nothing: killpg(group: c_int, signal: c_int) -> c_int;
    sends nothing: raise(signal: c_int) -> c_int;
    sends nothing: sigqueue(process: c_int, signal: c_int, value: usize) -> c_int;
    sends nothing: pthread_kill(thread: usize, signal: c_int) -> c_int;
    sends nothing: pthread_sigqueue(thread: usize, signal: c_int, value: usize) -> c_int;
    sends nothing: tgkill(process: c_int, thread: c_int, signal: c_int) -> c_int;
    sends nothing: pthread_cancel(thread: usize) -> c_int;
    sends nothing: alarm(time: c_uint) -> c_uint;
    sends nothing: setitimer(which: c_int, new: Pointer, old: Pointer) -> c_int, old: 32;
    sends nothing: timer_settime(timer: Pointer, flags: c_int, new: Pointer, old: Pointer) -> c_int, old: 32;
    sends nothing: timerfd_settime(fd: c_int, flags: c_int, new: Pointer, old: Pointer) -> c_int, old: 32;
    sends nothing: mq_notify(queue: c_int, event: Pointer) -> c_int;
    sends nothing: fwrite(from: Pointer, bytes: usize, count: usize, file: Pointer) -> usize;
    sends nothing: fputs(text: Pointer, file: Pointer) -> c_int;
    sends nothing: puts(text: Pointer) -> c_int;
    sends nothing: fflush(file: Pointer) -> c_int;
    sends nothing: fclose(file: Pointer) -> c_int;
    boundary received: fread(to: Pointer, bytes: usize, count: usize, file: Pointer) -> usize,
        to: bytes.saturating_mul(count);
    boundary received: fgets(to: Pointer, bytes: c_int, file: Pointer) -> Pointer, to: bytes.max(0) as usize;
    nothing nothing: getcwd(to: Pointer, bytes: usize) -> Pointer, to: bytes;
    nothing nothing: clock_gettime(clock: c_int, to: Pointer) -> c_int, to: 16;
    nothing nothing: gettimeofday(to: Pointer, zone: Pointer) -> c_int, to: 16;
    nothing nothing: time(to: Pointer) -> i64, to: 8;
    boundary received: stat(path: Pointer, to: Pointer) -> c_int, to: 144;
    boundary received: fstat(fd: c_int, to: Pointer) -> c_int, to: 144;
    boundary received: lstat(path: Pointer, to: Pointer) -> c_int, to: 144;
    nothing nothing: qsort(to: Pointer, count: usize, bytes: usize, compare: usize) -> (),
        to: bytes.saturating_mul(count);
    sends received: syscall(
        number: i64, one: usize, two: usize, three: usize, four: usize, five: usize, six: usize
    ) -> i64;
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
pub unsafe extern "C-unwind" fn readv(fd: c_int, to: *const libc::iovec, count: c_int) -> isize {
    boundary();
    pieces(to, count);
    let result = call!(readv(fd: c_int, to: *const libc::iovec, count: c_int) -> isize);
    received();
    result
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv(fd: c_int, to: *const libc::iovec, count: c_int, at: i64) -> isize {
    boundary();
    pieces(to, count);
    let result = call!(preadv(fd: c_int, to: *const libc::iovec, count: c_int, at: i64) -> isize);
    received();
    result
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    boundary();
    // SAFETY: the program's message, or null, which the system refuses.
    if let Some(message) = unsafe { message.as_ref() } {
        pieces(message.msg_iov, message.msg_iovlen as c_int);
    }
    let result = call!(recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize);
    received();
    result
}
