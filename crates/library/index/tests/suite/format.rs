//! `docs/index-format.md`, held against the maps: readers that know only the page find all pairs.

use std::collections::BTreeMap;

use index::hash::{self, HashTable};
use index::{BTree, BytesMap, Map, Whole, btree, bytes, log_structured};
use pmem::Os;
use space::{Env, Image, Space};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
type Pairs = BTreeMap<u64, u64>;

/// Extents, as the page has them: where each begins and ends.
fn extents(image: &Image) -> Vec<(u64, u64)> {
    assert_eq!(image.load_u64(0), u64::from_le_bytes(*b"SLWHOLE1"));
    let ends: Vec<u64> =
        (64..256).step_by(8).map(|at| image.load_u64(at)).take_while(|end| *end != 0).collect();
    let begins = [256].into_iter().chain(ends.iter().copied());
    begins.zip(ends.iter().copied()).collect()
}

/// The pair of a sealed slot of three words, and its sequence number.
fn sealed(image: &Image, at: u64) -> Option<(u64, u64, u64)> {
    let [key, value, seal] = [0, 8, 16].map(|word| image.load_u64(at + word));
    let tag = seal & 0xFF;
    (tag != 0 && key & 0xFF == tag && value & 0xFF == tag).then_some((
        key & !0xFF | seal >> 8 & 0xFF,
        value & !0xFF | seal >> 16 & 0xFF,
        seal >> 24,
    ))
}

/// Takes a pair, or keeps the one that is newer.
fn take(newest: &mut BTreeMap<u64, (u64, u64)>, (key, value, sequence): (u64, u64, u64)) {
    let newer = |old: u64| (1..1 << 39).contains(&(sequence.wrapping_sub(old) % (1 << 40)));
    if newest.get(&key).is_none_or(|(_, old)| newer(*old)) {
        newest.insert(key, (value, sequence));
    }
}

fn values(newest: BTreeMap<u64, (u64, u64)>) -> Pairs {
    newest.into_iter().map(|(key, (value, _))| (key, value)).collect()
}

fn read_btree(image: &Image) -> Pairs {
    let root = extents(image)[0].0;
    assert_eq!(image.load_u64(root), u64::from_le_bytes(*b"SLINDEX1"));
    let bytes = image.load_u64(root + 8) & 0xFFFF_FFFF;
    assert_eq!(image.load_u64(root + 8) >> 32, 1 | 1 << 8);
    let (mut leaf, mut newest) = (root + 256, BTreeMap::new());
    loop {
        let (next, low) = (image.load_u64(leaf), image.load_u64(leaf + 8));
        for slot in 0..(bytes - 16) / 24 {
            let pair = sealed(image, leaf + 16 + 24 * slot);
            let belongs = |key| key >= low && (next == 0 || key < image.load_u64(next + 8));
            if let Some(pair) = pair.filter(|pair| belongs(pair.0)) {
                take(&mut newest, pair);
            }
        }
        if next == 0 {
            return values(newest);
        }
        leaf = next;
    }
}

fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn read_hash(image: &Image) -> Pairs {
    let all = extents(image);
    let root = all[0].0;
    assert_eq!(image.load_u64(root), u64::from_le_bytes(*b"SLHASH01"));
    let bits = image.load_u64(root + 8) >> 16;
    let (seed, used) = (image.load_u64(root + 16), image.load_u64(root + 24));
    let (segment, mut newest) = (256 << bits, BTreeMap::new());
    for (begin, end) in all.into_iter().take(used as usize) {
        let begin = if begin == root { begin + 256 } else { begin };
        let table = |count: u64| (8 * count).next_multiple_of(256);
        let fits = |count: &u64| table(*count) + count * segment <= end - begin;
        let count = (0..=(end - begin) / segment).rev().find(fits).unwrap_or(0);
        for at in 0..count {
            let claim = image.load_u64(begin + 8 * at);
            let (depth, prefix) = (claim >> 56 & 0x7F, claim & ((1 << 56) - 1));
            let first = begin + table(count) + at * segment;
            for slot in
                (0..1 << bits).flat_map(|bucket| (0..10).map(move |slot| first + 256 * bucket + 24 * slot))
            {
                let Some(pair) = sealed(image, slot).filter(|_| claim != 0) else { continue };
                let hash = mix(
                    mix(pair.0 ^ seed, 0xA076_1D64_78BD_642F) ^ 0xE703_7ED1_A0B4_28DB,
                    0x8EBC_6AF0_9C88_C6E3,
                );
                let bucket = (slot - first) / 256;
                let near = hash >> 8 & ((1 << bits) - 1);
                if depth == 0 || hash >> (64 - depth) == prefix {
                    assert!(
                        bucket == near || bucket == (near + 1) & ((1 << bits) - 1),
                        "a pair out of place"
                    );
                    take(&mut newest, pair);
                }
            }
        }
    }
    values(newest)
}

