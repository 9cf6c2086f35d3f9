//! Words: the integers that a space reads and writes in one piece, and the arithmetic of offsets.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::LINE;

mod sealed {
    pub trait Sealed {}
}

/// An unsigned integer of 1, 2, 4 or 8 bytes, little-endian in the space.
pub trait Word: sealed::Sealed + Copy + Eq + Debug + Send + Sync + 'static {
    /// Size in bytes; a word lies at a multiple of it.
    const BYTES: u64;
    /// The atomic of the same size.
    type Atomic;
    /// One relaxed atomic load.
    fn load(from: &Self::Atomic) -> Self;
    /// One relaxed atomic store.
    fn store(to: &Self::Atomic, value: Self);
    /// The value, zero-extended.
    fn widen(self) -> u64;
    /// The low bytes of `value`.
    fn truncate(value: u64) -> Self;
}

macro_rules! word {
    ($int:ty, $atomic:ty) => {
        impl sealed::Sealed for $int {}
        impl Word for $int {
            const BYTES: u64 = size_of::<$int>() as u64;
            type Atomic = $atomic;
            #[inline(always)]
            fn load(from: &$atomic) -> Self {
                <$int>::from_le(from.load(Relaxed))
            }
            #[inline(always)]
            fn store(to: &$atomic, value: Self) {
                to.store(value.to_le(), Relaxed);
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, trivial_numeric_casts)]
            fn truncate(value: u64) -> Self {
                value as $int
            }
        }
    };
}
word!(u8, AtomicU8);
word!(u16, AtomicU16);
word!(u32, AtomicU32);
word!(u64, AtomicU64);

/// The index of the word at `offset` in a space of `len` bytes (a multiple of 8) seen as an array of `W`;
/// `None` if the word is not aligned or not inside the space.
///
/// One comparison checks bounds and alignment: rotating a misaligned offset brings its low bits to the top,
/// which makes it larger than any length.
#[inline(always)]
#[must_use]
#[allow(clippy::cast_possible_truncation)] // the index is below len / W::BYTES, and the space is in memory
pub fn find_word<W: Word>(len: u64, offset: u64) -> Option<usize> {
    let shift = W::BYTES.trailing_zeros();
    let index = offset.rotate_right(shift);
    if index < len >> shift { Some(index as usize) } else { None }
}

/// The index of the word at `offset` in a space of `len` bytes (a multiple of 8) seen as an array of `W`.
///
/// # Panics
/// If the word is not aligned or not inside the space.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn word_index<W: Word>(len: u64, offset: u64) -> usize {
    match find_word::<W>(len, offset) {
        Some(index) => index,
        None => bad_word(len, offset, W::BYTES),
    }
}

/// Checks that `count` bytes at `offset` lie inside a space of `len` bytes.
///
/// # Panics
/// If they do not.
#[inline(always)]
#[track_caller]
pub fn check_range(len: u64, offset: u64, count: u64) {
    if offset > len || count > len - offset {
        bad_range(len, offset, count);
    }
}

/// Checks that a non-temporal store of `count` bytes at `offset` consists of whole 8-byte words.
///
/// # Panics
/// If it does not.
#[inline(always)]
#[track_caller]
pub fn check_whole_words(offset: u64, count: usize) {
    assert!(
        (offset | count as u64).is_multiple_of(8),
        "non-temporal store of {count} bytes at offset {offset:#x} does not consist of 8-byte words"
    );
}

/// The first byte of each cache line that `count` bytes at `offset` touch; none if `count` is 0.
#[inline(always)]
pub fn lines(offset: u64, count: u64) -> impl Iterator<Item = u64> {
    let first = offset & !(LINE - 1);
    let end = if count == 0 { first } else { offset + count };
    (first..end).step_by(LINE as usize)
}

#[cold]
#[inline(never)]
#[track_caller]
fn bad_word(len: u64, offset: u64, bytes: u64) -> ! {
    if offset.is_multiple_of(bytes) {
        bad_range(len, offset, bytes)
    }
    panic!("word of {bytes} bytes at offset {offset:#x} is not aligned")
}

#[cold]
#[inline(never)]
#[track_caller]
fn bad_range(len: u64, offset: u64, count: u64) -> ! {
    panic!("{count} bytes at offset {offset:#x} are outside the space of {len:#x} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_range() {
        let of = |offset, count| lines(offset, count).collect::<Vec<_>>();
        assert_eq!(of(0, 0), []);
        assert_eq!(of(70, 0), []);
        assert_eq!(of(70, 1), [64]);
        assert_eq!(of(63, 2), [0, 64]);
        assert_eq!(of(64, 128), [64, 128]);
    }

    #[test]
    fn words_at_the_edges() {
        assert_eq!(word_index::<u64>(64, 56), 7);
        assert_eq!(word_index::<u8>(64, 63), 63);
        assert_eq!(word_index::<u16>(64, 62), 31);
    }

    #[test]
    #[should_panic(expected = "not aligned")]
    fn a_misaligned_word() {
        let _ = word_index::<u32>(64, 6);
    }

    #[test]
    #[should_panic(expected = "outside the space")]
    fn a_word_behind_the_end() {
        let _ = word_index::<u64>(64, 64);
    }

    #[test]
    #[should_panic(expected = "outside the space")]
    fn a_range_that_overflows() {
        check_range(64, 8, u64::MAX);
    }
}
