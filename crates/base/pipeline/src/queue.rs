//! A bounded queue between two threads that wakes them seldom.
//!
//! Waking a thread costs as much as some thousand events: a system call, and cold caches on the processor
//! that was busy with something else. If each item woke the receiver, two threads of about the same speed
//! would wake each other all the time. An idle receiver therefore sleeps until the queue is half full, and a
//! blocked sender until it is half empty. An *urgent* item wakes the receiver at once, and no item waits
//! longer than a fifth of a second.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A receiver sleeps no longer than this while the queue has items.
const LONGEST: Duration = Duration::from_millis(200);

struct Queue<T> {
    capacity: usize,
    state: Mutex<State<T>>,
    /// The receiver should wake: there are enough items, an urgent one, or no sender.
    filled: Condvar,
    /// The sender should wake: there is enough room, or no receiver.
    drained: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    /// One of the items is urgent.
    urgent: bool,
    /// One end is gone.
    closed: bool,
    /// The receiver sleeps and has not been notified.
    receiver_sleeps: bool,
    sender_sleeps: bool,
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.drained.notify_one();
    }
}

/// The end that adds items. Dropping it closes the queue.
pub struct Sender<T>(Arc<Queue<T>>);

/// The end that removes items. Dropping it closes the queue.
pub struct Receiver<T>(Arc<Queue<T>>);

/// A queue of at most `capacity` items, which is 2 at least.
#[must_use]
pub fn queue<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        items: VecDeque::with_capacity(capacity),
        urgent: false,
        closed: false,
        receiver_sleeps: false,
        sender_sleeps: false,
    };
    let queue = Arc::new(Queue {
        capacity: capacity.max(2),
        state: Mutex::new(state),
        filled: Condvar::new(),
        drained: Condvar::new(),
    });
    (Sender(Arc::clone(&queue)), Receiver(queue))
}

impl<T> Sender<T> {
    /// Adds an item; blocks while the queue is full. An `urgent` item wakes the receiver at once, for it and
    /// all items before it.
    ///
    /// # Errors
    /// The item, if the receiver is gone.
    pub fn send(&self, item: T, urgent: bool) -> Result<(), T> {
        let queue = &*self.0;
        let mut state = queue.lock();
        if state.items.len() >= queue.capacity && !state.closed {
            state.sender_sleeps = true;
            let sleeps = |state: &mut State<T>| state.items.len() > queue.capacity / 2 && !state.closed;
            state = queue.drained.wait_while(state, sleeps).unwrap_or_else(PoisonError::into_inner);
            state.sender_sleeps = false;
        }
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        state.urgent |= urgent;
        let wakes = state.receiver_sleeps && (state.urgent || state.items.len() >= queue.capacity / 2);
        // More items may come before it runs; they need not notify it again.
        state.receiver_sleeps &= !wakes;
        drop(state);
        if wakes {
            queue.filled.notify_one();
        }
        Ok(())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Receiver<T> {
    /// The next item; blocks while there is none. `None` once the sender is gone and the queue is empty.
    #[must_use]
    pub fn recv(&self) -> Option<T> {
        let queue = &*self.0;
        let mut state = queue.lock();
        if state.items.is_empty() && !state.closed {
            state.receiver_sleeps = true;
            let sleeps = |state: &mut State<T>| {
                state.items.len() < queue.capacity / 2 && !state.urgent && !state.closed
            };
            while state.items.is_empty() && !state.closed {
                let woken = queue.filled.wait_timeout_while(state, LONGEST, sleeps);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
                // If it was woken, by the sender or by the timeout, and the queue is empty, it sleeps on.
                state.receiver_sleeps = true;
            }
            state.receiver_sleeps = false;
        }
        let item = state.items.pop_front();
        state.urgent &= !state.items.is_empty();
        let wakes = state.sender_sleeps && state.items.len() <= queue.capacity / 2;
        state.sender_sleeps &= !wakes;
        drop(state);
        if wakes {
            queue.drained.notify_one();
        }
        item
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn items_arrive_in_order_at_every_capacity() {
        for capacity in [0, 1, 2, 3, 16] {
            let (sender, receiver) = queue(capacity);
            let sending =
                thread::spawn(move || (0..10_000).all(|item| sender.send(item, item % 997 == 0).is_ok()));
            for expected in 0..10_000 {
                assert_eq!(receiver.recv(), Some(expected), "capacity {capacity}");
            }
            assert_eq!(receiver.recv(), None);
            assert!(sending.join().unwrap());
        }
    }

    #[test]
    fn a_receiver_wakes_for_half_a_queue_or_an_urgent_item() {
        let (sender, _receiver) = queue(16);
        let sleeps_on = |urgent| {
            sender.send((), urgent).unwrap();
            sender.0.lock().receiver_sleeps
        };
        // As if it slept.
        sender.0.lock().receiver_sleeps = true;
        assert!((0..7).all(|_| sleeps_on(false)));
        assert!(!sleeps_on(false));
        let (sender, _receiver) = queue(16);
        sender.0.lock().receiver_sleeps = true;
        sender.send((), true).unwrap();
        assert!(!sender.0.lock().receiver_sleeps);
    }

    #[test]
    fn no_item_stays_in_the_queue() {
        let (sender, receiver) = queue(16);
        let (out, arrived) = channel();
        let receiving = thread::spawn(move || {
            while let Some(item) = receiver.recv() {
                out.send(item).unwrap();
            }
        });
        sender.send(1, false).unwrap();
        sender.send(2, true).unwrap();
        assert_eq!([arrived.recv().unwrap(), arrived.recv().unwrap()], [1, 2]);
        sender.send(3, false).unwrap();
        // By the timeout.
        assert_eq!(arrived.recv().unwrap(), 3);
        sender.send(4, false).unwrap();
        drop(sender);
        assert_eq!(arrived.recv().unwrap(), 4);
        receiving.join().unwrap();
    }

    #[test]
    fn a_sender_without_a_receiver_gets_its_item_back() {
        let (sender, receiver) = queue(2);
        assert_eq!(sender.send(1, false), Ok(()));
        let gone = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            drop(receiver);
        });
        assert_eq!(sender.send(2, false), Ok(()));
        // It sleeps here until the receiver goes.
        assert_eq!(sender.send(3, false), Err(3));
        assert_eq!(sender.send(4, true), Err(4));
        gone.join().unwrap();
    }
}
