//! The tree is a map.

use std::collections::BTreeMap;

use proptest::prelude::*;
use space::{Image, Space};
use workload::{BTree, TreeError};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Keys from a small range, so that updates happen, and at both ends of all numbers.
    #[test]
    fn agrees_with_a_map(
        inserts in prop::collection::vec((prop_oneof![0u64..400, u64::MAX - 400..=u64::MAX, any::<u64>()], any::<u64>()), 0..2000),
        reopen_at in 0usize..2000,
    ) {
        let image = Image::new(512 << 10);
        let mut tree = BTree::create(&image).expect("room for a node");
        let mut map = BTreeMap::new();
        for (i, &(key, value)) in inserts.iter().enumerate() {
            if i == reopen_at {
                tree = BTree::open(&image).expect("a tree");
            }
            prop_assert_eq!(tree.insert(key, value), Ok(map.insert(key, value)));
        }
        for &(key, _) in &inserts {
            prop_assert_eq!(tree.get(key), map.get(&key).copied());
            prop_assert_eq!(tree.get(key ^ 1 << 40), map.get(&(key ^ 1 << 40)).copied());
        }
        prop_assert_eq!(tree.pairs(), map.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn ascending_and_descending_keys() {
    for keys in [(0..5000).collect::<Vec<u64>>(), (0..5000).rev().collect()] {
        let image = Image::new(512 << 10);
        let mut tree = BTree::create(&image).expect("room for a node");
        for &key in &keys {
            assert_eq!(tree.insert(key, key * 2), Ok(None));
        }
        assert_eq!(tree.pairs(), (0..5000).map(|key| (key, key * 2)).collect::<Vec<_>>());
    }
}

#[test]
fn a_copy_of_the_bytes_is_the_same_tree() {
    let image = Image::new(64 << 10);
    let mut tree = BTree::create(&image).expect("room for a node");
    for key in 0..500 {
        tree.insert(key, key + 1).expect("room for all keys");
    }
    let copy = Image::from_bytes(&image.to_bytes());
    assert_eq!(BTree::open(&copy).expect("a tree").pairs(), tree.pairs());
    assert_eq!(copy.to_bytes(), image.to_bytes(), "opening a whole tree changes nothing");
}

#[test]
fn a_full_space_refuses_and_keeps_what_it_has() {
    let image = Image::new(16 << 10);
    let mut tree = BTree::create(&image).expect("room for a node");
    let full = (0..10_000u64).find_map(|key| tree.insert(key, key).err().map(|error| (key, error)));
    let (count, error) = full.expect("16 KiB are not enough for 10,000 keys");
    assert_eq!(error, TreeError::Full { len: 16 << 10 });
    assert!(count > 200, "{count} keys");
    assert_eq!(tree.insert(count / 2, 7), Ok(Some(count / 2)), "an update needs no room");
    tree.insert(count / 2, count / 2).expect("an update needs no room");
    let expected: Vec<_> = (0..count).map(|key| (key, key)).collect();
    assert_eq!(tree.pairs(), expected);
    assert_eq!(BTree::open(&image).expect("a tree").pairs(), expected);
}

#[test]
fn foreign_bytes_are_no_tree() {
    let image = Image::new(4096);
    assert_eq!(BTree::open(&image).err(), Some(TreeError::NotATree { found: 0 }));
    image.store_u64(0, 7);
    let message = BTree::open(&image).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("found 0x7"), "{message}");
    assert_eq!(BTree::create(&Image::new(512)).err(), Some(TreeError::Full { len: 512 }));
}
