//! The contract of [`Space`] as code.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{LINE, Prestore, Space, Word};

/// Runs every test of the suite. `make` makes a fresh space of zeros, of a given length.
pub fn all<S: Space>(make: impl Fn(u64) -> S) {
    for test in tests() {
        test(&make(LEN));
    }
}

/// Bytes of the space that a test wants.
pub const LEN: u64 = 4096;

/// The tests one by one, for a space that nobody can make without something around it. Each wants a fresh
/// space of [`LEN`] bytes.
pub fn tests<S: Space>() -> [fn(&S); 8] {
    [
        fresh_is_zero,
        words,
        bytes,
        copies,
        compare_and_swap,
        non_temporal,
        hints_change_nothing,
        outside_panics,
    ]
}

/// A fresh space has its length and is zero.
pub fn fresh_is_zero<S: Space>(space: &S) {
    assert!(space.len().is_multiple_of(8));
    assert_eq!(space.is_empty(), space.len() == 0);
    assert!(contents(space).iter().all(|&byte| byte == 0), "a fresh space is zero");
}

/// Words of every size, little-endian, do not disturb their neighbours.
pub fn words<S: Space>(space: &S) {
    word::<S, u8>(space, 0xA1);
    word::<S, u16>(space, 0xA1B2);
    word::<S, u32>(space, 0xA1B2_C3D4);
    word::<S, u64>(space, 0xA1B2_C3D4_E5F6_0718);
    space.store_u64(8, 0x0102_0304_0506_0708);
    assert_eq!(space.load_word::<u8>(8), 8, "words are little-endian");
    assert_eq!(space.load_word::<u16>(14), 0x0102);
    assert_eq!(space.load_u64(8), 0x0102_0304_0506_0708);
    let before = contents(space);
    let several = [0x11, u64::MAX, 0x2200_0000_0000_0000];
    space.store_words(48, &several);
    assert_eq!([48, 56, 64].map(|at| space.load_u64(at)), several, "words that follow each other");
    assert_eq!(contents(space)[..48], before[..48]);
    assert_eq!(contents(space)[72..], before[72..]);
    space.store_words(space.len(), &[]);
}

fn word<S: Space, W: Word>(space: &S, pattern: u64) {
    let last = space.len() - W::BYTES;
    for offset in [0, W::BYTES, 5 * W::BYTES, 64, last] {
        let ones = vec![0xFF; space.len() as usize];
        space.store(0, &ones);
        space.store_word(offset, W::truncate(pattern));
        assert_eq!(space.load_word::<W>(offset), W::truncate(pattern));
        let mut expected = ones;
        let at = offset as usize;
        expected[at..at + W::BYTES as usize].copy_from_slice(&pattern.to_le_bytes()[..W::BYTES as usize]);
        assert_eq!(contents(space), expected, "a word of {} bytes at {offset}", W::BYTES);
    }
}

/// Ranges at every alignment and of many lengths.
pub fn bytes<S: Space>(space: &S) {
    let mut expected = contents(space);
    for offset in 0..24 {
        for len in (0..40).chain([63, 64, 65, 255, 256, 257]) {
            let value = (offset * 7 + len) as u8;
            let data: Vec<u8> = (0..len).map(|i| value.wrapping_add(i as u8)).collect();
            space.store(offset as u64, &data);
            expected[offset..offset + len].copy_from_slice(&data);
            assert_eq!(contents(space), expected, "a store of {len} bytes at {offset}");
            let mut back = vec![0; len];
            space.load(offset as u64, &mut back);
            assert_eq!(back, data, "a load of {len} bytes at {offset}");
        }
    }
    space.store(space.len(), &[]);
    space.load(space.len(), &mut []);
}

/// Copies, also of overlapping ranges, in both directions.
pub fn copies<S: Space>(space: &S) {
    let start: Vec<u8> = (0..space.len()).map(|i| (i * 31 % 251) as u8).collect();
    for (src, dst, len) in
        [(0, 1024, 512), (100, 103, 700), (103, 100, 700), (8, 16, 0), (64, 64, 64), (1, 2000, 999)]
    {
        space.store(0, &start);
        space.copy(src, dst, len);
        let mut expected = start.clone();
        expected.copy_within(src as usize..(src + len) as usize, dst as usize);
        assert_eq!(contents(space), expected, "a copy of {len} bytes from {src} to {dst}");
    }
}

