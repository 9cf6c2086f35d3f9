//! Processes to migrate: a child of this one that fills memory, works on it, and can be frozen; and a second one, at the
//! same addresses, into which its pages go.
//!
//! They stand for what a checkpointer freezes and restores, so that the path of pages is measured alone: in both systems
//! everything else is the same.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

use crate::fam::uffd::{self, PAGE, Uffd};
use crate::fam::{Error, FamFile, Region};

/// Where the memory lies, in both processes.
pub const BASE: u64 = 0x5000_0000_0000;
/// At most so many threads.
pub const THREADS: usize = 4;

/// Which pages are touched, in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// One page after the other, as grids do.
    Sweep,
    /// Any page.
    Random,
    /// Records of 1000 bytes, 70 % read, as a key-value server does it.
    Records,
}

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Bytes of memory, a multiple of a page.
    pub bytes: u64,
    /// Order.
    pub access: Access,
    /// Threads that do so.
    pub threads: usize,
    /// Nanoseconds of work between two operations.
    pub work_ns: u64,
    /// Operations of each thread, after which it rests; 0: no end.
    pub operations: u64,
}

/// What parent and child share.
#[repr(C)]
#[derive(Debug)]
struct Control {
    beats: [AtomicU64; THREADS],
    wrong: AtomicU64,
    first_ns: AtomicU64,
    rested_ns: AtomicU64,
    command: AtomicU32,
    state: AtomicU32,
    uffd: AtomicI32,
    rested: AtomicU32,
}

const RUN: u32 = 1;
const FREEZE: u32 = 2;
const SPLICE: u32 = 3;
const READY: u32 = 1;
const SPLICED: u32 = 2;
const FAILED: u32 = 9;

/// A child process.
#[derive(Debug)]
pub struct App {
    pid: i32,
    control: *mut Control,
}

// SAFETY: the control page is shared memory of atomics, unmapped only when the value goes.
unsafe impl Send for App {}
// SAFETY: as above.
unsafe impl Sync for App {}

/// What the memory of a child is at first.
#[derive(Clone, Copy, Debug)]
pub enum Memory<'a> {
    /// Filled by itself: the source.
    Filled,
    /// The same, with a userfaultfd by which its writes can be watched.
    Watched,
    /// Its pages come from a fault server.
    Missing,
    /// It maps a lazy-page file, whose pages a fault server lets it see.
    Mapped(&'a FamFile),
}

