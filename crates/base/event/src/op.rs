//! What can happen to memory.

use crate::{NameId, SiteId};

/// A thread of the observed run. Numbers are given in the order of first appearance and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ThreadId(pub u32);

/// One thing that one thread did to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub op: Op,
    /// The code that did it; [`SiteId::UNKNOWN`] where the source can't tell.
    pub site: SiteId,
    /// Instructions that this thread executed since its event before this one, this one's
    /// included. Exact, estimated or always 0: see [`crate::InstructionCounts`].
    pub instructions: u32,
}

/// The operation of an [`Event`]. Addresses are virtual addresses of the observed process, or
/// offsets where the producer has a space of its own; lengths are bytes.
///
/// An atomic read-modify-write is recorded as `Load`, `Release` (if it releases), `Store`,
/// `Acquire` (if it acquires) and, because a locked x86 instruction also orders flushes,
/// `Fence(Locked)`, in this order. An atomic store is a `Release` and a `Store`, in this order or, if the
/// source knows in which order the stores to one word were made, the other way round. A `Release` or
/// `Acquire` without any access is of an object of the C library or the kernel: semaphores, barriers, pipes.
///
/// Operations on files name a file by the path that it has when the operation is over: after `Rename { from,
/// to }` the file that was `from` is `to`. A name without a slash at its beginning is in no folder: it
/// stands for a file itself, one that was made without a name or that lost the name that it was opened by.
/// Each stands between an `Acquire` and a `Release` of the variable whose address is the file's [`NameId`]
/// (no variable of a program has so small an address), so that the operations of several threads and
/// processes come in the order in which the kernel carried them out. What a program writes with one call may
/// be recorded as several writes between these two. A sync is recorded when it begins: it covers the writes
/// before it, and lasts for as long as the thread does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read of `len` bytes.
    Load {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// A write through the cache.
    Store {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// A non-temporal (write-combining, cache-bypassing) store.
    StoreNt {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u32,
    },
    /// A write-back of the cache line that contains `addr`.
    Flush {
        /// Any byte of the line.
        addr: u64,
        /// Which instruction.
        kind: FlushKind,
    },
    /// A hint to move the line that contains `addr` down the hierarchy (`cldemote`).
    Demote {
        /// Any byte of the line.
        addr: u64,
    },
    /// A hint to bring the line that contains `addr` into the caches (`prefetcht0` and its like).
    Prefetch {
        /// Any byte of the line.
        addr: u64,
    },
    /// No access: from here on, the thread's events are of functions that were called from the event's site,
    /// whose frames are those calls, the last one first; from [`SiteId::UNKNOWN`], if that is not known. Only
    /// where call stacks were asked for ([`crate::Capabilities::CALLS`]).
    Context,
    /// An ordering instruction.
    Fence(FenceKind),
    /// Reads-from side of a synchronisation on `var`.
    Acquire {
        /// Address of the synchronisation variable.
        var: u64,
        /// Memory order of the access.
        order: Order,
        /// Position in the run's global order of synchronisation, from 1, without gaps.
        seq: u64,
    },
    /// Publishing side of a synchronisation on `var`.
    Release {
        /// Address of the synchronisation variable.
        var: u64,
        /// Memory order of the access.
        order: Order,
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// A lock was obtained.
    Lock {
        /// Address of the lock.
        lock: u64,
        /// Whether others may hold it at the same time (a reader's lock).
        shared: bool,
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// A lock is about to be given up.
    Unlock {
        /// Address of the lock.
        lock: u64,
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// This thread created `child`; everything before is visible to the child.
    Spawn {
        /// The new thread.
        child: ThreadId,
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// First event of a thread.
    ThreadStart {
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// Last event of a thread that ended in an orderly way.
    ThreadEnd {
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// This thread waited for `thread` to end.
    Join {
        /// The thread that ended.
        thread: ThreadId,
        /// Position in the global order of synchronisation.
        seq: u64,
    },
    /// `len` bytes at `addr` were allocated; the event's site is the allocation site.
    Alloc {
        /// First byte.
        addr: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// The allocation that starts at `addr` was freed.
    Free {
        /// First byte.
        addr: u64,
    },
    /// A range became persistent memory: a file that was mapped to be shared, and that lies on a DAX mount,
    /// under `/dev/shm`, or where the user said. Private mappings are not recorded.
    Map {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
        /// The file's path.
        name: NameId,
    },
    /// Right after its `Map`: the mapping starts at `offset` of the file. Recorded only if that is not 0.
    MapOffset {
        /// First byte of the mapping.
        addr: u64,
        /// Where in the file that byte is.
        offset: u64,
    },
    /// The file's pages under these bytes are being written to the medium (`msync` with `MS_SYNC`).
    MapSync {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// A persistent range was unmapped.
    Unmap {
        /// First byte.
        addr: u64,
        /// Bytes.
        len: u64,
    },
    /// A failure-atomic region begins.
    RegionBegin {
        /// The region's number, chosen by the producer.
        region: u64,
    },
    /// A failure-atomic region ends (commits).
    RegionEnd {
        /// The number given at its beginning.
        region: u64,
    },
    /// A phase of the program begins and lasts until the next phase mark of any thread.
    Phase {
        /// The phase's name.
        name: NameId,
    },
    /// What the thread says about the order in which its stores persist.
    Strand(StrandMark),
    /// The thread is one of this process; without it, of the run's first, which is 0. Its addresses are of
    /// another memory from here on: that of the process that made it, as it was then.
    Process {
        /// Its number in the run.
        process: u32,
    },
    /// Bytes were written to a file, past memory (`write` and its kin). Its values are those bytes.
    FileWrite {
        /// The file's path.
        file: NameId,
        /// Where in the file the first byte went.
        offset: u64,
        /// Bytes.
        len: u32,
    },
    /// A file, or a folder's entries, are being written to the medium (`fsync`, `fdatasync`).
    FileSync {
        /// The file's or folder's path.
        file: NameId,
        /// Only the contents and what it takes to read them again (`fdatasync`).
        data_only: bool,
    },
    /// These bytes of a file are being written to the medium: behind each write to a file that was opened
    /// with `O_SYNC` or `O_DSYNC`.
    FileRangeSync {
        /// The file's path.
        file: NameId,
        /// Where in the file the first byte is.
        offset: u64,
        /// Bytes.
        len: u32,
        /// Only the contents and what it takes to read them again (`O_DSYNC`).
        data_only: bool,
    },
    /// A file got another length: shorter, or longer by zeros (`ftruncate`, `O_TRUNC`, `fallocate`).
    FileTruncate {
        /// The file's path.
        file: NameId,
        /// Its bytes from now on.
        len: u64,
    },
    /// An empty file or folder was made.
    FileCreate {
        /// Its path.
        file: NameId,
        /// Whether it is a folder.
        folder: bool,
    },
    /// A file or folder got another path; what had that path before is gone.
    Rename {
        /// The old path.
        from: NameId,
        /// The new one.
        to: NameId,
    },
    /// A path was removed, of a file or of an empty folder.
    Unlink {
        /// The path.
        file: NameId,
    },
    /// A file got one more path: a hard link.
    Link {
        /// A path that it has already.
        from: NameId,
        /// The new one.
        to: NameId,
    },
    /// A symbolic link was made.
    Symlink {
        /// Its path.
        file: NameId,
        /// The text that it leads to.
        target: NameId,
    },
    /// Two paths exchanged what they lead to, at once.
    Exchange {
        /// One path.
        from: NameId,
        /// The other.
        to: NameId,
    },
    /// All files of a file system are being written to the medium (`sync`, `syncfs`).
    FilesSync {
        /// A path on that file system; `/` for all of them.
        file: NameId,
    },
    /// Bytes were taken out of a file: those behind them moved down, and it is as much shorter.
    FileCollapse {
        /// The file's path.
        file: NameId,
        /// Where in the file the first byte was.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Zeros were put into a file: the bytes behind them moved up, and it is as much longer.
    FileInsert {
        /// The file's path.
        file: NameId,
        /// Where in the file the first zero is.
        offset: u64,
        /// Bytes.
        len: u64,
    },
}

/// Marks of strand persistency. A thread's stores lie on *strands*; only stores of one strand, with a barrier
/// between them, persist in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StrandMark {
    /// On the strand, what was stored before persists no later than what is stored after.
    Barrier = 0,
    /// What follows is on a new strand, which nothing before orders.
    New = 1,
    /// All strands of the thread end: what was stored on any of them persists no later than what is stored
    /// after.
    Join = 2,
}

/// The flush instructions of x86-64; other ISAs map theirs onto the one of the same meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlushKind {
    /// Write back, keep the line; weakly ordered. (aarch64 `dc cvac`, `dc cvap`.)
    Clwb = 0,
    /// Write back and invalidate; weakly ordered. (aarch64 `dc civac`.)
    Clflushopt = 1,
    /// Write back and invalidate; ordered with stores and other `clflush`.
    Clflush = 2,
}

/// Fences, by what they order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FenceKind {
    /// Stores and flushes before, stores and flushes after (`sfence`).
    Store = 0,
    /// Everything before, everything after (`mfence`).
    Full = 1,
    /// The fence that a locked instruction implies. Orders like [`FenceKind::Full`], but nobody wrote it
    /// as a fence, so no advisor calls it superfluous.
    Locked = 2,
}

/// Memory order of an acquire or release, as in C11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// `memory_order_consume` and `memory_order_acquire`.
    Acquire = 0,
    /// `memory_order_release`.
    Release = 1,
    /// `memory_order_acq_rel`.
    AcqRel = 2,
    /// `memory_order_seq_cst`.
    SeqCst = 3,
}

/// A pattern: the operations on files, but for `msync`, which names memory. A match that treats them all
/// alike stays complete with it, and breaks where an operation is added that belongs to none of its groups.
#[macro_export]
macro_rules! file_operations {
    () => {
        $crate::Op::FileWrite { .. }
            | $crate::Op::FileSync { .. }
            | $crate::Op::FileRangeSync { .. }
            | $crate::Op::FilesSync { .. }
            | $crate::Op::FileTruncate { .. }
            | $crate::Op::FileCollapse { .. }
            | $crate::Op::FileInsert { .. }
            | $crate::Op::FileCreate { .. }
            | $crate::Op::Rename { .. }
            | $crate::Op::Exchange { .. }
            | $crate::Op::Link { .. }
            | $crate::Op::Symlink { .. }
            | $crate::Op::Unlink { .. }
    };
}

/// A pattern: the operations that order threads, each with a position in the global order of synchronisation.
#[macro_export]
macro_rules! synchronizations {
    () => {
        $crate::Op::Acquire { .. }
            | $crate::Op::Release { .. }
            | $crate::Op::Lock { .. }
            | $crate::Op::Unlock { .. }
            | $crate::Op::Spawn { .. }
            | $crate::Op::ThreadStart { .. }
            | $crate::Op::ThreadEnd { .. }
            | $crate::Op::Join { .. }
    };
}

impl Op {
    /// The position in the global order of synchronisation, for operations that have one.
    #[must_use]
    pub fn seq(&self) -> Option<u64> {
        match *self {
            Op::Acquire { seq, .. }
            | Op::Release { seq, .. }
            | Op::Lock { seq, .. }
            | Op::Unlock { seq, .. }
            | Op::Spawn { seq, .. }
            | Op::ThreadStart { seq }
            | Op::ThreadEnd { seq }
            | Op::Join { seq, .. } => Some(seq),
            _ => None,
        }
    }

    /// How many of its batch's values the operation has, if it may have any: see [`crate::Batch::values`].
    #[must_use]
    pub fn value_len(&self) -> Option<u32> {
        match *self {
            Op::Store { len, .. } | Op::StoreNt { len, .. } | Op::FileWrite { len, .. } => Some(len),
            _ => None,
        }
    }

    /// Bytes of memory that the operation changes, with the first one's address.
    #[must_use]
    pub fn stored(&self) -> Option<(u64, u32)> {
        match *self {
            Op::Store { addr, len } | Op::StoreNt { addr, len } => Some((addr, len)),
            _ => None,
        }
    }
}

const _: () = assert!(size_of::<Event>() == 32);
