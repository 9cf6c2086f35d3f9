//! Words into columns.

use super::super::bytes::{put_varint, zigzag};
use super::compare::{GROUP, compare};
use super::{BLOCK_WORDS, Named, name_of};
use crate::EVENT;

/// Bytes of a difference at most.
const MOST: usize = 9;

/// One block's words.
#[derive(Default)]
pub(in crate::trace) struct WordWriter {
    /// The block's words, and room for a group; empty until it is needed.
    words: Vec<u64>,
    len: usize,
    /// From each word back to the one that it is compared with; 0: with zeros.
    distance: usize,
    named: Named,
    /// Whole bytes of the bits, and those that are less than a word of them.
    changes: Vec<u8>,
    bits: (u64, u32),
    /// Room for the most that a block can take; and how much of it is used.
    differences: (Vec<u8>, usize),
    names: Vec<u8>,
    carries: Vec<u8>,
    /// Where the latest entry in `carries` was made.
    carried: usize,
}

impl WordWriter {
    /// Words so far.
    pub(in crate::trace) fn len(&self) -> usize {
        self.len
    }

    /// The thread has executed so many instructions since its event before the next word, which is not what the words
    /// before say.
    pub(in crate::trace) fn carry(&mut self, instructions: u32) {
        put_varint(&mut self.carries, (self.len - self.carried) as u64);
        put_varint(&mut self.carries, u64::from(instructions));
        self.carried = self.len;
    }

    /// The words that come may name this many shapes.
    pub(in crate::trace) fn know(&mut self, shapes: usize) {
        let names = self.named.positions.len().max(shapes + 1);
        self.named.positions.resize(names, 0);
    }

    /// Adds so many events that belong to no run.
    pub(in crate::trace) fn push_events(&mut self, mut count: usize) {
        const SOME: [u64; 64] = [EVENT; 64];
        while count > 0 {
            let some = count.min(SOME.len());
            self.push(&SOME[..some]);
            count -= some;
        }
    }

    /// Adds words, of which there are at most [`BLOCK_WORDS`] in all: whole runs, and events between them.
    ///
    /// # Panics
    /// If a run's shape has a number that [`WordWriter::know`] was not told of.
    pub(in crate::trace) fn push(&mut self, words: &[u64]) {
        let end = self.len + words.len();
        assert!(end <= BLOCK_WORDS);
        if self.words.is_empty() {
            // Pages that are not touched cost nothing.
            self.words = vec![0; BLOCK_WORDS + GROUP];
            self.differences.0 = vec![0; (BLOCK_WORDS + 1) * MOST];
        }
        self.words[self.len..end].copy_from_slice(words);
        while self.len < end {
            let (changed, count, head) = self.look(end);
            self.put_differences(changed);
            self.put_bits(changed, count);
            self.len += count as usize;
            if head {
                self.put_bits(1, 1);
                let name = name_of(self.words[self.len]);
                put_varint(&mut self.names, name);
                self.distance = self.named.distance(name, self.len);
                self.len += 1;
            }
        }
    }

    /// Compares words up to `end`, 64 at most, or up to a head that is not as it was. The bits of those that have
    /// changed, the number of words, and whether such a head follows.
    #[inline]
    fn look(&self, end: usize) -> (u64, u32, bool) {
        const ZEROS: [u64; GROUP] = [0; GROUP];
        let mut changed = 0;
        let mut count = 0;
        while count < u64::BITS && self.len + (count as usize) < end {
            let at = self.len + count as usize;
            let group = |at: usize| self.words[at..].first_chunk().unwrap_or(&ZEROS);
            let before = if self.distance == 0 { &ZEROS } else { group(at - self.distance) };
            let (differ, heads) = compare(group(at), before);
            let there = ((end - at) as u32).min(GROUP as u32);
            let before_head = (differ & heads).trailing_zeros();
            let words = there.min(before_head);
            changed |= u64::from(differ & ((1 << words) - 1)) << count;
            count += words;
            if before_head < there {
                return (changed, count, true);
            }
        }
        (changed, count, false)
    }

    /// Adds the differences of the changed ones among the words from `len` on.
    #[inline]
    fn put_differences(&mut self, mut changed: u64) {
        let (out, len) = &mut self.differences;
        let words = &self.words[self.len..];
        while changed != 0 {
            let at = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let before = if self.distance == 0 { 0 } else { self.words[self.len + at - self.distance] };
            *len += put_difference(&mut out[*len..], words[at].wrapping_sub(before));
        }
    }

    fn put_bits(&mut self, bits: u64, count: u32) {
        let (mut waiting, before) = self.bits;
        waiting |= bits << before;
        let sum = before + count;
        if sum < u64::BITS {
            self.bits = (waiting, sum);
            return;
        }
        self.changes.extend_from_slice(&waiting.to_le_bytes());
        self.bits = (bits.checked_shr(u64::BITS - before).unwrap_or(0), sum - u64::BITS);
    }

    /// The block's columns of changes, differences, names and carries.
    pub(in crate::trace) fn columns(&mut self) -> [&[u8]; 4] {
        let (waiting, count) = std::mem::take(&mut self.bits);
        self.changes.extend_from_slice(&waiting.to_le_bytes()[..count.div_ceil(8) as usize]);
        [&self.changes, &self.differences.0[..self.differences.1], &self.names, &self.carries]
    }

    /// Starts the next block.
    pub(in crate::trace) fn clear(&mut self) {
        (self.len, self.distance, self.bits, self.carried) = (0, 0, (0, 0), 0);
        self.named.forget(0);
        self.differences.1 = 0;
        for column in [&mut self.changes, &mut self.names, &mut self.carries] {
            column.clear();
        }
    }
}

/// Puts a difference where there is room for nine bytes; the number of bytes.
///
/// Its zigzag number has seven bits in each of `n` bytes. The first byte ends with as many zeros as there are more bytes, and a
/// one. For more than 56 bits it is 0, and eight bytes follow.
#[inline(always)]
fn put_difference(out: &mut [u8], difference: u64) -> usize {
    let number = zigzag(difference);
    let bytes = (70 - (number | 1).leading_zeros()) / 7;
    if bytes > 8 {
        out[0] = 0;
        out[1..9].copy_from_slice(&number.to_le_bytes());
        return 9;
    }
    out[..8].copy_from_slice(&(number << bytes | 1 << (bytes - 1)).to_le_bytes());
    bytes as usize
}
