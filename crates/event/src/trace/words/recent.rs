//! The latest differences: most words that change, change by as much as another one just before.
//!
//! When a pointer moves on, everything that is reached through it moves by the same. So a difference is first told by two
//! bits: it is one of the latest three, or another one, which the column of differences has.

use super::super::bytes::zigzag;
use super::STEP;

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

    /// The codes of four differences. Those that are none of the latest are put into `others`, from `len` on.
    #[inline(always)]
    fn put(&mut self, four: &[u64; 4], others: &mut [u8], len: &mut usize) -> u8 {
        let Some(out) = others[*len..].first_chunk_mut::<FOUR>() else { return 0 };
        let (mut codes, mut end) = (0, 0);
        for (at, &difference) in four.iter().enumerate() {
            let code = self.code(difference);
            codes |= code << (2 * at);
            // Written in any case, as that is cheaper than to ask.
            let bytes = put_difference(out, end, difference);
            end += if code == OTHER { bytes } else { 0 };
        }
        *len += end;
        codes
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
pub(in crate::trace) struct Differences {
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
    pub(in crate::trace) fn get(&self) -> &[u64] {
        &self.values[..self.count]
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

/// Bytes of a difference at most.
const MOST: usize = 9;
/// Room for four of them, wherever the last one begins.
const FOUR: usize = 64;

/// Makes columns of differences; reuses their memory.
#[derive(Default)]
pub(in crate::trace) struct DifferenceWriter {
    codes: Vec<u8>,
    others: Vec<u8>,
}

impl DifferenceWriter {
    /// A block's columns of codes and of the other differences.
    pub(in crate::trace) fn columns(&mut self, differences: &[u64]) -> [&[u8]; 2] {
        let mut recent = Recent::default();
        let most = differences.len() * MOST + FOUR;
        if self.others.len() < most {
            self.others.resize(most, 0);
        }
        self.codes.resize(differences.len().div_ceil(4), 0);
        let mut len = 0;
        let (fours, rest) = differences.as_chunks();
        for (codes, four) in self.codes.iter_mut().zip(fours) {
            *codes = recent.put(four, &mut self.others, &mut len);
        }
        if let Some(codes) = self.codes.last_mut().filter(|_| !rest.is_empty()) {
            let mut four = [recent.0[0]; 4];
            four[..rest.len()].copy_from_slice(rest);
            // What is filled up with is the latest one, which costs nothing but a code 0.
            four[rest.len()..].fill(rest[rest.len() - 1]);
            *codes = recent.put(&four, &mut self.others, &mut len);
        }
        [&self.codes, &self.others[..len]]
    }
}

/// Puts a difference at byte `at`, which is less than 32; the number of bytes.
///
/// Its zigzag number has seven bits in each of `n` bytes. The first byte ends with as many zeros as there are more bytes, and a
/// one. For more than 56 bits it is 0, and eight bytes follow.
#[inline(always)]
fn put_difference(out: &mut [u8; FOUR], at: usize, difference: u64) -> usize {
    // The remainder changes nothing but that the compiler sees that the bytes fit.
    let at = at % 32;
    let number = zigzag(difference);
    let bytes = (70 - (number | 1).leading_zeros()) / 7;
    if bytes > 8 {
        out[at] = 0;
        out[at + 1..at + 9].copy_from_slice(&number.to_le_bytes());
        return 9;
    }
    out[at..at + 8].copy_from_slice(&((number << 1 | 1) << (bytes - 1)).to_le_bytes());
    bytes as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