impl App {
    /// Forks a child and waits until its memory is mapped.
    ///
    /// # Errors
    /// No process or memory is to be had, or userfaultfd is not allowed.
    pub fn spawn(load: Load, memory: Memory<'_>) -> Result<App, Error> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let control = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if control == libc::MAP_FAILED {
            return Err(Error::last("mmap"));
        }
        let control = control.cast::<Control>();
        // SAFETY: the child runs `live` alone and leaves by `_exit`.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: zeroed memory is a valid `Control`, shared with the parent.
            live(load, memory, unsafe { &*control });
        }
        if pid < 0 {
            return Err(Error::last("fork"));
        }
        let app = App { pid, control };
        while app.control().state.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        if app.control().state.load(Ordering::Acquire) == FAILED {
            return Err(Error::Unsupported("userfaultfd is not allowed here, or memory is short".into()));
        }
        Ok(app)
    }

    fn control(&self) -> &Control {
        // SAFETY: mapped as long as `self`.
        unsafe { &*self.control }
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// The regions of its memory.
    #[must_use]
    pub fn regions(load: Load) -> Vec<Region> {
        vec![Region { start: BASE, bytes: load.bytes }]
    }

    /// Lets it work.
    pub fn run(&self) {
        self.control().command.store(RUN, Ordering::Release);
    }

    /// Freezes it; with `splice`, its pages are mapped into pipes first, as CRIU does for its page server.
    ///
    /// # Errors
    /// It is gone.
    pub fn freeze(&self, splice: bool) -> Result<(), Error> {
        if splice {
            self.control().command.store(SPLICE, Ordering::Release);
            while self.control().state.load(Ordering::Acquire) == READY {
                std::thread::yield_now();
            }
            if self.control().state.load(Ordering::Acquire) == FAILED {
                return Err(Error::Unsupported(
                    "the pages do not fit into pipes: raise the limit of open files".into(),
                ));
            }
        }
        let mut status = 0;
        // SAFETY: our child.
        let rc = unsafe {
            libc::kill(self.pid, libc::SIGSTOP);
            libc::waitpid(self.pid, &raw mut status, libc::WUNTRACED)
        };
        if rc != self.pid || !libc::WIFSTOPPED(status) {
            return Err(Error::SourceLost { missing: 0 });
        }
        Ok(())
    }

    /// Stops its work, not its life.
    pub fn rest(&self) {
        self.control().command.store(FREEZE, Ordering::Release);
    }

    /// Kills it.
    pub fn kill(&self) {
        // SAFETY: our child; waiting for it twice fails harmlessly, since pids of unreaped children are not used again.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
        }
    }

    /// Operations done so far.
    #[must_use]
    pub fn beats(&self) -> u64 {
        self.control().beats.iter().map(|beat| beat.load(Ordering::Relaxed)).sum()
    }

    /// Values that were not what the source had written.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.control().wrong.load(Ordering::Relaxed)
    }

    /// When the first operation was done, in nanoseconds of the monotonic clock; 0 if none is.
    #[must_use]
    pub fn first_ns(&self) -> u64 {
        self.control().first_ns.load(Ordering::Acquire)
    }

    /// When all threads had done their operations, likewise.
    #[must_use]
    pub fn rested_ns(&self) -> u64 {
        self.control().rested_ns.load(Ordering::Acquire)
    }

    /// A copy of its userfaultfd.
    ///
    /// # Errors
    /// The kernel does not hand it out.
    pub fn uffd(&self) -> Result<OwnedFd, Error> {
        let theirs = self.control().uffd.load(Ordering::Acquire);
        // SAFETY: system calls without pointers; new descriptors are owned at once.
        unsafe {
            let pidfd = libc::syscall(libc::SYS_pidfd_open, self.pid, 0);
            if pidfd < 0 {
                return Err(Error::last("pidfd_open"));
            }
            let pidfd = OwnedFd::from_raw_fd(pidfd as RawFd);
            let fd = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), theirs, 0);
            if fd < 0 {
                return Err(Error::last("pidfd_getfd"));
            }
            Ok(OwnedFd::from_raw_fd(fd as RawFd))
        }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.kill();
        // SAFETY: our child and our mapping.
        unsafe {
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
            libc::munmap(self.control.cast(), PAGE as usize);
        }
    }
}

/// Nanoseconds of the monotonic clock, the same in all processes.
#[must_use]
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The word of a page at an index, as the source writes it. The last word of a page is the workload's own.
#[must_use]
pub fn word(page: u64, index: u64) -> u64 {
    (page ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(index)
}

const WORDS: u64 = PAGE / 8;

/// The child.
fn live(load: Load, memory: Memory<'_>, control: &'static Control) -> ! {
    // SAFETY: a child never outlives its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let state = match prepare(load, memory, control) {
        Some(()) => READY,
        None => FAILED,
    };
    control.state.store(state, Ordering::Release);
    if state == READY {
        for thread in 1..load.threads.min(THREADS) {
            std::thread::spawn(move || work(load, thread, control));
        }
        work(load, 0, control);
    }
    // SAFETY: ends this process without running what the parent registered.
    unsafe { libc::_exit(0) }
}

fn prepare(load: Load, memory: Memory<'_>, control: &Control) -> Option<()> {
    let (flags, fd, offset) = match memory {
        Memory::Mapped(file) => {
            use std::os::fd::AsFd;
            let offset = file.layout().offset(BASE)?;
            (libc::MAP_PRIVATE, file.as_fd().as_raw_fd(), offset)
        }
        _ => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
    };
    // SAFETY: maps at an address that is free in this program, or fails.
    let at = unsafe {
        libc::mmap(
            BASE as *mut libc::c_void,
            load.bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            flags | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE,
            fd,
            offset as i64,
        )
    };
    if at as u64 != BASE {
        return None;
    }
    match memory {
        Memory::Filled => fill(load.bytes),
        Memory::Watched => {
            fill(load.bytes);
            let uffd = Uffd::open(uffd::ASYNC_PROTECT).ok()?;
            control.uffd.store(uffd.as_raw_fd(), Ordering::Release);
            std::mem::forget(uffd);
        }
        Memory::Missing => {
            let uffd = Uffd::open(uffd::EVENTS).or_else(|_| Uffd::open(0)).ok()?;
            uffd.register(BASE, load.bytes, uffd::MISSING).ok()?;
            control.uffd.store(uffd.as_raw_fd(), Ordering::Release);
            std::mem::forget(uffd);
        }
        Memory::Mapped(_) => {
            let uffd = Uffd::open(uffd::EVENTS | uffd::SHMEM).or_else(|_| Uffd::open(uffd::SHMEM)).ok()?;
            uffd.register(BASE, load.bytes, uffd::MISSING | uffd::MINOR).ok()?;
            control.uffd.store(uffd.as_raw_fd(), Ordering::Release);
            std::mem::forget(uffd);
        }
    }
    Some(())
}

