//! What the fuzz target `pool` does, in the ordinary run: pools of which bytes were changed, records among
//! them that are longer than one log.

use std::sync::OnceLock;

use crate::pools::{BYTES, recovers, whole};
use proptest::prelude::*;

fn pools() -> &'static [Vec<u8>] {
    static POOLS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    POOLS.get_or_init(whole)
}

#[test]
fn what_is_not_changed_is_whole() {
    let found: Vec<_> = pools().iter().map(|bytes| recovers(bytes).expect("it is whole")).collect();
    // Of each engine the last pool is one of a region that has not ended; by undo that shows.
    let undone: Vec<u64> = found.iter().map(|found| found.recovered.undone).collect();
    let sound = region::ENGINES.iter().filter(|engine| engine.sound);
    let expected: Vec<u64> = sound.flat_map(|engine| [0, 0, u64::from(engine.in_place)]).collect();
    assert_eq!(undone, expected);
    assert!(found.iter().all(|found| found.blocks.len() == 1 || found.blocks.len() == 31));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_are_an_error_or_a_pool(
        pool in 0..pools().len(),
        changes in prop::collection::vec((prop_oneof![8192..BYTES, 12288usize..13312, 0..BYTES], any::<u8>()), 1..6)
    ) {
        let mut bytes = pools()[pool].clone();
        changes.into_iter().for_each(|(place, byte)| bytes[place] = byte);
        _ = recovers(&bytes);
    }

    /// Lines and words of the same pool, or of another one of its engine, in another place.
    #[test]
    fn moved_pieces_are_an_error_or_a_pool(
        pool in 0..pools().len(), other in 0usize..3, words in 1usize..24, from in 1024usize..8192, to in 1024usize..8192
    ) {
        let mut bytes = pools()[pool].clone();
        let (from, to, len) = (8 * from, 8 * to, 8 * words);
        let piece = pools()[pool / 3 * 3 + other][from.min(BYTES - len)..][..len].to_vec();
        bytes[to.min(BYTES - len)..][..len].copy_from_slice(&piece);
        _ = recovers(&bytes);
    }
}

/// The words of a long region stand outside of its log: a byte that changes there is found, or belongs to
/// nobody.
#[test]
fn no_byte_of_a_long_region_changes_what_it_is() {
    for (pool, bytes) in pools().iter().enumerate().filter(|(pool, _)| pool % 3 > 0) {
        let root = recovers(bytes).expect("it is whole").root as usize;
        let (mut refused, object) = (0, root..root + 2048);
        let words = |bytes: &[u8]| crate::pools::on(bytes, region::inspect).1[object.clone()].to_vec();
        let whole = words(bytes);
        // Of SSP not the spare pages, which hold what blocks hold.
        let logs = if pool >= 12 { 12288..12288 + 256 } else { 12288..13312 };
        // Of the heap what is not zero, and some of the rest.
        let heap = (16384..BYTES).filter(|&place| place % 61 == 0 || (bytes[place] != 0 && place % 3 != 0));
        for place in logs.step_by(2).chain(heap).filter(|place| !object.contains(place)) {
            let mut damaged = bytes.clone();
            damaged[place] ^= if place % 4 == 0 { 0x81 } else { 0x10 };
            match recovers(&damaged) {
                Ok(_) => assert!(words(&damaged) == whole, "pool {pool}, {place:#x}"),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 50, "pool {pool}: {refused}");
    }
}
