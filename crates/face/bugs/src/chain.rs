//! A table that two threads fill from the front, each entry after the one before it.
//!
//! An entry may be built on the last one as soon as that is visible, so it has to be durable by then; the bug
//! is to make it durable after the lock was given up.

use space::{Env, LINE, Observer, Space};

use super::arena::{Arena, ROOT};

/// The correct one, and what can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Fixed,
    Visible,
}

const THREADS: u32 = 2;
const EACH: u64 = 5;

fn entry(index: u64) -> u64 {
    ROOT + index * LINE
}

/// Each entry is made from the one before.
fn after(value: u64) -> u64 {
    value * 3 + 1
}

impl super::Structure for Variant {
    fn run<E: Env>(self, env: &E) -> Result<(), String> {
        let arena = Arena::create(env.space(), u64::from(THREADS) * EACH * LINE);
        arena.ready();
        let next = env.mutex(0);
        env.threads(THREADS, |_| {
            for _ in 0..EACH {
                let mut next = env.lock(&next);
                let index = *next;
                env.space().observer().region_begin(index + 1);
                let last = if index == 0 { 0 } else { env.space().load_u64(entry(index - 1)) };
                env.space().store_u64(entry(index), after(last));
                if self == Variant::Fixed {
                    env.space().persist(entry(index), 8);
                }
                *next = index + 1;
                drop(next);
                if self == Variant::Visible {
                    env.space().persist(entry(index), 8);
                }
                env.space().observer().region_end(index + 1);
            }
        });
        Ok(())
    }

    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String> {
        let (mut last, mut hole) = (0, None);
        for index in 0..u64::from(THREADS) * EACH {
            let value = arena.get(entry(index))?;
            match (value, hole) {
                (0, None) => hole = Some(index),
                (0, Some(_)) => {}
                (_, Some(hole)) => return Err(format!("entry {index} rests on entry {hole}, which is lost")),
                (_, None) if value != after(last) => {
                    return Err(format!("entry {index} is not made from the one before"));
                }
                (_, None) => last = value,
            }
        }
        match hole {
            Some(hole) if hole < done => Err(format!("entry {hole} is lost after {done} operations")),
            _ => Ok(()),
        }
    }
}
