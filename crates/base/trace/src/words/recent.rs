//! The latest differences: most words that change, change by as much as another one just before.
//!
//! When a pointer moves on, everything that is reached through it moves by the same. So a difference is first
//! coded in two bits: it is one of the latest three, or another one, which the column of differences has.

use super::STEP;
use crate::bytes::zigzag;

/// The code of a difference that is none of the latest.
const OTHER: u8 = 3;

/// The three latest differences that differ from each other, the latest first. (At first they are all 0.)
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent(pub [u64; 3]);

impl Recent {
    /// Which of them it is, or [`OTHER`]; it is the latest now. There is no branch to predict.
    #[inline(always)]
    pub(super) fn code(&mut self, difference: u64) -> u8 {
        let [a, b, c] = self.0;
        let (is_a, is_b, is_c) = (difference == a, difference == b, difference == c);
        let code = if is_c { 2 } else { OTHER };
        let code = if is_b { 1 } else { code };
        let code = if is_a { 0 } else { code };
        self.0 = [difference, if is_a { b } else { a }, if is_a | is_b { c } else { b }];
        code
    }

    /// The difference that has this code; `other` gives one that is none of the latest.
    #[inline]
    pub(super) fn take<E>(&mut self, code: u8, other: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
        let [a, b, c] = self.0;
        let (difference, rest) = match code {
            0 => (a, [b, c]),
            1 => (b, [a, c]),
            2 => (c, [a, b]),
            _ => (other()?, [a, b]),
        };
        self.0 = [difference, rest[0], rest[1]];
        Ok(difference)
    }
}

/// A block's differences, one after the other.
#[derive(Default)]
pub(crate) struct Differences {
    /// Of these, the first `count` count.
    values: Vec<u64>,
    count: usize,
}

impl Differences {
    /// Room for the next ones.
    #[inline(always)]
    pub(super) fn room(&mut self) -> &mut [u64; STEP] {
        if self.values.len() < self.count + STEP {
            self.values.resize(2 * self.count + STEP, 0);
        }
        self.values[self.count..].first_chunk_mut().unwrap_or_else(|| unreachable!("there is room"))
    }

    /// So many were written into the room.
    #[inline(always)]
    pub(super) fn add(&mut self, count: usize) {
        self.count += count;
    }

    /// All of them.
    pub(crate) fn get(&self) -> &[u64] {
        &self.values[..self.count]
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

/// Bytes of a difference at most.
const MOST: usize = 9;
/// Differences that get their codes together, before those that need more than a code are put.
const TOGETHER: usize = 1024;

/// Makes columns of differences; reuses their memory.
#[derive(Default)]
pub(crate) struct DifferenceWriter {
    codes: Vec<u8>,
    others: Vec<u8>,
}

impl DifferenceWriter {
    /// A block's columns of codes and of the other differences.
    pub(crate) fn columns(&mut self, differences: &[u64]) -> [&[u8]; 2] {
        let mut recent = Recent::default();
        self.codes.resize(differences.len().div_ceil(4), 0);
        let most = differences.len() * MOST;
        if self.others.len() < most {
            self.others.resize(most, 0);
        }
        let mut len = 0;
        let mut others = Others { differences: [0; TOGETHER], count: 0 };
        for (codes, together) in self.codes.chunks_mut(TOGETHER / 4).zip(differences.chunks(TOGETHER)) {
            let (fours, rest) = together.as_chunks();
            for (codes, four) in codes.iter_mut().zip(fours) {
                *codes = others.codes(&mut recent, four);
            }
            if let (Some(codes), Some(&latest)) = (codes.last_mut(), rest.last()) {
                // The latest one has code 0, which is what the column is filled up with.
                let mut four = [latest; 4];
                four[..rest.len()].copy_from_slice(rest);
                *codes = others.codes(&mut recent, &four);
            }
            for &difference in &others.differences[..others.count] {
                let Some(out) = self.others[len..].first_chunk_mut() else { break };
                len += put_difference(out, difference);
            }
            others.count = 0;
        }
        [&self.codes, &self.others[..len]]
    }
}

/// Differences that were none of the latest.
struct Others {
    differences: [u64; TOGETHER],
    count: usize,
}

impl Others {
    /// The codes of four differences.
    #[inline(always)]
    fn codes(&mut self, recent: &mut Recent, four: &[u64; 4]) -> u8 {
        let mut codes = 0;
        for (at, &difference) in four.iter().enumerate() {
            let code = recent.code(difference);
            codes |= code << (2 * at);
            // Written in any case, and kept if both bits of its code are set: a branch on it could not be
            // predicted.
            self.differences[self.count % TOGETHER] = difference;
            self.count += usize::from(code & code >> 1);
        }
        codes
    }
}

/// How many more bytes than one a difference has, by the highest bit of its zigzag number.
const MORE: [u8; 56] = {
    let mut more = [0; 56];
    let mut bit = 0;
    while bit < more.len() {
        more[bit] = (bit / 7) as u8;
        bit += 1;
    }
    more
};

/// Puts a difference; the number of bytes.
///
/// Its zigzag number has seven bits in each of `n` bytes. The first byte ends with as many zeros as there are
/// more bytes, and a one. For more than 56 bits it is 0, and eight bytes follow.
#[inline(always)]
fn put_difference(out: &mut [u8; MOST], difference: u64) -> usize {
    let number = zigzag(difference);
    let highest = 63 - (number | 1).leading_zeros() as usize;
    let Some(&more) = MORE.get(highest) else {
        out[0] = 0;
        out[1..].copy_from_slice(&number.to_le_bytes());
        return MOST;
    };
    out[..8].copy_from_slice(&((number << 1 | 1) << more).to_le_bytes());
    usize::from(more) + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::read::difference;
    use super::*;
    use crate::bytes::Bytes;

    fn any_difference() -> impl Strategy<Value = u64> {
        let of_width =
            (any::<u64>(), 0u32..64).prop_map(|(bits, width)| (bits.cast_signed() >> width).cast_unsigned());
        prop_oneof![0u64..5, of_width]
    }

    proptest! {
        #[test]
        fn columns_of_any_length_come_back(
            differences in prop::collection::vec(any_difference(), 0..3 * TOGETHER), shorter in 0usize..9,
        ) {
            let mut writer = DifferenceWriter::default();
            // The second time in memory that was used already.
            for differences in [&differences[..], &differences[shorter.min(differences.len())..]] {
                let [codes, others] = writer.columns(differences);
                prop_assert_eq!(codes.len(), differences.len().div_ceil(4));
                let (mut recent, mut others) = (Recent::default(), Bytes::new(others));
                for (at, &expected) in differences.iter().enumerate() {
                    let code = codes[at / 4] >> (at % 4 * 2) & 3;
                    prop_assert_eq!(recent.take(code, || difference(&mut others)).ok(), Some(expected));
                }
                prop_assert!(others.is_empty());
                let filled_up = codes.last().filter(|_| differences.len() % 4 != 0);
                prop_assert_eq!(filled_up.map_or(0, |codes| codes >> (differences.len() % 4 * 2)), 0);
            }
        }

        #[test]
        fn differences_come_back(differences in prop::collection::vec(0u64..6, 0..100)) {
            let (mut writer, mut reader) = (Recent::default(), Recent::default());
            for difference in differences {
                let known = writer.0.contains(&difference);
                let code = writer.code(difference);
                prop_assert_eq!(code == OTHER, !known);
                prop_assert_eq!(reader.take(code, || Ok::<_, ()>(difference)), Ok(difference));
                prop_assert_eq!(writer.0, reader.0);
            }
        }
    }
}
