//! `index-fill` and `kv-fill`: what `btree-fill` does, on the library's own ordered map and key-value store.

use index::{BTree, Map, Whole, btree};
use kv::{Engine, Store};
use space::{Env, Observer, Space};

use crate::{Outcome, Params, WorkloadError, rng};

/// Bytes of a value in the store.
const VALUE: usize = 100;
/// Bytes of a chunk of the store.
const CHUNK: u64 = 256 << 10;
/// Latches of the map, and parts of the store's index.
const LATCHES: u32 = 256;

/// Bytes of space that the map needs.
pub(crate) fn index_bytes(params: &Params) -> u64 {
    params.operations.saturating_mul(64).saturating_add(1 << 20)
}

/// Bytes of space that the store needs.
pub(crate) fn store_bytes(params: &Params) -> u64 {
    let lanes = u64::from(lanes(params));
    params.operations.saturating_mul(160).saturating_add(8192 + (8 + lanes) * CHUNK)
}

fn lanes(params: &Params) -> u32 {
    params.threads.clamp(1, 64)
}

pub(crate) fn index<E: Env>(env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
    let whole = Whole::create(env.space(), 256 << 10)?;
    let options = btree::Options { latches: LATCHES, ..btree::Options::default() };
    let map = BTree::<_, u64, u64, _>::create(env, whole, &options)?;
    let insert = |key, index| map.insert(key, index).map(drop).map_err(WorkloadError::from);
    fill(env, params, "index-fill", insert, |key| Ok(map.get(key)))
}

pub(crate) fn store<E: Env>(env: &E, params: &Params, engine: Engine) -> Result<Outcome, WorkloadError> {
    let common =
        kv::Options { chunk: CHUNK, shards: LATCHES, lanes: lanes(params), ..kv::Options::default() };
    let options = kv::Options { engine, seed: Some(params.seed), ..common };
    let store = Store::create_on(env, &options)?;
    let put = |key: u64, index: u64| {
        let mut value = [index as u8; VALUE];
        value[..8].copy_from_slice(&index.to_le_bytes());
        let ticket = store.put(&key.to_le_bytes(), &value)?;
        Ok(store.wait(ticket)?)
    };
    let name = if engine == Engine::Log { "kv-log-fill" } else { "kv-fill" };
    fill(env, params, name, put, |key| {
        let found = store.get(&key.to_le_bytes())?;
        Ok(found.and_then(|value| value.first_chunk().map(|word| u64::from_le_bytes(*word))))
    })
}

/// Puts in random keys, then looks all of them up in another order.
fn fill<E: Env>(
    env: &E,
    params: &Params,
    workload: &'static str,
    insert: impl Fn(u64, u64) -> Result<(), WorkloadError> + Sync,
    get: impl Fn(u64) -> Result<Option<u64>, WorkloadError> + Sync,
) -> Result<Outcome, WorkloadError> {
    let key = |index| rng::nth(params.seed, index);
    env.space().observer().phase("load");
    params.share_out(env, |indices| {
        for index in indices {
            insert(key(index), index)?;
        }
        Ok(0)
    })?;
    env.space().observer().phase("lookup");
    let checksum = params.share_out(env, |indices| {
        let mut sum = 0u64;
        for index in indices {
            let wanted = rng::nth(!params.seed, index) % params.operations;
            if get(key(wanted))? != Some(wanted) {
                return Err(WorkloadError::Wrong { workload, index: wanted });
            }
            sum = sum.wrapping_add(wanted);
        }
        Ok(sum)
    })?;
    Ok(Outcome { operations: 2 * params.operations, checksum })
}
