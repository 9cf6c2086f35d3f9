//! The structures of the study, each changed by a key at a time: deleted if it is there, else inserted.

use region::{Atomicity, Error, Layout, Tx};
use space::Env;

/// A structure in a pool.
pub trait Structure: Layout + 'static {
    /// Its name.
    const TITLE: &'static str;
    /// How many keys there are.
    const KEYS: u64;
    /// Whether every other key is inserted before writes are counted.
    const FILLED: bool;

    /// Inserts `key`, or deletes it if it is there. `random` is for those that need more than a key.
    fn update<E: Env, A: Atomicity>(tx: &mut Tx<'_, &E, Self, A>, key: u64, random: u64) -> Result<(), Error>
    where
        Self: Sized;
}

/// Elements of the array.
const ELEMENTS: usize = 1 << 20;

/// SPS: two elements of an array change places.
pub struct Swaps;

impl Layout for Swaps {
    const NAME: &'static str = "sps";
    type Root = [u64; ELEMENTS];
}

impl Structure for Swaps {
    const TITLE: &'static str = "SPS";
    const KEYS: u64 = ELEMENTS as u64;
    const FILLED: bool = false;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let all = ELEMENTS as u64;
        let places = [key, random].map(|number| tx.root().element((scatter(number) % all) as usize));
        let values = places.map(|place| tx.get(place));
        tx.set(places[0], values[1])?;
        tx.set(places[1], values[0])
    }
}

/// Spreads neighbouring numbers.
pub fn scatter(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{BTree, Hash, RbTree, btree, hash, rbtree};
    use super::*;
    use region::{Options, Pool, Redo};
    use space::Image;
    use space::sim::{Schedule, run};

    type Keys<'a, S> = &'a dyn Fn(&Pool<&space::Sim<Image>, S, Redo>) -> Vec<u64>;

    /// Updates by random keys, and what is there after each.
    fn behaves_like_a_set<S: Structure>(keys: Keys<'_, S>) {
        let ran = run(Image::new(4 << 20), &Schedule::walk(0), |env| {
            let pool = Pool::<_, S, Redo>::create(env, &Options::default()).expect("it fits");
            let mut model = BTreeSet::new();
            let mut random = 1u64;
            for step in 0..3000u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // First it grows, then it shrinks to nothing.
                let key = if step < 2000 { (random >> 33) % 300 } else { step % 300 };
                if step < 2000 || model.contains(&key) {
                    pool.region(|tx| S::update(tx, key, random)).expect("there is room");
                    if !model.remove(&key) {
                        model.insert(key);
                    }
                }
                if step % 50 == 0 || step > 2900 {
                    assert_eq!(keys(&pool), model.iter().copied().collect::<Vec<_>>(), "step {step}");
                }
            }
            assert!(model.is_empty());
        });
        ran.result.unwrap_or_else(|failure| panic!("{failure}"));
    }

    #[test]
    fn the_hashtable_is_a_set() {
        behaves_like_a_set::<Hash>(&|pool| hash::keys(pool));
    }

    #[test]
    fn the_b_tree_is_a_set() {
        behaves_like_a_set::<BTree>(&|pool| btree::keys(pool));
    }

    #[test]
    fn the_red_black_tree_is_a_set_and_balanced() {
        behaves_like_a_set::<RbTree>(&|pool| rbtree::keys(pool));
    }
}
