//! The tree survives a crash before each fence, whatever of the unfenced lines the caches had already
//! written; and a tree that forgets a flush or a fence does not.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{Crashing, Cut, Mistake};
use space::Image;
use workload::BTree;

/// Enough for splits on two levels: 28 slots per node.
const KEYS: u64 = 600;
const SPACE: u64 = 64 << 10;

/// Distinct keys without order.
fn key(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Fills a tree and cuts the run at each fence.
fn cuts(mistake: Mistake) -> Vec<Cut> {
    let start = Image::new(SPACE);
    BTree::create(&start).expect("room for a node");
    let space = Crashing::new(start, mistake);
    {
        let mut tree = BTree::open(&space).expect("a tree");
        for index in 0..KEYS {
            tree.insert(key(index), index).expect("room for all keys");
            space.acknowledge(index + 1);
        }
    }
    space.into_cuts()
}

/// What is wrong with the tree that a crash leaves, if anything.
fn broken(image: Image, cut: &Cut) -> Option<String> {
    let check = || {
        let mut tree = BTree::open(&image).map_err(|error| error.to_string())?;
        for index in 0..cut.done {
            if tree.get(key(index)) != Some(index) {
                return Err(format!("key {index} of {} is lost", cut.done));
            }
        }
        let pairs = tree.pairs();
        let known = |&(k, value): &(u64, u64)| value <= cut.done && k == key(value);
        if let Some(pair) = pairs.iter().find(|pair| !known(pair)) {
            return Err(format!("{pair:x?} was never inserted"));
        }
        if !pairs.is_sorted() || pairs.len() as u64 > cut.done + 1 {
            return Err("keys out of order or twice".to_owned());
        }
        // It is a tree to work with, too.
        for index in KEYS..KEYS + 60 {
            tree.insert(key(index), index).map_err(|error| error.to_string())?;
        }
        let all = (0..cut.done).chain(KEYS..KEYS + 60).all(|index| tree.get(key(index)) == Some(index));
        if all { Ok(()) } else { Err("keys get lost after recovery".to_owned()) }
    };
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(result) => result.err(),
        Err(_) => Some("recovery panicked".to_owned()),
    }
}

/// The first thing that goes wrong over all cuts and some choices of lines for each; with its place.
fn first_failure(cuts: &[Cut]) -> Option<String> {
    let mixed = |line: u64, seed: u64| (line ^ seed).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40 & 1 == 1;
    for (number, cut) in (0u64..).zip(cuts) {
        let images = [
            ("only what must survive", cut.image(|_| false)),
            ("all that was stored", cut.image(|_| true)),
            ("one half of the lines", cut.image(|line| mixed(line, number))),
            ("the other half", cut.image(|line| !mixed(line, number))),
        ];
        for (what, image) in images {
            if let Some(problem) = broken(image, cut) {
                return Some(format!("crash before fence {number}, {what}: {problem}"));
            }
        }
    }
    None
}

#[test]
fn every_crash_leaves_all_acknowledged_keys() {
    let cuts = cuts(Mistake::None);
    assert!(cuts.len() as u64 > 2 * KEYS, "{} cuts", cuts.len());
    assert_eq!(first_failure(&cuts), None);
}

#[test]
fn a_forgotten_flush_is_caught() {
    // An insert flushes its slot, then its bitmap: forget either.
    for n in [0, 1] {
        let failure = first_failure(&cuts(Mistake::Flush { n, period: 2 }));
        assert!(failure.is_some(), "a tree that forgets flush {n} of 2 passes");
    }
}

#[test]
fn a_forgotten_fence_is_caught() {
    for n in [0, 1] {
        let failure = first_failure(&cuts(Mistake::Fence { n, period: 2 }));
        assert!(failure.is_some(), "a tree that forgets fence {n} of 2 passes");
    }
}
