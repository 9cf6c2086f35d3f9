//! Changes to a source, collected in any order and applied at once.

use std::fmt::Arguments;
use std::io::Write as _;
use std::ops::Range;

/// Replacements of pieces of one source. An empty piece is an insertion.
#[derive(Default)]
pub struct Edits {
    /// Place in the source, and in `text`.
    edits: Vec<(Range<usize>, Range<usize>)>,
    text: Vec<u8>,
}

impl Edits {
    /// Puts `text` in place of `piece`. Pieces must not overlap; insertions at one place keep their order.
    pub fn replace(&mut self, piece: Range<usize>, text: Arguments<'_>) {
        let start = self.text.len();
        put(&mut self.text, text);
        self.edits.push((piece, start..self.text.len()));
    }

    /// Puts `text` at `at`.
    pub fn insert(&mut self, at: usize, text: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        self.edits.push((at..at, start..self.text.len()));
    }

    /// The same if there are edits at all.
    pub fn insert_if_any(&mut self, at: usize, text: &[u8]) {
        if !self.edits.is_empty() {
            self.insert(at, text);
        }
    }

    /// The source with all changes made; `None` if there are none.
    pub fn apply(mut self, source: &[u8]) -> Option<Vec<u8>> {
        if self.edits.is_empty() {
            return None;
        }
        self.edits.sort_by_key(|(piece, _)| (piece.start, piece.end));
        let mut out = Vec::with_capacity(source.len() + self.text.len());
        let mut copied = 0;
        for (piece, text) in self.edits {
            debug_assert!(piece.start >= copied, "overlapping edits at {}", piece.start);
            out.extend_from_slice(&source[copied..piece.start]);
            out.extend_from_slice(&self.text[text]);
            copied = piece.end;
        }
        out.extend_from_slice(&source[copied..]);
        Some(out)
    }
}

/// Formats onto the end of `out`.
pub fn put(out: &mut Vec<u8>, text: Arguments<'_>) {
    // Writing to a `Vec` never fails.
    out.write_fmt(text).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_collection_does_not_matter() {
        let mut edits = Edits::default();
        edits.replace(4..5, format_args!("E"));
        edits.replace(1..3, format_args!("-"));
        edits.replace(1..1, format_args!("["));
        assert_eq!(edits.apply(b"abcdef").unwrap(), b"a[-dEf");
        assert!(Edits::default().apply(b"abc").is_none());
    }
}
