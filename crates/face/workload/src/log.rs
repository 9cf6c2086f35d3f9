//! `log-append`: each thread appends records to a log of its own, by non-temporal stores.

use space::{Env, Observer, Space};

use crate::{Outcome, Params, WorkloadError, rng};

/// Bytes of a record: one unit of a 3D XPoint DIMM, so that none is written in part.
const RECORD: u64 = 256;

pub(crate) fn bytes(params: &Params) -> u64 {
    params.operations.saturating_mul(RECORD)
}

pub(crate) fn run<E: Env>(env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
    env.space().observer().phase("append");
    let checksum = params.share_out_runs(env, |indices| {
        let mut sum = 0u64;
        for index in indices {
            append(env.space(), params.seed, index);
            sum = sum.wrapping_add(rng::nth(params.seed, index));
        }
        Ok(sum)
    })?;
    env.space().observer().phase("verify");
    let stored = params.share_out_runs(env, |indices| {
        let stored = |index| env.space().load_u64(index * RECORD + 8);
        Ok(indices.map(stored).fold(0, u64::wrapping_add))
    })?;
    if stored != checksum {
        return Err(WorkloadError::Wrong { workload: "log-append", index: 0 });
    }
    Ok(Outcome { operations: params.operations, checksum })
}

/// Writes a record, sequence number first, and waits until it is durable.
fn append<S: Space>(space: &S, seed: u64, index: u64) {
    let mut record = [0u8; RECORD as usize];
    record[..8].copy_from_slice(&(index + 1).to_le_bytes());
    record[8..16].copy_from_slice(&rng::nth(seed, index).to_le_bytes());
    space.store_nt(index * RECORD, &record);
    space.fence();
}
