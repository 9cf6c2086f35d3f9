//! A queue between two threads that wakes seldom.
//!
//! To wake a thread costs as much as some thousand events: a call of the kernel, and on the processor that was at something else
//! another thread with other memory. A queue that wakes its taker for each thing makes two threads that work at about the same speed wake
//! each other all the time. Here who has nothing to take sleeps until half of what has room is there, and who finds no
//! room until half of it is free, unless something is *urgent*, or has waited for a fifth of a second.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// For longer nobody sleeps while there is something to take.
const LONGEST: Duration = Duration::from_millis(200);

/// Things on their way, with room for so many.
struct Lane<T> {
    room: usize,
    way: Mutex<Way<T>>,
    /// There is enough to take, or nothing more comes.
    something: Condvar,
    /// There is enough room, or nobody takes any more.
    space: Condvar,
}

struct Way<T> {
    things: VecDeque<T>,
    /// One of them is not to wait for others.
    urgent: bool,
    /// The other end is gone.
    over: bool,
    /// The taker sleeps, and nobody has woken it.
    taker_sleeps: bool,
    giver_sleeps: bool,
}

impl<T> Lane<T> {
    fn lock(&self) -> MutexGuard<'_, Way<T>> {
        // Nothing panics while it is held.
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        self.lock().over = true;
        self.something.notify_one();
        self.space.notify_one();
    }
}

/// The end into which things are put.
pub struct Giver<T>(Arc<Lane<T>>);

/// The end from which they are taken.
pub struct Taker<T>(Arc<Lane<T>>);

/// A queue with room for so many things, two at least.
pub fn lane<T>(room: usize) -> (Giver<T>, Taker<T>) {
    let way = Way {
        things: VecDeque::with_capacity(room),
        urgent: false,
        over: false,
        taker_sleeps: false,
        giver_sleeps: false,
    };
    let lane = Arc::new(Lane {
        room: room.max(2),
        way: Mutex::new(way),
        something: Condvar::new(),
        space: Condvar::new(),
    });
    (Giver(Arc::clone(&lane)), Taker(lane))
}

impl<T> Giver<T> {
    /// Puts something in, when there is room. If it is `urgent`, whoever sleeps at the other end gets it at once, and all
    /// before it.
    ///
    /// # Errors
    /// The thing, if nobody takes any more.
    pub fn give(&self, thing: T, urgent: bool) -> Result<(), T> {
        let lane = &*self.0;
        let mut way = lane.lock();
        if way.things.len() >= lane.room && !way.over {
            way.giver_sleeps = true;
            let sleeps = |way: &mut Way<T>| way.things.len() > lane.room / 2 && !way.over;
            way = lane.space.wait_while(way, sleeps).unwrap_or_else(PoisonError::into_inner);
            way.giver_sleeps = false;
        }
        if way.over {
            return Err(thing);
        }
        way.things.push_back(thing);
        way.urgent |= urgent;
        let wakes = way.taker_sleeps && (way.urgent || way.things.len() >= lane.room / 2);
        // Until it runs there may be more to give, for which it need not be woken again.
        way.taker_sleeps &= !wakes;
        drop(way);
        if wakes {
            lane.something.notify_one();
        }
        Ok(())
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T> Taker<T> {
    /// The next thing, when there is one; `None` when nothing more comes.
    pub fn take(&self) -> Option<T> {
        let lane = &*self.0;
        let mut way = lane.lock();
        if way.things.is_empty() && !way.over {
            way.taker_sleeps = true;
            let sleeps = |way: &mut Way<T>| way.things.len() < lane.room / 2 && !way.urgent && !way.over;
            while way.things.is_empty() && !way.over {
                let woken = lane.something.wait_timeout_while(way, LONGEST, sleeps);
                way = woken.unwrap_or_else(PoisonError::into_inner).0;
                // Whoever was woken, by somebody or by the clock, and finds nothing, sleeps on.
                way.taker_sleeps = true;
            }
            way.taker_sleeps = false;
        }
        let thing = way.things.pop_front();
        way.urgent &= !way.things.is_empty();
        let wakes = way.giver_sleeps && way.things.len() <= lane.room / 2;
        way.giver_sleeps &= !wakes;
        drop(way);
        if wakes {
            lane.space.notify_one();
        }
        thing
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn things_come_out_in_order_however_many_have_room() {
        for room in [0, 1, 2, 3, 16] {
            let (giver, taker) = lane(room);
            let given =
                thread::spawn(move || (0..10_000).all(|thing| giver.give(thing, thing % 997 == 0).is_ok()));
            for expected in 0..10_000 {
                assert_eq!(taker.take(), Some(expected), "room for {room}");
            }
            assert_eq!(taker.take(), None);
            assert!(given.join().unwrap());
        }
    }

    #[test]
    fn a_sleeper_is_woken_for_half_of_what_has_room_or_for_what_is_urgent() {
        let (giver, _taker) = lane(16);
        let sleeps_on = |urgent| {
            giver.give((), urgent).unwrap();
            giver.0.lock().taker_sleeps
        };
        // As if it slept.
        giver.0.lock().taker_sleeps = true;
        assert!((0..7).all(|_| sleeps_on(false)));
        assert!(!sleeps_on(false));
        let (giver, _taker) = lane(16);
        giver.0.lock().taker_sleeps = true;
        giver.give((), true).unwrap();
        assert!(!giver.0.lock().taker_sleeps);
    }

    #[test]
    fn nothing_is_left_there() {
        let (giver, taker) = lane(16);
        let (tell, told) = channel();
        let takes = thread::spawn(move || {
            while let Some(thing) = taker.take() {
                tell.send(thing).unwrap();
            }
        });
        giver.give(1, false).unwrap();
        giver.give(2, true).unwrap();
        assert_eq!([told.recv().unwrap(), told.recv().unwrap()], [1, 2]);
        giver.give(3, false).unwrap();
        // By the clock.
        assert_eq!(told.recv().unwrap(), 3);
        giver.give(4, false).unwrap();
        drop(giver);
        assert_eq!(told.recv().unwrap(), 4);
        takes.join().unwrap();
    }

    #[test]
    fn who_gives_to_nobody_learns_of_it() {
        let (giver, taker) = lane(2);
        assert_eq!(giver.give(1, false), Ok(()));
        let gone = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(taker);
        });
        assert_eq!(giver.give(2, false), Ok(()));
        // Here it sleeps until the taker goes.
        assert_eq!(giver.give(3, false), Err(3));
        assert_eq!(giver.give(4, true), Err(4));
        gone.join().unwrap();
    }
}
