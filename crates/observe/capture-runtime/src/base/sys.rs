//! The kernel, without the C library: its functions may be interposed, set `errno` or be unsafe in a signal
//! handler.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

use libc::{
    SYS_clock_gettime, SYS_close, SYS_fstat, SYS_futex, SYS_getcwd, SYS_getpid, SYS_kill, SYS_madvise,
    SYS_mmap, SYS_nanosleep, SYS_openat, SYS_read, SYS_readlinkat, SYS_sched_yield, SYS_statx, SYS_write,
    c_long,
};

/// A system call with up to six arguments; the result is the kernel's, an error is `-errno`.
///
/// # Safety
/// As the call's.
pub unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel keeps all registers but those named here; what it does to memory is the caller's
    // duty.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1], in("x2") args[2], in("x3") args[3], in("x4") args[4], in("x5") args[5],
            options(nostack),
        );
    }
    result
}

/// The process.
pub fn pid() -> u32 {
    // SAFETY: takes nothing, touches nothing.
    (unsafe { call(SYS_getpid, [0; 6]) }) as u32
}

/// Ends the process as `abort` does, which we stand in front of.
pub fn abort() -> ! {
    // SAFETY: a signal to this process.
    unsafe { call(libc::SYS_kill, [pid() as usize, libc::SIGABRT as usize, 0, 0, 0, 0]) };
    loop {
        // SAFETY: ends the process.
        unsafe { call(libc::SYS_exit_group, [134, 0, 0, 0, 0, 0]) };
    }
}

/// Lets other threads run.
pub fn give_way() {
    // SAFETY: takes nothing, touches nothing.
    unsafe { call(SYS_sched_yield, [0; 6]) };
}

/// How long [`doze`] sleeps, at least.
pub const DOZE_NS: i64 = 1_000_000;

/// Sleeps for about a millisecond.
pub fn doze() {
    let span = libc::timespec { tv_sec: 0, tv_nsec: DOZE_NS };
    // SAFETY: `span` is a valid place; where the rest of an interrupted sleep goes is not asked for.
    unsafe { call(SYS_nanosleep, [&raw const span as usize, 0, 0, 0, 0, 0]) };
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place.
    unsafe { call(SYS_clock_gettime, [libc::CLOCK_MONOTONIC as usize, &raw mut now as usize, 0, 0, 0, 0]) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps while `word` is `seen`, at most `timeout_ns`; false if the time ran out.
pub fn futex_wait(word: &AtomicU32, seen: u32, timeout_ns: i64) -> bool {
    let timeout = libc::timespec { tv_sec: timeout_ns / 1_000_000_000, tv_nsec: timeout_ns % 1_000_000_000 };
    let at = word as *const AtomicU32 as usize;
    // SAFETY: both pointers are valid for the call.
    let result = unsafe {
        call(SYS_futex, [at, libc::FUTEX_WAIT as usize, seen as usize, &raw const timeout as usize, 0, 0])
    };
    result != -(libc::ETIMEDOUT as isize)
}

/// Wakes up to `count` sleepers.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    let at = word as *const AtomicU32 as usize;
    // SAFETY: the pointer is valid for the call.
    unsafe { call(SYS_futex, [at, libc::FUTEX_WAKE as usize, count as usize, 0, 0, 0]) };
}

/// Maps memory; `None` if the kernel has none.
pub fn map(len: usize, protection: i32, flags: i32, fd: i32) -> Option<*mut u8> {
    // SAFETY: no fixed address is asked for, so nothing that exists is replaced.
    let result =
        unsafe { call(SYS_mmap, [0, len, protection as usize, flags as usize, fd as isize as usize, 0]) };
    (result > 0).then_some(result as *mut u8)
}

/// Gives pages of a shared file memory; false if there is none, or the kernel can't be asked (before Linux
/// 5.14).
pub fn populate(start: *mut u8, len: usize) -> bool {
    // SAFETY: every caller has the range mapped; what its pages hold stays.
    let result =
        unsafe { call(SYS_madvise, [start as usize, len, libc::MADV_POPULATE_WRITE as usize, 0, 0, 0]) };
    result == 0
}

/// Opens a file; one that it makes is the user's alone.
pub fn open(path: &core::ffi::CStr, flags: i32) -> Option<i32> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is a C string.
    let fd = unsafe {
        call(SYS_openat, [libc::AT_FDCWD as isize as usize, path.as_ptr() as usize, flags, 0o600, 0, 0])
    };
    (fd >= 0).then_some(fd as i32)
}

