//! Records: the words that threads write into their chunks.
//!
//! A *record* is a header word and payload words. What a word is shows in its two upper bits, so that
//! accesses can be counted without taking records apart:
//!
//! | bits | what |
//! |---|---|
//! | 10 | header of a block: the lower 62 bits are a quarter of the address of its [descriptor](BLOCK_MAGIC) |
//! | 00 | in a block, the address of a load; 0: the access was not executed |
//! | 11 | in a block, the complement of the address of a store |
//! | 01 | header of any other record: [`RECORD`], and `kind << 56`, `argument << 48` and the code address |
//!
//! A block is a straight piece of code with 1 to [`BLOCK_MAX`] accesses, one word each. The payload of any
//! other record is its kind's, and its bits mean nothing.

/// Accesses of one block at most.
pub const BLOCK_MAX: usize = 32;
/// A block descriptor starts with this. It lies in the text section of the function it describes, 4-aligned:
///
/// | bytes | what |
/// |---|---|
/// | 0..4 | `BLOCK_MAGIC` |
/// | 4 | number of accesses, 1 to [`BLOCK_MAX`] |
/// | 5 | instructions from the last access to the end of the basic block, at most 255 |
/// | 6..8 | instructions from the start of the basic block to the first access, it included |
/// | then 8 per access: 0..4 | code address, signed, relative to this field |
/// | 4 | `log2(size)`, 0 to 4; plus [`BLOCK_STORE`] |
/// | 5 | instructions since the access before it in the block, it included; 0 for the first |
/// | 6..8 | 0 |
///
/// Instruction counts are of the program's own instructions, without ours. A block may go on behind a jump;
/// what the jump leaves out has no address. An access that follows a store of its block looks at the limit
/// again: if the runtime wants to know what was stored (its limit is zero then), it gets to see each store
/// before the next access, which starts a record with a descriptor of its own. A structure's assignment is a
/// load and then a store, in whatever order the compiler reports them.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"SLR1");
/// Flag of an access in a block descriptor.
pub const BLOCK_STORE: u8 = 0x10;

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
    /// Bytes, then these, padded: the contents of the thread's last store record, or part of its last write
    /// to a file. At most 4096 bytes: larger stores are recorded in pieces.
    pub const VALUE: u8 = 15;
    /// Region number.
    pub const REGION_BEGIN: u8 = 16;
    /// Region number.
    pub const REGION_END: u8 = 17;
    /// Bytes of the name, the name padded.
    pub const PHASE: u8 = 18;
    /// Argument 0 barrier, 1 new, 2 join (as `event::StrandMark`); nothing.
    pub const STRAND: u8 = 19;
    /// Argument [`super::file`]; bytes of the path, and shifted by 32 those of a second one; position before
    /// (0: none), position after (0: none); two numbers; the paths, one behind the other, padded.
    pub const FILE: u8 = 20;
    /// `addr` of the mapping recorded last, offset in its file.
    pub const MAP_OFFSET: u8 = 21;
    /// `addr`, `len`.
    pub const MAP_SYNC: u8 = 22;
    /// Argument [`super::access`]; `addr`, `len`, of an access that has no [`super::access_word`].
    pub const ODD_ACCESS: u8 = 23;
    /// With values: a function of a library's header has begun. Where it returns to; an address in its frame.
    pub const CALL: u8 = 24;
    /// It ends; nothing.
    pub const RETURN: u8 = 25;
    /// With calls: a function has begun. Where it returns to; an address in its frame.
    pub const ENTER: u8 = 26;
    /// With calls: it ends, or a part of the stack is left. The address in its frame: it and what lies below
    /// it are over.
    pub const LEAVE: u8 = 27;
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
    /// Flag: the positions are those of the accesses themselves. What stores to one word has them in the
    /// order in which it did, and a load has one behind those of all that it saw.
    pub const IN_ORDER: u8 = 8;
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
    /// A write that was recorded in pieces is over: the position after it.
    pub const DONE: u8 = 8;
    /// Offset and bytes: what a write to a file with `O_SYNC` waits for.
    pub const RANGE_SYNC: u8 = 9;
    /// Offset and bytes: what a write to a file with `O_DSYNC` waits for.
    pub const RANGE_DATA_SYNC: u8 = 10;
    /// The file of the first path is at the second, too.
    pub const LINK: u8 = 11;
    /// The first path is a symbolic link, whose text is the second.
    pub const SYMLINK: u8 = 12;
    /// The two paths exchange what they lead to.
    pub const EXCHANGE: u8 = 13;
    /// All files of the file system that has the path, which is `/` for all of them.
    pub const SYNC_ALL: u8 = 14;
    /// Offset and bytes that were taken out.
    pub const COLLAPSE: u8 = 15;
    /// Offset and bytes of zeros that were put in.
    pub const INSERT: u8 = 16;
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
    /// `prefetcht0` and its like
    pub const PREFETCH: u8 = 4;
}

/// Bytes from the beginning of a thread's state to two numbers of four bytes: functions that stand for their
/// callers, and all others, do not announce themselves where theirs is not 0.
pub const QUIET: usize = 200;

/// Bytes that one instruction of a library call is taken to touch.
pub const BYTES_PER_INSTRUCTION: u64 = 32;
/// Bytes of a cache line, the unit of flushes.
pub const LINE: u64 = 64;
/// The largest multiple of a line that an event's length can hold.
pub const LONGEST: u64 = u32::MAX as u64 & !(LINE - 1);

/// The length of an access that a call records, and above it how many instructions it counts as for the bytes
/// that it touches: words as those of a block whose executions report the length. `None` if there is no such
/// word for it, or if its address can't be one of a block's.
#[must_use]
pub const fn access_word(addr: u64, len: u64) -> Option<u64> {
    if addr == 0 || addr >> 63 != 0 || len == 0 || len > LONGEST {
        return None;
    }
    Some(len | (len / BYTES_PER_INSTRUCTION) << 32)
}

/// Set in the header of a record that is no block.
pub const RECORD: u64 = 1 << 62;

/// The header word of a record that is no block.
#[must_use]
pub const fn header(kind: u8, argument: u8, pc: u64) -> u64 {
    RECORD | (kind as u64) << 56 | (argument as u64) << 48 | (pc & 0xffff_ffff_ffff)
}

/// The kind in such a header.
#[must_use]
pub const fn kind_of(header: u64) -> u8 {
    (header >> 56) as u8 & 0x3f
}

/// The header word of the block whose descriptor lies at this address.
#[must_use]
pub const fn block_header(descriptor: u64) -> u64 {
    1 << 63 | descriptor >> 2
}

/// The address of a block's descriptor, if this is a block's header.
#[must_use]
pub const fn descriptor_of(header: u64) -> Option<u64> {
    if header >> 62 == 0b10 { Some(header << 2) } else { None }
}

/// The address in a word of a block; 0 if the access was not executed.
#[must_use]
pub const fn accessed(word: u64) -> u64 {
    word ^ (word.cast_signed() >> 63).cast_unsigned()
}

/// The line that line tables give to code without a line of its own. The GNU assembler has no way to say that
/// code has none.
pub const NO_LINE: u32 = 0x0fff_ffff;
