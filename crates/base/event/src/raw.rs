//! Raw blocks: the words as the observed code recorded them.
//!
//! Observed code writes words so fast that each look at each word counts. A producer may therefore forward
//! them unchanged, as [`RawBlocks`], with a table of the heads that it knows ([`HeadTable`]). The trace
//! writer only compares words with earlier ones, and looks up just the heads that it did not predict. For
//! other consumers [`RawBlocks::translate`] turns them into the words of a [`BlockBatch`].

use std::sync::Arc;

use crate::compared::{COMPARED, Compared, copy_and_compare};
use crate::map::Map;
use crate::upper::{self, GROUP};
use crate::{BlockBatch, BlockShape, EVENT, HEAD, SinkError, ThreadId};

/// Most words of a raw block.
pub const RAW_WORDS_MAX: usize = 1024;
/// Entries of [`HeadTable`]' small table.
const NEAR: usize = 1 << 15;
/// A head that nobody has.
const NOBODY: u64 = 0;

/// The address in a raw word that is no head: for a store, the word is its complement.
#[must_use]
#[inline(always)]
pub const fn raw_address(word: u64) -> u64 {
    word ^ (word.cast_signed() >> 63).cast_unsigned()
}

/// Set in [`Known::sized`] if some of the block's words are lengths.
const LENGTHS: u64 = 1 << 62;

/// Raw words, wherever they lie.
///
/// They may be in memory that somebody else has too, so nobody gets a reference to them: what is looked at
/// more than once is copied.
pub trait RawWords {
    /// How many there are.
    fn count(&self) -> usize;

    /// Copies those from number `from` on, as many as there are and as have room.
    fn copy(&self, from: usize, into: &mut [u64]) -> usize;

    /// Copies [`COMPARED`] words from number `from` on to a place of `block`, zeros in place of those that
    /// are not there, and compares each with the one at a distance before it in the block. `place` is the
    /// number of the first one there, and the distance, which is not 0. `heads` are those of them that should
    /// be heads: what comes behind the first of these that differs does not matter. By how much the
    /// [`raw_address`]es of those that differ do so is put into `differences`, one behind the other.
    ///
    /// # Panics
    /// If the block ends before, or does not reach back so far.
    fn compare(
        &self,
        from: usize,
        block: &mut [u64],
        place: [usize; 2],
        heads: u64,
        differences: &mut [u64; COMPARED],
    ) -> Compared {
        copy_and_compare(self, from, block, place, heads, differences)
    }
}

impl RawWords for &[u64] {
    fn count(&self) -> usize {
        self.len()
    }

    fn copy(&self, from: usize, into: &mut [u64]) -> usize {
        let words = self.get(from..).unwrap_or_default();
        let count = words.len().min(into.len());
        into[..count].copy_from_slice(&words[..count]);
        count
    }
}

/// What is known of a head.
#[derive(Clone, Copy, Debug)]
struct Known {
    head: u64,
    /// [`BlockShape::sized_head`], and [`LENGTHS`].
    sized: u64,
}

impl Known {
    /// Words of a block, the head included.
    #[inline(always)]
    fn words(self) -> usize {
        1 + BlockShape::behind(self.sized)
    }

    #[inline(always)]
    fn sized_head(self) -> u64 {
        self.sized & !LENGTHS
    }

    #[inline(always)]
    fn has_lengths(self) -> bool {
        self.sized & LENGTHS != 0
    }
}

/// The heads that one process's words may have, and the shapes that they stand for.
#[derive(Debug)]
pub struct HeadTable {
    known: Map<u64, Known>,
    /// Of the heads that share a place, the one that was looked up last. Heads that are near each other have
    /// places near each other.
    near: Box<[Known]>,
}

impl Default for HeadTable {
    fn default() -> Self {
        let nobody = Known { head: NOBODY, sized: 0 };
        HeadTable { known: Map::default(), near: vec![nobody; NEAR].into() }
    }
}

