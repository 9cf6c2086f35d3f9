//! Records of accesses that the compiler's calls announce: made before the program's instruction, completed
//! after it.

use abi::atomic;

use crate::base::session::{Attached, session};
use crate::state::stream::Stream;

impl Stream {
    /// Records a load.
    #[inline(always)]
    pub fn load(&self, header: u64, addr: u64, len: u64) {
        let record = || self.room(3).write_access(header, addr, len);
        if self.deferred.lets_pass() { self.deferred.pass(record) } else { record() }
    }

    /// Records a store that a call has announced and that is about to be executed.
    #[inline]
    pub fn store_to_come(&self, header: u64, addr: u64, len: u64) {
        if session().is_some_and(Attached::values) && addr != 0 {
            self.make_room(3);
            if self.chunk.get() != 0 {
                self.limit_of_loads.set(0);
                return self.deferred.set(header, addr, len, 0);
            }
        }
        self.room(3).write_access(header, addr, len);
    }

    /// With values: records a volatile store that a call has announced and that is about to be executed, at a
    /// position that is taken now.
    pub fn volatile_store(&self, header: u64, addr: u64, len: u64) {
        let room = self.room(5);
        let position = room.position();
        if position == 0 {
            return room.complete(header);
        }
        // Nothing is written yet: the record is made as the store's.
        self.cursor.set(room.at as u64);
        self.limit_of_loads.set(0);
        self.deferred.set(header, addr, len, position);
    }

    /// With values: records a volatile load that a call has announced and that is about to be executed.
    pub fn volatile_load(&self, header: u64, addr: u64, len: u64) {
        if self.deferred.lets_pass() {
            self.deferred.pass(|| self.room(5).write(header, &[addr, len, 0, 0]));
        } else {
            self.open_atomic(header, addr, len);
        }
    }

    /// With values: notes that the record just made, of `len` bytes at most 64, is a store yet to be
    /// executed.
    #[inline]
    pub fn store_follows(&self, addr: u64, len: u64) {
        if session().is_some_and(Attached::values) {
            self.store.set((addr, len));
            self.limit_of_loads.set(0);
        }
    }

    /// With values: notes where a block is about to go.
    #[cfg(target_arch = "x86_64")]
    pub fn block_follows(&self) {
        if session().is_some_and(Attached::values) {
            self.block.set(self.cursor.get());
            self.limit_of_loads.set(0);
        }
    }

    /// Makes an atomic's record that is completed, and whose acquire position is taken, when the instruction
    /// after the hook is done.
    pub fn open_atomic(&self, header: u64, addr: u64, len: u64) {
        let room = self.room(5);
        if room.unread.is_some() {
            return room.complete(header);
        }
        let stores = (header >> 48) as u8 & 7 != atomic::LOAD;
        let released = if stores { room.position() } else { 0 };
        room.fill(1, &[addr, len, released]);
        if stores {
            self.store_follows(addr, len);
        }
        self.open_header.set(header);
        self.open.set(room.at as u64);
        self.ask();
    }

    /// With values: records the bytes of the store record just made, which has been executed.
    pub fn stored(&self, from: *const u8, len: usize) {
        if self.chunk.get() != 0 && session().is_some_and(Attached::values) {
            self.write_value(from, len);
        }
    }
}
