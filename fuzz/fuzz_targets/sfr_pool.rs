//! Any bytes, written over a small pool of synchronisation-free regions: an error, or a pool that is
//! recovered once and for all. What is given is a byte that chooses the pool, then places and a byte for
//! each.
#![no_main]

#[path = "../../crates/library/sfr/tests/common/pools.rs"]
mod pools;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pools::{BYTES, recovers, whole};

fuzz_target!(|damage: &[u8]| {
    static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let pools = WHOLE.get_or_init(whole);
    let Some((&pool, damage)) = damage.split_first() else { return };
    let mut bytes = pools[usize::from(pool) % pools.len()].clone();
    for change in damage.as_chunks::<4>().0 {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) + usize::from(change[2]) * 1024;
        bytes[at % BYTES] = change[3];
    }
    _ = recovers(&bytes);
});
