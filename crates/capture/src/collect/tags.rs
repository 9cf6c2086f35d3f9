//! The tags of words, many words at a time: stores' addresses are put right, and headers found.
//!
//! A recording is some hundreds of millions of words per second, so what is done to each of them counts. Everything else the
//! collector does once per header.

use crate::wire::accessed;

/// Words whose bits make one element of a bitmap.
pub const BITS: usize = 64;

/// Where headers and zeros are among some words.
#[derive(Debug, Default)]
pub struct Tags {
    /// A bit per word: set if its tag is that of a header, of a run or not.
    pub headers: Vec<u64>,
    /// A bit per word: set if it is zero, or the complement of zero for a store.
    zeros: Vec<u64>,
}

impl Tags {
    /// Looks at `words` from `from` on and puts the address of a store in place of its complement. Bits of words before
    /// `from` stay as they are.
    pub fn read(&mut self, words: &mut [u64], from: usize) {
        let first = from / BITS;
        let kept = (1u64 << (from % BITS)) - 1;
        let elements = words.len().div_ceil(BITS);
        for bitmap in [&mut self.headers, &mut self.zeros] {
            bitmap.resize(elements, 0);
        }
        for (element, words) in words.chunks_mut(BITS).enumerate().skip(first) {
            let skipped = if element == first { from % BITS } else { 0 };
            let (headers, zeros) = tags(&mut words[skipped..]);
            let kept = if element == first { kept } else { 0 };
            let merge = |old: &mut u64, new: u64| *old = *old & kept | new << skipped;
            merge(&mut self.headers[element], headers);
            merge(&mut self.zeros[element], zeros);
        }
    }

    /// How many words of a range are zero now.
    #[must_use]
    pub fn zeros(&self, range: std::ops::Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        let (first, last) = (range.start / BITS, (range.end - 1) / BITS);
        let mut count = 0;
        for (element, bits) in self.zeros.iter().enumerate().take(last + 1).skip(first) {
            let from = if element == first { range.start % BITS } else { 0 };
            let to = if element == last { (range.end - 1) % BITS } else { BITS - 1 };
            count += (bits >> from << from << (BITS - 1 - to)).count_ones();
        }
        count as usize
    }
}

/// The bits of up to 64 words.
#[inline]
fn tags(words: &mut [u64]) -> (u64, u64) {
    let (mut headers, mut zeros) = (0, 0);
    let mut at = 0;
    let (fours, rest) = words.as_chunks_mut::<4>();
    for four in fours {
        let (header, zero) = tags_of_four(four);
        headers |= header << at;
        zeros |= zero << at;
        at += 4;
    }
    for word in rest {
        headers |= (*word ^ *word << 1) >> 63 << at;
        // A run's header would be taken for an address that is complemented, but for its tag.
        *word = if *word >> 62 == 0b11 { accessed(*word) } else { *word };
        zeros |= u64::from(*word == 0) << at;
        at += 1;
    }
    (headers, zeros)
}

/// The same for four words.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn tags_of_four(words: &mut [u64; 4]) -> (u64, u64) {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi32, _mm_and_si128, _mm_castps_si128, _mm_castsi128_ps, _mm_cmpeq_epi32,
        _mm_loadu_si128, _mm_movemask_ps, _mm_or_si128, _mm_set1_epi32, _mm_setzero_si128, _mm_shuffle_ps,
        _mm_srai_epi32, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpacklo_epi32, _mm_xor_si128,
    };
    let at = words.as_mut_ptr().cast::<__m128i>();
    // SAFETY: all x86-64 processors have SSE2, and the two loads and stores are those of the array's 32 bytes.
    unsafe {
        let (a, b) = (_mm_loadu_si128(at), _mm_loadu_si128(at.add(1)));
        let (a_halves, b_halves) = (_mm_castsi128_ps(a), _mm_castsi128_ps(b));
        let low = _mm_castps_si128(_mm_shuffle_ps::<0b10_00_10_00>(a_halves, b_halves));
        let high = _mm_castps_si128(_mm_shuffle_ps::<0b11_01_11_01>(a_halves, b_halves));
        let second = _mm_add_epi32(high, high);
        let both = _mm_and_si128(_mm_srai_epi32::<31>(high), _mm_srai_epi32::<31>(second));
        _mm_storeu_si128(at, _mm_xor_si128(a, _mm_unpacklo_epi32(both, both)));
        _mm_storeu_si128(at.add(1), _mm_xor_si128(b, _mm_unpackhi_epi32(both, both)));
        let headers = _mm_movemask_ps(_mm_castsi128_ps(_mm_xor_si128(high, second)));
        let zero = _mm_cmpeq_epi32(_mm_or_si128(low, high), _mm_setzero_si128());
        let complement = _mm_cmpeq_epi32(_mm_and_si128(low, high), _mm_set1_epi32(-1));
        let zero = _mm_or_si128(zero, complement);
        (headers as u64, _mm_movemask_ps(_mm_castsi128_ps(zero)) as u64)
    }
}

/// The same for four words.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn tags_of_four(words: &mut [u64; 4]) -> (u64, u64) {
    let (mut headers, mut zeros) = (0, 0);
    for (at, word) in words.iter_mut().enumerate() {
        headers |= (*word ^ *word << 1) >> 63 << at;
        *word = if *word >> 62 == 0b11 { accessed(*word) } else { *word };
        zeros |= u64::from(*word == 0) << at;
    }
    (headers, zeros)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            Just(u64::MAX),
            any::<u64>(),
            any::<u64>().prop_map(|word| word >> 2),
            Just(1 << 63),
            Just(3 << 62)
        ]
    }

    proptest! {
        #[test]
        fn tags_are_those_of_each_word(words in prop::collection::vec(word(), 0..400), cut in 0usize..400) {
            let cut = cut.min(words.len());
            let (mut tags, mut read) = (Tags::default(), words[..cut].to_vec());
            tags.read(&mut read, 0);
            read.extend_from_slice(&words[cut..]);
            tags.read(&mut read, cut);
            for (at, (&word, &read)) in words.iter().zip(&read).enumerate() {
                prop_assert_eq!(tags.headers[at / BITS] >> (at % BITS) & 1 == 1, matches!(word >> 62, 1 | 2));
                prop_assert_eq!(read, if word >> 62 == 3 { !word } else { word });
            }
            let zeros = |words: &[u64]| words.iter().filter(|word| **word == 0).count();
            for range in [0..cut, cut..words.len(), cut / 2..words.len()] {
                prop_assert_eq!(tags.zeros(range.clone()), zeros(&read[range]));
            }
        }
    }
}
