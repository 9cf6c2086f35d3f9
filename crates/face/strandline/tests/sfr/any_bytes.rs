//! Damage to pools, at random.

use proptest::prelude::*;

use crate::damaged::{BYTES, recovers, whole};

#[test]
fn an_undamaged_pool_is_recovered() {
    let undone = recovers(&whole().expect("room")).expect("a pool");
    assert!(undone >= 9, "{undone} entries undone");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Damage is aimed at the parts that recovery reads: the first pages, and the logs behind them.
    #[test]
    fn any_bytes_are_an_error_or_a_pool(
        changes in prop::collection::vec((prop_oneof![0..BYTES / 8, 0..BYTES], any::<u8>()), 0..40),
    ) {
        let mut bytes = whole().expect("room");
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        _ = recovers(&bytes);
    }
}
