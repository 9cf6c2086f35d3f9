//! What a program reads below a folder: names that it looks up, folders that it lists, bytes of files.
//!
//! A crash check uses it: what a recovery does not read can't change what it says. So whatever is not
//! understood (a symbolic link on the way, a ring, a 32-bit call) counts as having read everything.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

use libc::c_long;
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options as Trace};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::filter::{self, REQUESTS, Rule};
use crate::look;

/// What was read, in paths relative to the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Reads {
    /// Names that were looked up: whether something is there, what it is, and how long.
    pub names: BTreeSet<String>,
    /// Folders whose entries were listed.
    pub listed: BTreeSet<String>,
    /// Pages of files, by number; `None` stands for the whole file.
    pub files: BTreeMap<String, Option<BTreeSet<u64>>>,
    /// What may have been made, removed, renamed, or changed in more than pages.
    pub written: BTreeSet<String>,
    /// Pages of files that may have been changed, by number; `None` stands for the whole file.
    pub changed: BTreeMap<String, Option<BTreeSet<u64>>>,
    /// Something was not understood: it may have read, and written, all.
    pub all: bool,
}

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages of a file that are distinguished.
const PAGES: usize = 4096;

/// Calls with a path: number, argument of the folder's descriptor or -1, argument of the path, whether it may
/// change what is there.
const PATHS: &[(c_long, i8, i8, bool)] = &[
    (libc::SYS_open, -1, 0, false),
    (libc::SYS_openat, 0, 1, false),
    (libc::SYS_openat2, 0, 1, true),
    (libc::SYS_creat, -1, 0, true),
    (libc::SYS_stat, -1, 0, false),
    (libc::SYS_lstat, -1, 0, false),
    (libc::SYS_newfstatat, 0, 1, false),
    (libc::SYS_statx, 0, 1, false),
    (libc::SYS_access, -1, 0, false),
    (libc::SYS_faccessat, 0, 1, false),
    (libc::SYS_faccessat2, 0, 1, false),
    (libc::SYS_readlink, -1, 0, false),
    (libc::SYS_readlinkat, 0, 1, false),
    (libc::SYS_statfs, -1, 0, false),
    (libc::SYS_chdir, -1, 0, false),
    (libc::SYS_rename, -1, 0, true),
    (libc::SYS_rename, -1, 1, true),
    (libc::SYS_renameat, 0, 1, true),
    (libc::SYS_renameat, 2, 3, true),
    (libc::SYS_renameat2, 0, 1, true),
    (libc::SYS_renameat2, 2, 3, true),
    (libc::SYS_link, -1, 0, true),
    (libc::SYS_link, -1, 1, true),
    (libc::SYS_linkat, 0, 1, true),
    (libc::SYS_linkat, 2, 3, true),
    (libc::SYS_symlink, -1, 1, true),
    (libc::SYS_symlinkat, 1, 2, true),
    (libc::SYS_unlink, -1, 0, true),
    (libc::SYS_unlinkat, 0, 1, true),
    (libc::SYS_mkdir, -1, 0, true),
    (libc::SYS_mkdirat, 0, 1, true),
    (libc::SYS_rmdir, -1, 0, true),
    (libc::SYS_mknod, -1, 0, true),
    (libc::SYS_mknodat, 0, 1, true),
    (libc::SYS_truncate, -1, 0, true),
    (libc::SYS_chmod, -1, 0, true),
    (libc::SYS_fchmodat, 0, 1, true),
    (libc::SYS_chown, -1, 0, true),
    (libc::SYS_lchown, -1, 0, true),
    (libc::SYS_fchownat, 0, 1, true),
    (libc::SYS_utimensat, 0, 1, true),
    (libc::SYS_getxattr, -1, 0, false),
    (libc::SYS_lgetxattr, -1, 0, false),
    (libc::SYS_setxattr, -1, 0, true),
];
/// Calls that read from a descriptor: number, arguments of the descriptor, of the bytes and of the offset, -1
/// if there is none.
const READS: &[(c_long, i8, i8, i8)] = &[
    (libc::SYS_read, 0, 2, -1),
    (libc::SYS_pread64, 0, 2, 3),
    (libc::SYS_readv, 0, -1, -1),
    (libc::SYS_preadv, 0, -1, -1),
    (libc::SYS_preadv2, 0, -1, -1),
    (libc::SYS_sendfile, 1, -1, -1),
    (libc::SYS_copy_file_range, 0, -1, -1),
    (libc::SYS_splice, 0, -1, -1),
    (libc::SYS_mmap, 4, -1, -1),
];
/// Calls that write to a descriptor, with the same arguments.
const WRITES: &[(c_long, i8, i8, i8)] = &[
    (libc::SYS_write, 0, 2, -1),
    (libc::SYS_pwrite64, 0, 2, 3),
    (libc::SYS_writev, 0, -1, -1),
    (libc::SYS_pwritev, 0, -1, -1),
    (libc::SYS_pwritev2, 0, -1, -1),
    (libc::SYS_ftruncate, 0, 1, -1),
    (libc::SYS_fallocate, 0, -1, -1),
    (libc::SYS_sendfile, 0, -1, -1),
    (libc::SYS_copy_file_range, 2, -1, -1),
    (libc::SYS_splice, 2, -1, -1),
    (libc::SYS_ioctl, 0, -1, -1),
];
const LISTS: &[c_long] = &[libc::SYS_getdents, libc::SYS_getdents64];
/// What may read or change a file in ways that are not followed.
const UNKNOWN: &[c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_mount,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_fsetxattr,
];