impl HeadTable {
    /// Enters `head`: from now on it stands for an execution of the shape with this number. False if the head
    /// is 0 or [`EVENT`], which stand for nothing and for something else, or the shape has more words than
    /// [`RAW_WORDS_MAX`].
    pub fn learn(&mut self, head: u64, number: u32, shape: &BlockShape) -> bool {
        let words = shape.words();
        let fits = head != NOBODY && head != EVENT && words <= RAW_WORDS_MAX;
        if fits {
            let lengths = if words - 1 == shape.accesses.len() { 0 } else { LENGTHS };
            self.known
                .insert(head, Known { head, sized: BlockShape::sized_head(number, words - 1) | lengths });
        }
        fits
    }

    /// The number of the shape that `head` stands for.
    #[must_use]
    #[inline]
    pub fn shape(&mut self, head: u64) -> Option<u32> {
        self.get(head).map(|known| known.sized as u32)
    }

    /// Words of a block with this head, it included.
    #[must_use]
    #[inline]
    pub fn words(&mut self, head: u64) -> Option<usize> {
        self.get(head).map(Known::words)
    }

    #[inline(always)]
    fn get(&mut self, head: u64) -> Option<Known> {
        // A head is a quarter of an address in most cases, and what lies there is not shorter than 16 bytes.
        let near = &mut self.near[(head >> 2) as usize % NEAR];
        if near.head != head || head == NOBODY {
            *near = *self.known.get(&head)?;
        }
        Some(*near)
    }
}

/// Consecutive blocks of one thread as they were recorded. They have no values, and no events between them.
pub struct RawBlocks<'a> {
    /// Whose events.
    pub thread: ThreadId,
    /// Nanoseconds from the start of the observed run to the first of the events; 0 if the source has no
    /// clock.
    pub time_ns: u64,
    /// Shapes by number. A stream's later batches have the same ones and may have more.
    pub shapes: &'a [Arc<BlockShape>],
    /// The heads that the thread's words may have. A thread has the same table in all its batches.
    pub heads: &'a mut HeadTable,
    /// In program order: for each block its head and [`BlockShape::words`] - 1 more, which are those of a
    /// [`BlockBatch`] but for addresses with the upper bit set: see [`raw_address`]. A block that the words'
    /// end cuts off goes on with zeros.
    pub words: &'a dyn RawWords,
    /// Instructions of the thread since its last event.
    pub carry: u32,
}

/// What a consumer took of [`RawBlocks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    /// Words; fewer than there are if a block's head is not among [`RawBlocks::heads`].
    pub words: usize,
    /// Events of these words.
    pub events: usize,
    /// Instructions of the thread since the last of them.
    pub carry: u32,
}

/// Of translated words, those without an event.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Heads.
    blocks: usize,
    /// Words that are neither heads nor 0, of blocks some of whose words are lengths.
    others: usize,
}

/// Of the words of a block of which some are lengths, those that are neither 0 nor an event.
fn lengths(shapes: &[Arc<BlockShape>], known: Known, words: &[u64]) -> usize {
    let mut lengths = words.iter().filter(|word| **word != 0).count();
    if let Some(shape) = shapes.get(known.sized as u32 as usize) {
        shape.accesses(words, &mut 0, |_, _, _, _| lengths -= 1);
    }
    lengths
}

