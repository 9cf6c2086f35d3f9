//! No protection: what a region costs when a crash may tear it.

use space::{Env, Space};

use super::flaw::Sound;
use super::health::Health;
use super::place::{apply, flush_all, inverse, take_back};
use super::{Atomicity, Engine, Logs, Recovered, Ticket, set_in_place};
use crate::writes::Writes;
use crate::{Change, Error, Write};

/// Regions that are **not** failure-atomic, to compare others with: a commit flushes and fences what was
/// written in place, and a crash before that leaves any of it, the allocator's bits included. A pool that
/// crashed may be damaged, or leak, and recovery does nothing about it. What a region does that gives up is
/// taken back, as long as the program runs.
#[derive(Debug)]
pub struct Unprotected(());

impl Atomicity for Unprotected {
    const NUMBER: u32 = 3;
    const NAME: &'static str = "none";
    type Engine<E: Env> = UnprotectedEngine;
}

/// The [`Engine`] of [`Unprotected`].
pub struct UnprotectedEngine {
    health: Health<Sound>,
}

impl<E: Env> Engine<E> for UnprotectedEngine {
    /// What takes the region's writes back, in their order.
    type Region = Box<Writes>;

    const IN_PLACE: bool = true;

    fn recover(_: &E::Space, _: &Logs) -> Result<Recovered, Error> {
        Ok(Recovered::default())
    }

    fn new(_: &E, _: Logs, _: &Recovered) -> Self {
        UnprotectedEngine { health: Health::new() }
    }

    #[inline]
    fn begin(&self, _: &E) -> Box<Writes> {
        Writes::take()
    }

    #[inline]
    fn load(&self, env: &E, _: &Box<Writes>, offset: u64) -> u64 {
        env.space().load_u64(offset)
    }

    #[inline]
    fn store(&self, env: &E, region: &mut Box<Writes>, offset: u64, value: u64) -> Result<(), Error> {
        let space = env.space();
        if region.get(offset).is_none() {
            region.set(offset, space.load_u64(offset));
        }
        space.store_u64(offset, value);
        Ok(())
    }

    #[inline]
    fn change(&self, env: &E, region: &mut Box<Writes>, offset: u64, change: Change) -> Result<(), Error> {
        if let Change::Set(value) = change {
            return self.store(env, region, offset, value);
        }
        if let Some(inverse) = inverse(change) {
            region.push_bits(offset, inverse);
        }
        apply(env.space(), &Write::new(offset, change));
        Ok(())
    }

    fn commit(&self, env: &E, region: Box<Writes>) -> Result<Ticket, Error> {
        if !region.entries().is_empty() {
            if self.health.is_lost() {
                take_back(env.space(), region.entries());
                self.health.fail();
            }
            self.health.guard(|| {
                flush_all(env.space(), region.entries());
                env.space().fence();
            });
        }
        region.put_back();
        Ok(Ticket::DUE)
    }

    crate::due_at_commit!(E);

    fn abort(&self, env: &E, region: Box<Writes>) {
        if !region.entries().is_empty() {
            take_back(env.space(), region.entries());
            self.health.guard(|| env.space().fence());
        }
        region.put_back();
    }

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        self.health.check();
        self.health.guard(|| set_in_place(env.space(), offset, value));
        Ok(())
    }

    fn checkpoint(&self, _: &E) -> Result<(), Error> {
        Ok(())
    }
}
