//! What a record says of a shadow copy: which line it is of, where it lies, which of its words count, and a
//! check of its bytes.
//!
//! ```text
//! a write of the line's offset, with the value   check << 32 | slot << 8 | a bit for each word
//! ```

use space::{LINE, Space};

use crate::Write;

/// Words of a line.
const WORDS: u64 = 8;
/// Copies of a log, at most.
pub(super) const SLOTS: u64 = 1 << 24;

/// A line that a region wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// Where the line lies.
    pub(super) line: u64,
    /// Which of the log's copies it is.
    pub(super) slot: u64,
    /// A bit for each word that was written.
    pub(super) written: u8,
}

impl Copy {
    /// The words that count, by their number in the line.
    fn words(&self) -> impl Iterator<Item = u64> + use<> {
        let written = self.written;
        (0..WORDS).filter(move |word| written >> word & 1 == 1)
    }

    /// What the copy at `place` says: which words get which values.
    pub(super) fn writes<S: Space>(&self, space: &S, place: u64) -> impl Iterator<Item = Write> {
        self.words().map(move |word| Write::set(self.line + 8 * word, space.load_u64(place + 8 * word)))
    }

    /// Writes it down: the copy lies at `place`.
    pub(super) fn describe<S: Space>(&self, space: &S, place: u64) -> Write {
        let check = u64::from(self.check(space, place));
        let value = check << 32 | self.slot << 8 | u64::from(self.written);
        Write::set(self.line, value)
    }

    /// Reads what was written down; `None` if it is no copy, or not what was copied. `place` says where a
    /// slot lies, if there is such a one.
    pub(super) fn of<S: Space>(
        space: &S,
        line: u64,
        value: u64,
        place: impl Fn(u64) -> Option<u64>,
    ) -> Option<Copy> {
        let copy = Copy { line, slot: value >> 8 & (SLOTS - 1), written: value as u8 };
        let check = copy.check(space, place(copy.slot)?);
        (line.is_multiple_of(LINE) && value >> 32 == u64::from(check)).then_some(copy)
    }

    /// A CRC of the copy at `place` and what it is of.
    fn check<S: Space>(&self, space: &S, place: u64) -> u32 {
        let mut bytes = [0; LINE as usize];
        space.load(place, &mut bytes);
        let mut crc = crc32fast::Hasher::new();
        crc.update(&bytes);
        crc.update(&self.line.to_le_bytes());
        crc.update(&[self.written]);
        crc.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use space::Image;

    proptest! {
        #[test]
        fn a_copy_is_read_as_it_was_described(
            bytes: [u8; 32], line in 0u64..1 << 40, slot in 0..SLOTS, written: u8, changed in 0u64..32, flip in 1u8..
        ) {
            let space = Image::new(256);
            space.store(128, &bytes);
            let (copy, place) = (Copy { line: line * LINE, slot, written }, |_| Some(128));
            let described = copy.describe(&space, 128);
            let (offset, value) = (described.offset(), described.value());
            prop_assert_eq!(Copy::of(&space, offset, value, place), Some(copy));
            prop_assert_eq!(Copy::of(&space, offset, value, |_| None), None, "there is no such slot");
            prop_assert_eq!(Copy::of(&space, offset + 64, value, place), None, "of another line");
            space.store_word(128 + changed, bytes[changed as usize] ^ flip);
            prop_assert_eq!(Copy::of(&space, offset, value, place), None, "a changed byte");
        }
    }

    #[test]
    fn only_words_that_were_written_count() {
        let space = Image::new(256);
        (0..8).for_each(|word| space.store_u64(128 + 8 * word, 100 + word));
        let copy = Copy { line: 64, slot: 0, written: 0b1000_0010 };
        let set = |offset, value| Write::set(offset, value);
        assert_eq!(copy.writes(&space, 128).collect::<Vec<_>>(), [set(72, 101), set(120, 107)]);
    }
}
