//! One line of a log: seven words of payload that are all there or known not to be.
//!
//! A crash may keep any of a line's words and lose the others, so a log needs to know which words of a line
//! are new. A checksum alone knows it by chance. Here every word carries the **parity** of the pass over the
//! ring in its lowest bit, which flips from pass to pass: a line whose words do not all carry the same parity
//! was not written to its end, and no chance is involved. The seven bits that had to make room stand in the
//! eighth word, together with a check of 56 bits, which distinguishes a damaged line from a torn one:
//!
//! ```text
//! word 0..6   payload, bit 0 replaced by the parity
//! word 7      bit 0: parity   bits 1..7: the replaced bits of words 0..6   bits 8..63: check
//! ```
//!
//! A line of which *one* word seems to be of another pass, and that fits its check once that word's lowest
//! byte is another one, is read as it would be with that byte. Perhaps the byte was damaged, and that is what
//! was written. Or the crash lost that word alone, and its old value differs in nothing else, as in words
//! that are zeros: then another crash at the same moment could have kept it, and whatever that one leaves is
//! right for this one, too. (Or it kept that word alone, and what is read is the old line.)
//!
//! That holds for non-temporal stores of lines, too: they are written out whole as a rule, but a crash, or an
//! interrupt between two words, may leave any of their words.
//!
//! The check covers the payload, the line's place in the pool (a line that was copied elsewhere is damage,
//! too) and its [`Role`], so that no payload can pass for the beginning of a record.

use space::{LINE, Space};

/// Words of payload in a line.
pub(crate) const WORDS: usize = 7;

/// What a line is in its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The first one.
    First,
    /// A later one.
    Later,
    /// One that ends something.
    End,
}

impl Role {
    const ALL: [Role; 3] = [Role::First, Role::Later, Role::End];

    /// What is checked together with the payload of such a line at `place`.
    #[inline]
    fn at(self, place: u64) -> u64 {
        place | self as u64
    }
}

/// What stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Nothing was ever written.
    Empty,
    /// A whole line.
    Whole {
        /// Its words.
        payload: [u64; WORDS],
        /// What it is in its record.
        role: Role,
        /// Parity of the pass in which it was written.
        parity: bool,
    },
    /// Some of its words are of another pass, and more than a byte of them: a crash came while it was
    /// written.
    Torn,
    /// All words are of one pass, but they are not what was written.
    Damaged,
}

/// Odd multipliers, one for each word.
const MULTIPLIERS: [u64; WORDS] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
];

/// A payload in 64 bits. A change of one word always changes them.
#[inline(always)]
fn fold(payload: &[u64; WORDS]) -> u64 {
    let words = payload.iter().zip((0u32..).zip(MULTIPLIERS));
    words.fold(0, |sum, (word, (rotation, multiplier))| {
        sum ^ (word ^ multiplier >> 7).wrapping_mul(multiplier).rotate_left(9 * rotation)
    })
}

/// 56 bits that stand for a folded payload and what it is; never 0.
#[inline(always)]
fn check(what: u64, folded: u64) -> u64 {
    let mut sum = what.wrapping_mul(0xff51_afd7_ed55_8ccd) ^ folded;
    sum ^= sum >> 32;
    sum = sum.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (sum ^ sum >> 29) >> 8 | 1
}

/// The eight words of a line at `place`.
#[inline(always)]
fn encode(place: u64, payload: &[u64; WORDS], role: Role, parity: bool) -> [u64; WORDS + 1] {
    let parity = u64::from(parity);
    let replaced = payload.iter().rev().fold(0, |replaced, word| replaced << 1 | word & 1);
    let mut words = [0; WORDS + 1];
    for (into, word) in words.iter_mut().zip(payload) {
        *into = word & !1 | parity;
    }
    words[WORDS] = check(role.at(place), fold(payload)) << 8 | replaced << 1 | parity;
    words
}

/// What the eight words of a line at `place` are.
fn decode(place: u64, words: &[u64; WORDS + 1]) -> Content {
    // The check of a line is never 0.
    if words[WORDS] == 0 && *words == [0; WORDS + 1] {
        return Content::Empty;
    }
    match words.iter().filter(|word| **word & 1 == 1).count() {
        0 | 8 => whole(place, words).unwrap_or(Content::Damaged),
        1 => with_one_byte(place, words, 1).unwrap_or(Content::Torn),
        7 => with_one_byte(place, words, 0).unwrap_or(Content::Torn),
        _ => Content::Torn,
    }
}

/// The line that it would be with another lowest byte of the only word whose lowest bit is `odd`, if it would
/// be one.
#[cold]
fn with_one_byte(place: u64, words: &[u64; WORDS + 1], odd: u64) -> Option<Content> {
    let at = words.iter().position(|word| word & 1 == odd)?;
    let mut words = *words;
    let rest = words[at] & !0xFF;
    (0..=0xFF).filter(|byte| byte & 1 != odd).find_map(|byte| {
        words[at] = rest | byte;
        whole(place, &words)
    })
}

