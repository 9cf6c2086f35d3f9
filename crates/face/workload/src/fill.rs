//! `btree-fill`: random keys into the persistent B+-tree, then all of them looked up in another order.

use space::{Env, Observer, Space};

use crate::{BTree, Outcome, Params, WorkloadError, rng};

/// Bytes of space that `operations` inserts need: half-full nodes, and room for the levels above.
pub(crate) fn bytes(params: &Params) -> u64 {
    params.operations.saturating_mul(48).saturating_add(64 << 10)
}

pub(crate) fn run<E: Env>(env: &E, params: &Params) -> Result<Outcome, WorkloadError> {
    let tree = env.rw_lock(BTree::create(env.space())?);
    let key = |index| rng::nth(params.seed, index);
    env.space().observer().phase("load");
    params.share_out(env, |indices| {
        for index in indices {
            env.write(&tree).insert(key(index), index)?;
        }
        Ok(0)
    })?;
    env.space().observer().phase("lookup");
    let checksum = params.share_out(env, |indices| {
        let mut sum = 0u64;
        for index in indices {
            let wanted = rng::nth(!params.seed, index) % params.operations;
            let found = env.read(&tree).get(key(wanted));
            if found != Some(wanted) {
                return Err(WorkloadError::Wrong { workload: "btree-fill", index: wanted });
            }
            sum = sum.wrapping_add(wanted);
        }
        Ok(sum)
    })?;
    Ok(Outcome { operations: 2 * params.operations, checksum })
}
