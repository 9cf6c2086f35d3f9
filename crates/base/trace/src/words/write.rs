//! Words into columns.
//!
//! The words are raw ([`event::RawBlocks`]): their meaning is looked up for heads that are not as they were,
//! and known for all others from the words that they equal. So beside the block's words there are bits for
//! what each of them is, which are copied with them, 64 at a time.

use std::sync::Arc;

use super::bits::{BitColumn, Bits};
use super::recent::Differences;
use super::{BLOCK_WORDS, Named, STEP};
use crate::bytes::put_varint;
use event::{BlockShape, EVENT, RAW_WORDS_MAX, RawWords, raw_address};

/// Room that a step and the rest of its code block may need.
const MARGIN: usize = STEP + RAW_WORDS_MAX;
/// Set beside a shape's words if some of them are lengths.
const LENGTHS: u32 = 1 << 31;

/// Why [`WordWriter::push`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The words were all taken.
    Words,
    /// The next word is no head that is known.
    Unknown,
    /// The block has no room for more.
    Full,
}

/// What [`WordWriter::push`] took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushed {
    pub words: usize,
    pub events: usize,
    pub end: Until,
}

/// Raw words, from one of them on.
struct Source<'a> {
    words: &'a dyn RawWords,
    from: usize,
    /// From there on.
    count: usize,
}

impl Source<'_> {
    /// Copies those from number `at` on, as many as there are and as have room.
    #[inline(always)]
    fn copy(&self, at: usize, into: &mut [u64]) -> usize {
        self.words.copy(self.from + at, into)
    }
}

/// One block's words.
#[derive(Default)]
pub(crate) struct WordWriter {
    /// The block's words, and room for two steps; empty until it is needed.
    words: Vec<u64>,
    len: usize,
    /// From each word back to the one that it is compared with; 0: there is none.
    distance: usize,
    /// Which words are heads, and which are heads of code blocks, or lengths.
    kinds: Bits<2>,
    named: Named,
    /// Per shape: words of a code block, and [`LENGTHS`]; instructions after its last access.
    sizes: Vec<[u32; 2]>,
    changes: BitColumn,
    /// Of the words that changed and are no heads.
    differences: Differences,
    names: Vec<u8>,
    carries: Vec<u8>,
    /// Where the latest entry in `carries` was made.
    carried: usize,
}

impl WordWriter {
    /// Words so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The thread had executed so many instructions since its event before word `at`, which is not what the
    /// words before say.
    pub(crate) fn carry(&mut self, at: usize, instructions: u32) {
        put_varint(&mut self.carries, (at - self.carried) as u64);
        put_varint(&mut self.carries, u64::from(instructions));
        self.carried = at;
    }

    /// The words that come are code blocks of these shapes.
    #[inline]
    pub(crate) fn know(&mut self, shapes: &[Arc<BlockShape>]) {
        // Asked for each batch.
        if shapes.len() > self.sizes.len() || self.sizes.is_empty() {
            self.know_new(shapes);
        }
    }

    fn know_new(&mut self, shapes: &[Arc<BlockShape>]) {
        let new = shapes.get(self.sizes.len()..).unwrap_or_default();
        self.sizes.extend(new.iter().map(|shape| {
            let words = shape.words() as u32;
            let lengths = if words as usize == 1 + shape.accesses.len() { 0 } else { LENGTHS };
            [words | lengths, shape.after]
        }));
        self.named.know(self.sizes.len());
    }

    #[inline]
    fn reserve(&mut self) {
        if self.words.is_empty() {
            self.reserve_now();
        }
    }

    #[cold]
    fn reserve_now(&mut self) {
        // Pages that are not touched cost nothing.
        self.words = vec![0; BLOCK_WORDS + 2 * STEP];
        self.kinds.reserve();
    }

    /// Adds so many events that belong to no code block. There must be room.
    pub(crate) fn push_events(&mut self, count: usize) {
        self.reserve();
        for _ in 0..count {
            if self.distance > 0 && self.words[self.len - self.distance] == EVENT {
                self.put_head(EVENT);
                self.changes.put(0, 1);
            } else {
                self.name(EVENT, 0);
            }
        }
    }

