//! Synchronisations without an access: threads meet at an address, by the C library or the kernel.

use abi::atomic::MEETING;
use abi::{header, kind};

use crate::state::local::local;

/// C11's number of that order.
pub const ACQUIRE: u8 = 2;
/// C11's number of that order.
pub const RELEASE: u8 = 3;

/// Records that a synchronisation object of the C library was changed before a wait or to end one. It is no
/// fence: what the library does to the object it may do otherwise tomorrow.
pub fn released(pc: u64, addr: u64) {
    let room = local().stream.room(5);
    let position = room.position();
    room.write(header(kind::ATOMIC, MEETING | RELEASE << 4, pc), &[addr, 0, position, 0]);
}

/// Records that a wait for a synchronisation object of the C library has ended.
pub fn acquired(pc: u64, addr: u64) {
    let room = local().stream.room(5);
    let position = room.position();
    room.write(header(kind::ATOMIC, MEETING | ACQUIRE << 4, pc), &[addr, 0, 0, position]);
}