fn rules() -> Vec<Rule> {
    let paths = PATHS.iter().map(|call| call.0);
    let reads = READS.iter().map(|call| call.0).filter(|&call| call != libc::SYS_mmap);
    let writes = WRITES.iter().map(|call| call.0).filter(|&call| call != libc::SYS_ioctl);
    let mut calls: Vec<c_long> =
        reads.chain(writes).chain(paths).chain(LISTS.iter().chain(UNKNOWN).copied()).collect();
    calls.push(libc::SYS_mprotect);
    // Reads are the most frequent, and come first.
    let mut seen = HashSet::new();
    calls.retain(|&call| seen.insert(call));
    let mut rules: Vec<Rule> = calls.into_iter().map(Rule::Stop).collect();
    // Memory of no file is no read.
    rules.push(Rule::StopWithout { call: libc::SYS_mmap, argument: 3, bits: libc::MAP_ANONYMOUS as u32 });
    rules.extend(REQUESTS.map(|value| Rule::StopAt { call: libc::SYS_ioctl, argument: 1, value }));
    rules
}

/// Runs a command to its end and says what it read below `folder`; its descendants that live longer are
/// killed. `started` gets its process's number, for whoever kills it after its time.
///
/// # Errors
/// When it can't be started, or not under `ptrace`.
pub fn watch(command: &mut Command, folder: &Path, started: &AtomicI32) -> io::Result<(ExitStatus, Reads)> {
    let folder = folder.canonicalize()?;
    command.process_group(0);
    let child = filter::spawn_under(command, &rules())?;
    let first = Pid::from_raw(child.id() as i32);
    let mut watch = Watch { folder, reads: Reads::default(), known: HashSet::new() };
    let status = watch.follow(first, started);
    // All that it leaves: none stays stopped.
    kill(Pid::from_raw(-first.as_raw()), Signal::SIGKILL).ok();
    for &pid in &watch.known {
        kill(Pid::from_raw(pid), Signal::SIGKILL).ok();
    }
    watch.bury();
    Ok((status?, watch.reads))
}

struct Watch {
    folder: PathBuf,
    reads: Reads,
    /// Threads that are traced.
    known: HashSet<i32>,
}

impl Watch {
    /// Waits for all that is left, which has been killed, in the order in which it ends: the first thread of
    /// a process is no earlier than its others, whose ends nobody else waits for.
    fn bury(&mut self) {
        loop {
            let mut flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            flags.set(WaitPidFlag::WNOHANG, self.known.is_empty());
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..)) => {
                    self.known.remove(&pid.as_raw());
                }
                // It began meanwhile.
                Ok(status) => match status.pid() {
                    Some(pid) => {
                        kill(pid, Signal::SIGKILL).ok();
                        ptrace::cont(pid, None).ok();
                    }
                    None => return,
                },
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn follow(&mut self, first: Pid, started: &AtomicI32) -> io::Result<ExitStatus> {
        self.known.insert(first.as_raw());
        let began = waitpid(first, Some(WaitPidFlag::__WALL))?;
        if !matches!(began, WaitStatus::Stopped(..)) {
            self.known.remove(&first.as_raw());
            return Err(io::Error::other(format!("it did not start ({began:?})")));
        }
        let options = Trace::PTRACE_O_TRACESECCOMP
            | Trace::PTRACE_O_TRACEFORK
            | Trace::PTRACE_O_TRACEVFORK
            | Trace::PTRACE_O_TRACECLONE
            | Trace::PTRACE_O_TRACEEXEC
            | Trace::PTRACE_O_EXITKILL;
        ptrace::setoptions(first, options)?;
        started.store(first.as_raw(), Ordering::Release);
        go_on(first, None)?;
        loop {
            let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
            let status = match waitpid(None, Some(flags)) {
                Ok(status) => status,
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            match status {
                WaitStatus::Exited(pid, code) => {
                    self.known.remove(&pid.as_raw());
                    if pid == first {
                        return Ok(ExitStatus::from_raw(code << 8));
                    }
                }
                WaitStatus::Signaled(pid, signal, _) => {
                    self.known.remove(&pid.as_raw());
                    if pid == first {
                        return Ok(ExitStatus::from_raw(signal as i32));
                    }
                }
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == libc::PTRACE_EVENT_SECCOMP {
                        self.call(pid);
                    } else if event == libc::PTRACE_EVENT_EXEC {
                        // All other threads of its process are gone without a word.
                        self.known.retain(|&other| other == pid.as_raw() || alive(other));
                        self.reads.all |= look::is_32_bit(pid);
                        self.executed(pid);
                    }
                    go_on(pid, None)?;
                }
                WaitStatus::Stopped(pid, signal) => {
                    let new = self.known.insert(pid.as_raw());
                    let group = ptrace::getsiginfo(pid) == Err(Errno::EINVAL);
                    let pass = !new && !group && signal != Signal::SIGTRAP;
                    go_on(pid, pass.then_some(signal))?;
                }
                _ => {}
            }
        }
    }

