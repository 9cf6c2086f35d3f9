//! Tickets: which changes are durable, where that takes a sync.
//!
//! Changes belong to *rounds*. A change notes in its lane what has to become durable and gets the number of
//! the round that is open. Who waits for it closes it, flushes all that the lanes have noted and fences; one
//! at a time, so that whatever is noted meanwhile shares the next sync.

use std::sync::atomic::{AtomicU64, Ordering};

use region::Ticket;
use space::{Env, Observer, Space};

use crate::Error;
use crate::options::Durable;

pub(crate) struct Due<E: Env> {
    pub(crate) mode: Durable,
    /// The open round, from 1.
    open: AtomicU64,
    /// All rounds up to this one are durable.
    done: AtomicU64,
    /// Stands for `done` where somebody watches: what waits for a round comes behind its fence.
    passed: u64,
    rounds: E::Mutex<Rounds>,
    changed: E::Condvar,
}

struct Rounds {
    /// Whether somebody makes a closed round durable.
    under_way: bool,
    lost: bool,
}

impl<E: Env> Due<E> {
    pub(crate) fn new(env: &E, mode: Option<Durable>) -> Self {
        let natural = if env.space().fence_writes() { Durable::WhenWaited } else { Durable::AtOnce };
        Due {
            mode: mode.unwrap_or(natural),
            open: AtomicU64::new(1),
            done: AtomicU64::new(0),
            passed: env.space().observer().new_lock(),
            rounds: env.mutex(Rounds { under_way: false, lost: false }),
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
    pub(crate) fn is_done(&self, env: &E, ticket: Ticket) -> bool {
        let done = self.done.load(Ordering::Acquire) >= ticket.number();
        if done {
            self.pass(env, true);
        }
        done
    }

    /// Reports the order that `done` makes, which is no lock's.
    #[inline]
    fn pass(&self, env: &E, received: bool) {
        let observer = env.space().observer();
        observer.locked(self.passed, received);
        observer.unlocking(self.passed);
    }

    /// The ticket of everything so far.
    pub(crate) fn latest(&self) -> Ticket {
        self.ticket()
    }

    /// Waits for a round. `flush` flushes all that is noted.
    pub(crate) fn wait(&self, env: &E, ticket: Ticket, flush: impl FnOnce()) -> Result<(), Error> {
        if self.is_done(env, ticket) {
            return Ok(());
        }
        let mut rounds = env.lock(&self.rounds);
        let open = loop {
            if self.is_done(env, ticket) {
                return Ok(());
            }
            if rounds.lost {
                return Err(Error::Failed);
            }
            let open = self.open.load(Ordering::Relaxed);
            if ticket.number() > open {
                // No ticket of this store.
                return Ok(());
            }
            if !rounds.under_way {
                break open;
            }
            // What is noted meanwhile shares the next sync.
            rounds = env.wait(&self.changed, rounds);
        };
        rounds.under_way = true;
        self.open.store(open + 1, Ordering::Release);
        drop(rounds);
        let ending = Ending { due: self, env };
        flush();
        env.space().fence();
        std::mem::forget(ending);
        let mut rounds = env.lock(&self.rounds);
        rounds.under_way = false;
        if env.space().has_failed() {
            rounds.lost = true;
        } else {
            self.pass(env, false);
            self.done.store(open, Ordering::Release);
        }
        env.notify_all(&self.changed);
        if rounds.lost { Err(Error::Failed) } else { Ok(()) }
    }
}

/// Lets nobody wait for a round whose fence panicked.
struct Ending<'a, E: Env> {
    due: &'a Due<E>,
    env: &'a E,
}

impl<E: Env> Drop for Ending<'_, E> {
    fn drop(&mut self) {
        let mut rounds = self.env.lock(&self.due.rounds);
        rounds.under_way = false;
        rounds.lost = true;
        self.env.notify_all(&self.due.changed);
    }
}
