//! Scans.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;

use space::Env;

use crate::Error;
use crate::handle::Handle;
use crate::sorted::is_empty;
use crate::store::Store;

/// Keys that a scan takes along at a time, so that it keeps nobody out for long; first fewer, since many a
/// scan wants the first only.
const AT_A_TIME: usize = 128;
const AT_FIRST: usize = 4;

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`crate::KeyValue::scan`].
    ///
    /// # Errors
    /// If a record is damaged.
    pub fn scan(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.walk(range, false, visit)
    }

    /// See [`crate::KeyValue::scan_back`].
    ///
    /// # Errors
    /// If a record is damaged.
    pub fn scan_back(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        self.walk(range, true, visit)
    }

    fn walk(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        back: bool,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Error> {
        let mut from: Bound<Box<[u8]>> = range.0.map(Into::into);
        let mut to: Bound<Box<[u8]>> = range.1.map(Into::into);
        let (mut value, mut count) = (Vec::new(), AT_FIRST);
        loop {
            let rest = (from.as_ref().map(|key| &**key), to.as_ref().map(|key| &**key));
            if is_empty(rest) {
                return Ok(());
            }
            let next: Vec<Box<[u8]>> = {
                let mut keys = self.env.lock(&self.order.keys);
                self.put_in_order(&mut keys)?;
                let rest = keys.range::<[u8], _>(rest);
                match back {
                    false => rest.take(count).cloned().collect(),
                    true => rest.rev().take(count).cloned().collect(),
                }
            };
            count = (2 * count).min(AT_A_TIME);
            for key in &next {
                if self.get_into(key, &mut value)? && !visit(key, &value) {
                    return Ok(());
                }
            }
            match next.into_iter().next_back() {
                Some(last) if back => to = Bound::Excluded(last),
                Some(last) => from = Bound::Excluded(last),
                None => return Ok(()),
            }
        }
    }

    fn put_in_order(&self, keys: &mut BTreeSet<Box<[u8]>>) -> Result<(), Error> {
        if !self.order.kept.load(Relaxed) {
            self.load_all()?;
            // With all shards held no key comes or goes.
            let mut held: Vec<_> = self.shards.iter().map(|shard| shard.hold(&self.env)).collect();
            held.iter_mut().for_each(|keys| keys.ordered = true);
            self.each_record(|_, key| _ = keys.insert(key.into()))?;
            self.order.kept.store(true, Relaxed);
        }
        self.order.catch_up(&self.env, &self.shards, keys);
        Ok(())
    }
}
