//! System calls, and functions of the C library that write where the program says.
//!
//! A system call ends the region. What will be written into the pool is announced before the call, as far as
//! it may reach. Of scattered reads each piece is.

use std::ffi::{c_int, c_uint, c_void};

use crate::atomics::{acquired, released};
use crate::local::{boundary, writing};
use crate::sync::call;

type Pointer = *mut c_void;

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
        $(, $to:tt: $bytes:expr)*;
    )*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $before();
            let result =
                writing(&[$(($to as usize, $bytes)),*], || call!($name($($arg: $type),*) -> $result));
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
    ) -> isize, to: bytes, from: said(len), len: 4;
    boundary received: __recvfrom_chk(
        fd: c_int, to: Pointer, bytes: usize, room: usize, flags: c_int, from: Pointer, len: Pointer
    ) -> isize, to: bytes, from: said(len), len: 4;
    boundary received: __read_chk(fd: c_int, to: Pointer, bytes: usize, room: usize) -> isize, to: bytes;
    boundary received: __pread_chk(fd: c_int, to: Pointer, bytes: usize, at: i64, room: usize) -> isize,
        to: bytes;
    boundary received: __pread64_chk(fd: c_int, to: Pointer, bytes: usize, at: i64, room: usize) -> isize,
        to: bytes;
    boundary received: __recv_chk(fd: c_int, to: Pointer, bytes: usize, room: usize, flags: c_int) -> isize,
        to: bytes;
    boundary received: __poll_chk(fds: Pointer, count: usize, time: c_int, room: usize) -> c_int,
        fds: count.saturating_mul(8);
    boundary received: __ppoll_chk(
        fds: Pointer, count: usize, time: Pointer, mask: Pointer, room: usize
    ) -> c_int, fds: count.saturating_mul(8);
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
    ) -> c_int, read: set(count), write: set(count), except: set(count), time: 16;
    boundary received: pselect(
        count: c_int, read: Pointer, write: Pointer, except: Pointer, time: Pointer, mask: Pointer
    ) -> c_int, read: set(count), write: set(count), except: set(count);
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
    boundary received: accept(fd: c_int, address: Pointer, len: Pointer) -> c_int,
        address: said(len), len: 4;
    boundary received: accept4(fd: c_int, address: Pointer, len: Pointer, flags: c_int) -> c_int,
        address: said(len), len: 4;
    sends nothing: connect(fd: c_int, address: Pointer, len: c_uint) -> c_int;
    boundary received: wait(status: Pointer) -> c_int, status: 4;
    boundary received: waitpid(process: c_int, status: Pointer, flags: c_int) -> c_int, status: 4;
    boundary received: waitid(kind: c_int, id: c_uint, to: Pointer, flags: c_int) -> c_int, to: 128;
    boundary received: wait3(status: Pointer, flags: c_int, usage: Pointer) -> c_int,
        status: 4, usage: size_of::<libc::rusage>();
    boundary received: wait4(process: c_int, status: Pointer, flags: c_int, usage: Pointer) -> c_int,
        status: 4, usage: size_of::<libc::rusage>();
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
    boundary received: fread_unlocked(to: Pointer, bytes: usize, count: usize, file: Pointer) -> usize,
        to: bytes.saturating_mul(count);
    boundary received: fgets_unlocked(to: Pointer, bytes: c_int, file: Pointer) -> Pointer,
        to: bytes.max(0) as usize;
    boundary received: fgetws(to: Pointer, count: c_int, file: Pointer) -> Pointer, to: count.max(0) as usize * 4;
    boundary received: fgetws_unlocked(to: Pointer, count: c_int, file: Pointer) -> Pointer,
        to: count.max(0) as usize * 4;
    boundary received: __fread_chk(
        to: Pointer, room: usize, bytes: usize, count: usize, file: Pointer
    ) -> usize, to: bytes.saturating_mul(count);
    boundary received: __fread_unlocked_chk(
        to: Pointer, room: usize, bytes: usize, count: usize, file: Pointer
    ) -> usize, to: bytes.saturating_mul(count);
    boundary received: __fgets_chk(to: Pointer, room: usize, bytes: c_int, file: Pointer) -> Pointer,
        to: bytes.max(0) as usize;
    boundary received: __fgets_unlocked_chk(
        to: Pointer, room: usize, bytes: c_int, file: Pointer
    ) -> Pointer, to: bytes.max(0) as usize;
    boundary received: __fgetws_chk(to: Pointer, room: usize, count: c_int, file: Pointer) -> Pointer,
        to: count.max(0) as usize * 4;
    boundary received: __fgetws_unlocked_chk(
        to: Pointer, room: usize, count: c_int, file: Pointer
    ) -> Pointer, to: count.max(0) as usize * 4;
    boundary received: __gets_chk(to: Pointer, room: usize) -> Pointer, to: room;
    boundary received: getdelim(line: Pointer, room: Pointer, end: c_int, file: Pointer) -> isize,
        line: 8, room: 8, (buffer(line)): said_long(buffer(line), room);
    boundary received: __getdelim(line: Pointer, room: Pointer, end: c_int, file: Pointer) -> isize,
        line: 8, room: 8, (buffer(line)): said_long(buffer(line), room);
    boundary received: getline(line: Pointer, room: Pointer, file: Pointer) -> isize,
        line: 8, room: 8, (buffer(line)): said_long(buffer(line), room);
    boundary received: getc(file: Pointer) -> c_int;
    boundary received: fgetc(file: Pointer) -> c_int;
    boundary received: getchar() -> c_int;
    sends nothing: putc(character: c_int, file: Pointer) -> c_int;
    sends nothing: fputc(character: c_int, file: Pointer) -> c_int;
    sends nothing: putchar(character: c_int) -> c_int;
    sends nothing: fputs_unlocked(text: Pointer, file: Pointer) -> c_int;
    sends nothing: fwrite_unlocked(from: Pointer, bytes: usize, count: usize, file: Pointer) -> usize;
    sends nothing: perror(text: Pointer) -> ();
    nothing nothing: getcwd(to: Pointer, bytes: usize) -> Pointer, to: bytes;
    nothing nothing: clock_gettime(clock: c_int, to: Pointer) -> c_int, to: 16;
    nothing nothing: gettimeofday(to: Pointer, zone: Pointer) -> c_int, to: 16;
    nothing nothing: time(to: Pointer) -> i64, to: 8;
    boundary received: stat(path: Pointer, to: Pointer) -> c_int, to: 144;
    boundary received: fstat(fd: c_int, to: Pointer) -> c_int, to: 144;
    boundary received: lstat(path: Pointer, to: Pointer) -> c_int, to: 144;
    boundary received: fstatat(folder: c_int, path: Pointer, to: Pointer, flags: c_int) -> c_int, to: 144;
    boundary received: stat64(path: Pointer, to: Pointer) -> c_int, to: 144;
    boundary received: fstat64(fd: c_int, to: Pointer) -> c_int, to: 144;
    boundary received: lstat64(path: Pointer, to: Pointer) -> c_int, to: 144;
    boundary received: fstatat64(folder: c_int, path: Pointer, to: Pointer, flags: c_int) -> c_int, to: 144;
    boundary received: statx(
        folder: c_int, path: Pointer, flags: c_int, mask: c_uint, to: Pointer
    ) -> c_int, to: 256;
    sends received: syscall(
        number: i64, one: usize, two: usize, three: usize, four: usize, five: usize, six: usize
    ) -> i64;
}

