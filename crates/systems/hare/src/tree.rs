//! An expression over bytes: the parser's tree with Unicode classes as sequences of byte ranges.

use regex_syntax::hir::{self, Class, Hir, HirKind};
use regex_syntax::utf8::Utf8Sequences;

use crate::byteset::ByteSet;
use crate::error::Why;
use crate::look::{Look, LookSet};

/// An expression over bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The empty string.
    Empty,
    /// One byte of the set. The empty set matches nothing.
    Set(ByteSet),
    /// A condition on the boundary.
    Look(LookSet),
    /// One after the other.
    Cat(Vec<Tree>),
    /// One of them.
    Any(Vec<Tree>),
    /// Repetition; without a `max` it has no upper bound.
    Repeat {
        /// What is repeated.
        inner: Box<Tree>,
        /// The fewest repetitions.
        min: u32,
        /// The most.
        max: Option<u32>,
    },
}

impl Tree {
    /// The tree of a parsed expression.
    pub fn of(hir: &Hir) -> Result<Tree, Why> {
        Ok(match hir.kind() {
            HirKind::Empty => Tree::Empty,
            HirKind::Literal(hir::Literal(bytes)) => {
                cat(bytes.iter().map(|&byte| Tree::Set(ByteSet::one(byte))).collect())
            }
            HirKind::Class(class) => of_class(class),
            HirKind::Look(look) => Tree::Look(LookSet::one(of_look(*look)?)),
            HirKind::Repetition(repetition) => {
                let inner = Box::new(Tree::of(&repetition.sub)?);
                match (repetition.min, repetition.max) {
                    (_, Some(0)) => Tree::Empty,
                    (1, Some(1)) => *inner,
                    (min, max) => Tree::Repeat { inner, min, max },
                }
            }
            HirKind::Capture(capture) => Tree::of(&capture.sub)?,
            HirKind::Concat(parts) => cat(parts.iter().map(Tree::of).collect::<Result<_, _>>()?),
            HirKind::Alternation(parts) => any(parts.iter().map(Tree::of).collect::<Result<_, _>>()?),
        })
    }

    /// What is left where no part takes `byte`.
    #[must_use]
    pub fn without(self, byte: u8) -> Tree {
        let all = |parts: Vec<Tree>| parts.into_iter().map(|part| part.without(byte)).collect();
        match self {
            Tree::Set(set) => Tree::Set(set.without(byte)),
            Tree::Cat(parts) => Tree::Cat(all(parts)),
            Tree::Any(parts) => Tree::Any(all(parts)),
            Tree::Repeat { inner, min, max } => {
                Tree::Repeat { inner: Box::new(inner.without(byte)), min, max }
            }
            other => other,
        }
    }

    /// The same ends of matches with less at the front. A match may start anywhere, so a leading repetition
    /// need not go beyond its lower bound: whatever it would take further may be left out of the match.
    #[must_use]
    pub fn trimmed(self) -> Tree {
        match self {
            Tree::Repeat { min: 0, .. } => Tree::Empty,
            Tree::Repeat { inner, min: 1, .. } => inner.trimmed(),
            Tree::Repeat { inner, min, .. } => Tree::Repeat { inner, min, max: Some(min) },
            Tree::Any(parts) => {
                let parts: Vec<Tree> = parts.into_iter().map(Tree::trimmed).collect();
                if parts.contains(&Tree::Empty) { Tree::Empty } else { Tree::Any(parts) }
            }
            Tree::Cat(parts) => {
                let mut parts = parts.into_iter();
                while let Some(first) = parts.next() {
                    let first = first.trimmed();
                    if first != Tree::Empty {
                        return cat(std::iter::once(first).chain(parts).collect());
                    }
                }
                Tree::Empty
            }
            other => other,
        }
    }
}

/// One after the other, flat.
fn cat(parts: Vec<Tree>) -> Tree {
    let mut flat = Vec::new();
    for part in parts {
        match part {
            Tree::Cat(inner) => flat.extend(inner),
            Tree::Empty => {}
            other => flat.push(other),
        }
    }
    match flat.len() {
        0 => Tree::Empty,
        1 => flat.remove(0),
        _ => Tree::Cat(flat),
    }
}

/// One of them, with alternatives of one byte as one set.
fn any(parts: Vec<Tree>) -> Tree {
    let mut flat = Vec::new();
    let mut set = ByteSet::NONE;
    for part in parts {
        match part {
            Tree::Set(one) => set = set.or(&one),
            Tree::Any(inner) => flat.extend(inner),
            other => flat.push(other),
        }
    }
    if !set.is_empty() || flat.is_empty() {
        flat.insert(0, Tree::Set(set));
    }
    if flat.len() == 1 { flat.remove(0) } else { Tree::Any(flat) }
}

fn of_class(class: &Class) -> Tree {
    match class {
        Class::Bytes(bytes) => {
            let ranges = bytes.iter().map(|range| ByteSet::range(range.start(), range.end()));
            Tree::Set(ranges.fold(ByteSet::NONE, |set, range| set.or(&range)))
        }
        Class::Unicode(characters) => {
            // Sequences that differ in the first byte only become one.
            let mut sequences: Vec<(Vec<ByteSet>, ByteSet)> = Vec::new();
            for range in characters.iter() {
                for sequence in Utf8Sequences::new(range.start(), range.end()) {
                    let sets: Vec<ByteSet> =
                        sequence.as_slice().iter().map(|r| ByteSet::range(r.start, r.end)).collect();
                    let (first, rest) = (sets[0], &sets[1..]);
                    match sequences.iter_mut().find(|(known, _)| known == rest) {
                        Some((_, firsts)) => *firsts = firsts.or(&first),
                        None => sequences.push((rest.to_vec(), first)),
                    }
                }
            }
            any(sequences
                .into_iter()
                .map(|(rest, first)| cat(std::iter::once(first).chain(rest).map(Tree::Set).collect()))
                .collect())
        }
    }
}

fn of_look(look: hir::Look) -> Result<Look, Why> {
    Ok(match look {
        hir::Look::Start => Look::Start,
        hir::Look::End => Look::End,
        hir::Look::StartLF => Look::StartLine,
        hir::Look::EndLF => Look::EndLine,
        hir::Look::StartCRLF => Look::StartCrlf,
        hir::Look::EndCRLF => Look::EndCrlf,
        hir::Look::WordAscii => Look::Word,
        hir::Look::WordAsciiNegate => Look::NotWord,
        hir::Look::WordStartAscii => Look::WordStart,
        hir::Look::WordEndAscii => Look::WordEnd,
        hir::Look::WordStartHalfAscii => Look::WordStartHalf,
        hir::Look::WordEndHalfAscii => Look::WordEndHalf,
        hir::Look::WordUnicode
        | hir::Look::WordUnicodeNegate
        | hir::Look::WordStartUnicode
        | hir::Look::WordEndUnicode
        | hir::Look::WordStartHalfUnicode
        | hir::Look::WordEndHalfUnicode => return Err(Why::UnicodeBoundary),
    })
}