/// The records of all chunks, by log and in the order of chunks: leaf, right neighbour, kind, words.
fn records(image: &Image) -> Vec<(u64, u64, u64, Vec<u64>)> {
    let all = extents(image);
    let root = all[0].0;
    assert_eq!(image.load_u64(root), u64::from_le_bytes(*b"SLBTLS01"));
    let bytes = image.load_u64(root + 16);
    let mut chunks = Vec::new();
    for (begin, end) in all.into_iter().take(image.load_u64(root + 40) as usize) {
        let begin = if begin == root { begin + 256 } else { begin };
        let of_extent = (0..(end - begin) / bytes).map(|at| begin + at * bytes);
        chunks.extend(of_extent.map(|at| (image.load_u64(at), at)).filter(|(word, _)| *word != 0));
    }
    chunks.sort_unstable();
    let (logs, mut found) = (image.load_u64(root + 8) >> 16, Vec::new());
    for (word, chunk) in chunks {
        let (log, number) = (word >> 48 & 0x7FFF, word & ((1 << 48) - 1));
        let mut at = 64;
        while at + 32 <= bytes {
            let [head, position, leaves] = [0, 8, 16].map(|word| image.load_u64(chunk + at + word));
            let (kind, count) = (head >> 32 & 0xFF, head >> 40 & 0xFFFF);
            let behind = match kind {
                1 => 2,
                2 => 1,
                3 => 2 * count,
                4 => 1 + 2 * count,
                _ => break,
            };
            let len = 8 * (4 + behind);
            if position != number << 32 | at || at + len > bytes {
                break;
            }
            let mut all: Vec<u8> = vec![0; len as usize];
            image.load(chunk + at, &mut all);
            all[..4].fill(0);
            if crc32fast::hash(&all) != head as u32 {
                break;
            }
            let leaf = leaves & 0xFFFF_FFFF;
            assert_eq!((leaf.wrapping_mul(ODD) >> 32) % logs, log, "a leaf in another's log");
            let words = (4..4 + behind).map(|word| image.load_u64(chunk + at + 8 * word)).collect();
            found.push((leaf, leaves >> 32, kind, words));
            at += len;
        }
    }
    found
}

fn read_logs(image: &Image) -> Pairs {
    let mut leaves: BTreeMap<u64, (u64, Pairs)> = BTreeMap::new();
    for (leaf, next, kind, words) in records(image) {
        let known = leaves.entry(leaf).or_default();
        match kind {
            1 => _ = known.1.insert(words[0], words[1]),
            2 => _ = known.1.remove(&words[0]),
            _ => {
                let pairs = if kind == 4 { &words[1..] } else { &words[..] };
                *known = (next, pairs.as_chunks::<2>().0.iter().map(|[key, value]| (*key, *value)).collect());
            }
        }
    }
    let (mut at, mut all) = (0, Pairs::new());
    while let Some((next, pairs)) = leaves.remove(&at) {
        all.extend(pairs);
        at = next;
    }
    assert_eq!(at, 0xFFFF_FFFF, "the last leaf has no neighbour");
    all
}

