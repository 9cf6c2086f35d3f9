//! The shared memory between an observed process and its collector.
//!
//! This file is compiled twice: here, and into the runtime that observed programs load
//! (`crates/capture-runtime`), so that both sides agree by construction. It holds layout and constants only.
//!
//! The collector creates one file under `/dev/shm`, a *session*, and names it to the program in
//! [`SESSION_ENV`]. Every process of the program maps it. It is: one [`Session`], [`MODULES`]
//! times [`Module`], `chunk_count` times [`Chunk`], then (page-aligned) `chunk_count` areas of
//! `chunk_bytes`. A thread that has something to say takes a free chunk, fills its area with
//! records and marks it full; the collector empties it, clears it to zero and marks it free.
//! Nothing that was written is lost when the program dies, however it dies: the memory is the
//! collector's too, and a chunk that was being filled is read up to its first zero word.
//!
//! A *record* is a header word and payload words. What a word is shows in its two upper bits, so that accesses can be
//! counted without taking records apart:
//!
//! | bits | what |
//! |---|---|
//! | 10 | header of a run: the lower 62 bits are a quarter of the address of a [`run descriptor`](RUN_MAGIC) in the program's text |
//! | 00 | in a run, the address of a load; 0: the access was not executed |
//! | 11 | in a run, the complement of the address of a store |
//! | 01 | header of any other record: [`RECORD`], and `kind << 56`, `argument << 48` and the code address |
//!
//! A run is a straight piece of code with 1 to [`RUN_MAX`] accesses, one word each. The payload of any other
//! record is its kind's, and its bits mean nothing.
#![allow(dead_code)] // each of the two sides uses its part

use core::sync::atomic::{AtomicU32, AtomicU64};

/// Environment variable that holds the session file's path.
pub const SESSION_ENV: &str = "STRANDLINE_SESSION";
/// First word of a session.
pub const SESSION_MAGIC: u64 = u64::from_le_bytes(*b"SLSESS01");
/// Layout version; both sides must be of the same build.
pub const SESSION_VERSION: u32 = 6;
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
    /// Chunks kept of every `sample_period` of a thread; both 0: all. The granularity of sampling is the chunk.
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
    /// Writers take the chunks with lower numbers than this only. The collector raises it up to `chunk_count`, if need be; so does a writer that has waited in
    /// vain.
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
    /// What the user gave as `--pmem`, each pattern followed by a zero byte. A mapped file is persistent if its
    /// path equals or lies below a pattern, or matches it as a glob with `*` and `?`.
    pub pmem_patterns: [u8; 4096],
    /// What the user gave as `--files`, in the same form: files whose writes, syncs and names are told.
    pub files_patterns: [u8; 4096],
    /// An absolute path, up to the first zero byte: the folder that gets what each persistent file held when it was first mapped, under
    /// [`kept_name`]. Empty: nothing is kept.
    pub keep_folder: [u8; 1024],
    /// Next process number to give.
    pub next_process: AtomicU32,
    /// 1 once one of the processes was about to start another, which may not have shown up yet.
    pub starts_others: AtomicU32,
    /// With values: locks around an atomic operation that stores and its position, by [`turn_of`] of the address.
    pub turns: [AtomicU32; TURNS],
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

/// How many of [`Session::turns`].
pub const TURNS: usize = 256;

