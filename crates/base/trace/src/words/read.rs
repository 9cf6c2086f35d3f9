//! Columns into words.

use super::recent::Recent;
use super::{BLOCK_WORDS, Named};
use crate::bytes::{Bytes, unzigzag};
use crate::error::Malformed;
use event::{BlockShape, EVENT, HEAD};

/// One block's words.
#[derive(Default)]
pub(crate) struct WordReader {
    words: Vec<u64>,
    named: Named,
}

impl WordReader {
    /// The block's words.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Reads a block of `count` words, of code blocks of these shapes.
    pub(crate) fn open(
        &mut self,
        count: usize,
        changes: &[u8],
        codes: &[u8],
        differences: &mut Bytes<'_>,
        names: &mut Bytes<'_>,
        shapes: &[BlockShape],
    ) -> Result<(), Malformed> {
        if count > BLOCK_WORDS || changes.len() != count.div_ceil(8) {
            return Err(Malformed("a block has another number of words than it says"));
        }
        self.words.clear();
        self.words.reserve(count);
        self.named.know(shapes.len());
        self.named.forget();
        let mut distance = 0;
        let (mut recent, mut coded) = (Recent::default(), 0);
        // Words of the last code block that are still to come, where it is not known from the words before.
        let mut fresh = 0usize;
        while self.words.len() < count {
            let at = self.words.len();
            let changed = changes[at / 8] >> (at % 8) & 1 != 0;
            let old = if distance == 0 { 0 } else { self.words[at - distance] };
            let head = if distance == 0 { fresh == 0 } else { old & HEAD != 0 };
            fresh = fresh.saturating_sub(1);
            if !changed {
                if head && distance == 0 {
                    return Err(Malformed("a code block without a shape"));
                }
                self.words.push(old);
            } else if head {
                let name = names.varint()?;
                let (word, words) = match name.checked_sub(1) {
                    None => (EVENT, 1),
                    Some(number) => {
                        let shape = usize::try_from(number).ok().and_then(|number| shapes.get(number));
                        let shape = shape.ok_or(Malformed("a code block of a shape that was not defined"))?;
                        (BlockShape::head(number as u32), shape.words())
                    }
                };
                distance = self.named.distance(name, at);
                fresh = words - 1;
                self.words.push(word);
            } else {
                let pair = codes.get(coded / 4).ok_or(Malformed("a changed word without a code"))?;
                let code = pair >> (coded % 4 * 2) & 3;
                coded += 1;
                let word = old.wrapping_add(recent.take(code, || difference(differences))?);
                if word & HEAD != 0 {
                    return Err(Malformed("an address that no process has"));
                }
                self.words.push(word);
            }
        }
        if codes.len() != coded.div_ceil(4) {
            return Err(Malformed("more codes than changed words"));
        }
        Ok(())
    }
}

/// Inverse of the writer's `put_difference`.
pub(super) fn difference(bytes: &mut Bytes<'_>) -> Result<u64, Malformed> {
    let first = bytes.u8()?;
    if first == 0 {
        return bytes.u64().map(unzigzag);
    }
    let more = first.trailing_zeros();
    let mut number = u64::from(first);
    for (byte, shift) in bytes.take(more as usize)?.iter().zip(1u32..) {
        number |= u64::from(*byte) << (8 * shift);
    }
    Ok(unzigzag(number >> (more + 1)))
}
