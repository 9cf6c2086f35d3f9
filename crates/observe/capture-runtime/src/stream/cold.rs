//! The cold path: what is to be done when a stream finds no room.
//!
//! It is all that is not ordinary: the thread's first record, a handler that was left by a jump, a sleep that
//! was cancelled, the record before that is not complete, the next chunk, handlers that the thread has to
//! report.

use abi::{BLOCK_MAX, MODE_COUNT, MODE_RECORD, atomic, header, kind};

use crate::base::session::{Attached, session};
use crate::state::local::{self, Local, local};
use crate::state::stream::Stream;
use crate::stream::busy::{self, Busy};
use crate::stream::meeting::{ACQUIRE, RELEASE};
use crate::stream::own_handlers;
use crate::stream::room::{Room, set_cold_path};
use crate::stream::{first, switch};

/// Has streams come here when they find no room. Called once, from the library's constructor, before anything
/// else.
pub fn prepare() {
    set_cold_path(Stream::room_made);
}

impl Stream {
    /// Makes sure that `words` and the longest block have room at the cursor, whatever that takes.
    pub fn make_room(&self, words: usize) {
        loop {
            drop(self.room_made(words));
            // A handler that was put off runs at the very end.
            if !local().own_handlers.is_pending() || local().handlers.get() != 0 {
                return;
            }
        }
    }

    /// As [`Stream::make_room`]; signals are put off while what it gives lives.
    #[cold]
    #[inline(never)]
    fn room_made(&self, words: usize) -> Busy {
        let local = local();
        loop {
            let busy = Busy::begin(local);
            self.prepare(local, words);
            if !local.own_handlers.has_put_off() {
                return busy;
            }
        }
    }

    fn prepare(&self, local: &Local, words: usize) {
        if local.handlers.get() != 0 {
            switch::left_by_jump(local, &raw const words as usize);
        }
        if local.stage.get() == local::NEW && !self.is_lost() {
            first::start(local);
        }
        if let (true, Some(session)) = (self.parked.get().is_some(), session()) {
            // It was cancelled in its sleep, and never came back from there.
            self.unpark(session);
        }
        self.complete(local);
        if !self.has_room(words) {
            self.refill(local);
        }
        if local.own_handlers.is_pending() && local.handlers.get() == 0 && !self.deferred.is_passed() {
            self.record_handlers(local, words);
        }
        self.set_limit();
    }

    /// Records that handlers of the thread's own have come and gone since its last record.
    fn record_handlers(&self, local: &Local, words: usize) {
        const WORDS: usize = 5;
        if !self.has_room(words.max(1 + BLOCK_MAX) + 2 * WORDS) {
            self.refill(local);
        }
        let released = local.own_handlers.take();
        if self.chunk.get() == 0 {
            return;
        }
        let addr = busy::address(local);
        let head = |order| header(kind::ATOMIC, atomic::MEETING | order << 4, 0);
        if released != 0 {
            self.recorded_room(WORDS).write(head(RELEASE), &[addr, 0, released, 0]);
        }
        let room = self.recorded_room(WORDS);
        let acquired = room.position();
        room.write(head(ACQUIRE), &[addr, 0, 0, acquired]);
    }

    /// Sets `words` aside in a chunk even while sampling leaves the stream's other records out.
    pub fn room_kept(&self, words: usize) -> Room<'_> {
        let busy = self.room_made(words);
        if self.leave_out.get() > 0
            && let Some(session) = session()
            && session.mode() == MODE_RECORD
            && self.take_chunk(session)
        {
            // Only this record: the next one finds no room and publishes the chunk.
            let room = Room { _busy: busy, ..self.recorded_room(words) };
            self.end.set(self.cursor.get());
            self.ask();
            return room;
        }
        drop(busy);
        self.room(words)
    }

    /// Finishes the record before: to be called before anything changes or takes away what the program has
    /// stored.
    #[inline]
    pub fn finish_record(&self) {
        if self.limit.get() == 0 {
            self.make_room(0);
        }
    }

    /// Finishes the record before and makes the next one ask for room, whether there is some or not.
    pub fn ask_again(&self) {
        self.finish_record();
        self.ask();
    }

    /// Hands everything over; the next record starts anew.
    pub fn close(&self) {
        self.complete(local());
        if let Some(session) = session()
            && !self.give_up_chunk(session)
            && session.mode() == MODE_COUNT
        {
            self.count(session);
        }
        self.base.set(0);
        self.cursor.set(0);
        self.end.set(0);
        self.ask();
    }

    /// Finishes what the thread recorded last: it may not come to record anything else.
    pub fn finish(&self) {
        self.complete(local());
    }

    /// Runs `wait`, during which the thread may sleep until another one does something.
    pub fn parked<T>(&self, wait: impl FnOnce() -> T) -> T {
        let chunk = self.chunk.get();
        let Some(session) = session().filter(|_| chunk != 0) else { return wait() };
        own_handlers::falls_asleep(local());
        self.complete(local());
        let chunk = self.chunk.get();
        if chunk == 0 {
            return wait();
        }
        self.parked.set(session.park(chunk - 1));
        let limits = (self.limit.get(), self.limit_of_loads.get());
        self.ask();
        let result = wait();
        self.limit.set(limits.0);
        self.limit_of_loads.set(limits.1);
        self.unpark(session);
        result
    }

    /// The thread sleeps no longer: takes its chunk back, if nobody has published it.
    fn unpark(&self, session: &Attached) {
        busy::wakes(local());
        let parked = self.parked.take();
        if parked.is_some() && !session.unpark(self.chunk.get() - 1, &parked) {
            self.chunk.set(0);
            self.base.set(0);
            self.cursor.set(0);
            self.end.set(0);
            self.ask();
        }
    }
}