/// Which of [`Session::turns`] an address has: all addresses of a word have the same.
#[must_use]
pub const fn turn_of(addr: u64) -> usize {
    ((addr >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % TURNS
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

/// Flag in [`Chunk::reserved`]: the records were written by a signal handler on top of the thread `thread - 1`'s own.
pub const CHUNK_HANDLER: u32 = 1;
/// Flag in [`Chunk::reserved`], between writers: the owner sleeps, and whoever clears this flag may mark the chunk full.
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
    /// `CHUNK_HANDLER`, and what writers tell each other.
    pub reserved: AtomicU32,
    /// Position of the chunk among its thread's, from 0.
    pub number: AtomicU64,
    /// Nanoseconds since the session's start when the chunk was taken.
    pub start_ns: AtomicU64,
    /// Nanoseconds since the session's start when it was marked full.
    pub end_ns: AtomicU64,
}

/// Accesses of one run at most.
pub const RUN_MAX: usize = 32;
/// A run descriptor starts with this. It lies in the text section of the function it describes, 4-aligned:
///
/// | bytes | what |
/// |---|---|
/// | 0..4 | `RUN_MAGIC` |
/// | 4 | number of accesses, 1 to [`RUN_MAX`] |
/// | 5 | instructions from the last access to the end of the basic block, at most 255 |
/// | 6..8 | instructions from the start of the basic block to the first access, it included |
/// | then 8 per access: 0..4 | code address, signed, relative to this field |
/// | 4 | `log2(size)`, 0 to 4; plus [`RUN_STORE`] |
/// | 5 | instructions since the access before it in the run, it included; 0 for the first |
/// | 6..8 | 0 |
///
/// Instruction counts are of the program's own instructions, without ours. A run may go on behind a jump; what the
/// jump leaves out has no address. An access that follows a store of its run looks at the limit again: if the runtime wants to
/// know what was stored (its limit is zero then), it gets to see each store before the next access, which
/// starts a record with a descriptor of its own. A structure's assignment is a load and then a store, in whatever order
/// the compiler tells them.
pub const RUN_MAGIC: u32 = u32::from_le_bytes(*b"SLR1");
/// Flag of an access in a run descriptor.
pub const RUN_STORE: u8 = 0x10;

/// Record kinds. `pc` is the header's code address; in the tables, words of payload in order.
pub mod kind {
    /// Argument [`super::access`]; `addr` and [`super::access_word`], of an access that has one.
    pub const ACCESS: u8 = 1;
    /// Argument [`super::flush`]; `addr`, `len`: every line that the range touches.
    pub const FLUSH: u8 = 2;
    /// Argument 0 store, 1 full, 2 locked (as `event::FenceKind`); nothing.
    pub const FENCE: u8 = 3;
    /// Argument `access | order << 4`, order as in C11 (0 relaxed, 1 consume, 2 acquire, 3 release,
    /// 4 acq_rel, 5 seq_cst), access as in [`super::atomic`]; `addr`, `len`, position of the
    /// release (0: none), position of the acquire (0: none).
    pub const ATOMIC: u8 = 4;
    /// Argument 1 if shared; lock address, position.
    pub const LOCK: u8 = 5;
    /// Lock address, position.
    pub const UNLOCK: u8 = 6;
    /// Child's thread number, position.
    pub const SPAWN: u8 = 7;
    /// In the code address's place the process's number; position.
    pub const THREAD_START: u8 = 8;
    /// Position.
    pub const THREAD_END: u8 = 9;
    /// Thread number, position.
    pub const JOIN: u8 = 10;
    /// `addr`, `len`.
    pub const ALLOC: u8 = 11;
    /// `addr`.
    pub const FREE: u8 = 12;
    /// `addr`, `len`, bytes of the path, the path padded with zero bytes to whole words.
    pub const MAP: u8 = 13;
    /// `addr`, `len`.
    pub const UNMAP: u8 = 14;
    /// Bytes, then these, padded: the contents of the thread's last store record, or part of its last write to a file. At most 4096 bytes: larger
    /// stores are told in pieces.
    pub const VALUE: u8 = 15;
    /// Region number.
    pub const REGION_BEGIN: u8 = 16;
    /// Region number.
    pub const REGION_END: u8 = 17;
    /// Bytes of the name, the name padded.
    pub const PHASE: u8 = 18;
    /// Argument 0 barrier, 1 new, 2 join (as `event::StrandMark`); nothing.
    pub const STRAND: u8 = 19;
    /// Argument [`super::file`]; bytes of the path, and shifted by 32 those of a second one; position before (0: none),
    /// position after (0: none); two numbers; the paths, one behind the other, padded.
    pub const FILE: u8 = 20;
    /// `addr` of the mapping told last, offset in its file.
    pub const MAP_OFFSET: u8 = 21;
    /// `addr`, `len`.
    pub const MAP_SYNC: u8 = 22;
    /// Argument [`super::access`]; `addr`, `len`, of an access that has no [`super::access_word`].
    pub const ODD_ACCESS: u8 = 23;
    /// With values: a function of a library's header has begun. Where it returns to; an address in its frame.
    pub const CALL: u8 = 24;
    /// It ends; nothing.
    pub const RETURN: u8 = 25;
}

/// Argument of [`kind::ACCESS`].
pub mod access {
    /// Read.
    pub const LOAD: u8 = 0;
    /// Write.
    pub const STORE: u8 = 1;
    /// Non-temporal write.
    pub const STORE_NT: u8 = 2;
}

/// Access of [`kind::ATOMIC`].
pub mod atomic {
    /// Read.
    pub const LOAD: u8 = 0;
    /// Write.
    pub const STORE: u8 = 1;
    /// Both, by one instruction.
    pub const READ_MODIFY_WRITE: u8 = 2;
    /// No access: threads meet at this address, by the C library or the kernel.
    pub const MEETING: u8 = 3;
    /// Flag: the positions are those of the accesses themselves. What stores to one word has them in the order in which it did, and
    /// a load has one behind those of all that it saw.
    pub const IN_TURN: u8 = 8;
}

/// Argument of [`kind::FILE`].
pub mod file {
    /// Offset and bytes.
    pub const WRITE: u8 = 0;
    /// `fsync`
    pub const SYNC: u8 = 1;
    /// `fdatasync`
    pub const DATA_SYNC: u8 = 2;
    /// Bytes of the file from now on.
    pub const TRUNCATE: u8 = 3;
    /// An empty file.
    pub const CREATE: u8 = 4;
    /// An empty folder.
    pub const CREATE_FOLDER: u8 = 5;
    /// The first path becomes the second.
    pub const RENAME: u8 = 6;
    /// A path is gone.
    pub const UNLINK: u8 = 7;
    /// A write that was told in pieces is over: the position after it.
    pub const DONE: u8 = 8;
    /// Offset and bytes: what a write to a file with `O_SYNC` waits for.
    pub const RANGE_SYNC: u8 = 9;
    /// Offset and bytes: what a write to a file with `O_DSYNC` waits for.
    pub const RANGE_DATA_SYNC: u8 = 10;
}

/// Argument of [`kind::FLUSH`].
pub mod flush {
    /// `clwb`
    pub const CLWB: u8 = 0;
    /// `clflushopt`
    pub const CLFLUSHOPT: u8 = 1;
    /// `clflush`
    pub const CLFLUSH: u8 = 2;
    /// `cldemote`
    pub const CLDEMOTE: u8 = 3;
}

/// Bytes that one instruction of a library call is taken to touch.
pub const BYTES_PER_INSTRUCTION: u64 = 32;
/// Bytes of a cache line, the unit of flushes.
pub const LINE: u64 = 64;
/// The largest multiple of a line that an event's length can hold.
pub const LONGEST: u64 = u32::MAX as u64 & !(LINE - 1);

/// The length of an access that is told by a call, and above it how many instructions it counts as for the bytes that it
/// touches: words as those of a run whose executions tell the length. `None` if there is no such word for it, or if
/// its address can't be one of a run's.
#[must_use]
pub const fn access_word(addr: u64, len: u64) -> Option<u64> {
    if addr == 0 || addr >> 63 != 0 || len == 0 || len > LONGEST {
        return None;
    }
    Some(len | (len / BYTES_PER_INSTRUCTION) << 32)
}

/// Set in the header of a record that is no run.
pub const RECORD: u64 = 1 << 62;

/// The header word of a record that is no run.
#[must_use]
pub const fn header(kind: u8, argument: u8, pc: u64) -> u64 {
    RECORD | (kind as u64) << 56 | (argument as u64) << 48 | (pc & 0xffff_ffff_ffff)
}

/// The kind in such a header.
#[must_use]
pub const fn kind_of(header: u64) -> u8 {
    (header >> 56) as u8 & 0x3f
}

/// The header word of the run whose descriptor lies at this address.
#[must_use]
pub const fn run_header(descriptor: u64) -> u64 {
    1 << 63 | descriptor >> 2
}

/// The address of a run's descriptor, if this is a run's header.
#[must_use]
pub const fn descriptor_of(header: u64) -> Option<u64> {
    if header >> 62 == 0b10 { Some(header << 2) } else { None }
}

/// The address in a word of a run; 0 if the access was not executed.
#[must_use]
pub const fn accessed(word: u64) -> u64 {
    word ^ (word.cast_signed() >> 63).cast_unsigned()
}
