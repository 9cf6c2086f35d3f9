//! Which pages of a shared mapping were stored to, from the kernel.
//!
//! Linux 6.7 and later write-protects pages by itself (`userfaultfd` with `UFFD_FEATURE_WP_ASYNC`) and lists
//! those that were written since (`PAGEMAP_SCAN`). The program opens the `userfaultfd`, which is for its own
//! memory, by a call that is put in at the end of its `mmap`; the tracer takes it over and registers ranges.
//! What this can't follow (a mapping that was moved, cut or left, a second process) is compared as a whole,
//! as without it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_long, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Shorter files are compared as a whole.
const SHORTEST: u64 = 1 << 20;
/// `UFFD_USER_MODE_ONLY`.
const USER_MODE: u64 = 1;
/// `UFFD_FEATURE_WP_UNPOPULATED` and `UFFD_FEATURE_WP_ASYNC`.
const FEATURES: u64 = 1 << 13 | 1 << 15;
/// `UFFDIO_API`, `UFFDIO_REGISTER` with `UFFDIO_REGISTER_MODE_WP`, `PAGEMAP_SCAN`.
const API: u64 = 0xc018_aa3f;
const REGISTER: u64 = 0xc020_aa00;
const SCAN: u64 = 0xc060_6610;
const WRITE_PROTECT: u64 = 2;
/// `PM_SCAN_WP_MATCHING` and `PM_SCAN_CHECK_WPASYNC`.
const PROTECT_AND_CHECK: u64 = 3;
/// `PAGE_IS_WRITTEN`.
const WRITTEN: u64 = 2;
/// Ranges that one scan lists.
const RANGES: usize = 512;

/// A mapping that the kernel watches.
#[derive(Debug)]
struct Watched {
    process: i32,
    from: u64,
    to: u64,
    offset: u64,
}

/// What the kernel watches.
#[derive(Debug, Default)]
pub struct Pages {
    /// Of each process, what its memory is watched by.
    processes: HashMap<i32, Option<OwnedFd>>,
    /// By path; without one, the file is compared.
    watched: BTreeMap<String, Watched>,
}

impl Pages {
    /// A thread stands at the end of an `mmap` of a file that was not mapped before. Whether the kernel
    /// watches it now.
    pub fn watch(&mut self, pid: Pid, process: i32, path: &str, registers: &user_regs_struct) -> bool {
        let (from, len, offset) = (registers.rax, crate::look::whole_pages(registers.rsi), registers.r9);
        if len < SHORTEST {
            return false;
        }
        let by = self.processes.entry(process).or_insert_with(|| opened(pid, process, registers));
        let Some(by) = by else { return false };
        let mut asked = [from, len, WRITE_PROTECT, 0];
        let Some(to) = from.checked_add(len) else { return false };
        // SAFETY: `struct uffdio_register` is these four words, which outlive the call.
        if unsafe { libc::ioctl(by.as_raw_fd(), REGISTER as _, asked.as_mut_ptr()) } != 0 {
            return false;
        }
        let watched = Watched { process, from, to, offset };
        // From here on.
        let begins = scanned(&watched).is_some();
        if begins {
            self.watched.insert(path.to_owned(), watched);
        }
        begins
    }

    /// The file is compared from now on.
    pub fn leave(&mut self, path: &str) {
        self.watched.remove(path);
    }

    /// Another process may store to what is mapped, or a mapping may have moved.
    pub fn leave_all(&mut self) {
        self.watched.clear();
    }

    /// The process is gone, or executes another program.
    pub fn forget(&mut self, process: i32) {
        self.processes.remove(&process);
        self.watched.retain(|_, watched| watched.process != process);
    }

    /// The ranges of a file that were stored to since the scan before; `None` if it has to be compared as a
    /// whole.
    pub fn stored(&mut self, path: &str) -> Option<Vec<(u64, u64)>> {
        let found =
            self.watched.get(path).and_then(|watched| watched.is_there(path).then(|| scanned(watched))?);
        if found.is_none() {
            self.watched.remove(path);
        }
        found
    }
}

impl Watched {
    /// Whether the mapping is still as it was: no stop shows `munmap`.
    fn is_there(&self, path: &str) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process)).unwrap_or_default();
        let mut next = self.from;
        for line in maps.lines().filter(|line| line.ends_with(path)) {
            let mut fields = line.splitn(4, ' ');
            let Some((from, to)) = fields.next().and_then(|range| range.split_once('-')) else { continue };
            let offset = fields.nth(1).and_then(|text| u64::from_str_radix(text, 16).ok());
            let number = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            if number(from) == next && offset == Some(self.offset + (next - self.from)) {
                next = number(to);
            }
            if next == self.to {
                return true;
            }
        }
        false
    }
}

