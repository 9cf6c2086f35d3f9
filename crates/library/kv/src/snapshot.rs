//! Snapshots.

use std::ops::Bound;
use std::sync::atomic::Ordering;

use space::{Env, Space};

use crate::Error;
use crate::handle::Handle;
use crate::sorted::is_empty;
use crate::store::Store;

/// See [`crate::Snapshot`].
pub(crate) struct Moment<'s, E: Env, H: Handle<E>> {
    store: &'s Store<E, H>,
    /// In the order of keys.
    records: Vec<u64>,
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`crate::KeyValue::snapshot`].
    ///
    /// # Errors
    /// If the index is damaged.
    pub(crate) fn moment(&self) -> Result<Moment<'_, E, H>, Error> {
        self.load_all()?;
        // With all shards held nothing changes, and nothing is freed that has not been replaced before.
        let held: Vec<_> = self.shards.iter().map(|shard| shard.hold(&self.env)).collect();
        self.pins.count.fetch_add(1, Ordering::AcqRel);
        let mut moment = Moment { store: self, records: Vec::new() };
        let all = self.each_record(|location, _| moment.records.push(location));
        drop(held);
        all?;
        moment.records.sort_by_cached_key(|location| self.key_at(*location));
        Ok(moment)
    }
}

impl<E: Env, H: Handle<E>> Drop for Moment<'_, E, H> {
    fn drop(&mut self) {
        let store = self.store;
        let withheld = {
            let mut withheld = store.env.lock(&store.pins.withheld);
            if store.pins.count.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            std::mem::take(&mut *withheld)
        };
        withheld.slots.into_iter().for_each(|slot| store.free_slot(slot));
        withheld.chunks.into_iter().for_each(|chunk| store.chunks.release(&store.env, chunk));
    }
}

impl<E: Env, H: Handle<E>> crate::Snapshot for Moment<'_, E, H> {
    fn len(&self) -> usize {
        self.records.len()
    }

    fn scan(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        if is_empty(range) {
            return Ok(());
        }
        let before = |key: &[u8]| match range.0 {
            Bound::Included(from) => key < from,
            Bound::Excluded(from) => key <= from,
            Bound::Unbounded => false,
        };
        let within = |key: &[u8]| match range.1 {
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
            Bound::Unbounded => true,
        };
        let first = self.records.partition_point(|location| before(&self.store.key_at(*location)));
        let mut value = Vec::new();
        for &location in &self.records[first..] {
            let key = self.store.key_at(location);
            if !within(&key) {
                break;
            }
            if !self.store.copy_value(location, &mut value) {
                let found = self.store.env.space().load_u64(location);
                return Err(Error::damaged(location, "a record that its checksum confirms", found));
            }
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}
