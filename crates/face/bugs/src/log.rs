//! A ring of records, written by non-temporal stores. They count from `head` to `tail`, two numbers that only
//! grow.

use space::{Env, LINE, Space};

use super::arena::{Arena, ROOT};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    NoFence,
    ReusedEarly,
}

const HEAD: u64 = ROOT;
const TAIL: u64 = ROOT + LINE;
const FIRST: u64 = ROOT + 2 * LINE;
const RECORDS: u64 = 4;
const WORDS: u64 = LINE / 8;
/// Records that the run appends; each one that finds the ring full takes the oldest away first.
const APPENDS: u64 = 12;

fn record(number: u64) -> u64 {
    FIRST + number % RECORDS * LINE
}

/// A word of a record.
fn word(number: u64, index: u64) -> u64 {
    (number + 1) * 100 + index
}

impl Variant {
    fn append<S: Space>(self, space: &S, number: u64, head: &mut u64) {
        let full = number - *head == RECORDS;
        if full {
            *head += 1;
            space.store_u64(HEAD, *head);
            space.flush(HEAD, 8);
            if self != Variant::ReusedEarly {
                space.fence();
            }
        }
        let mut bytes = [0; LINE as usize];
        for (index, place) in (0..WORDS).zip(bytes.as_chunks_mut::<8>().0) {
            *place = word(number, index).to_le_bytes();
        }
        space.store_nt(record(number), &bytes);
        if self != Variant::NoFence {
            space.fence();
        }
        space.store_u64(TAIL, number + 1);
        space.persist(TAIL, 8);
    }
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), (2 + RECORDS) * LINE);
        arena.ready();
        let mut head = 0;
        (0..APPENDS).try_for_each(|number| {
            arena.region(number + 1, || {
                self.append(arena.space, number, &mut head);
                Ok(())
            })
        })
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        let (head, tail) = (arena.get(HEAD)?, arena.get(TAIL)?);
        if head > tail || tail - head > RECORDS {
            return Err(format!("a ring of {RECORDS} records goes from {head} to {tail}"));
        }
        if tail < done {
            return Err(format!("the tail is {tail} after {done} operations"));
        }
        for number in head..tail {
            for index in 0..WORDS {
                if arena.get(record(number) + 8 * index)? != word(number, index) {
                    return Err(format!("record {number} is not what was appended"));
                }
            }
        }
        Ok(())
    }
}