/// The ranges of a watched mapping that were written since, as offsets in the file; they are watched anew.
fn scanned(watched: &Watched) -> Option<Vec<(u64, u64)>> {
    let pagemap = File::open(format!("/proc/{}/pagemap", watched.process)).ok()?;
    let mut found = Vec::new();
    let mut start = watched.from;
    while start < watched.to {
        let mut ranges = [[0_u64; 3]; RANGES];
        // `struct pm_scan_arg`.
        let mut asked = [0_u64; 12];
        asked[..4].copy_from_slice(&[96, PROTECT_AND_CHECK, start, watched.to]);
        asked[5..7].copy_from_slice(&[ranges.as_mut_ptr() as u64, RANGES as u64]);
        (asked[9], asked[11]) = (WRITTEN, WRITTEN);
        // SAFETY: both structures outlive the call, which writes at most `RANGES` ranges and the end of its
        // walk.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), SCAN as _, asked.as_mut_ptr()) };
        let count = usize::try_from(count).ok()?;
        let in_file = |at: u64| at - watched.from + watched.offset;
        found.extend(ranges.iter().take(count).map(|range| (in_file(range[0]), in_file(range[1]))));
        if asked[4] <= start {
            return None;
        }
        start = asked[4];
    }
    Some(found)
}

/// What a process's memory is watched by, opened by a thread of its own that stands at the end of a call.
fn opened(pid: Pid, process: i32, registers: &user_regs_struct) -> Option<OwnedFd> {
    // A filter of the program's own may end it for a call that it does not know.
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let filters = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"))?;
    if filters.trim() != "1" {
        return None;
    }
    let flags = (libc::O_CLOEXEC | libc::O_NONBLOCK) as u64 | USER_MODE;
    let fd = called(pid, registers, libc::SYS_userfaultfd, flags).filter(|&fd| fd >= 0)?;
    let own = rustix::process::Pid::from_raw(process)
        .and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok())
        .and_then(|process| pidfd_getfd(process, fd as i32, PidfdGetfdFlags::empty()).ok());
    called(pid, registers, libc::SYS_close, fd as u64)?;
    let own = own?;
    let mut asked = [0xAA, FEATURES, 0];
    // SAFETY: `struct uffdio_api` is these three words, which outlive the call.
    let agreed = unsafe { libc::ioctl(own.as_raw_fd(), API as _, asked.as_mut_ptr()) } == 0;
    agreed.then_some(own)
}

/// Lets a thread that stands at the end of a call make another one, and stand there again; its result.
fn called(pid: Pid, registers: &user_regs_struct, number: c_long, argument: u64) -> Option<i64> {
    let mut other = *registers;
    // The instruction before is `syscall`, of two bytes.
    (other.rip, other.rax, other.rdi) = (registers.rip - 2, number as u64, argument);
    let mask = signals(pid, libc::PTRACE_GETSIGMASK, 0)?;
    signals(pid, libc::PTRACE_SETSIGMASK, u64::MAX)?;
    let made = ptrace::setregs(pid, other).is_ok() && [(); 2].iter().all(|()| stands(pid));
    let result = made.then(|| ptrace::getregs(pid).ok()).flatten().map(|registers| registers.rax as i64);
    ptrace::setregs(pid, *registers).ok();
    signals(pid, libc::PTRACE_SETSIGMASK, mask)?;
    result
}

/// Lets a thread run to the beginning or the end of its call.
fn stands(pid: Pid) -> bool {
    // Whatever else happens to it is left for the one who follows the program.
    let kinds = WaitPidFlag::WEXITED | WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
    ptrace::syscall(pid, None).is_ok()
        && matches!(waitid(Id::Pid(pid), kinds), Ok(WaitStatus::PtraceSyscall(_)))
        && waitpid(pid, Some(WaitPidFlag::__WALL)).is_ok()
}

/// Reads or sets the signals that a thread blocks.
fn signals(pid: Pid, request: libc::c_uint, mut mask: u64) -> Option<u64> {
    // SAFETY: a mask of signals is eight bytes, and `mask` outlives the call.
    let done = unsafe { libc::ptrace(request, pid.as_raw(), 8, &raw mut mask) };
    (done == 0).then_some(mask)
}
