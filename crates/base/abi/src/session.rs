//! The session file: the memory that observed processes and their collector share.
//!
//! The collector creates one file under `/dev/shm`, a *session*, and names it to the program in
//! [`SESSION_ENV`]. Every process of the program maps it. It holds one [`Session`], [`MODULES`]
//! times [`Module`], `chunk_count` times [`Chunk`], then (page-aligned) `chunk_count` areas of
//! `chunk_bytes`. A thread takes a free chunk, fills its area with [records](crate::record) and marks it
//! full; the collector empties it, clears it to zero and marks it free. A program that is killed loses no
//! record: the memory is the collector's too, and a partly filled chunk is read up to its first zero word.

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// Environment variable that holds the session file's path.
pub const SESSION_ENV: &str = "STRANDLINE_SESSION";
/// First word of a session.
pub const SESSION_MAGIC: u64 = u64::from_le_bytes(*b"SLSESS01");
/// Layout version; both sides must be of the same build.
pub const SESSION_VERSION: u32 = 10;
/// Entries of the module table: half a dozen per process that executes a program, one per fork.
pub const MODULES: usize = 8192;
/// Longest path in a [`Module`].
pub const MODULE_PATH: usize = 456;
/// Alignment of the chunk areas.
pub const AREA_ALIGN: usize = 4096;

/// [`Session::mode`]: write nothing any more; threads keep going into private scratch memory.
pub const MODE_OFF: u32 = 0;
/// [`Session::mode`]: fill chunks.
pub const MODE_RECORD: u32 = 1;
/// [`Session::mode`]: count events per thread and drop them (`strandline record --count`).
pub const MODE_COUNT: u32 = 2;

/// [`Session::flags`]: record the bytes of each store.
pub const FLAG_VALUES: u32 = 1;
/// [`Session::flags`]: record where functions begin and end.
pub const FLAG_CALLS: u32 = 2;

/// Head of the session file. Written by the collector before the program starts, except for the atomics.
#[repr(C, align(64))]
pub struct Session {
    /// [`SESSION_MAGIC`].
    pub magic: u64,
    /// [`SESSION_VERSION`].
    pub version: u32,
    /// `FLAG_*`.
    pub flags: u32,
    /// Bytes per chunk area.
    pub chunk_bytes: u32,
    /// Chunks.
    pub chunk_count: u32,
    /// The collector's process; when it is gone, writers go to [`MODE_OFF`].
    pub collector_pid: u32,
    /// Bytes of [`Session::pmem_patterns`] in use.
    pub pmem_patterns_len: u32,
    /// `CLOCK_MONOTONIC` nanoseconds at the session's start.
    pub start_ns: u64,
    /// Chunks kept of every `sample_period` of a thread; both 0: all. The granularity of sampling is the
    /// chunk.
    pub sample_recorded: u64,
    /// Chunks per period.
    pub sample_period: u64,
    /// `MODE_*`.
    pub mode: AtomicU32,
    /// Next thread number to give.
    pub next_thread: AtomicU32,
    /// Futex: goes up whenever a chunk becomes full.
    pub full: AtomicU32,
    /// Futex: goes up whenever a chunk becomes free.
    pub free: AtomicU32,
    /// The collector sleeps on `full`.
    pub collector_waits: AtomicU32,
    /// Number of writers that sleep on `free`.
    pub writers_wait: AtomicU32,
    /// Writers take the chunks with lower numbers than this only. The collector raises it up to
    /// `chunk_count`, if need be; so does a writer that has waited in vain.
    pub open_chunks: AtomicU32,
    /// Next module entry to give.
    pub next_module: AtomicU32,
    /// Bytes of [`Session::files_patterns`] in use.
    pub files_patterns_len: u32,
    /// Last position given in the global order of synchronisation; the first one is 1.
    pub sync_seq: AtomicU64,
    /// Accesses seen in [`MODE_COUNT`]: loads.
    pub counted_loads: AtomicU64,
    /// Accesses seen in [`MODE_COUNT`]: stores.
    pub counted_stores: AtomicU64,
    /// All other records seen in [`MODE_COUNT`].
    pub counted_others: AtomicU64,
    /// What the user gave as `--pmem`, each pattern followed by a zero byte. A mapped file is persistent if
    /// its path equals or lies below a pattern, or matches it as a glob with `*` and `?`.
    pub pmem_patterns: [u8; 4096],
    /// What the user gave as `--files`, in the same form: files whose writes, syncs and names are recorded.
    pub files_patterns: [u8; 4096],
    /// An absolute path, up to the first zero byte: the folder that gets what each persistent file held when
    /// it was first mapped, under [`kept_name`]. Empty: nothing is kept.
    pub keep_folder: [u8; 1024],
    /// Next process number to give.
    pub next_process: AtomicU32,
    /// 1 once one of the processes was about to start another, which may not have shown up yet.
    pub starts_others: AtomicU32,
    /// With values: locks around an atomic operation that stores and its position, by [`word_lock_of`] of the
    /// address.
    pub word_locks: [AtomicU32; WORD_LOCKS],
    /// Processes that a signal ended, as far as their parents have learned of it: the last call of each may
    /// have been carried out and not recorded.
    pub killed: AtomicU32,
    /// Next entry of `missed` to give.
    pub next_missed: AtomicU32,
    /// Calls that changed a named file and are not recorded, the first ones.
    pub missed: [Missed; MISSED],
    /// Next entry of `stacks` to give.
    pub next_stack: AtomicU32,
    /// Stacks of threads, the first ones.
    pub stacks: [Stack; STACKS],
}

