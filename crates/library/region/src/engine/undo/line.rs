//! Lines of an undo log: what takes one write back, or that a region has ended.
//!
//! ```text
//! word 0     the region's number << 2 | kind: 0 the end, or that the log goes on elsewhere; 1 set, 2 take bits, 3 give bits
//! word 1, 2  offset and value, or bits, or where the log goes on and with how many lines; the other words are 0
//! ```
//!
//! A region's first line has [`Role::First`], its end [`Role::End`], those between [`Role::Later`].

use space::Space;

use crate::engine::state::NUMBERS;
use crate::log::{Content, Role, WORDS, read_line};
use crate::{Change, Write};

/// The payload of a line that takes a write of region `number` back.
#[inline]
pub(super) fn inverse(number: u64, write: Write) -> [u64; WORDS] {
    let (kind, value) = match write.change() {
        Change::Set(value) => (1, value),
        Change::Take(mask) => (2, mask),
        Change::Give(mask) => (3, mask),
    };
    [number << 2 | kind, write.offset(), value, 0, 0, 0, 0]
}

/// The payload of the end of region `number`.
#[inline]
pub(super) fn end(number: u64) -> [u64; WORDS] {
    [number << 2, 0, 0, 0, 0, 0, 0]
}

/// The payload of a line that says that the log of region `number` goes on in `piece`.
pub(super) fn goes_on(number: u64, piece: Piece) -> [u64; WORDS] {
    [number << 2, piece.at, piece.lines, 0, 0, 0, 0]
}

/// Where a log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its first line.
    pub(super) at: u64,
    /// How many there are.
    pub(super) lines: u64,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// What is to be done to take a write back.
    Inverse(Write),
    /// There are more lines elsewhere.
    GoesOn(Piece),
    /// The region has ended.
    End,
}

/// A line that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The region's number.
    pub(super) number: u64,
    /// Whether it is the region's first one.
    pub(super) first: bool,
    pub(super) says: Says,
}

/// What stands at a place of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing was ever written.
    Nothing,
    /// A line that was half written.
    Torn,
    /// It is not what was written.
    Damaged,
    /// A line.
    Line(Line),
}

/// Reads what stands at `place`.
pub(super) fn read<S: Space>(space: &S, place: u64) -> Found {
    match read_line(space, place) {
        Content::Empty => Found::Nothing,
        Content::Torn => Found::Torn,
        Content::Damaged => Found::Damaged,
        Content::Whole { payload, role, .. } => decode(&payload, role).map_or(Found::Damaged, Found::Line),
    }
}

fn decode(payload: &[u64; WORDS], role: Role) -> Option<Line> {
    let [head, offset, value, rest @ ..] = *payload;
    let number = head >> 2;
    if number >= NUMBERS || rest != [0; WORDS - 3] || !offset.is_multiple_of(8) {
        return None;
    }
    let inverse = |change| Says::Inverse(Write::new(offset, change));
    let says = match (head & 3, role) {
        (0, Role::End) => Says::End,
        (0, Role::Later) => Says::GoesOn(Piece { at: offset, lines: value }),
        (0, Role::First) | (_, Role::End) => return None,
        (1, _) => inverse(Change::Set(value)),
        (2, _) => inverse(Change::Take(value)),
        (_, _) => inverse(Change::Give(value)),
    };
    Some(Line { number, first: role == Role::First, says })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_read_as_they_were_written(
            number in 0..NUMBERS, word in 0u64..1 << 45, kind in 0u8..3, value: u64, first: bool
        ) {
            let change = match kind {
                0 => Change::Set(value),
                1 => Change::Take(value),
                _ => Change::Give(value),
            };
            let write = Write::new(word * 8, change);
            let role = if first { Role::First } else { Role::Later };
            let expected = Line { number, first, says: Says::Inverse(write) };
            prop_assert_eq!(decode(&inverse(number, write), role), Some(expected));
            prop_assert_eq!(decode(&inverse(number, write), Role::End), None);
            let expected = Line { number, first: false, says: Says::End };
            prop_assert_eq!(decode(&end(number), Role::End), Some(expected));
            prop_assert_eq!(decode(&end(number), Role::First), None);
            let piece = Piece { at: word * 8, lines: value };
            let expected = Line { number, first: false, says: Says::GoesOn(piece) };
            prop_assert_eq!(decode(&goes_on(number, piece), Role::Later), Some(expected));
            prop_assert_eq!(decode(&goes_on(number, piece), Role::First), None);
        }
    }
}