/// Closes a file.
pub fn close(fd: i32) {
    // SAFETY: every caller opened it.
    unsafe { call(SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Reads into `buffer`; what was read.
pub fn read(fd: i32, buffer: &mut [u8]) -> &[u8] {
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { call(SYS_read, [fd as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
    &buffer[..usize::try_from(count).unwrap_or(0)]
}

/// Writes pieces of text to standard error.
pub fn complain(pieces: &[&[u8]]) {
    for piece in pieces {
        // SAFETY: the piece is valid for its length.
        unsafe { call(SYS_write, [2, piece.as_ptr() as usize, piece.len(), 0, 0, 0]) };
    }
}

/// What a symbolic link says.
pub fn read_link<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let at = libc::AT_FDCWD as isize as usize;
    let (into, len) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the path is a C string, the buffer valid for its length.
    let count = unsafe { call(SYS_readlinkat, [at, path.as_ptr() as usize, into, len, 0, 0]) };
    usize::try_from(count).ok().map(|count| &buffer[..count])
}

/// The working directory.
pub fn working_directory(buffer: &mut [u8]) -> &[u8] {
    // SAFETY: the buffer is valid for its length.
    let count = unsafe { call(SYS_getcwd, [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0]) };
    // The kernel counts the closing zero byte.
    &buffer[..usize::try_from(count).unwrap_or(1).max(1) - 1]
}

/// The kernel's status of an open file.
pub fn status(fd: i32) -> Option<libc::stat> {
    // SAFETY: zero bytes are a valid `stat`.
    let mut found: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: `found` is a valid place and has the kernel's layout on the 64-bit targets.
    let result = unsafe { call(SYS_fstat, [fd as usize, &raw mut found as usize, 0, 0, 0, 0]) };
    (result == 0).then_some(found)
}

/// Bytes of a file.
pub fn file_bytes(fd: i32) -> Option<u64> {
    status(fd).map(|status| status.st_size as u64)
}

/// Whether the file lies on a mount with DAX.
pub fn is_dax(fd: i32) -> bool {
    // SAFETY: zero bytes are a valid `statx`.
    let mut statx: libc::statx = unsafe { core::mem::zeroed() };
    let (empty, flags) = (c"".as_ptr() as usize, libc::AT_EMPTY_PATH as usize);
    // SAFETY: the path is a C string, `statx` a valid place.
    let result = unsafe { call(SYS_statx, [fd as usize, empty, flags, 0, &raw mut statx as usize, 0]) };
    result == 0 && statx.stx_attributes & libc::STATX_ATTR_DAX as u64 != 0
}

/// Whether a process exists and is more than a zombie.
pub fn is_alive(pid: u32) -> bool {
    // SAFETY: signal 0 is only a question.
    let result = unsafe { call(SYS_kill, [pid as usize, 0, 0, 0, 0, 0]) };
    if result == -(libc::ESRCH as isize) {
        return false;
    }
    let mut buffer = [0; 512];
    !matches!(life(pid, &mut buffer).and_then(|life| life.first()), Some(b'Z' | b'X'))
}

/// The process that a process has for its parent; `None` if there is no such process.
pub fn parent_of(pid: u32) -> Option<u32> {
    let mut buffer = [0; 512];
    let parent = life(pid, &mut buffer)?.split(|&byte| byte == b' ').nth(1)?;
    core::str::from_utf8(parent).ok()?.parse().ok()
}

/// What the kernel says of a process, from its state on.
fn life(pid: u32, buffer: &mut [u8]) -> Option<&[u8]> {
    let mut path = [0; 32];
    let fd = open(process_file(pid, b"/stat", &mut path), libc::O_RDONLY)?;
    let text = read(fd, buffer);
    close(fd);
    // "pid (name) state parent ...", where the name may hold anything.
    text.get(text.iter().rposition(|&byte| byte == b')')? + 2..)
}

/// `/proc/PIDrest`.
fn process_file<'a>(pid: u32, rest: &[u8], buffer: &'a mut [u8; 32]) -> &'a core::ffi::CStr {
    let mut text = Text::new(buffer);
    text.push(b"/proc/");
    text.number(pid.into());
    text.push(rest);
    text.c_str()
}

/// A short C string that is put together in place.
pub struct Text<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    /// An empty one; `buffer` has room for one byte at least.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Text { buffer, len: 0 }
    }

    /// Appends as much as there is room for.
    pub fn push(&mut self, bytes: &[u8]) {
        let count = bytes.len().min(self.buffer.len() - 1 - self.len);
        self.buffer[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
    }

    /// Appends a decimal number.
    pub fn number(&mut self, number: u64) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push(&[b'0' + (number % 10) as u8]);
    }

    /// The C string.
    pub fn c_str(self) -> &'a core::ffi::CStr {
        self.buffer[self.len] = 0;
        core::ffi::CStr::from_bytes_until_nul(self.buffer).unwrap_or_default()
    }
}
