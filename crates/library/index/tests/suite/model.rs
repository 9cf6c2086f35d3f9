//! A map held against one of the standard library.

use std::collections::BTreeMap;

use index::{Error, Fixed, OrderedMap};
use space::Env;

/// Numbers without order; the same seed gives the same ones.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A key or value for a number, with all words in use and the order of the numbers.
pub fn fixed<T: Fixed>(number: u64) -> T {
    // Words of two numbers that follow each other differ in their low bytes alone, or not at all in the
    // first.
    if T::WORDS == 1 { T::from_words([number, 0]) } else { T::from_words([number / 7, (number % 7) << 56]) }
}

/// Does so many random operations on `map`, which has the pairs of `model`, and on `model`.
pub fn work<K: Fixed, V: Fixed>(
    map: &impl OrderedMap<K, V>,
    model: &mut BTreeMap<K, V>,
    random: &mut Random,
    (operations, keys): (u64, u64),
) {
    for _ in 0..operations {
        let (key, value) = (fixed::<K>(random.below(keys)), fixed::<V>(random.below(1 << 20)));
        match random.below(10) {
            0..4 => assert_eq!(map.insert(key, value), Ok(model.insert(key, value))),
            4 => {
                let before = model.get_mut(&key).map(|known| std::mem::replace(known, value));
                assert_eq!(map.update(key, value), Ok(before));
            }
            5 => {
                let old = if random.below(2) == 0 { model.get(&key).copied() } else { None };
                let old = old.unwrap_or(value);
                let is = model.get(&key).is_some_and(|known| *known == old);
                assert_eq!(map.replace(key, old, value), Ok(is));
                if is {
                    model.insert(key, value);
                }
            }
            6..9 => assert_eq!(map.remove(key), Ok(model.remove(&key))),
            _ => assert_eq!(map.get(key), model.get(&key).copied()),
        }
    }
}

/// The map has these pairs and no others, whichever way one looks.
pub fn agree<K: Fixed, V: Fixed>(map: &impl OrderedMap<K, V>, model: &BTreeMap<K, V>, keys: u64) {
    let mut pairs = Vec::new();
    map.each(&mut |key, value| {
        pairs.push((key, value));
        true
    });
    assert!(
        pairs.iter().copied().eq(model.iter().map(|(key, value)| (*key, *value))),
        "{} pairs",
        pairs.len()
    );
    let asked: Vec<K> = (0..keys + 3).map(fixed).collect();
    let mut found = vec![None; asked.len()];
    map.get_many(&asked, &mut found);
    for (key, found) in asked.iter().zip(found) {
        assert_eq!(found, model.get(key).copied(), "{key:?}");
        assert_eq!(map.get(*key), found);
    }
    for from in (0..keys).step_by((keys / 7 + 1) as usize) {
        let mut part = Vec::new();
        map.range(fixed(from), &mut |key, value| {
            part.push((key, value));
            part.len() < 50
        });
        let expected = model.range(fixed::<K>(from)..).take(50).map(|(key, value)| (*key, *value));
        assert!(part.into_iter().eq(expected), "from {from}");
    }
}

/// Loading takes ascending keys into an empty map only.
pub fn loads<K: Fixed, V: Fixed>(map: &impl OrderedMap<K, V>, count: u64) -> BTreeMap<K, V> {
    let model: BTreeMap<K, V> = (0..count).map(|number| (fixed(3 * number), fixed(number))).collect();
    map.load_sorted(&mut model.iter().map(|(key, value)| (*key, *value))).expect("room for the pairs");
    let again = map.load_sorted(&mut std::iter::once((fixed(1), fixed(1))));
    assert!(matches!(again, Err(Error::Options(_))), "{again:?}");
    model
}

/// Threads that work on keys of their own, and look at all.
pub fn shared<E: Env>(env: &E, map: &impl OrderedMap<u64, u64>, seed: u64) {
    env.threads(3, |thread| {
        let mut random = Random(seed * 3 + u64::from(thread));
        let mut model = BTreeMap::new();
        for _ in 0..200 {
            let key = 3 * random.below(40) + u64::from(thread);
            let value = 3 * random.below(1000) + u64::from(thread);
            match random.below(8) {
                0..4 => assert_eq!(map.insert(key, value), Ok(model.insert(key, value))),
                4..6 => assert_eq!(map.remove(key), Ok(model.remove(&key))),
                6 => assert_eq!(map.get(key), model.get(&key).copied()),
                _ => {
                    let mut mine = Vec::new();
                    let mut last = None;
                    map.range(0, &mut |key, value| {
                        assert!(key % 3 == value % 3 && last.is_none_or(|last| last < key));
                        last = Some(key);
                        if key % 3 == u64::from(thread) {
                            mine.push((key, value));
                        }
                        true
                    });
                    assert!(mine.into_iter().eq(model.iter().map(|(key, value)| (*key, *value))));
                }
            }
        }
    });
}