/// Compare-and-swap writes on a match only, and says what was there.
pub fn compare_and_swap<S: Space>(space: &S) {
    space.store_u64(64, 5);
    assert_eq!(space.cas_u64(64, 4, 9), Err(5));
    assert_eq!(space.load_u64(64), 5);
    assert_eq!(space.cas_u64(64, 5, 9), Ok(5));
    assert_eq!(space.load_u64(64), 9);
    assert_eq!(space.load_u64(56), 0);
    assert_eq!(space.load_u64(72), 0);
}

/// Non-temporal stores of every length in words, at every alignment within two lines.
pub fn non_temporal<S: Space>(space: &S) {
    let mut expected = contents(space);
    for offset in (0..128).step_by(8) {
        for words in [0, 1, 2, 3, 7, 8, 9, 16, 33] {
            let data: Vec<u8> = (0..words * 8).map(|i| (i + offset + words) as u8).collect();
            space.store_nt(offset as u64, &data);
            space.fence();
            expected[offset..offset + data.len()].copy_from_slice(&data);
            assert_eq!(contents(space), expected, "{words} words stored non-temporally at {offset}");
        }
    }
}

/// Flushes, fences and pre-stores change no byte, and accept every range inside the space.
pub fn hints_change_nothing<S: Space>(space: &S) {
    let data: Vec<u8> = (0..space.len()).map(|i| (i % 253) as u8).collect();
    space.store(0, &data);
    for (offset, len) in [(0, 0), (0, 1), (63, 2), (100, 1000), (space.len(), 0), (0, space.len())] {
        space.flush(offset, len);
        space.prestore(offset, len, Prestore::Demote);
        space.prestore(offset, len, Prestore::Clean);
        space.persist(offset, len);
        space.fence();
    }
    assert_eq!(contents(space), data);
}

/// Every access outside the space, and every misaligned word, panics and changes nothing.
pub fn outside_panics<S: Space>(space: &S) {
    let len = space.len();
    let before = contents(space);
    must_panic("a word at the end", || _ = space.load_word::<u8>(len));
    must_panic("a word far outside", || space.store_u64(u64::MAX - 7, 1));
    must_panic("a misaligned word", || space.store_word(2, 1u32));
    must_panic("a misaligned swap", || _ = space.cas_u64(4, 0, 1));
    must_panic("a swap at the end", || _ = space.cas_u64(len, 0, 1));
    must_panic("a load over the end", || space.load(len - 1, &mut [0; 2]));
    must_panic("a store over the end", || space.store(len - 1, &[1; 2]));
    must_panic("words over the end", || space.store_words(len - 8, &[1; 2]));
    must_panic("misaligned words", || space.store_words(4, &[1; 2]));
    must_panic("an offset that overflows", || space.store(u64::MAX, &[1; 2]));
    must_panic("a copy from outside", || space.copy(len - 8, 0, 16));
    must_panic("a copy to outside", || space.copy(0, len - 8, 16));
    must_panic("a non-temporal store over the end", || space.store_nt(len - 8, &[1; 16]));
    must_panic("a misaligned non-temporal store", || space.store_nt(4, &[1; 8]));
    must_panic("half a word stored non-temporally", || space.store_nt(0, &[1; 4]));
    must_panic("a flush over the end", || space.flush(len - LINE, LINE + 1));
    must_panic("a hint over the end", || space.prestore(len, 1, Prestore::Demote));
    assert_eq!(contents(space), before, "a refused access changes nothing");
}

fn must_panic(what: &str, access: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(access)).is_err(), "{what} was accepted");
}

fn contents<S: Space>(space: &S) -> Vec<u8> {
    let mut bytes = vec![0; space.len() as usize];
    space.load(0, &mut bytes);
    bytes
}
