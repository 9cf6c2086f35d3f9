//! New memory for a stream: the next chunk, or scratch memory if the thread's records are left out, only
//! counted, or wanted no more.
//!
//! Where nothing is recorded, records go round in scratch memory: cheaper than asking each time, and code in
//! line could not ask.

use core::sync::atomic::Ordering;

use abi::{MODE_COUNT, MODE_RECORD, header, kind};

use crate::base::session::{Attached, session};
use crate::state::count;
use crate::state::local::{self, Local};
use crate::state::scratch::{self, SCRATCH_BYTES};
use crate::state::stream::{OWN, Stream};
use crate::stream::room::UNREAD_BYTES;

impl Stream {
    /// Finds new memory to write into.
    pub fn refill(&self, local: &Local) {
        let session = match session() {
            Some(session) if self.use_of.get() == OWN && local.stage.get() == local::RUNNING => session,
            _ => return self.rewind(local),
        };
        match session.mode() {
            MODE_RECORD => self.next_chunk(session, local),
            MODE_COUNT => {
                self.count(session);
                if self.base.get() == 0 || self.is_nobodys() {
                    self.rewind(local);
                }
            }
            _ => {
                self.give_up_chunk(session);
                self.rewind(local);
            }
        }
    }

    fn next_chunk(&self, session: &Attached, local: &Local) {
        if !self.give_up_chunk(session) {
            self.leave_out.set(self.leave_out.get().saturating_sub(self.end.get() - self.base.get()));
        }
        if self.leave_out.get() > 0 {
            return self.rewind(local);
        }
        if !session.keeps(self.number.get()) {
            self.number.set(self.number.get() + 1);
            self.leave_out.set(session.chunk_bytes as u64);
            return self.rewind(local);
        }
        if !self.take_chunk(session) {
            self.rewind(local);
        }
    }

    /// Publishes the chunk, if there is one.
    pub fn give_up_chunk(&self, session: &Attached) -> bool {
        let chunk = self.chunk.replace(0);
        if chunk != 0 {
            session.publish(chunk - 1);
        }
        chunk != 0
    }

    /// Takes a chunk of the session; false if there is none to have.
    pub fn take_chunk(&self, session: &Attached) -> bool {
        let number = self.number.replace(self.number.get() + 1);
        let Some(at) = session.take(self.thread.get(), number, self.by_handler.get() != 0) else {
            return false;
        };
        self.chunk.set(at + 1);
        self.set_memory(session.area(at), session.chunk_bytes);
        if self.begun.replace(1) == 0 {
            let room = self.recorded_room(2);
            room.fill(1, &[room.position()]);
            room.complete(header(kind::THREAD_START, 0, session.process.load(Ordering::Relaxed).into()));
        }
        true
    }

    /// Goes on in scratch memory, from its start.
    pub fn rewind(&self, local: &Local) {
        let own = self.use_of.get() == OWN && local.stage.get() == local::RUNNING && local.scratch.get() != 0;
        if !own {
            return self.use_nobodys();
        }
        let start = scratch::part(local.scratch.get(), self.by_handler.get() != 0);
        if session().is_some_and(|session| session.mode() == MODE_COUNT) {
            // What a jump leaves out of a block is not written, and must not count.
            // SAFETY: the calling thread's own memory, of that size.
            unsafe { start.write_bytes(0, SCRATCH_BYTES) };
        }
        self.set_memory(start, SCRATCH_BYTES - UNREAD_BYTES);
    }

    /// With `MODE_COUNT`: counts what was written since the last time, and leaves zeros.
    pub fn count(&self, session: &Attached) {
        let (base, cursor) = (self.base.get(), self.cursor.get());
        let counts = self.counts.take();
        if base != 0 && !self.is_nobodys() && self.chunk.get() == 0 {
            // SAFETY: `base..cursor` is scratch memory of this thread, filled with blocks and records by it.
            let words =
                unsafe { core::slice::from_raw_parts_mut(base as *mut u64, (cursor - base) as usize / 8) };
            count::count(session, words, counts);
        }
        self.cursor.set(base);
    }
}
