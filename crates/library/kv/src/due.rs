//! Tickets: which changes are durable, where that takes a sync.
//!
//! Changes belong to *rounds*. A change notes in its lane what has to become durable and gets the number of
//! the round that is open. Who waits for a round that is still open closes it, flushes all that the lanes
//! have noted and fences. Several can do so at the same time, each with the round that it closed: whether
//! their fences share one sync is the business of the space.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use region::Ticket;
use space::{Env, Space};

use crate::Error;
use crate::options::Durable;

pub(crate) struct Due<E: Env> {
    pub(crate) mode: Durable,
    /// The open round, from 1.
    open: AtomicU64,
    /// All rounds up to this one are durable.
    done: AtomicU64,
    rounds: E::Mutex<Rounds>,
    changed: E::Condvar,
}

struct Rounds {
    /// Closed, and not durable yet.
    under_way: BTreeSet<u64>,
    lost: bool,
}

impl<E: Env> Due<E> {
    pub(crate) fn new(env: &E, mode: Option<Durable>) -> Self {
        let natural = if env.space().fence_writes() { Durable::WhenWaited } else { Durable::AtOnce };
        Due {
            mode: mode.unwrap_or(natural),
            open: AtomicU64::new(1),
            done: AtomicU64::new(0),
            rounds: env.mutex(Rounds { under_way: BTreeSet::new(), lost: false }),
            changed: env.condvar(),
        }
    }

    #[inline]
    pub(crate) fn at_once(&self) -> bool {
        self.mode == Durable::AtOnce
    }

    /// The ticket of a change that was noted in its lane, whose latch is held.
    #[inline]
    pub(crate) fn ticket(&self) -> Ticket {
        if self.at_once() { Ticket::DUE } else { Ticket::new(self.open.load(Ordering::Acquire)) }
    }

    /// Whether that round is durable.
    #[inline]
    pub(crate) fn is_done(&self, ticket: Ticket) -> bool {
        self.done.load(Ordering::Acquire) >= ticket.number()
    }

    /// The ticket of everything so far.
    pub(crate) fn latest(&self) -> Ticket {
        self.ticket()
    }

    /// Waits for a round. `flush` flushes all that is noted.
    pub(crate) fn wait(&self, env: &E, ticket: Ticket, flush: impl FnOnce()) -> Result<(), Error> {
        if self.is_done(ticket) {
            return Ok(());
        }
        let mut rounds = env.lock(&self.rounds);
        let open = self.open.load(Ordering::Relaxed);
        if ticket.number() > open {
            // No ticket of this store.
            return Ok(());
        }
        if ticket.number() < open {
            while !self.is_done(ticket) && !rounds.lost {
                rounds = env.wait(&self.changed, rounds);
            }
            return if self.is_done(ticket) { Ok(()) } else { Err(Error::Failed) };
        }
        if rounds.lost {
            return Err(Error::Failed);
        }
        rounds.under_way.insert(open);
        self.open.store(open + 1, Ordering::Release);
        drop(rounds);
        let ending = Ending { due: self, env, round: open };
        flush();
        env.space().fence();
        std::mem::forget(ending);
        let mut rounds = env.lock(&self.rounds);
        rounds.under_way.remove(&open);
        let first = rounds.under_way.first().copied();
        // A round is durable only with all before it.
        let done = first.unwrap_or(self.open.load(Ordering::Relaxed)) - 1;
        if env.space().has_failed() {
            rounds.lost = true;
        } else {
            self.done.store(done, Ordering::Release);
        }
        env.notify_all(&self.changed);
        while !self.is_done(ticket) && !rounds.lost {
            rounds = env.wait(&self.changed, rounds);
        }
        if self.is_done(ticket) { Ok(()) } else { Err(Error::Failed) }
    }
}

/// Lets nobody wait for a round whose fence panicked.
struct Ending<'a, E: Env> {
    due: &'a Due<E>,
    env: &'a E,
    round: u64,
}

impl<E: Env> Drop for Ending<'_, E> {
    fn drop(&mut self) {
        let mut rounds = self.env.lock(&self.due.rounds);
        rounds.under_way.remove(&self.round);
        rounds.lost = true;
        self.env.notify_all(&self.due.changed);
    }
}
