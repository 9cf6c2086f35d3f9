//! Events that wait for their core, in the order in which they came.

use std::collections::VecDeque;

use event::{Event, ThreadId};

/// Carried-out events are dropped from memory when there are so many, and no fewer than others.
const COMPACT: usize = 8192;

/// One core's events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    events: Vec<Event>,
    /// Of these, carried out.
    done: usize,
    /// Whose the rest are: runs of one thread with their lengths.
    runs: VecDeque<(ThreadId, usize)>,
}

impl Queue {
    pub(crate) fn push(&mut self, thread: ThreadId, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        if self.done == self.events.len() {
            self.events.clear();
            self.done = 0;
        } else if self.done >= COMPACT && 2 * self.done >= self.events.len() {
            self.events.drain(..self.done);
            self.done = 0;
        }
        self.events.extend_from_slice(events);
        match self.runs.back_mut() {
            Some((last, count)) if *last == thread => *count += events.len(),
            _ => self.runs.push_back((thread, events.len())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len() - self.done
    }

    /// Whose turn it is.
    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.runs.front().map(|run| run.0)
    }

    /// That thread's events, up to the next thread's.
    pub(crate) fn front(&self) -> &[Event] {
        let count = self.runs.front().map_or(0, |run| run.1);
        &self.events[self.done..self.done + count]
    }

    /// So many of them were carried out.
    pub(crate) fn pop(&mut self, count: usize) {
        self.done += count;
        if let Some((_, left)) = self.runs.front_mut() {
            *left -= count;
            if *left == 0 {
                self.runs.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use event::{Op, SiteId};

    use super::*;

    fn events(count: u32) -> Vec<Event> {
        let event = |site| Event { op: Op::Free { addr: 0 }, site: SiteId(site), instructions: 1 };
        (0..count).map(event).collect()
    }

    #[test]
    fn events_leave_in_the_order_in_which_they_came() {
        let mut queue = Queue::default();
        queue.push(ThreadId(1), &events(3));
        queue.push(ThreadId(1), &events(2));
        queue.push(ThreadId(5), &events(20_000));
        assert_eq!((queue.thread(), queue.front().len()), (Some(ThreadId(1)), 5));
        queue.pop(5);
        assert_eq!((queue.thread(), queue.front().len()), (Some(ThreadId(5)), 20_000));
        queue.pop(15_000);
        queue.push(ThreadId(5), &events(1));
        assert_eq!((queue.len(), queue.events.len()), (5001, 5001), "memory is given up");
        assert_eq!(queue.front().first().map(|event| event.site.0), Some(15_000));
        queue.pop(5001);
        assert!(queue.thread().is_none() && queue.len() == 0 && queue.front().is_empty());
    }
}
