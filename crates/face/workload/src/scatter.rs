//! `hash-scatter`: a hash table of cache-line buckets, updated at random with habits that persistent memory
//! punishes: it writes a quarter of a device unit at a time, and flushes a line that it is about to change
//! again.

use space::{Env, LINE, Observer, Space};

use crate::{Outcome, Params, WorkloadError, rng};

/// Buckets per operation: the table is larger than what is touched.
const BUCKETS_PER_OPERATION: u64 = 4;
/// Where the bucket keeps the number of its updates.
const UPDATES: u64 = 56;

pub(crate) fn bytes(params: &Params) -> u64 {
    buckets(params).saturating_mul(LINE)
}

fn buckets(params: &Params) -> u64 {
    params.operations.saturating_mul(BUCKETS_PER_OPERATION).max(1)
}

pub(crate) fn run<E: Env>(env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
    let stripes: Vec<_> = (0..64u64).map(|_| env.mutex(())).collect();
    env.space().observer().phase("update");
    let checksum = params.share_out(env, |indices| {
        let mut sum = 0u64;
        for index in indices {
            let hash = rng::nth(params.seed, index);
            let bucket = hash % buckets(params);
            let _held = env.lock(&stripes[(bucket % 64) as usize]);
            update(env.space(), bucket * LINE, hash);
            sum = sum.wrapping_add(hash);
        }
        Ok(sum)
    })?;
    Ok(Outcome { operations: params.operations, checksum })
}

/// Rewrites a bucket and counts the update.
fn update<S: Space>(space: &S, bucket: u64, hash: u64) {
    let updates = space.load_u64(bucket + UPDATES);
    let mut contents = [0u8; LINE as usize];
    contents[..8].copy_from_slice(&hash.to_le_bytes());
    contents[UPDATES as usize..].copy_from_slice(&updates.to_le_bytes());
    space.store(bucket, &contents);
    space.flush(bucket, LINE);
    space.store_u64(bucket + UPDATES, updates + 1);
    space.flush(bucket + UPDATES, 8);
    space.fence();
}