    /// A program that lies below the folder is read as a whole. (The calls themselves don't stop: the first
    /// comes before there are options.)
    fn executed(&mut self, pid: Pid) {
        let Ok(path) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return };
        if let Some(inside) = self.relative(&path) {
            self.reads.files.insert(inside.clone(), None);
            self.reads.names.insert(inside);
        }
    }

    fn call(&mut self, pid: Pid) {
        let Ok(registers) = ptrace::getregs(pid) else { return };
        let number = registers.orig_rax as c_long;
        let arguments =
            [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
        let argument = |at: i8| usize::try_from(at).ok().map(|at| arguments[at]);
        if UNKNOWN.contains(&number) {
            // Changes of rights by a descriptor matter only below the folder.
            let of_file = [libc::SYS_fchmod, libc::SYS_fchown, libc::SYS_fsetxattr].contains(&number);
            self.reads.all |= !of_file || self.inside_of(pid, arguments[0] as i32).is_some();
            return;
        }
        if LISTS.contains(&number) {
            if let Some(path) = self.inside_of(pid, arguments[0] as i32) {
                self.reads.listed.insert(path);
            }
            return;
        }
        if number == libc::SYS_mprotect {
            if arguments[2] as i32 & libc::PROT_WRITE != 0 {
                let mapped = look::mapped(pid, arguments[0], arguments[1]);
                mapped.iter().for_each(|(path, ..)| self.stores_to(path));
            }
            return;
        }
        if number == libc::SYS_mmap
            && stores(arguments[2] as i32, arguments[3] as i32)
            && let Some(path) = look::link(pid, arguments[4] as i32)
        {
            self.stores_to(&path);
        }
        if let Some(&(_, fd, len, offset)) = WRITES.iter().find(|call| call.0 == number) {
            self.write(pid, argument(fd).unwrap_or(0) as i32, argument(len), argument(offset), number);
        }
        if let Some(&(_, fd, len, offset)) = READS.iter().find(|call| call.0 == number) {
            self.read(pid, argument(fd).unwrap_or(0) as i32, argument(len), argument(offset), number);
            return;
        }
        for &(_, folder, path, changes) in PATHS.iter().filter(|call| call.0 == number) {
            let fd = argument(folder).map_or(libc::AT_FDCWD, |fd| fd as i32);
            let flags = match number {
                libc::SYS_open => arguments[1],
                libc::SYS_openat => arguments[2],
                _ => 0,
            } as i32;
            let how = match () {
                () if changes || flags & libc::O_TRUNC != 0 => Change::Yes,
                () if flags & libc::O_CREAT != 0 => Change::IfNew,
                () => Change::No,
            };
            self.looked_up(pid, fd, argument(path).unwrap_or(0), how);
        }
    }

    /// A file that a mapping can change from now on.
    fn stores_to(&mut self, path: &str) {
        match self.relative(Path::new(path)) {
            // Removed or renamed, it is another file's name, or none.
            Some(_) if path.ends_with(" (deleted)") => self.reads.all = true,
            Some(inside) => drop(self.reads.changed.insert(inside, None)),
            None => {}
        }
    }

    fn write(&mut self, pid: Pid, fd: i32, len: Option<u64>, offset: Option<u64>, number: c_long) {
        let Some(path) = self.inside_of(pid, fd) else { return };
        let length = || std::fs::metadata(format!("/proc/{pid}/fd/{fd}")).map_or(0, |about| about.len());
        let range = match (number, offset, len) {
            (libc::SYS_ftruncate, _, Some(len)) => Some((len, length().saturating_sub(len))),
            (_, offset, Some(len)) => {
                look::position(pid, fd).map(|(at, flags)| match flags & libc::O_APPEND {
                    0 => (offset.unwrap_or(at), len),
                    _ => (length(), len),
                })
            }
            _ => None,
        };
        let pages = self.reads.changed.entry(path).or_insert_with(|| Some(BTreeSet::new()));
        match (pages.as_mut(), range) {
            (Some(_), Some((_, 0))) => {}
            (Some(known), Some((from, len))) if len / PAGE < PAGES as u64 && known.len() < PAGES => {
                known.extend(pages_of(from, len));
            }
            _ => *pages = None,
        }
    }

    /// The path of an open file relative to the folder, if it is in there.
    fn inside_of(&mut self, pid: Pid, fd: i32) -> Option<String> {
        let path = look::link(pid, fd)?;
        // The recovery made it itself, or removed it: what it held may be another file's now.
        if path.ends_with(" (deleted)") && Path::new(&path).starts_with(&self.folder) {
            self.reads.all = true;
            return None;
        }
        self.relative(Path::new(&path))
    }

    fn relative(&self, path: &Path) -> Option<String> {
        let inside = path.strip_prefix(&self.folder).ok()?;
        inside.to_str().map(str::to_owned)
    }

    fn read(&mut self, pid: Pid, fd: i32, len: Option<u64>, offset: Option<u64>, number: c_long) {
        let Some(path) = self.inside_of(pid, fd) else { return };
        self.reads.names.insert(path.clone());
        let from = match (offset, number) {
            (Some(offset), _) => Some(offset),
            (None, libc::SYS_read) => look::position(pid, fd).map(|(at, _)| at),
            _ => None,
        };
        let pages = self.reads.files.entry(path).or_insert_with(|| Some(BTreeSet::new()));
        match (pages.as_mut(), from, len) {
            (Some(known), Some(from), Some(len)) if len / PAGE < PAGES as u64 && known.len() < PAGES => {
                known.extend(pages_of(from, len));
            }
            _ => *pages = None,
        }
    }

    /// A path that a call names: what is there, and at all folders on the way.
    fn looked_up(&mut self, pid: Pid, fd: i32, address: u64, how: Change) {
        let Some(given) = look::string(pid, address) else { return };
        if given.is_empty() {
            if let Some(path) = self.inside_of(pid, fd) {
                self.reads.names.insert(path);
            }
            return;
        }
        let base = match (given.starts_with('/'), fd) {
            (true, _) => Some(PathBuf::from("/")),
            (false, libc::AT_FDCWD) => std::fs::read_link(format!("/proc/{pid}/cwd")).ok(),
            (false, fd) => look::link(pid, fd).map(PathBuf::from),
        };
        let Some(base) = base else { return };
        let Some(plain) = plain(&base.join(&given)) else { return };
        let Some(inside) = self.relative(&plain) else {
            // A link from elsewhere, or the folder by another name.
            if plain.canonicalize().is_ok_and(|real| real.starts_with(&self.folder)) {
                self.reads.all = true;
            }
            return;
        };
        if has_link(&self.folder, &inside) {
            self.reads.all = true;
        }
        let is_new = || std::fs::symlink_metadata(&plain).is_err();
        if how == Change::Yes || how == Change::IfNew && is_new() {
            self.reads.written.insert(inside.clone());
        }
        self.reads.names.insert(inside);
    }
}

/// What a call does at a path that it names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Yes,
    /// It makes what is not there.
    IfNew,
    No,
}

/// Whether a mapping of a file changes the file.
fn stores(protection: i32, flags: i32) -> bool {
    protection & libc::PROT_WRITE != 0 && flags & libc::MAP_SHARED != 0
}

fn pages_of(from: u64, len: u64) -> std::ops::RangeInclusive<u64> {
    from / PAGE..=from.saturating_add(len.max(1) - 1) / PAGE
}

/// A path without `.` and `..`; none if it goes above the root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop().then_some(())?),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Whether there is a symbolic link at the path, or on the way.
fn has_link(folder: &Path, inside: &str) -> bool {
    let mut at = folder.to_owned();
    Path::new(inside).components().any(|part| {
        at.push(part);
        std::fs::symlink_metadata(&at).is_ok_and(|about| about.is_symlink())
    })
}

fn alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

fn go_on(pid: Pid, signal: Option<Signal>) -> io::Result<()> {
    match ptrace::cont(pid, signal) {
        // Somebody killed it meanwhile; its end is reported by a wait.
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
