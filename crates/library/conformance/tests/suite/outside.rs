//! An engine that is built outside the library, over its journal and from what is public. It passes the
//! exported conformance suite, and a twin that applies a region before its record is durable does not.
//!
//! `docs/new-engine.md` explains it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::panic::catch_unwind;

use region::flaw::{AppliedEarly, Flaw, Sound};
use region::journal::{Journal, Plan, Shape, apply, flush_all};
use region::{Atomicity, Change, Engine, Error, Extent, Logs, Overflow, Recovered, Ticket, Write};
use space::{Env, LINE, Space};

/// Regions that are kept in an ordered map until they are committed.
struct Ordered<F: Flaw = Sound>(PhantomData<F>);

impl<F: Flaw> Atomicity for Ordered<F> {
    const NUMBER: u32 = 1000;
    const NAME: &'static str = "ordered";
    type Engine<E: Env> = OrderedEngine<E, F>;
}

struct OrderedEngine<E: Env, F: Flaw> {
    journal: Journal<E, F>,
}

/// A region under way: new values of words, and changes of single bits.
#[derive(Default)]
struct Region {
    words: BTreeMap<u64, u64>,
    bits: Vec<Write>,
}

impl Region {
    fn writes(&self) -> Vec<Write> {
        let words = self.words.iter().map(|(&offset, &value)| Write::set(offset, value));
        words.chain(self.bits.iter().copied()).collect()
    }
}

/// All of a log is for records.
fn shape(logs: &Logs) -> Shape {
    Shape { lines: logs.bytes / LINE, copies: 0 }
}

/// Writes a region in place, durably.
fn carry_out<S: Space>(space: &S, writes: &[Write]) {
    writes.iter().for_each(|write| apply(space, write));
    flush_all(space, writes);
    space.fence();
}

impl<E: Env, F: Flaw> Engine<E> for OrderedEngine<E, F> {
    type Region = Region;

    const IN_PLACE: bool = false;

    fn recover(space: &E::Space, logs: &Logs) -> Result<Recovered, Error> {
        let plan = Plan::read(space, logs, shape(logs), |_, writes| Ok(writes))?;
        plan.carry_out(space, logs);
        Ok(plan.recovered())
    }

    fn new(env: &E, logs: Logs, recovered: &Recovered) -> Self {
        OrderedEngine { journal: Journal::new(env, &logs, shape(&logs), recovered.next) }
    }

    fn begin(&self, _: &E) -> Region {
        Region::default()
    }

    fn load(&self, env: &E, region: &Region, offset: u64) -> u64 {
        region.words.get(&offset).copied().unwrap_or_else(|| env.space().load_u64(offset))
    }

    fn store(&self, _: &E, region: &mut Region, offset: u64, value: u64) -> Result<(), Error> {
        region.words.insert(offset, value);
        Ok(())
    }

    fn change(&self, _: &E, region: &mut Region, offset: u64, change: Change) -> Result<(), Error> {
        match change {
            Change::Set(value) => _ = region.words.insert(offset, value),
            Change::Take(_) | Change::Give(_) => region.bits.push(Write::new(offset, change)),
        }
        Ok(())
    }

    fn commit(&self, env: &E, region: Region) -> Result<Ticket, Error> {
        let writes = region.writes();
        if !writes.is_empty() {
            let log = self.journal.lease(env);
            let done = |space: &E::Space| carry_out(space, &writes);
            self.journal.commit(env, log, writes.iter().copied(), None, done)?;
        }
        Ok(Ticket::DUE)
    }

    region::due_at_commit!(E);

    fn abort(&self, _: &E, _: Region) {}

    fn set_alone(&self, env: &E, offset: u64, value: u64) -> Result<(), Error> {
        self.journal.set_alone(env, offset, value);
        Ok(())
    }

    fn checkpoint(&self, env: &E) -> Result<(), Error> {
        self.journal.checkpoint(env);
        Ok(())
    }

    fn overflow(&self) -> Option<&impl Overflow<E, Region>> {
        Some(self)
    }
}

impl<E: Env, F: Flaw> Overflow<E, Region> for OrderedEngine<E, F> {
    fn overflow_words(&self, region: &Region) -> u64 {
        self.journal.overflow_words(&region.writes())
    }

    fn commit_overflow(&self, env: &E, region: Region, extent: &Extent) -> Result<Ticket, Error> {
        let writes = region.writes();
        let there = self.journal.write_there(env, extent, writes.iter().copied());
        let log = self.journal.lease(env);
        self.journal.commit(env, log, [], Some(&there), |space| carry_out(space, &writes))?;
        Ok(Ticket::DUE)
    }
}

#[test]
fn an_engine_from_outside_conforms() {
    conformance::engine::<Ordered>();
}

#[test]
fn its_twin_with_a_mistake_does_not() {
    let caught = catch_unwind(conformance::power_failures::<Ordered<AppliedEarly>>);
    assert!(caught.is_err(), "regions that are applied early were not noticed");
}
