//! Lines of an undo log: what takes one write back, or that a region has ended.
//!
//! ```text
//! word 0     the region's number << 2 | kind: 0 the end, 1 set, 2 take bits, 3 give bits
//! word 1, 2  offset and value, or bits; the other words are 0
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
    let (kind, value) = match write.change {
        Change::Set(value) => (1, value),
        Change::Take(mask) => (2, mask),
        Change::Give(mask) => (3, mask),
    };
    [number << 2 | kind, write.offset, value, 0, 0, 0, 0]
}

/// The payload of the end of region `number`.
#[inline]
pub(super) fn end(number: u64) -> [u64; WORDS] {
    [number << 2, 0, 0, 0, 0, 0, 0]
}

/// A line that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The region's number.
    pub(super) number: u64,
    /// Whether it is the region's first one.
    pub(super) first: bool,
    /// What is to be done to take a write back; `None`: the region has ended.
    pub(super) inverse: Option<Write>,
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
    let change = match head & 3 {
        0 => None,
        1 => Some(Change::Set(value)),
        2 => Some(Change::Take(value)),
        _ => Some(Change::Give(value)),
    };
    let line =
        Line { number, first: role == Role::First, inverse: change.map(|change| Write { offset, change }) };
    ((role == Role::End) == line.inverse.is_none()).then_some(line)
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
            let write = Write { offset: word * 8, change };
            let role = if first { Role::First } else { Role::Later };
            let expected = Line { number, first, inverse: Some(write) };
            prop_assert_eq!(decode(&inverse(number, write), role), Some(expected));
            prop_assert_eq!(decode(&inverse(number, write), Role::End), None);
            let expected = Line { number, first: false, inverse: None };
            prop_assert_eq!(decode(&end(number), Role::End), Some(expected));
            prop_assert_eq!(decode(&end(number), role), None);
        }
    }
}