    /// Adds raw words, the first of which is a head, up to the first head that has no shape by `shape_of`;
    /// and at most so many events. They begin at number `from`.
    pub(crate) fn push(
        &mut self,
        words: &dyn RawWords,
        from: usize,
        room: usize,
        shapes: &[Arc<BlockShape>],
        mut shape_of: impl FnMut(u64) -> Option<u32>,
    ) -> Pushed {
        self.reserve();
        let mut pushed = Pushed { words: 0, events: 0, end: Until::Words };
        let words = Source { words, from, count: words.count().saturating_sub(from) };
        loop {
            let crowded = pushed.events + MARGIN > room || self.len + MARGIN > BLOCK_WORDS;
            // Whether a head comes next, and what else is known.
            let known = if self.distance == 0 { [1; 2] } else { self.known() };
            if known[0] & 1 != 0 {
                if pushed.words >= words.count {
                    return pushed;
                }
                if crowded {
                    return Pushed { end: Until::Full, ..pushed };
                }
                if self.distance == 0 {
                    let at = self.len;
                    words.copy(pushed.words, &mut self.words[at..=at]);
                    let head = self.words[at];
                    let Some(shape) = shape_of(head) else { return Pushed { end: Until::Unknown, ..pushed } };
                    pushed.words += 1;
                    self.named_run(&words, &mut pushed, head, shape, shapes);
                    continue;
                }
            }
            if self.step(known, &words, &mut pushed, crowded) {
                let head = self.words[self.len];
                let Some(shape) = shape_of(head) else { return Pushed { end: Until::Unknown, ..pushed } };
                pushed.words += 1;
                self.named_run(&words, &mut pushed, head, shape, shapes);
            }
        }
    }

    /// Adds a head that is not as it was, and the rest of its code block if this is the first one with its
    /// name.
    fn named_run(
        &mut self,
        words: &Source<'_>,
        pushed: &mut Pushed,
        head: u64,
        shape: u32,
        shapes: &[Arc<BlockShape>],
    ) {
        self.name(head, u64::from(shape) + 1);
        if self.distance > 0 {
            return;
        }
        let [size, _] = self.sizes[shape as usize];
        // The shape is looked at only if it must be: it may be far from all that is at hand.
        let with_lengths = shapes.get(shape as usize).filter(|_| size & LENGTHS != 0);
        let accesses = with_lengths.map_or(&[][..], |shape| &shape.accesses);
        let mut is_length = accesses.iter().flat_map(|access| [false, true].into_iter().take(access.words()));
        let mut left = (size & !LENGTHS) as usize - 1;
        while left > 0 {
            let count = left.min(STEP);
            let new = &mut self.words[self.len..self.len + count];
            let there = words.copy(pushed.words, new);
            new[there..].fill(0);
            let mut lengths = 0;
            if size & LENGTHS != 0 {
                let known = is_length.by_ref().take(count);
                lengths = known.zip(0..).fold(0, |bits, (is, at)| bits | u64::from(is) << at);
            }
            let (mut changed, mut empty, mut differing) = (0, 0, 0);
            let differences = self.differences.room();
            for (slot, &word) in new.iter().enumerate() {
                let address = raw_address(word);
                empty |= u64::from(address == 0) << slot;
                changed |= u64::from(word != 0) << slot;
                differences[differing % STEP] = address;
                differing += usize::from(word != 0);
            }
            self.differences.add(differing);
            self.changes.put(changed, count as u32);
            self.kinds.put(self.len, [0, lengths]);
            pushed.events += (lower(count) & !lengths & !empty).count_ones() as usize;
            pushed.words += there;
            self.len += count;
            left -= count;
        }
    }

