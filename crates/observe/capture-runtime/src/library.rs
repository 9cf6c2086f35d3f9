//! The functions of `abi::library`: `libstrandline` reports itself by them.

use core::ffi::{CStr, c_char};
use core::sync::atomic::AtomicU64;

use crate::base::module;
use crate::base::session::session;
use crate::mapping::map;
use crate::memory::access;
use crate::memory::atomic;
use crate::stream::record::{record, record_position};
use abi::access::{STORE, STORE_NT};
use abi::kind;
use abi::library::{Table, VERSION};

static TABLE: Table = Table {
    about_to_store,
    stored,
    loaded,
    compare_exchange,
    flushed,
    fenced,
    synced,
    locked,
    unlocking,
    region_begun,
    region_ended,
    allocated,
    freed,
    mapped,
    unmapping,
};

/// The functions that the library calls, if it knows them and somebody records.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_library_hooks(version: u32) -> *const Table {
    if version != VERSION || session().is_none() {
        return core::ptr::null();
    }
    // The library may have been loaded by `dlopen`, and is named in reports.
    module::update();
    &raw const TABLE
}

extern "C" fn about_to_store() {
    access::about_to_store();
}

extern "C" fn stored(pc: u64, addr: u64, len: u64, past_cache: u32) {
    access::stored(if past_cache == 0 { STORE } else { STORE_NT }, pc, addr, len);
}

extern "C" fn loaded(pc: u64, addr: u64, len: u64) {
    access::load(pc, addr, len);
}

unsafe extern "C" fn compare_exchange(pc: u64, addr: u64, old: u64, new: u64) -> u64 {
    // SAFETY: the library says that the word is aligned and mapped, and that all accesses to it are atomic.
    let cell = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
    atomic::compare_exchange_word(pc, cell, old, new)
}

extern "C" fn flushed(pc: u64, addr: u64, len: u64, by: u32) {
    if len > 0 {
        record(kind::FLUSH, by as u8, pc, [addr, len]);
    }
}

extern "C" fn fenced(pc: u64) {
    record(kind::FENCE, 0, pc, []);
}

extern "C" fn synced(pc: u64, addr: u64, len: u64) {
    map::record_synced(pc, addr, len);
}

extern "C" fn locked(pc: u64, lock: u64, shared: u32) {
    record_position(kind::LOCK, u8::from(shared != 0), pc, [lock]);
}

extern "C" fn unlocking(pc: u64, lock: u64) {
    record_position(kind::UNLOCK, 0, pc, [lock]);
}

extern "C" fn region_begun(pc: u64, region: u64) {
    record(kind::REGION_BEGIN, 0, pc, [region]);
}

extern "C" fn region_ended(pc: u64, region: u64) {
    record(kind::REGION_END, 0, pc, [region]);
}

extern "C" fn allocated(pc: u64, addr: u64, len: u64) {
    record(kind::ALLOC, 0, pc, [addr, len]);
}

extern "C" fn freed(pc: u64, addr: u64) {
    record(kind::FREE, 0, pc, [addr]);
}

unsafe extern "C" fn mapped(
    pc: u64,
    path: *const c_char,
    addr: u64,
    len: u64,
    offset: u64,
    made: u32,
) -> u32 {
    // SAFETY: the library says that it is a C string.
    let path = unsafe { CStr::from_ptr(path) };
    u32::from(map::mapped_by_library(pc, path, [addr, len, offset], made != 0))
}

extern "C" fn unmapping(pc: u64, addr: u64, len: u64) {
    map::record_unmapped(pc, addr, len);
}
