//! A field: words on many lines, and leaves that come and go. Steps that a process takes, and what is to be
//! there then. For tests of what the next process finds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use region::{Atomicity, Error, Layout, Pool, Ptr};
use space::Env;

/// The layout.
pub struct Field;
region::persistent! { Field:
    pub struct Root { lines: [[u64; 8]; LINES], leaves: [Ptr<Leaf, Field>; LEAVES] }
}
impl Layout for Field {
    const NAME: &'static str = "field";
    type Root = Root;
}

type Leaf = [u64; 2];
pub type Fields<'e, E, A> = Pool<&'e E, Field, A>;

/// Room for all of it, and for some overflow extents.
pub const BYTES: u64 = 20480 + 14 * 4096;
const LINES: usize = 96;
/// Lines to which most regions write.
const BUSY: usize = 24;
const LEAVES: usize = 16;

/// What a process does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sets a word of each of so many lines from one on, so far from each other, in a region.
    Set {
        line: usize,
        count: usize,
        stride: usize,
        word: usize,
    },
    /// Sets so many words all over the field, no two of which follow each other: more than a chunk holds, if
    /// not a log.
    Wide {
        count: usize,
        stride: usize,
    },
    /// Writes to so many lines from one on in a region that is given up.
    GiveUp {
        line: usize,
        count: usize,
    },
    /// Puts new leaves in the place of old ones.
    Plant {
        from: usize,
        count: usize,
    },
    /// Forgets leaves, and frees them in a region that does nothing else.
    Pluck {
        from: usize,
        count: usize,
    },
    Checkpoint,
    Consolidate,
    /// Ends, and another one opens the pool.
    Open,
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let any_set = (0..BUSY, 1usize..10, 1usize..8, 0usize..8);
    prop_oneof![
        8 => any_set.prop_map(|(line, count, stride, word)| Step::Set { line, count, stride, word }),
        1 => (1usize..450, prop::sample::select(vec![5usize, 7, 11]))
            .prop_map(|(count, stride)| Step::Wide { count, stride }),
        1 => (0..LINES, 1usize..10).prop_map(|(line, count)| Step::GiveUp { line, count }),
        2 => (0..LEAVES, 1..=LEAVES).prop_map(|(from, count)| Step::Plant { from, count }),
        2 => (0..LEAVES, 1..=LEAVES).prop_map(|(from, count)| Step::Pluck { from, count }),
        2 => Just(Step::Checkpoint),
        2 => Just(Step::Consolidate),
        1 => Just(Step::Open),
    ]
}

/// What a pool holds: lines, leaves by what is in them, and how many blocks are nobody's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    lines: [[u64; 8]; LINES],
    leaves: BTreeMap<usize, u64>,
    loose: usize,
}

impl Default for Held {
    fn default() -> Self {
        Held { lines: [[0; 8]; LINES], leaves: BTreeMap::new(), loose: 0 }
    }
}

/// What is to be there: what the last region left, and what the one under way would leave.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub now: Held,
    pub next: Option<Held>,
}

impl Story {
    /// A region that ends with that.
    fn region<R>(
        &mut self,
        change: impl FnOnce(&mut Held),
        region: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut next = self.now.clone();
        change(&mut next);
        self.next = Some(next);
        let done = region()?;
        self.now = self.next.take().expect("it was put there");
        Ok(done)
    }
}

fn line<E: Env, A: Atomicity>(pool: &Fields<'_, E, A>, at: usize) -> Ptr<[u64; 8], Field> {
    Root::lines(pool.root()).element(at)
}

fn leaf<E: Env, A: Atomicity>(pool: &Fields<'_, E, A>, at: usize) -> Ptr<Ptr<Leaf, Field>, Field> {
    Root::leaves(pool.root()).element(at)
}

/// What the pool holds; an error if a leaf is half.
pub fn held<E: Env, A: Atomicity>(pool: &Fields<'_, E, A>) -> Result<Held, String> {
    let Root { lines, leaves } = pool.get(pool.root());
    let leaves = leaves.iter().enumerate().filter_map(|(at, leaf)| Some((at, pool.get(leaf.get()?))));
    let leaves: BTreeMap<usize, Leaf> = leaves.collect();
    if leaves.values().any(|[one, other]| *one != !other) {
        return Err(format!("half of a leaf: {leaves:x?}"));
    }
    let (blocks, reached) = (pool.blocks().len(), leaves.len() + 1);
    let loose =
        blocks.checked_sub(reached).ok_or_else(|| format!("{blocks} blocks, {reached} are reached"))?;
    Ok(Held { lines, leaves: leaves.into_iter().map(|(at, leaf)| (at, leaf[0])).collect(), loose })
}

/// Takes a step but [`Step::Open`], with a value that no other one has.
pub fn take<E: Env, A: Atomicity>(pool: &Fields<'_, E, A>, step: &Step, value: u64, story: &mut Story) {
    let done = match *step {
        Step::Set { line: first, count, stride, word } => {
            let lines = || (first..).step_by(stride).take(count).map(|at| at % BUSY);
            story.region(
                |held| lines().for_each(|at| held.lines[at][word] = value),
                || pool.region(|tx| lines().try_for_each(|at| tx.set(line(pool, at).element(word), value))),
            )
        }
        Step::Wide { count, stride } => {
            let words = || (0..count).map(|at| at * stride % (8 * LINES)).map(|at| (at / 8, at % 8));
            story.region(
                |held| words().for_each(|(at, word)| held.lines[at][word] = value),
                || {
                    pool.region(|tx| {
                        words().try_for_each(|(at, word)| tx.set(line(pool, at).element(word), value))
                    })
                },
            )
        }
        Step::GiveUp { line: first, count } => {
            let given_up: Result<(), Error> = pool.region(|tx| {
                (first..LINES).take(count).try_for_each(|at| tx.set(line(pool, at), [value; 8]))?;
                tx.alloc([value; 2])?;
                Err(Error::Aborted("enough".to_owned()))
            });
            assert!(matches!(given_up, Err(Error::Aborted(_))), "{}: {given_up:?}", A::NAME);
            Ok(())
        }
        Step::Plant { from, count } => {
            let places = || (from..from + count).map(|at| at % LEAVES);
            story.region(
                |held| held.leaves.extend(places().map(|at| (at, value))),
                || {
                    pool.region(|tx| {
                        places().try_for_each(|at| {
                            let old = tx.get(leaf(pool, at));
                            let new = tx.alloc([value, !value])?;
                            tx.set(leaf(pool, at), new)?;
                            if old.get().is_some() { tx.free(old) } else { Ok(()) }
                        })
                    })
                },
            )
        }
        Step::Pluck { from, count } => {
            let places = || (from..from + count).map(|at| at % LEAVES);
            let old: Vec<_> = places().filter_map(|at| pool.get(leaf(pool, at)).get()).collect();
            let loose = old.len();
            let forget = |held: &mut Held| {
                places().for_each(|at| _ = held.leaves.remove(&at));
                held.loose += loose;
            };
            let forgotten = story.region(forget, || {
                pool.region(|tx| places().try_for_each(|at| tx.set(leaf(pool, at), Ptr::NULL)))
            });
            forgotten.and_then(|()| {
                // Nothing but bits of a map.
                let free = || pool.region(|tx| old.into_iter().try_for_each(|old| tx.free(old)));
                story.region(|held| held.loose -= loose, free)
            })
        }
        Step::Checkpoint => pool.checkpoint(),
        Step::Consolidate => pool.consolidate().map(drop),
        Step::Open => Ok(()),
    };
    done.unwrap_or_else(|error| panic!("{}: {step:?}: {error}", A::NAME));
}
