//! Maps of fixed-size keys and values as targets.

use index::{Fixed, Map, OrderedMap};
use workload::load::{Target, TargetError, value_is_of, value_word};

use crate::record::wrong;

/// A key or value that is made of an id.
pub trait OfId: Fixed {
    /// The key of a record.
    fn key(id: u64) -> Self;
    /// A value of it.
    fn value(id: u64, version: u64) -> Self;
}

impl OfId for u64 {
    fn key(id: u64) -> u64 {
        id
    }
    fn value(id: u64, version: u64) -> u64 {
        value_word(id, version)
    }
}

impl OfId for [u64; 2] {
    fn key(id: u64) -> [u64; 2] {
        [id, !id]
    }
    fn value(id: u64, version: u64) -> [u64; 2] {
        [value_word(id, version), version]
    }
}

/// Most reads in one call.
const MANY: usize = 64;

/// A map as a target.
pub struct OfMap<'a, T, M> {
    map: &'a M,
    order: Option<&'a dyn OrderedMap<T, T>>,
}

impl<'a, T: OfId, M: Map<T, T>> OfMap<'a, T, M> {
    /// Of an ordered one.
    pub fn ordered(map: &'a M) -> Self
    where
        M: OrderedMap<T, T>,
    {
        OfMap { map, order: Some(map) }
    }

    /// Of one whose keys have no order.
    pub fn unordered(map: &'a M) -> Self {
        OfMap { map, order: None }
    }
}

impl<T: OfId, M: Map<T, T>> Target for OfMap<'_, T, M> {
    #[inline]
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        self.map.insert(T::key(id), T::value(id, version)).map(drop).map_err(said)
    }

    #[inline]
    fn update(&self, id: u64, version: u64) -> Result<(), TargetError> {
        match self.map.update(T::key(id), T::value(id, version)) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(TargetError(format!("id {id:#x} was put in, and is not there to be updated"))),
            Err(error) => Err(said(error)),
        }
    }

    #[inline]
    fn get(&self, id: u64) -> Result<bool, TargetError> {
        found(id, self.map.get(T::key(id)))
    }

    fn get_many(&self, ids: &[u64]) -> Result<u64, TargetError> {
        let mut sum = 0;
        for ids in ids.chunks(MANY) {
            let (mut keys, mut values) = ([T::key(0); MANY], [None; MANY]);
            keys.iter_mut().zip(ids).for_each(|(key, id)| *key = T::key(*id));
            self.map.get_many(&keys[..ids.len()], &mut values[..ids.len()]);
            for (id, value) in ids.iter().zip(values) {
                sum += u64::from(found(*id, value)?);
            }
        }
        Ok(sum)
    }

    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        let order = self.order.ok_or_else(|| TargetError("its keys have no order".to_owned()))?;
        let (mut seen, mut last, mut in_order) = (0, T::key(id), true);
        order.range(T::key(id), &mut |key, _| {
            in_order &= key >= last;
            last = key;
            seen += 1;
            seen < u64::from(count)
        });
        if in_order { Ok(seen) } else { Err(TargetError("a scan came out of order".to_owned())) }
    }

    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        self.map.remove(T::key(id)).map(|old| old.is_some()).map_err(said)
    }
}

fn said(error: index::Error) -> TargetError {
    TargetError(error.to_string())
}

fn found<T: OfId>(id: u64, value: Option<T>) -> Result<bool, TargetError> {
    match value {
        Some(value) if !value_is_of(value.word(0), id) => Err(wrong(id)),
        value => Ok(value.is_some()),
    }
}