fn fill(bytes: u64) {
    for page in (BASE..BASE + bytes).step_by(PAGE as usize) {
        for index in 0..WORDS - 1 {
            // SAFETY: inside of the mapping.
            unsafe { *((page + index * 8) as *mut u64) = word(page, index) };
        }
    }
}

fn work(load: Load, thread: usize, control: &Control) {
    let mut random = fastrand::Rng::with_seed(7 + thread as u64);
    let pages = load.bytes / PAGE;
    let share = pages / load.threads as u64;
    let (mut done, mut at) = (0, share * thread as u64);
    loop {
        let command = control.command.load(Ordering::Acquire);
        if command == SPLICE && thread == 0 && control.state.load(Ordering::Acquire) == READY {
            let state = if splice(load.bytes) { SPLICED } else { FAILED };
            control.state.store(state, Ordering::Release);
        }
        if command != RUN || (load.operations > 0 && done == load.operations) {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        let page = match load.access {
            Access::Sweep => {
                at = if at + 1 == share * (thread as u64 + 1) { share * thread as u64 } else { at + 1 };
                at
            }
            Access::Random | Access::Records => random.u64(0..pages),
        };
        operation(BASE + page * PAGE, &load, &mut random, control);
        done += 1;
        if control.beats[thread].fetch_add(1, Ordering::Relaxed) == 0
            && control.first_ns.load(Ordering::Relaxed) == 0
        {
            control.first_ns.store(now_ns(), Ordering::Release);
        }
        if done == load.operations && control.rested.fetch_add(1, Ordering::AcqRel) + 1 == load.threads as u32
        {
            control.rested_ns.store(now_ns(), Ordering::Release);
        }
        if load.work_ns > 0 {
            let until = now_ns() + load.work_ns;
            while now_ns() < until {
                std::hint::spin_loop();
            }
        }
    }
}

fn operation(page: u64, load: &Load, random: &mut fastrand::Rng, control: &Control) {
    let words = if load.access == Access::Records { 125 } else { 1 };
    let first = random.u64(0..WORDS - 1 - words);
    let wrong = (first..first + words).filter(|index| {
        // SAFETY: inside of the mapping.
        unsafe { ((page + index * 8) as *const u64).read_volatile() != word(page, *index) }
    });
    let wrong = wrong.count() as u64;
    if wrong > 0 {
        control.wrong.fetch_add(wrong, Ordering::Relaxed);
    }
    if random.u64(0..10) < 3 {
        // SAFETY: inside of the mapping, in a word that nobody checks.
        unsafe { ((page + (WORDS - 1) * 8) as *mut u64).write_volatile(first) };
    }
}

/// Maps all pages into pipes, up to 2 MiB each, and keeps the pipes. Whether all went in.
fn splice(bytes: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and raises a limit of this process.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    let mut at = 0;
    while at < bytes {
        let mut ends = [0; 2];
        // SAFETY: a pipe of our own and memory of our own, which stays until this process is killed.
        let moved = unsafe {
            if libc::pipe(ends.as_mut_ptr()) != 0 {
                return false;
            }
            let room = crate::batch::widen(ends[1]) as u64;
            let piece = libc::iovec {
                iov_base: (BASE + at) as *mut libc::c_void,
                iov_len: (bytes - at).min(room) as usize,
            };
            libc::vmsplice(ends[1], &raw const piece, 1, libc::SPLICE_F_NONBLOCK)
        };
        if moved <= 0 {
            return false;
        }
        at += moved as u64;
    }
    true
}
