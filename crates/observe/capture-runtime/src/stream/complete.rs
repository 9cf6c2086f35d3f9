//! Completes the record before: positions and values that are known only when the program's instruction is
//! done.

use abi::{BLOCK_STORE, accessed, descriptor_of, header, kind};

use crate::base::session::session;
use crate::state::local::{Local, local};
use crate::state::stream::Stream;
use crate::stream::busy::Busy;
use crate::stream::room::Room;

/// Bytes of the longest value that [`kind::VALUE`] takes.
const VALUE_BYTES_MAX: usize = 4096;

impl Stream {
    /// Finishes the record before: its late position, and the bytes that its store has stored by now.
    pub fn complete(&self, local: &Local) {
        let _busy = Busy::begin(local);
        let open = self.open.replace(0);
        if open != 0 {
            let room = Room { at: open as *mut u64, unread: None, _busy: Busy::NOT };
            let taken = if local.handlers.get() == 0 { local.own_handlers.take_open() } else { None };
            room.fill(4, &[taken.unwrap_or_else(|| room.position())]);
            room.complete(self.open_header.get());
        }
        let block = self.block.replace(0);
        if block != 0 && block < self.cursor.get() {
            self.store.set(last_store_of_block(block));
        }
        let (addr, len) = self.store.replace((0, 0));
        if addr != 0 && self.chunk.get() != 0 {
            if !self.has_room(2 + len as usize / 8 + 1) {
                self.refill(local);
            }
            self.write_value(addr as *const u8, len as usize);
        }
        if let Some((header, place, position)) = self.deferred.take() {
            self.write_deferred(local, header, place, position);
        }
    }

    /// Records a store that has been executed by now, in as many pieces as it takes.
    fn write_deferred(&self, local: &Local, header: u64, [addr, len]: [u64; 2], position: u64) {
        let most = self.value_bytes().unwrap_or(VALUE_BYTES_MAX) as u64;
        for from in (0..len).step_by(most as usize) {
            let piece = (len - from).min(most);
            if !self.has_room(5 + 2 + piece.div_ceil(8) as usize) {
                self.refill(local);
            }
            if self.chunk.get() == 0 {
                return;
            }
            if position == 0 {
                self.recorded_room(3).write_access(header, addr + from, piece);
            } else {
                self.recorded_room(5).write(header, &[addr + from, piece, position, 0]);
            }
            self.write_value((addr + from) as *const u8, piece as usize);
        }
    }

    /// Records the bytes of the store record just made; `len` at most [`Stream::value_bytes`].
    pub fn write_value(&self, from: *const u8, len: usize) {
        if !self.has_room(2 + len.div_ceil(8)) {
            self.refill(local());
        }
        let room = self.recorded_room(2 + len.div_ceil(8));
        room.fill(1, &[len as u64]);
        // SAFETY: the program has just stored there; the room is as large, and its last word is zero already.
        unsafe { core::ptr::copy_nonoverlapping(from, room.at.add(2).cast::<u8>(), len) };
        room.complete(header(kind::VALUE, 0, 0));
    }

    /// With values: how many bytes one store record may be about. Without: any number.
    pub fn value_bytes(&self) -> Option<usize> {
        let session = session().filter(|session| session.values())?;
        Some(VALUE_BYTES_MAX.min(session.chunk_bytes / 2))
    }
}

/// Address and length of the store that ends the block at `block`; zeros if none does or it was not reached.
fn last_store_of_block(block: u64) -> (u64, u64) {
    let block = block as *const u64;
    // SAFETY: code in line has written a block there: the address of its descriptor, which says how many
    // words follow.
    unsafe {
        let Some(descriptor) = descriptor_of(block.read()) else { return (0, 0) };
        let descriptor = descriptor as *const u8;
        let count = usize::from(descriptor.add(4).read());
        // What comes after the last one with an address was not executed.
        let Some(last) = (1..=count).rev().find(|&at| block.add(at).read() != 0) else { return (0, 0) };
        let flags = descriptor.add(8 * last + 4).read();
        if flags & BLOCK_STORE != 0 {
            (accessed(block.add(last).read()), 1 << (flags & !BLOCK_STORE))
        } else {
            (0, 0)
        }
    }
}
