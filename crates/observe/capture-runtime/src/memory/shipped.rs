//! Hooks for code that a compiler wrote with no sanitizer pass: the assembler wrapper puts one before each
//! access (`instructions.rs` says what they have to keep).
//!
//! Accesses by which threads synchronise have a second hook behind them. Between the two, where stored bytes
//! are recorded, a store holds the lock of its word, so that positions and values come in the order in which
//! the memory has them.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::base::session::{Attached, session};
use crate::memory::instructions::{RMW, atomic_hooks, instruction_hooks, record_atomic, record_store, slow};
use crate::state::local::local;
use crate::state::stream::Stream;
use crate::stream::meeting::{ACQUIRE, RELEASE};
use crate::stream::word_lock::WordLock;
use abi::atomic::{IN_ORDER, LOAD, STORE};
use abi::{access, header, kind};

/// The bit of a header that makes a load's one a store's.
const STORES: u32 = 48;
const _: () = assert!(access::STORE - access::LOAD == 1);

extern "C" fn record_load(header: u64, addr: u64, len: u64) {
    local().stream.room(3).write_access(header, addr, len);
}

extern "C" fn record_change(header: u64, addr: u64, len: u64) {
    record_load(header, addr, len);
    record_store(header | 1 << STORES, addr, len);
}

/// Hooks of loads, and of instructions that load and then store.
macro_rules! accesses {
    ($($load:ident $change:ident: $len:literal;)*) => {
    instruction_hooks! { limit_of_loads $(
        $load: kind::ACCESS, access::LOAD, $len, 3, record_load,
            ["mov qword ptr [rdx + 8], rdi"
             "mov dword ptr [rdx + 16], {len}" "mov dword ptr [rdx + 20], {len} / 32"];
    )* }
    instruction_hooks! { limit $(
        $change: kind::ACCESS, access::LOAD, $len, 6, record_change,
            ["mov qword ptr [rdx + 8], rdi"
             "mov dword ptr [rdx + 16], {len}" "mov dword ptr [rdx + 20], {len} / 32"
             "mov qword ptr [rdx + 32], rdi"
             "mov dword ptr [rdx + 40], {len}" "mov dword ptr [rdx + 44], {len} / 32"
             "bts rax, 48" "mov qword ptr [rdx + 24], rax" "btr rax, 48"];
    )* }
    };
}

accesses! {
    strandline_hook_load1 strandline_hook_change1: 1;
    strandline_hook_load2 strandline_hook_change2: 2;
    strandline_hook_load4 strandline_hook_change4: 4;
    strandline_hook_load8 strandline_hook_change8: 8;
    strandline_hook_load10 strandline_hook_change10: 10;
    strandline_hook_load16 strandline_hook_change16: 16;
    strandline_hook_load32 strandline_hook_change32: 32;
    strandline_hook_load64 strandline_hook_change64: 64;
}

/// Whether the record before is to be completed as soon as the instruction is done.
fn in_order() -> u64 {
    if session().is_some_and(Attached::values) { u64::from(IN_ORDER) << 48 } else { 0 }
}

impl Stream {
    /// Takes the lock of the word at `addr` until the instruction is done.
    fn hold(&self, addr: u64) {
        if in_order() != 0 {
            self.word_lock.set(WordLock::take(addr).keep());
        }
    }
}

extern "C" fn record_acquire(header: u64, addr: u64, len: u64) {
    local().stream.open_atomic(header | in_order(), addr, len);
}

extern "C" fn record_release(header: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    // What comes before is complete before others wait.
    stream.finish_record();
    stream.hold(addr);
    let room = stream.room(5);
    let released = room.position();
    room.write(header | in_order(), &[addr, len, released, 0]);
    stream.store_follows(addr, len);
}

/// As [`record_acquire`], of a volatile, where stored bytes are recorded; any other load elsewhere.
extern "C" fn record_watched_load(header: u64, addr: u64, len: u64) {
    if in_order() == 0 { record_load(plain(header), addr, len) } else { record_acquire(header, addr, len) }
}

/// As [`record_release`], of a volatile, where stored bytes are recorded; any other store elsewhere.
extern "C" fn record_watched_store(header: u64, addr: u64, len: u64) {
    if in_order() == 0 {
        record_store(plain(header) | 1 << STORES, addr, len);
    } else {
        record_release(header, addr, len);
    }
}

/// The header of a plain load by the same code.
fn plain(atomic: u64) -> u64 {
    header(kind::ACCESS, access::LOAD, atomic)
}

extern "C" fn record_locked(header: u64, addr: u64, len: u64) {
    let stream = &local().stream;
    stream.finish_record();
    stream.hold(addr);
    record_atomic(header, addr, len);
}

extern "C" fn record_done(_: u64, _: u64, _: u64) {
    let stream = &local().stream;
    stream.finish_record();
    if let Some(lock) = stream.word_lock.take() {
        WordLock::release(lock);
    }
}

const ACQUIRES: u8 = LOAD | ACQUIRE << 4;
const RELEASES: u8 = STORE | RELEASE << 4;

atomic_hooks! {
    strandline_hook_acquire1: ACQUIRES, 1, record_acquire;
    strandline_hook_acquire2: ACQUIRES, 2, record_acquire;
    strandline_hook_acquire4: ACQUIRES, 4, record_acquire;
    strandline_hook_acquire8: ACQUIRES, 8, record_acquire;
    strandline_hook_release1: RELEASES, 1, record_release;
    strandline_hook_release2: RELEASES, 2, record_release;
    strandline_hook_release4: RELEASES, 4, record_release;
    strandline_hook_release8: RELEASES, 8, record_release;
    strandline_hook_watched_load1: LOAD, 1, record_watched_load;
    strandline_hook_watched_load2: LOAD, 2, record_watched_load;
    strandline_hook_watched_load4: LOAD, 4, record_watched_load;
    strandline_hook_watched_load8: LOAD, 8, record_watched_load;
    strandline_hook_watched_store1: STORE, 1, record_watched_store;
    strandline_hook_watched_store2: STORE, 2, record_watched_store;
    strandline_hook_watched_store4: STORE, 4, record_watched_store;
    strandline_hook_watched_store8: STORE, 8, record_watched_store;
    strandline_hook_locked1: RMW, 1, record_locked;
    strandline_hook_locked2: RMW, 2, record_locked;
    strandline_hook_locked4: RMW, 4, record_locked;
    strandline_hook_locked8: RMW, 8, record_locked;
    strandline_hook_locked16: RMW, 16, record_locked;
    // Behind the instruction.
    strandline_hook_done: 0, 0, record_done;
}