/// What words of one parity are, if they are what was written.
fn whole(place: u64, words: &[u64; WORDS + 1]) -> Option<Content> {
    let parity = words[WORDS] & 1;
    let mut payload = [0; WORDS];
    for (at, word) in payload.iter_mut().enumerate() {
        *word = words[at] & !1 | words[WORDS] >> (at + 1) & 1;
    }
    let folded = fold(&payload);
    let role = Role::ALL.into_iter().find(|role| words[WORDS] >> 8 == check(role.at(place), folded));
    role.map(|role| Content::Whole { payload, role, parity: parity == 1 })
}

/// Stores a line at `place`; neither flushes nor fences.
#[inline(always)]
pub(crate) fn write_line<S: Space>(space: &S, place: u64, payload: &[u64; WORDS], role: Role, parity: bool) {
    space.store_words(place, &encode(place, payload, role, parity));
}

/// The same by non-temporal stores, which need no flush.
#[inline(always)]
pub(crate) fn write_line_nt<S: Space>(
    space: &S,
    place: u64,
    payload: &[u64; WORDS],
    role: Role,
    parity: bool,
) {
    let mut bytes = [0; LINE as usize];
    for (into, word) in bytes.as_chunks_mut().0.iter_mut().zip(encode(place, payload, role, parity)) {
        *into = word.to_le_bytes();
    }
    space.store_nt(place, &bytes);
}

/// Reads the line at `place`, a multiple of the line's length.
pub(crate) fn read_line<S: Space>(space: &S, place: u64) -> Content {
    debug_assert!(place.is_multiple_of(LINE));
    decode(place, &std::array::from_fn(|at| space.load_u64(place + 8 * at as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(payload: [u64; WORDS], parity: bool, line in 0u64..1 << 40, role in 0usize..3) {
            let (place, role) = (line * LINE, Role::ALL[role]);
            let words = encode(place, &payload, role, parity);
            prop_assert_eq!(decode(place, &words), Content::Whole { payload, role, parity });
        }

        #[test]
        fn words_of_two_passes_are_torn(old: [u64; WORDS], new: [u64; WORDS], kept in 1u8..255) {
            let (old, new) = (encode(64, &old, Role::First, false), encode(64, &new, Role::Later, true));
            let mixed = std::array::from_fn(|at| if kept >> at & 1 == 1 { new[at] } else { old[at] });
            prop_assert_eq!(decode(64, &mixed), Content::Torn);
            let fresh = std::array::from_fn(|at| if kept >> at & 1 == 1 { new[at] } else { 0 });
            prop_assert_eq!(decode(64, &fresh), Content::Torn, "on a line that was never written");
        }

        #[test]
        fn one_word_of_another_pass_that_differs_in_a_byte_is_as_if_it_did_not(
            new: [u64; WORDS], at in 0usize..WORDS, byte: u8, alone: bool
        ) {
            let mut old = new;
            old[at] = new[at] & !0xFF | u64::from(byte);
            let words = [encode(64, &old, Role::Later, false), encode(64, &new, Role::Later, true)];
            // The word's own lowest bit stands elsewhere, in a word that is of the other line.
            let parity = !alone;
            let mut mixed = words[usize::from(parity)];
            mixed[at] = words[usize::from(!parity)][at];
            let payload = if parity { new } else { old };
            prop_assert_eq!(decode(64, &mixed), Content::Whole { payload, role: Role::Later, parity });
        }

        #[test]
        fn a_changed_byte_is_found_or_does_no_harm(payload: [u64; WORDS], place in 0usize..64, change in 1u64..256) {
            let mut words = encode(128, &payload, Role::End, true);
            words[place / 8] ^= change << (8 * (place % 8));
            let harmless = place % 8 == 0 && change & 1 == 1;
            let whole = Content::Whole { payload, role: Role::End, parity: true };
            prop_assert_eq!(decode(128, &words), if harmless { whole } else { Content::Damaged });
        }

        #[test]
        fn a_byte_of_a_line_that_was_never_written_makes_none(place in 0usize..64, byte in 1u64..256) {
            let mut words = [0; WORDS + 1];
            words[place / 8] = byte << (8 * (place % 8));
            prop_assert!(matches!(decode(128, &words), Content::Torn | Content::Damaged));
        }

        #[test]
        fn a_line_belongs_to_its_place(payload: [u64; WORDS], from in 1u64..1 << 20, to in 1u64..1 << 20) {
            prop_assume!(from != to);
            let words = encode(from * LINE, &payload, Role::First, false);
            prop_assert_eq!(decode(to * LINE, &words), Content::Damaged);
        }
    }

    #[test]
    fn no_line_looks_empty() {
        let words = encode(0, &[0; WORDS], Role::First, false);
        assert!(matches!(decode(0, &words), Content::Whole { .. }));
        assert_eq!(decode(0, &[0; WORDS + 1]), Content::Empty);
    }
}
