//! Code blocks as words, each against an earlier one.
//!
//! A program goes the same ways again and again, so that a block's words (a head per code block, an address
//! per access) are nearly those of some time before: the same heads at one *distance* for thousands of words,
//! and addresses of which most are equal. A word costs one bit, 0 if it is the word at the distance before
//! it. An address that is another one costs its difference besides. A head that is another one names its
//! shape; from there on the distance leads to the code block that named this shape the last time.
//!
//! So there is no table to look up and to bring up to date, and nothing to decide from code block to code
//! block: the writer compares memory, many words at a time.

mod bits;
mod read;
mod recent;
mod write;

pub(super) use read::WordReader;
pub(super) use recent::{DifferenceWriter, Differences};
pub(super) use write::{Until, WordWriter};

/// Words that are looked at together.
const STEP: usize = event::COMPARED;
/// Most words of a block.
pub(crate) const BLOCK_WORDS: usize = 1 << 18;

/// Where each name was named last (0 for an event between code blocks, one more than its number for a shape),
/// in words from the block's start.
#[derive(Default)]
struct Named {
    /// One more than the position; 0: not in this block.
    positions: Vec<u32>,
}

impl Named {
    /// The distance from the head at `position` to the one that bore the name the last time, 0 if there is
    /// none.
    fn distance(&mut self, name: u64, position: usize) -> usize {
        let before = std::mem::replace(&mut self.positions[name as usize], position as u32 + 1);
        if before == 0 { 0 } else { position + 1 - before as usize }
    }

    /// This many shapes may be named.
    fn know(&mut self, shapes: usize) {
        let names = self.positions.len().max(shapes + 1);
        self.positions.resize(names, 0);
    }

    /// Starts a block.
    fn forget(&mut self) {
        self.positions.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::bytes::Bytes;
    use event::{AccessKind, BlockAccess, BlockShape, EVENT, SiteId};

    fn shapes() -> Vec<Arc<BlockShape>> {
        let access = |len| BlockAccess { kind: AccessKind::Load, len, site: SiteId(1), instructions: 1 };
        let lens = [vec![Some(8)], vec![Some(8), None], vec![Some(4); 17], vec![None, Some(1), Some(2)]];
        lens.map(|lens| Arc::new(BlockShape { accesses: lens.into_iter().map(access).collect(), after: 1 }))
            .into()
    }

    /// Words of code blocks: loops over a few bodies, in which some addresses move.
    fn words() -> impl Strategy<Value = Vec<u64>> {
        let body = prop::collection::vec(0usize..5, 1..8);
        let step = prop_oneof![Just(0u64), Just(8), Just(0u64.wrapping_sub(1)), any::<u64>()];
        let address = prop_oneof![Just(0u64), any::<u64>()];
        prop::collection::vec((body, step, address, 1usize..40), 0..12).prop_map(|loops| {
            let shapes = shapes();
            let mut words = Vec::new();
            for (body, step, address, times) in loops {
                for turn in 0..times as u64 {
                    for &number in &body {
                        let Some(shape) = shapes.get(number) else {
                            words.push(EVENT);
                            continue;
                        };
                        words.push(BlockShape::head(number as u32));
                        let moved = address.wrapping_add(turn.wrapping_mul(step));
                        words.extend(
                            (1..shape.words() as u64)
                                .map(|slot| (if slot % 3 == 0 { moved } else { slot << 20 }) & !event::HEAD),
                        );
                    }
                }
            }
            words
        })
    }

    proptest! {
        #[test]
        fn words_come_back(before in words(), words in words(), piece in 1usize..200) {
            let shapes = shapes();
            let mut writer = WordWriter::default();
            // Nothing of a block is left when the next one starts.
            for words in [before, words] {
                writer.clear();
                writer.know(&shapes);
                let mut at = 0;
                // Pieces end where a code block does.
                while at < words.len() {
                    if words[at] == EVENT {
                        writer.push_events(1);
                        at += 1;
                        continue;
                    }
                    let mut end = (at + piece).min(words.len());
                    while end < words.len() && words[end] & event::HEAD == 0 {
                        end += 1;
                    }
                    let pushed = writer.push(&&words[..end], at, usize::MAX, &shapes, |head| {
                        Some(head as u32).filter(|_| head != EVENT)
                    });
                    prop_assert_eq!(pushed.end == Until::Unknown, at + pushed.words < end);
                    at += pushed.words;
                }
                let mut differences = DifferenceWriter::default();
                let [codes, differences] = differences.columns(writer.differences().get());
                let [changes, names, _] = writer.columns();
                let (mut differences, mut names) = (Bytes::new(differences), Bytes::new(names));
                let mut reader = WordReader::default();
                let plain: Vec<BlockShape> = shapes.iter().map(|shape| (**shape).clone()).collect();
                reader.open(words.len(), changes, codes, &mut differences, &mut names, &plain).unwrap();
                prop_assert_eq!(reader.words(), &words[..]);
                prop_assert!(differences.is_empty() && names.is_empty());
            }
        }
    }
}
