//! What threads and processes exchange through the kernel: pipes, sockets, event counters.
//!
//! Who reads from one, or learns that there is something to read, goes on behind all who have written to it.
//! Both ends of a pipe are one object by its number; everything else counts as one object together, because
//! nothing says which sockets belong together. Files are none of it, and before there is a second thread
//! nobody is asked.

use core::ffi::{c_int, c_uint, c_void};

use libc::{
    S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, fd_set, iovec, msghdr, nfds_t, pollfd,
    sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec, timeval,
};

use crate::base::session::session;
use crate::base::sys::status;
use crate::memory::bytes::check;
use crate::memory::received::{about_to_receive, placed, placed_parts};
use crate::real::calls::real_call;
use crate::real::next::real;
use crate::state::local::{caller, hooks, local};
use crate::stream::meeting::{acquired, released};
use crate::stream::word_lock::is_alone;
use crate::sync::file_lock;
use crate::sync::signals;

/// What stands for a channel where a synchronisation has an address; no address of the program is so large.
const CHANNEL: u64 = 1 << 63;

/// Descriptors that are looked at when the process ends.
const DESCRIPTORS: c_int = 256;

/// What stands for what has no kind: event counters, descriptors that signals are read from.
const NAMELESS: u64 = CHANNEL | 1 << 56;

/// What stands for the channel behind a descriptor; `None` if there is none, or nobody else to meet there.
fn channel(fd: c_int) -> Option<u64> {
    session().filter(|session| !is_alone(session))?;
    let status = status(fd)?;
    match status.st_mode & S_IFMT {
        S_IFIFO => Some(CHANNEL | status.st_ino),
        S_IFREG | S_IFDIR | S_IFCHR | S_IFBLK | S_IFLNK => None,
        0 => Some(NAMELESS),
        _ => Some(CHANNEL),
    }
}

/// To be called before something is written to a descriptor.
pub fn sending(pc: u64, fd: c_int) {
    if let Some(channel) = channel(fd) {
        released(pc, channel);
    }
}

/// Reads from a descriptor by `receive`, which gives a negative number if it fails.
fn receiving(pc: u64, fd: c_int, receive: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(channel) = channel(fd) else { return receive() };
    let result = local().stream.parked(receive);
    if result >= 0 {
        received(pc, channel);
    }
    result
}

/// Something has come by a channel.
fn received(pc: u64, channel: u64) {
    acquired(pc, channel);
    if channel == NAMELESS {
        signals::got(pc);
    }
}

/// Reads `len` bytes at most, as `read` does.
pub fn read_from(pc: u64, fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    about_to_receive();
    let bytes = receiving(pc, fd, || real_call!(read(fd, to, len)));
    placed(pc, to, bytes);
    bytes
}

/// Waits by `wait` until there is something to read from descriptors, whose channels `ready` finds.
fn awaiting<C: Iterator<Item = u64>>(
    pc: u64,
    wait: impl FnOnce() -> c_int,
    ready: impl FnOnce() -> C,
) -> c_int {
    let result = if session().is_some() { local().stream.parked(wait) } else { wait() };
    if result > 0 {
        ready().for_each(|channel| received(pc, channel));
    }
    result
}

/// The channels that `poll` found something in.
///
/// # Safety
/// There are so many entries.
unsafe fn polled(waits: *const pollfd, count: nfds_t) -> impl Iterator<Item = u64> {
    // SAFETY: the caller's.
    let waits = (0..count as usize).map(move |at| unsafe { &*waits.add(at) });
    waits
        .filter(|wait| wait.fd >= 0 && wait.revents & !libc::POLLOUT != 0)
        .filter_map(|wait| channel(wait.fd))
}

/// The channels of the descriptors below `end` in a set, if there is one.
///
/// # Safety
/// The set has a bit for each.
unsafe fn selected(set: *const fd_set, end: c_int) -> impl Iterator<Item = u64> {
    let end = if set.is_null() { 0 } else { end };
    // SAFETY: the caller's.
    (0..end).filter(move |&fd| unsafe { libc::FD_ISSET(fd, set) }).filter_map(channel)
}

/// What `epoll` found something in, which it reports in the program's words: all but pipes.
fn somewhere() -> impl Iterator<Item = u64> {
    session().filter(|session| !is_alone(session)).map(|_| [CHANNEL, NAMELESS]).into_iter().flatten()
}

