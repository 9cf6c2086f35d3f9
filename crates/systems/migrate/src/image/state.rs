//! The state of a tree of processes: everything but the bytes of its pages.

use serde::{Deserialize, Serialize};

use super::files::{Description, Fd, RangeLock, time_left};

/// A checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's release.
    pub kernel: String,
    /// The boot in which it was taken: clocks that start at boot go on only within it.
    pub boot: String,
    /// `CLOCK_MONOTONIC` at the checkpoint, in nanoseconds.
    pub monotonic_ns: u64,
    /// xxh3 of the vDSO's text, which must be the same where the image is restored.
    pub vdso: u64,
    /// The processes; the root of the tree first, each parent before its children.
    pub processes: Vec<Process>,
    /// Open file descriptions, which processes may share.
    pub descriptions: Vec<Description>,
    /// Memory that processes share and that lies in no file.
    pub shared: Vec<Shared>,
    /// The files that hold pages, which [`Run::file`] counts.
    pub page_files: Vec<String>,
    /// Which checkpoint in its folder it is, from 1 on; 0 for a migration.
    #[serde(default)]
    pub generation: u64,
    /// The migration that left it, as opposed to a checkpoint.
    #[serde(default)]
    pub migration: Option<String>,
}

/// A process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// When it started, in clock ticks since boot, as a lazy-page file names its owner; 0: not known.
    #[serde(default)]
    pub started: u64,
    /// Its parent's.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// Whether it was stopped by job control.
    pub stopped: bool,
    /// The program.
    pub exe: String,
    /// Its current directory.
    pub cwd: String,
    /// Its root directory.
    pub root: String,
    /// Its file mode mask.
    pub umask: u32,
    /// `personality(2)`.
    pub personality: u64,
    /// `PR_SET_DUMPABLE`.
    pub dumpable: u64,
    /// `PR_SET_CHILD_SUBREAPER`.
    pub subreaper: bool,
    /// `/proc/PID/oom_score_adj`.
    pub oom_score_adj: i32,
    /// Resource limits, by number.
    pub limits: Vec<Limit>,
    /// Where the kernel thinks the parts of its memory are.
    pub mm: Mm,
    /// Its mappings, by address.
    pub vmas: Vec<Vma>,
    /// Its own pages, by address.
    pub pages: Vec<Run>,
    /// The lazy-page file (of the crate `fam`) that holds further ones, beside the state.
    #[serde(default)]
    pub lazy: Option<String>,
    /// Its open files.
    pub fds: Vec<Fd>,
    /// Its locks of ranges of files.
    #[serde(default)]
    pub locks: Vec<RangeLock>,
    /// What it does on signals; signal 1 first.
    pub actions: Vec<Action>,
    /// Signals that wait for any of its threads.
    pub pending: Vec<Signal>,
    /// `getitimer(2)`: interval and value in seconds and microseconds, for each of the three.
    pub itimers: [[i64; 4]; 3],
    /// `timer_create(2)`.
    pub timers: Vec<PosixTimer>,
    /// Its threads; the first one has the process's number.
    pub threads: Vec<Thread>,
}

impl Process {
    /// Its interval timers, as they are set again. `ITIMER_REAL` alone stands still until its signal is
    /// delivered; the others are disarmed if they have no time left.
    #[must_use]
    pub fn running_itimers(&self) -> [[i64; 4]; 3] {
        let mut timers = self.itimers;
        let [seconds, micros, left, left_micros] = timers[0];
        let left = time_left([left, left_micros], [seconds, micros], true);
        timers[0] = [seconds, micros, left[0], left[1]];
        timers
    }
}

/// A resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

/// `PR_SET_MM_MAP`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Mm {
    /// Start of the code, its end, start of data, its end, start of the heap, its end, start of the stack, start of
    /// arguments, their end, start of the environment, its end.
    pub bounds: [u64; 11],
    /// The auxiliary vector.
    pub auxv: Vec<u64>,
}

/// A mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vma {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// `PROT_*`.
    pub protection: i32,
    /// Whether stores are seen by others (`MAP_SHARED`).
    pub shared: bool,
    /// Whether it grows down when touched (`MAP_GROWSDOWN`).
    pub grows_down: bool,
    /// `MAP_NORESERVE`.
    pub no_reserve: bool,
    /// Whether it is locked (`mlock`).
    pub locked: bool,
    /// Advice in force, as the numbers of `madvise(2)`.
    pub advice: Vec<i32>,
    /// What is mapped.
    pub kind: VmaKind,
}