/// How many of [`Session::stacks`].
pub const STACKS: usize = 1024;

/// The stack of a thread that was made by `pthread_create` or `thrd_create`.
#[repr(C)]
pub struct Stack {
    /// The thread's number, plus 1; 0 until the rest is written.
    pub thread: AtomicU32,
    /// Alignment.
    pub reserved: AtomicU32,
    /// The address above the frame of the function that the thread runs.
    pub top: AtomicU64,
    /// Bytes below it that the stack may have.
    pub bytes: AtomicU64,
    /// That function.
    pub function: AtomicU64,
}

impl Stack {
    /// One that is not given yet.
    #[must_use]
    pub const fn free() -> Stack {
        Stack {
            thread: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            top: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            function: AtomicU64::new(0),
        }
    }
}

/// How many of [`Session::missed`].
pub const MISSED: usize = 16;
/// Longest name of a call in a [`Missed`].
pub const MISSED_CALL: usize = 96;
/// Longest path in a [`Missed`].
pub const MISSED_FILE: usize = 1024;

/// A call that is not recorded.
#[repr(C)]
pub struct Missed {
    /// 1 once the rest is written.
    pub ready: AtomicU32,
    /// The process.
    pub pid: AtomicU32,
    /// The code that called; 0 if it is not known.
    pub pc: AtomicU64,
    /// What is not recorded, up to the first zero byte.
    pub call: [AtomicU8; MISSED_CALL],
    /// The file's path, up to the first zero byte.
    pub file: [AtomicU8; MISSED_FILE],
}

impl Missed {
    /// One that is not given yet.
    #[must_use]
    pub const fn free() -> Missed {
        Missed {
            ready: AtomicU32::new(0),
            pid: AtomicU32::new(0),
            pc: AtomicU64::new(0),
            call: [const { AtomicU8::new(0) }; MISSED_CALL],
            file: [const { AtomicU8::new(0) }; MISSED_FILE],
        }
    }
}

/// What the contents of the file of this path are called in [`Session::keep_folder`].
#[must_use]
pub const fn kept_name(path: &[u8]) -> [u8; 16] {
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < path.len() {
        hash = (hash ^ path[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    let mut name = [0; 16];
    let mut at = 0;
    while at < name.len() {
        name[at] = b"0123456789abcdef"[(hash >> (60 - 4 * at)) as usize & 15];
        at += 1;
    }
    name
}

/// How many of [`Session::word_locks`].
pub const WORD_LOCKS: usize = 256;

/// Which of [`Session::word_locks`] an address has: all addresses of a word have the same.
#[must_use]
pub const fn word_lock_of(addr: u64) -> usize {
    ((addr >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % WORD_LOCKS
}

/// A piece of code in an observed process, so that code addresses get names.
#[repr(C, align(64))]
pub struct Module {
    /// 1 once the rest is written.
    pub ready: AtomicU32,
    /// The process.
    pub pid: u32,
    /// If not 0, this entry has no path: process `pid` was forked from `parent` and starts with its modules.
    pub parent: u32,
    /// Bytes of `path` in use.
    pub path_len: u32,
    /// What to take off an address to get the one in the ELF file.
    pub bias: u64,
    /// First address of the mapped segments.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Alignment.
    pub reserved: u64,
    /// Path of the file, absolute.
    pub path: [u8; MODULE_PATH],
}

/// [`Chunk::state`]: to be had. The area is all zero.
pub const CHUNK_FREE: u32 = 0;
/// [`Chunk::state`]: a thread writes into it.
pub const CHUNK_FILLING: u32 = 1;
/// [`Chunk::state`]: for the collector.
pub const CHUNK_FULL: u32 = 2;

/// Flag in [`Chunk::reserved`]: the records were written by a signal handler on top of the thread
/// `thread - 1`'s own.
pub const CHUNK_HANDLER: u32 = 1;
/// Flag in [`Chunk::reserved`], between writers: the owner sleeps, and whoever clears this flag may mark the
/// chunk full.
pub const CHUNK_PARKED: u32 = 2;

/// Head of a chunk. A writer takes a chunk by changing `state` from free to filling; all else is the owner's.
#[repr(C, align(64))]
pub struct Chunk {
    /// `CHUNK_*`.
    pub state: AtomicU32,
    /// The writing thread's number in the run.
    pub thread: AtomicU32,
    /// The writing process.
    pub pid: AtomicU32,
    /// `CHUNK_HANDLER`, and what writers exchange.
    pub reserved: AtomicU32,
    /// Position of the chunk among its thread's, from 0.
    pub number: AtomicU64,
    /// Nanoseconds since the session's start when the chunk was taken.
    pub start_ns: AtomicU64,
    /// Nanoseconds since the session's start when it was marked full.
    pub end_ns: AtomicU64,
}