fn read_bytes(image: &Image) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let all = extents(image);
    let root = all[0].0;
    assert_eq!(image.load_u64(root), u64::from_le_bytes(*b"SLBYTES1"));
    let map = image.load_u64(root + 8);
    let mut newest: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
    for (begin, end) in all {
        let mut region = if begin == root { begin + 256 } else { begin };
        while region + 64 <= end {
            let [size, bytes, check] = [0, 8, 16].map(|word| image.load_u64(region + word));
            let words = [region, bytes, size].map(u64::to_le_bytes);
            if check != xxh3_64_with_seed(words.as_flattened(), map) {
                break;
            }
            for slot in (0..(bytes - 64) / size).map(|slot| region + 64 + slot * size) {
                let [check, sequence, lengths] = [0, 8, 16].map(|word| image.load_u64(slot + word));
                let (key, value) = (lengths >> 32, lengths & 0xFFFF_FFFF);
                let len = 24 + key.next_multiple_of(8) + value.next_multiple_of(8);
                if check == 0 || len > size {
                    continue;
                }
                let mut all = vec![0; len as usize];
                image.load(slot, &mut all);
                if xxh3_64_with_seed(&all[8..], map ^ slot.wrapping_mul(ODD)).max(1) != check {
                    continue;
                }
                let (key, from) = (&all[24..24 + key as usize], 24 + key.next_multiple_of(8) as usize);
                let value = all[from..from + value as usize].to_vec();
                if newest.get(key).is_none_or(|(old, _)| *old < sequence) {
                    newest.insert(key.to_vec(), (sequence, value));
                }
            }
            region += bytes;
        }
    }
    newest.into_iter().map(|(key, (_, value))| (key, value)).collect()
}

/// Inserts, updates and removes, so that there are splits, older pairs and holes.
fn work(map: &impl Map<u64, u64>) -> Pairs {
    let mut model = Pairs::new();
    for turn in 0..6000u64 {
        let key = turn.wrapping_mul(ODD) % 1500;
        if turn % 5 == 4 {
            assert_eq!(map.remove(key).expect("room"), model.remove(&key));
        } else {
            assert_eq!(map.insert(key, turn ^ ODD).expect("room"), model.insert(key, turn ^ ODD));
        }
    }
    model
}

fn memory() -> (Os<Image>, Whole) {
    let env = Os::new(Image::new(8 << 20));
    let whole = Whole::create(env.space(), 256 << 10).expect("room");
    (env, whole)
}

#[test]
fn a_btree_is_as_the_page_says() {
    let (env, whole) = memory();
    let map: BTree<_, u64, u64, _> = BTree::create(&env, whole, &btree::Options::default()).expect("room");
    let model = work(&map);
    assert_eq!(read_btree(env.space()), model);
}

#[test]
fn a_hash_table_is_as_the_page_says() {
    let (env, whole) = memory();
    let options = hash::Options { buckets: 8, ..Default::default() };
    let map: HashTable<_, _, u64, u64> = HashTable::create(&env, whole, &options).expect("room");
    let model = work(&map);
    assert_eq!(read_hash(env.space()), model);
}

#[test]
fn a_log_tree_is_as_the_page_says() {
    let (env, whole) = memory();
    let map: log_structured::LogTree<_, u64, u64, _> =
        log_structured::LogTree::create(&env, whole, &Default::default()).expect("room");
    let model = work(&map);
    assert_eq!(read_logs(env.space()), model);
}

#[test]
fn a_map_of_byte_strings_is_as_the_page_says() {
    let (env, whole) = memory();
    let map = BytesMap::create(&env, whole, &bytes::Options::default()).expect("room");
    let mut model = BTreeMap::new();
    for turn in 0..3000u64 {
        let key = format!("key {}", turn.wrapping_mul(ODD) % 700).into_bytes();
        if turn % 5 == 4 {
            map.remove(&key).expect("room");
            model.remove(&key);
        } else {
            let value = turn.to_string().repeat((turn % 40) as usize).into_bytes();
            map.insert(&key, &value).expect("room");
            model.insert(key, value);
        }
    }
    assert_eq!(read_bytes(env.space()), model);
}