    /// What is known of the next 64 words from those at the distance before.
    #[inline(always)]
    fn known(&self) -> [u64; 2] {
        let mut known = self.kinds.get(self.len - self.distance);
        let mut count = self.distance;
        if count < STEP {
            // What is known ends here, and repeats itself.
            known = known.map(|bits| bits & lower(count));
            while count < STEP {
                known = known.map(|bits| bits | bits << count);
                count *= 2;
            }
        }
        known
    }

    /// Adds words of which this is known from those at the distance before, 64 at most, or up to a head that
    /// is another one: then the result is true. If it is `crowded`, no further than to the next head.
    #[inline]
    fn step(
        &mut self,
        [heads, others]: [u64; 2],
        words: &Source<'_>,
        pushed: &mut Pushed,
        crowded: bool,
    ) -> bool {
        let at = self.len;
        let room = self.differences.room();
        let found =
            words.words.compare(words.from + pushed.words, &mut self.words, [at, self.distance], heads, room);
        let mut count = found.there;
        if count == 0 {
            // The rest of a code block that was cut off.
            count = heads.trailing_zeros() as usize;
        }
        if crowded && heads & 1 == 0 {
            count = count.min(heads.trailing_zeros() as usize);
        }
        let mut taken = lower(count);
        // Events have been distinguished: where one was, there is something else now.
        let other_heads = heads & (found.differ | !others) & taken;
        if other_heads != 0 {
            count = other_heads.trailing_zeros() as usize;
            taken = lower(count);
        }
        let changed = found.differ & taken;
        self.changes.put(changed, count as u32);
        self.differences.add(changed.count_ones() as usize);
        self.kinds.put(at, [heads & taken, others & taken]);
        self.len += count;
        pushed.words += count.min(found.there);
        pushed.events += (taken & !others & !found.empty).count_ones() as usize;
        other_heads != 0
    }

    /// Adds a head that is named.
    fn name(&mut self, head: u64, name: u64) {
        let at = self.len;
        self.put_head(head);
        self.changes.put(1, 1);
        put_varint(&mut self.names, name);
        self.distance = self.named.distance(name, at);
    }

    fn put_head(&mut self, head: u64) {
        self.words[self.len] = head;
        self.kinds.put(self.len, [1, u64::from(head != EVENT)]);
        self.len += 1;
    }

    /// Instructions since the thread's last event, if `carry` were those before the word at `from`.
    pub(crate) fn carry_after(
        &self,
        from: usize,
        carry: u32,
        shapes: &[Arc<BlockShape>],
        mut shape_of: impl FnMut(u64) -> Option<u32>,
    ) -> u32 {
        let mut end = self.len;
        while let Some(head) = self.kinds.last_before(end).filter(|head| *head >= from) {
            let Some(shape) = shape_of(self.words[head]).map(|shape| shape as usize) else { return 0 };
            // Most often the last access was executed.
            if self.kinds.get(end - 1)[1] & 1 == 0 && raw_address(self.words[end - 1]) != 0 {
                return self.sizes.get(shape).map_or(0, |[_, after]| *after);
            }
            let Some(shape) = shapes.get(shape) else { return 0 };
            let words: Vec<u64> = self.words[head + 1..end].iter().map(|word| raw_address(*word)).collect();
            let (mut executed, mut carry) = (false, 0);
            shape.accesses(&words, &mut carry, |_, _, _, _| executed = true);
            if executed {
                return carry;
            }
            end = head;
        }
        carry
    }

    /// The differences of words that are no heads. Their memory may be exchanged.
    pub(crate) fn differences(&mut self) -> &mut Differences {
        &mut self.differences
    }

    /// The block's columns of changes, names and carries.
    pub(crate) fn columns(&mut self) -> [&[u8]; 3] {
        [self.changes.finish(), &self.names, &self.carries]
    }

    /// Starts the next block.
    pub(crate) fn clear(&mut self) {
        (self.len, self.distance, self.carried) = (0, 0, 0);
        self.kinds.begin();
        self.named.forget();
        self.changes.clear();
        self.differences.clear();
        self.names.clear();
        self.carries.clear();
    }
}

/// The lower `count` bits.
#[inline(always)]
fn lower(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