impl RawBlocks<'_> {
    /// Adds the blocks to `out`, as words of a [`BlockBatch`], up to the first head that is not known.
    ///
    /// Where a block ends follows from its head, but to go from head to head means to wait for memory at
    /// each. In recorded words, heads are the only words whose two upper bits differ: these show where all
    /// the heads of a group are, and the heads are asked only whether they agree. Where they don't, as an
    /// address that no process has may look like anything, the next block is taken by itself.
    pub fn translate(&mut self, out: &mut Vec<u64>) -> Consumed {
        let start = out.len();
        let (mut at, mut all) = (0, Sum::default());
        let mut group = [0; GROUP];
        loop {
            let there = self.words.copy(at, &mut group);
            let whole = if there == GROUP { self.group(&group, out, &mut all) } else { 0 };
            let taken = if whole == 0 && there > 0 { self.block(group[0], at, out, &mut all) } else { whole };
            if taken == 0 {
                break;
            }
            at += taken;
        }
        let words = &out[start..];
        let empty = words.iter().map(|word| u64::from(*word == 0)).sum::<u64>() as usize;
        let events = words.len() - empty - all.blocks - all.others;
        let (thread, time_ns, shapes, carry) = (self.thread, self.time_ns, self.shapes, self.carry);
        let batch = BlockBatch { thread, time_ns, shapes, words, events: &[], count: events, carry };
        Consumed { words: at, events, carry: batch.carry_after() }
    }

    /// Translates those of the blocks of `group`, which begins with a head, that end in it. Their words; 0 if
    /// there is none that can be recognised by the upper bits.
    #[inline(always)]
    fn group(&mut self, group: &[u64; GROUP], out: &mut Vec<u64>, all: &mut Sum) -> usize {
        let mut heads = upper::differ(group);
        if heads & 1 == 0 {
            return 0;
        }
        let start = out.len();
        out.extend(group.iter().map(|word| raw_address(*word)));
        let Some(words) = out[start..].first_chunk_mut::<GROUP>() else { return 0 };
        let mut at = 0;
        while heads != 0 {
            heads &= heads - 1;
            // Behind the last head it is not known where the next one is, unless the block ends with the
            // group.
            let end = (heads.trailing_zeros() as usize).min(GROUP);
            let Some(known) = self.heads.get(group[at % GROUP]) else { break };
            if at + known.words() != end {
                break;
            }
            words[at % GROUP] = known.sized_head();
            if known.has_lengths() {
                all.others += lengths(self.shapes, known, &words[at + 1..end]);
            }
            all.blocks += 1;
            at = end;
        }
        out.truncate(start + at);
        at
    }

    /// Translates the block that begins `at` there with this head. Its words that are there; 0 if the head is
    /// not known.
    fn block(&mut self, head: u64, at: usize, out: &mut Vec<u64>, all: &mut Sum) -> usize {
        let Some(known) = self.heads.get(head) else { return 0 };
        let start = out.len();
        out.resize(start + known.words(), 0);
        let there = self.words.copy(at, &mut out[start..]);
        out[start] = known.sized_head();
        out[start + 1..].iter_mut().for_each(|word| *word = raw_address(*word));
        if known.has_lengths() {
            all.others += lengths(self.shapes, known, &out[start + 1..]);
        }
        all.blocks += 1;
        there
    }

    /// Gives the blocks to `each` as a [`BlockBatch`], unless they stand for no event.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn translated(
        mut self,
        each: impl FnOnce(BlockBatch<'_>) -> Result<(), SinkError>,
    ) -> Result<Consumed, SinkError> {
        let mut words = Vec::new();
        let consumed = self.translate(&mut words);
        if consumed.events > 0 {
            let RawBlocks { thread, time_ns, shapes, carry, .. } = self;
            let (words, count) = (&words[..], consumed.events);
            each(BlockBatch { thread, time_ns, shapes, words, events: &[], count, carry })?;
        }
        Ok(consumed)
    }
}