/// What is mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VmaKind {
    /// Memory of its own.
    Anonymous,
    /// A file.
    File {
        /// Its path.
        path: String,
        /// Where in the file the mapping starts, in bytes.
        offset: u64,
        /// Its length at the checkpoint, in bytes.
        len: u64,
        /// When it was changed last, in nanoseconds since 1970: a private mapping must find the same content again.
        modified_ns: i64,
        /// Whether the file may be written through the mapping, now or after `mprotect`.
        writable: bool,
    },
    /// Memory in [`Image::shared`].
    Shared {
        /// Which.
        index: usize,
        /// Where in it the mapping starts, in bytes.
        offset: u64,
    },
    /// The kernel's code for the process.
    Vdso,
    /// The kernel's data for that code.
    Vvar,
}

/// Memory that processes share: a memfd, shared anonymous memory, a System V segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shared {
    /// The device and inode by which it is known.
    pub id: (u64, u64),
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub len: u64,
    /// `F_GET_SEALS`, for a memfd.
    pub seals: i32,
    /// System V: the key and mode of the segment, whose number is the inode.
    pub sysv: Option<(i32, u32)>,
    /// Its pages, by offset.
    pub pages: Vec<Run>,
}

/// Consecutive pages that lie consecutively in a file of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The first address.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// Which file, by its index in [`Image::page_files`].
    pub file: usize,
    /// Where in it.
    pub offset: u64,
    /// xxh3 of the bytes.
    pub hash: u64,
}

/// What a process does on a signal: the kernel's structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Action {
    /// The handler's address, or `SIG_DFL`, `SIG_IGN`.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where handlers return to.
    pub restorer: u64,
    /// Signals blocked meanwhile.
    pub mask: u64,
}

/// A signal that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// The bytes of `siginfo_t`.
    pub info: Vec<u8>,
}

/// A timer of `timer_create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PosixTimer {
    /// Its number in the process.
    pub id: i32,
    /// Its clock.
    pub clock: i32,
    /// How it notifies (`SIGEV_*`).
    pub notify: i32,
    /// With which signal.
    pub signal: i32,
    /// With which value.
    pub value: u64,
    /// Which thread, for `SIGEV_THREAD_ID`.
    pub thread: i32,
    /// Interval and remaining time, in seconds and nanoseconds.
    pub setting: [i64; 4],
}

/// A registered `rseq` area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rseq {
    /// Its address.
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
    /// The signature before an abort handler.
    pub signature: u32,
}

/// User and group numbers, capabilities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Real, effective, saved, file system.
    pub uids: [u32; 4],
    /// The same for groups.
    pub gids: [u32; 4],
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Inheritable, permitted, effective, bounding, ambient.
    pub capabilities: [u64; 5],
    /// `PR_SET_NO_NEW_PRIVS`.
    pub no_new_privileges: bool,
    /// `PR_SET_SECUREBITS`.
    pub securebits: u64,
}

/// A thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// `struct user_regs_struct`, word by word.
    pub registers: Vec<u64>,
    /// Extended state (`NT_X86_XSTATE`).
    pub xstate: Vec<u8>,
    /// Blocked signals.
    pub mask: u64,
    /// Signals that wait for it.
    pub pending: Vec<Signal>,
    /// `sigaltstack(2)`: address, flags, length.
    pub altstack: [u64; 3],
    /// `set_robust_list(2)`: address, length.
    pub robust: [u64; 2],
    /// `set_tid_address(2)`.
    pub clear_tid: u64,
    /// `rseq(2)`.
    pub rseq: Option<Rseq>,
    /// Scheduling: policy, nice value, priority.
    pub schedule: [i32; 3],
    /// The processors that it may run on, as a bit mask.
    pub affinity: Vec<u64>,
    /// `PR_SET_PDEATHSIG`.
    pub parent_death_signal: i32,
    /// `PR_SET_TIMERSLACK`, in nanoseconds.
    pub timer_slack_ns: u64,
    /// Who it is.
    pub credentials: Credentials,
}