/// Calls a function of the C library that no signal handler may call.
macro_rules! rare {
    ($name:literal($($arg:ident: $type:ty),*) -> $result:ty) => {{
        let real = real!($name as fn($($type),*) -> $result);
        // SAFETY: the caller's arguments.
        unsafe { real($($arg),*) }
    }};
}

/// Receives by `call` at most `len` bytes.
fn receive(pc: u64, fd: c_int, to: *mut c_void, len: size_t, call: impl FnOnce() -> ssize_t) -> ssize_t {
    about_to_receive();
    let bytes = receiving(pc, fd, call);
    placed(pc, to, bytes.min(len as isize));
    bytes
}

hooks! {
    fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
        read_from(caller(), fd, to, len)
    }
    fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        check(len, room);
        read_from(caller(), fd, to, len)
    }
    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        let pc = caller();
        about_to_receive();
        let bytes = receiving(pc, fd, || real_call!(readv(fd, parts, count)));
        // SAFETY: the kernel has written to as many.
        unsafe { placed_parts(pc, parts, count as usize, bytes) };
        bytes
    }
    fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
        receive(caller(), fd, to, len, || real_call!(recv(fd, to, len, flags)))
    }
    fn __recv_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
        check(len, room);
        receive(caller(), fd, to, len, || real_call!(recv(fd, to, len, flags)))
    }
    fn recvfrom(
        fd: c_int,
        to: *mut c_void,
        len: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        receive(caller(), fd, to, len, || real_call!(recvfrom(fd, to, len, flags, from, from_len)))
    }
    fn __recvfrom_chk(
        fd: c_int,
        to: *mut c_void,
        len: size_t,
        room: size_t,
        flags: c_int,
        from: *mut sockaddr,
        from_len: *mut socklen_t,
    ) -> ssize_t {
        check(len, room);
        receive(caller(), fd, to, len, || real_call!(recvfrom(fd, to, len, flags, from, from_len)))
    }
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let pc = caller();
        about_to_receive();
        let bytes = receiving(pc, fd, || real_call!(recvmsg(fd, message, flags)));
        if bytes > 0 {
            // SAFETY: the kernel has written to as many.
            unsafe { placed_parts(pc, (*message).msg_iov, (*message).msg_iovlen, bytes) };
        }
        bytes
    }
    fn eventfd_read(fd: c_int, value: *mut u64) -> c_int {
        receiving(caller(), fd, || rare!(c"eventfd_read"(fd: c_int, value: *mut u64) -> c_int) as ssize_t) as c_int
    }

    fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
        sending(caller(), fd);
        real_call!(send(fd, from, len, flags))
    }
    fn sendto(
        fd: c_int,
        from: *const c_void,
        len: size_t,
        flags: c_int,
        to: *const sockaddr,
        to_len: socklen_t,
    ) -> ssize_t {
        sending(caller(), fd);
        real_call!(sendto(fd, from, len, flags, to, to_len))
    }
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        sending(caller(), fd);
        real_call!(sendmsg(fd, message, flags))
    }
    fn eventfd_write(fd: c_int, value: u64) -> c_int {
        sending(caller(), fd);
        rare!(c"eventfd_write"(fd: c_int, value: u64) -> c_int)
    }
    fn close(fd: c_int) -> c_int {
        let pc = caller();
        // Who reads sees the end of what was written.
        sending(pc, fd);
        file_lock::closing(pc, fd);
        real_call!(close(fd))
    }
    fn poll(waits: *mut pollfd, count: nfds_t, milliseconds: c_int) -> c_int {
        // SAFETY: the caller's.
        awaiting(caller(), || real_call!(poll(waits, count, milliseconds)), || unsafe { polled(waits, count) })
    }
    fn ppoll(waits: *mut pollfd, count: nfds_t, span: *const timespec, signals: *const sigset_t) -> c_int {
        // SAFETY: the caller's.
        awaiting(caller(), || real_call!(ppoll(waits, count, span, signals)), || unsafe { polled(waits, count) })
    }
    fn __poll_chk(waits: *mut pollfd, count: nfds_t, milliseconds: c_int, room: size_t) -> c_int {
        check(count as usize, room / size_of::<pollfd>());
        let pc = caller();
        // SAFETY: the caller's.
        awaiting(pc, || real_call!(poll(waits, count, milliseconds)), || unsafe { polled(waits, count) })
    }
    fn select(below: c_int, read: *mut fd_set, write: *mut fd_set, other: *mut fd_set, span: *mut timeval) -> c_int {
        // SAFETY: the caller's.
        awaiting(caller(), || real_call!(select(below, read, write, other, span)), || unsafe { selected(read, below) })
    }
    fn pselect(
        below: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        other: *mut fd_set,
        span: *const timespec,
        signals: *const sigset_t,
    ) -> c_int {
        // SAFETY: the caller's.
        awaiting(caller(), || real_call!(pselect(below, read, write, other, span, signals)), || unsafe { selected(read, below) })
    }
    fn epoll_wait(set: c_int, found: *mut c_void, most: c_int, milliseconds: c_int) -> c_int {
        awaiting(caller(), || real_call!(epoll_wait(set, found, most, milliseconds)), somewhere)
    }
    fn epoll_pwait(set: c_int, found: *mut c_void, most: c_int, milliseconds: c_int, signals: *const sigset_t) -> c_int {
        awaiting(caller(), || real_call!(epoll_pwait(set, found, most, milliseconds, signals)), somewhere)
    }
    fn semop(set: c_int, operations: *mut c_void, count: size_t) -> c_int {
        meeting(caller(), || rare!(c"semop"(set: c_int, operations: *mut c_void, count: size_t) -> c_int) as ssize_t) as c_int
    }
    fn mq_send(queue: c_int, from: *const c_void, len: size_t, priority: c_uint) -> c_int {
        meeting(caller(), || rare!(c"mq_send"(queue: c_int, from: *const c_void, len: size_t, priority: c_uint) -> c_int) as ssize_t) as c_int
    }
    fn mq_receive(queue: c_int, to: *mut c_void, len: size_t, priority: *mut c_uint) -> ssize_t {
        meeting(caller(), || rare!(c"mq_receive"(queue: c_int, to: *mut c_void, len: size_t, priority: *mut c_uint) -> ssize_t))
    }
    fn mq_timedsend(queue: c_int, from: *const c_void, len: size_t, priority: c_uint, until: *const timespec) -> c_int {
        meeting(caller(), || rare!(c"mq_timedsend"(queue: c_int, from: *const c_void, len: size_t, priority: c_uint, until: *const timespec) -> c_int) as ssize_t) as c_int
    }
    fn mq_timedreceive(queue: c_int, to: *mut c_void, len: size_t, priority: *mut c_uint, until: *const timespec) -> ssize_t {
        meeting(caller(), || rare!(c"mq_timedreceive"(queue: c_int, to: *mut c_void, len: size_t, priority: *mut c_uint, until: *const timespec) -> ssize_t))
    }
    fn semtimedop(set: c_int, operations: *mut c_void, count: size_t, span: *const timespec) -> c_int {
        meeting(caller(), || rare!(c"semtimedop"(set: c_int, operations: *mut c_void, count: size_t, span: *const timespec) -> c_int) as ssize_t) as c_int
    }
    fn sendmmsg(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int) -> c_int {
        sending(caller(), fd);
        rare!(c"sendmmsg"(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int) -> c_int)
    }
    fn recvmmsg(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int, span: *mut timespec) -> c_int {
        receiving(caller(), fd, || rare!(c"recvmmsg"(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int, span: *mut timespec) -> c_int) as ssize_t) as c_int
    }
    fn msgsnd(queue: c_int, message: *const c_void, len: size_t, flags: c_int) -> c_int {
        meeting(caller(), || rare!(c"msgsnd"(queue: c_int, message: *const c_void, len: size_t, flags: c_int) -> c_int) as ssize_t) as c_int
    }
    fn msgrcv(queue: c_int, to: *mut c_void, len: size_t, kind: libc::c_long, flags: c_int) -> ssize_t {
        meeting(caller(), || rare!(c"msgrcv"(queue: c_int, to: *mut c_void, len: size_t, kind: libc::c_long, flags: c_int) -> ssize_t))
    }
}

/// The process ends: who reads from its pipes sees the end of what was written.
pub fn end() {
    (0..DESCRIPTORS).for_each(|fd| sending(0, fd));
}

/// Carries out an operation that notifies others and waits for them.
fn meeting(pc: u64, operation: impl FnOnce() -> ssize_t) -> ssize_t {
    if session().is_none_or(is_alone) {
        return operation();
    }
    released(pc, CHANNEL);
    let result = local().stream.parked(operation);
    acquired(pc, CHANNEL);
    result
}
