//! Our key-value engines as targets.

use std::ops::Bound;

use kv::{Engine, KeyValue, Options, Placement, Store};
use space::Env;
use workload::load::{Target, TargetError};

use crate::record::{KeyKind, judge, with_value};
use crate::terms::Setup;

/// A store as a target, whose writes wait until they are durable.
pub struct OfStore<'a> {
    store: &'a dyn KeyValue,
    key: KeyKind,
    value: usize,
}

impl<'a> OfStore<'a> {
    /// Of a store.
    pub fn new(store: &'a dyn KeyValue, setup: &Setup) -> Self {
        OfStore { store, key: setup.key, value: setup.value }
    }
}

/// An empty store in a space.
///
/// # Errors
/// If there is no room.
pub fn create<E: Env>(engine: Engine, index: Placement, env: &E) -> Result<Store<E, &E>, kv::Error> {
    let options = Options { engine, index, ..Options::default() };
    Store::create_on(env, &options)
}

impl Target for OfStore<'_> {
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        let (key, bytes) = self.key.of(id);
        let put = |value: &[u8]| self.store.put(&key[..bytes], value);
        let ticket = with_value(id, version, self.value, put).map_err(said)?;
        self.store.wait(ticket).map_err(said)
    }

    fn get(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        let mut judged = Ok(());
        let mut read = |value: &[u8]| judged = judge(id, value, self.value);
        let found = self.store.get_with(&key[..bytes], &mut read).map_err(said)?;
        judged.map(|()| found)
    }

    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        let (key, bytes) = self.key.of(id);
        let mut seen = 0;
        let range = (Bound::Included(&key[..bytes]), Bound::Unbounded);
        let mut visit = |_: &[u8], _: &[u8]| {
            seen += 1;
            seen < u64::from(count)
        };
        self.store.scan(range, &mut visit).map_err(said)?;
        Ok(seen)
    }

    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        let (key, bytes) = self.key.of(id);
        match self.store.delete(&key[..bytes]).map_err(said)? {
            Some(ticket) => self.store.wait(ticket).map(|()| true).map_err(said),
            None => Ok(false),
        }
    }
}

fn said(error: kv::Error) -> TargetError {
    TargetError(error.to_string())
}
