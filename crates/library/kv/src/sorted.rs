//! Keys in order, kept from the first scan on.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use space::Env;

use crate::shard::{Keys, Shard};

/// The keys of a store in order, and which shards know of changes that are not in it yet.
pub(crate) struct Order<E: Env> {
    pub(crate) keys: E::Mutex<BTreeSet<Box<[u8]>>>,
    pub(crate) kept: AtomicBool,
    changed: Box<[AtomicU64]>,
}

impl<E: Env> Order<E> {
    pub(crate) fn new(env: &E, shards: usize) -> Self {
        let changed = (0..shards.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Order { keys: env.mutex(BTreeSet::new()), kept: AtomicBool::new(false), changed }
    }

    /// The key of a shard whose latch is held came or went.
    #[inline]
    pub(crate) fn note(&self, shard: usize, keys: &mut Keys, key: &[u8], there: bool) {
        if keys.ordered {
            keys.changes.push((key.into(), there));
            self.changed[shard / 64].fetch_or(1 << (shard % 64), Relaxed);
        }
    }

    /// Takes over what changed in the shards.
    pub(crate) fn catch_up(&self, env: &E, shards: &[Shard<E>], keys: &mut BTreeSet<Box<[u8]>>) {
        for (word, changed) in self.changed.iter().enumerate() {
            let mut changed = changed.swap(0, Relaxed);
            while changed != 0 {
                let shard = 64 * word + changed.trailing_zeros() as usize;
                changed &= changed - 1;
                for (key, there) in std::mem::take(&mut shards[shard].hold(env).changes) {
                    if there { _ = keys.insert(key) } else { _ = keys.remove(&key) }
                }
            }
        }
    }
}

/// Whether no key lies in the range; the standard library panics at some of these.
pub(crate) fn is_empty(range: (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    use Bound::{Excluded, Included};
    match range {
        (Included(from), Included(to)) => from > to,
        (Included(from) | Excluded(from), Excluded(to)) | (Excluded(from), Included(to)) => from >= to,
        _ => false,
    }
}