/// Bytes of a set of so many descriptors that the system writes.
fn set(count: c_int) -> usize {
    count.max(0) as usize / 64 * 8 + if count > 0 && count % 64 > 0 { 8 } else { 0 }
}

/// As many bytes as stand there.
fn said(len: Pointer) -> usize {
    // SAFETY: null, or the caller's place.
    if len.is_null() { 0 } else { unsafe { *len.cast::<c_uint>() as usize } }
}

/// The same of a word, if there is anything that it speaks of.
fn said_long(of: Pointer, len: Pointer) -> usize {
    // SAFETY: null, or the caller's place.
    if of.is_null() || len.is_null() { 0 } else { unsafe { *len.cast::<usize>() } }
}

/// The address at an address.
fn buffer(at: Pointer) -> Pointer {
    // SAFETY: null, or the caller's place.
    if at.is_null() { at } else { unsafe { *at.cast::<Pointer>() } }
}

/// Calls with the places of a scattered read, as [`writing`] wants them.
fn scattered<R>(
    pieces: *const libc::iovec,
    count: c_int,
    message: [(usize, usize); 5],
    call: impl FnOnce() -> R,
) -> R {
    /// Pieces that the system takes.
    const PIECES: usize = 1024;
    let mut places = [(0, 0); PIECES + 5];
    places[..5].copy_from_slice(&message);
    let count = usize::try_from(count).unwrap_or(0).min(PIECES);
    for (number, place) in places[5..5 + count].iter_mut().enumerate() {
        // SAFETY: the program says that so many pieces are there.
        let piece = unsafe { pieces.add(number).read() };
        *place = (piece.iov_base as usize, piece.iov_len);
    }
    writing(&places[..5 + count], call)
}

macro_rules! scattered {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// Interposed.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int, to: *const libc::iovec, count: c_int $(, $arg: $type)*
        ) -> isize {
            boundary();
            let result = scattered(to, count, [(0, 0); 5], || {
                call!($name(fd: c_int, to: *const libc::iovec, count: c_int $(, $arg: $type)*) -> isize)
            });
            received();
            result
        }
    )* };
}

scattered! {
    readv();
    preadv(at: i64);
    preadv64(at: i64);
    preadv2(at: i64, flags: c_int);
}

/// Interposed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
    boundary();
    // SAFETY: the program's message, or null, which the system refuses.
    let result = match unsafe { message.as_ref() } {
        Some(of) => {
            let places = [
                (of.msg_name as usize, of.msg_namelen as usize),
                (of.msg_control as usize, of.msg_controllen),
                (&raw const of.msg_namelen as usize, 4),
                (&raw const of.msg_controllen as usize, 8),
                (&raw const of.msg_flags as usize, 4),
            ];
            scattered(
                of.msg_iov,
                of.msg_iovlen as c_int,
                places,
                || call!(recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize),
            )
        }
        None => call!(recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize),
    };
    received();
    result
}
