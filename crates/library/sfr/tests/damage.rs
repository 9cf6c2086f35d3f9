//! Pools of which bytes were damaged: an error that names the place, or a pool to work with; never a panic.

#[path = "common/pools.rs"]
mod pools;

use std::sync::OnceLock;

use pools::{BYTES, recovers, whole};
use proptest::prelude::*;

static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();

/// Mostly where the pool says who it is: header, heads, lines of logs, the table, words of blocks.
fn place() -> impl Strategy<Value = usize> {
    prop_oneof![0..256_usize, 256..8704_usize, 12288..13312_usize, 45056..46080_usize, 45056..BYTES]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damage_is_an_error_or_harmless(
        pool in 0..4_usize,
        changes in prop::collection::vec((place(), any::<u8>()), 1..6),
        words in prop::collection::vec((32..BYTES / 8, prop_oneof![any::<u64>(), Just(u64::MAX), 0..100_u64]), 0..2),
    ) {
        let mut bytes = WHOLE.get_or_init(whole)[pool].clone();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        for (at, word) in words {
            bytes[at * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        _ = recovers(&bytes);
    }
}

#[test]
fn what_is_whole_recovers() {
    for bytes in whole() {
        assert_eq!(recovers(&bytes), Ok(()));
    }
}

#[test]
fn two_logs_of_one_ring_are_refused() {
    let mut bytes = whole().remove(0);
    let (first, second) = (12288 + 8, 12288 + 64 + 8);
    bytes.copy_within(first..first + 8, second);
    assert!(recovers(&bytes).is_err());
}
