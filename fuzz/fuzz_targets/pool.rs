//! Any bytes, taken for a pool: an error, or a pool that can be recovered again and is the same. What is given is written over a small pool that is whole:
//! a byte that chooses the pool, then places and a byte for each.
#![no_main]

#[path = "../../crates/library/conformance/tests/common/pools.rs"]
mod pools;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pools::{BYTES, recovers, whole};

fuzz_target!(|damage: &[u8]| {
    static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let pools = WHOLE.get_or_init(whole);
    let Some((&pool, damage)) = damage.split_first() else { return };
    let mut bytes = pools[usize::from(pool) % pools.len()].clone();
    for change in damage.as_chunks::<3>().0 {
        bytes[usize::from(u16::from_le_bytes([change[0], change[1]])) % BYTES] = change[2];
    }
    _ = recovers(&bytes);
});