const _: () = assert!(raw_address(!5) == 5 && raw_address(5) == 5 && raw_address(HEAD) >> 63 == 0);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{AccessKind, AnySink, BlockAccess, Collected, Event, RunSink, SiteId};

    const HEADS: [u64; 3] = [HEAD | 0x1000, HEAD | 0x1234_5678, 1 << 62 | 77];

    fn shapes() -> [Arc<BlockShape>; 3] {
        let access =
            |kind, len, instructions| BlockAccess { kind, len, site: SiteId(instructions), instructions };
        let (load, store) = (AccessKind::Load, AccessKind::Store);
        let shapes = [
            vec![access(load, Some(8), 1)],
            vec![access(load, Some(8), 2), access(store, Some(4), 3), access(load, Some(2), 1)],
            vec![access(store, None, 5)],
        ];
        let mut after = 0;
        shapes.map(|accesses| {
            after += 1;
            Arc::new(BlockShape { accesses, after })
        })
    }

    fn heads() -> HeadTable {
        let mut heads = HeadTable::default();
        for ((head, number), shape) in HEADS.into_iter().zip(0..).zip(shapes()) {
            assert!(heads.learn(head, number, &shape));
        }
        heads
    }

    /// Addresses, some of which look like heads, and some of which no process has.
    fn address() -> impl Strategy<Value = u64> {
        let odd = [HEADS[0], HEADS[1], HEADS[2], HEAD | 5, 1 << 62, 3 << 62, u64::MAX];
        prop_oneof![20 => 0u64..3, 1 => prop::sample::select(odd.to_vec())]
    }

    proptest! {
        #[test]
        fn raw_blocks_are_the_events_of_their_words(
            blocks in prop::collection::vec((0usize..3, prop::array::uniform3(address())), 0..300), carry in 0u32..9,
        ) {
            let (shapes, mut heads) = (shapes(), heads());
            let (mut words, mut expected, mut left) = (Vec::new(), Vec::new(), carry);
            for (number, addresses) in blocks {
                words.push(HEADS[number]);
                let mut executed = false;
                for (access, addr) in shapes[number].accesses.iter().zip(addresses) {
                    let is_store = access.kind == AccessKind::Store && access.len.is_some();
                    let word = if is_store && addr != 0 { !addr } else { addr };
                    words.push(word);
                    let addr = raw_address(word);
                    executed = addr != 0;
                    let mut instructions = access.instructions;
                    if access.len.is_none() {
                        words.push(4 << 32 | 100);
                        instructions += 4;
                    }
                    if executed {
                        let op = access.op(addr, access.len.unwrap_or(100));
                        let instructions = instructions + std::mem::take(&mut left);
                        expected.push(Event { op, site: access.site, instructions });
                    }
                }
                left += if executed { shapes[number].after } else { 0 };
            }
            // A head that nobody knows ends it.
            words.extend([HEAD | 5, 1]);
            let mut sink = Collected::default();
            let (thread, heads) = (ThreadId(7), &mut heads);
            let raw = RawBlocks { thread, time_ns: 9, shapes: &shapes, heads, words: &&words[..], carry };
            let taken = AnySink(&mut sink).push_raw(raw).unwrap();
            prop_assert_eq!(taken, Consumed { words: words.len() - 2, events: expected.len(), carry: left });
            let expected: Vec<_> = expected.into_iter().map(|event| (thread, event)).collect();
            prop_assert_eq!(sink.events, expected);
        }
    }

    #[test]
    fn a_block_that_is_cut_off_goes_on_with_zeros_and_what_is_no_head_is_refused() {
        let (shapes, mut heads) = (shapes(), heads());
        let words = [HEADS[1], 100, !200];
        let raw = RawBlocks {
            thread: ThreadId(0),
            time_ns: 0,
            shapes: &shapes,
            heads: &mut heads,
            words: &&words[..],
            carry: 1,
        };
        let mut out = Vec::new();
        assert_eq!({ raw }.translate(&mut out), Consumed { words: 3, events: 2, carry: 0 });
        assert_eq!(out, [BlockShape::sized_head(1, 3), 100, 200, 0]);
        assert_eq!((heads.words(HEADS[2]), heads.shape(HEADS[2])), (Some(3), Some(2)));
        assert_eq!((heads.words(0), heads.shape(HEAD)), (None, None));
        let long = BlockShape { accesses: vec![shapes[0].accesses[0]; RAW_WORDS_MAX], after: 0 };
        assert!(
            ![0, EVENT].iter().any(|head| heads.learn(*head, 0, &shapes[0])) && !heads.learn(9, 0, &long)
        );
    }
}
