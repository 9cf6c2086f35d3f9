//! What a map can do.

use crate::Error;

/// A key or value of a fixed number of 8-byte words. Keys are ordered by their words, the first first.
pub trait Fixed: Copy + Ord + Send + Sync + std::fmt::Debug + 'static {
    /// How many words: 1 or 2.
    const WORDS: usize;

    /// Word `at` of it.
    fn word(self, at: usize) -> u64;

    /// What has these words; as many as there are.
    fn from_words(words: [u64; 2]) -> Self;
}

impl Fixed for u64 {
    const WORDS: usize = 1;

    #[inline(always)]
    fn word(self, _: usize) -> u64 {
        self
    }

    #[inline(always)]
    fn from_words(words: [u64; 2]) -> u64 {
        words[0]
    }
}

impl Fixed for [u64; 2] {
    const WORDS: usize = 2;

    #[inline(always)]
    fn word(self, at: usize) -> u64 {
        self[at]
    }

    #[inline(always)]
    fn from_words(words: [u64; 2]) -> [u64; 2] {
        words
    }
}

/// A map for any number of threads. What an operation changed is durable when it returns, except where the
/// structure says that it is a volatile one.
pub trait Map<K: Fixed, V: Fixed>: Send + Sync {
    /// The value of `key`.
    ///
    /// # Panics
    /// If the memory of the map was overwritten by others, so that this can't be said.
    fn get(&self, key: K) -> Option<V>;

    /// Sets the value of `key`; the one before.
    ///
    /// # Errors
    /// If there is no room; the map is as before.
    fn insert(&self, key: K, value: V) -> Result<Option<V>, Error>;

    /// Sets the value of `key` if it has one; the one before.
    ///
    /// # Errors
    /// If there is no room; the map is as before.
    fn update(&self, key: K, value: V) -> Result<Option<V>, Error>;

    /// Sets the value of `key` to `new` if it is `old` now; whether it was.
    ///
    /// # Errors
    /// If there is no room; the map is as before.
    fn replace(&self, key: K, old: V, new: V) -> Result<bool, Error>;

    /// Takes `key` out; the value that it had.
    ///
    /// # Errors
    /// If there is no room for what the structure writes to do so; the map is as before.
    fn remove(&self, key: K) -> Result<Option<V>, Error>;

    /// The values of several keys, `values[i]` of `keys[i]`. Where the structure can, at the same time:
    /// memory is asked for one key's node while another key's arrives.
    ///
    /// # Panics
    /// If the two have not the same length.
    fn get_many(&self, keys: &[K], values: &mut [Option<V>]) {
        assert_eq!(keys.len(), values.len(), "as many values as keys");
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(*key);
        }
    }

    /// Hands out all pairs, in the structure's order, until `visit` returns false. Pairs that change
    /// meanwhile are seen or not; all others are seen once.
    fn each(&self, visit: &mut dyn FnMut(K, V) -> bool);
}

/// A map whose keys have an order.
pub trait OrderedMap<K: Fixed, V: Fixed>: Map<K, V> {
    /// Hands out the pairs from `from` on in the order of keys, until `visit` returns false.
    ///
    /// # Panics
    /// As [`Map::get`].
    fn range(&self, from: K, visit: &mut dyn FnMut(K, V) -> bool);

    /// Fills an empty map with pairs in ascending order of keys, durable once this returns. After a crash
    /// meanwhile the map is empty, or has a beginning of them.
    ///
    /// # Errors
    /// If there is no room, the map is not empty, or the keys are not in order.
    fn load_sorted(&self, pairs: &mut dyn Iterator<Item = (K, V)>) -> Result<(), Error>;
}
