//! What `libstrandline`, the C interface of pools, calls to report this runtime what it does.
//!
//! That library is not instrumented and asks the kernel itself for its mappings, so it would be invisible:
//! its stores to a pool, its flushes and fences, its locks. It looks for [`ENTRY`] when it opens a pool, and
//! if somebody records, it reports each of them, as done by the code of the program that called it.

use core::ffi::{CStr, c_char};

/// The function that gives the [`Table`]: an [`Entry`].
pub const ENTRY: &CStr = c"strandline_library_hooks";

/// Changes with the table.
pub const VERSION: u32 = 1;

/// Takes the version that the caller knows; null if it is another one, or nobody records.
pub type Entry = extern "C" fn(version: u32) -> *const Table;

/// The functions. `pc` is always the return address of the program's call; addresses and lengths are bytes.
#[repr(C)]
pub struct Table {
    /// To be called before a store that will be recorded, because the record before may be about the same
    /// bytes.
    pub about_to_store: extern "C" fn(),
    /// Bytes were stored; not 0 if non-temporal.
    pub stored: extern "C" fn(pc: u64, addr: u64, len: u64, non_temporal: u32),
    /// Bytes were, or are about to be, loaded.
    pub loaded: extern "C" fn(pc: u64, addr: u64, len: u64),
    /// Compares and exchanges the aligned word at `addr`; what was there.
    pub compare_exchange: unsafe extern "C" fn(pc: u64, addr: u64, old: u64, new: u64) -> u64,
    /// All lines that the range touches were flushed, by an instruction of [`crate::flush`].
    pub flushed: extern "C" fn(pc: u64, addr: u64, len: u64, by: u32),
    /// A store fence.
    pub fenced: extern "C" fn(pc: u64),
    /// The pages of the range were written to their file.
    pub synced: extern "C" fn(pc: u64, addr: u64, len: u64),
    /// A lock of that number was obtained; not 0 if it is shared.
    pub locked: extern "C" fn(pc: u64, lock: u64, shared: u32),
    /// It is about to be given up.
    pub unlocking: extern "C" fn(pc: u64, lock: u64),
    /// A region of that number begins.
    pub region_begun: extern "C" fn(pc: u64, region: u64),
    /// It has ended.
    pub region_ended: extern "C" fn(pc: u64, region: u64),
    /// A block was allocated.
    pub allocated: extern "C" fn(pc: u64, addr: u64, len: u64),
    /// It was freed.
    pub freed: extern "C" fn(pc: u64, addr: u64),
    /// So many bytes at `offset`, the rest, of the file of that path were mapped, and nobody has written to
    /// them; before that they were made and synced, if `made` is not 0. Not 0 if calls on the file are
    /// recorded, so that it is synced and not flushed. The path is a C string.
    pub mapped: unsafe extern "C" fn(
        pc: u64,
        path: *const c_char,
        addr: u64,
        len: u64,
        offset: u64,
        made: u32,
    ) -> u32,
    /// The mapping is about to go.
    pub unmapping: extern "C" fn(pc: u64, addr: u64, len: u64),
}
