//! A hashtable with chains.

use region::{Atomicity, Error, Layout, Ptr, Tx};
use space::Env;

use super::structure::{Structure, scatter};

/// Heads of chains.
const BUCKETS: usize = 1 << 16;

/// The layout.
pub struct Hash;

region::persistent! { Hash:
    /// An entry of a chain.
    pub struct Entry { key: u64, value: u64, next: Ptr<Entry, Hash> }
}

impl Layout for Hash {
    const NAME: &'static str = "hash";
    type Root = [Ptr<Entry, Hash>; BUCKETS];
}

fn bucket(key: u64) -> usize {
    (scatter(key) % BUCKETS as u64) as usize
}

impl Structure for Hash {
    const TITLE: &'static str = "Hash";
    const KEYS: u64 = 1 << 17;
    const FILLED: bool = true;

    fn update<E: Env, A: Atomicity>(
        tx: &mut Tx<'_, &E, Self, A>,
        key: u64,
        random: u64,
    ) -> Result<(), Error> {
        let head = tx.root().element(bucket(key));
        let mut link = head;
        while let Some(at) = tx.get(link).get() {
            let entry = tx.get(at);
            if entry.key == key {
                tx.set(link, entry.next)?;
                return tx.free(at);
            }
            link = Entry::next(at);
        }
        let entry = Entry { key, value: random, next: tx.get(head) };
        let at = tx.alloc(entry)?;
        tx.set(head, at)
    }
}

/// The keys, in order.
#[cfg(test)]
pub(super) fn keys<E: Env, A: Atomicity>(pool: &region::Pool<&E, Hash, A>) -> Vec<u64> {
    let mut keys = Vec::new();
    for number in 0..BUCKETS {
        let mut link = pool.get(pool.root().element(number));
        while let Some(at) = link.get() {
            let entry = pool.get(at);
            assert_eq!(bucket(entry.key), number);
            keys.push(entry.key);
            link = entry.next;
        }
    }
    keys.sort_unstable();
    keys
}
