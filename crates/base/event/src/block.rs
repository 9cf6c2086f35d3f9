//! Blocks: straight-line code whose accesses are recorded by their addresses alone.
//!
//! Nearly all events of a compiled program come from code that makes the same accesses whenever it is
//! executed: only the addresses differ. A producer that knows the code defines a [`BlockShape`] once, and
//! then records one word per access in place of an [`Event`]. A consumer need not know blocks:
//! [`crate::AnySink`] unfolds a [`BlockBatch`] to events for it.

use std::sync::Arc;

use crate::{Batch, Event, Op, SiteId, ThreadId};

/// Set in the first word of a block or of an event between blocks; never in the other words.
pub const HEAD: u64 = 1 << 63;
/// The word that stands for the next of [`BlockBatch::events`].
pub const EVENT: u64 = u64::MAX;

/// Where in a head the number of words behind it is, if it is stated: 16 bits.
const BEHIND_SHIFT: u32 = 32;

/// What an access of a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AccessKind {
    /// [`Op::Load`]
    Load = 0,
    /// [`Op::Store`]
    Store = 1,
    /// [`Op::StoreNt`]
    StoreNt = 2,
}

/// One access of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockAccess {
    /// What it does.
    pub kind: AccessKind,
    /// Bytes. `None` if each execution states them: then its address is followed by a word with the bytes in
    /// the lower 32 bits and, above, instructions to add to `instructions`.
    pub len: Option<u32>,
    /// The code.
    pub site: SiteId,
    /// Instructions since the access before it in the block, it included; for the first one, since the
    /// block's start.
    pub instructions: u32,
}

impl BlockAccess {
    /// Words of an execution of it.
    #[must_use]
    pub fn words(&self) -> usize {
        1 + usize::from(self.len.is_none())
    }

    /// What it did at `addr`, to `len` bytes.
    #[must_use]
    #[inline]
    pub fn op(&self, addr: u64, len: u32) -> Op {
        match self.kind {
            AccessKind::Load => Op::Load { addr, len },
            AccessKind::Store => Op::Store { addr, len },
            AccessKind::StoreNt => Op::StoreNt { addr, len },
        }
    }
}

/// What is the same in all executions of a piece of code. A number within a stream of events names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BlockShape {
    /// Its accesses, in program order; at least one.
    pub accesses: Vec<BlockAccess>,
    /// Instructions behind the last access. They count for the thread's next event, if that access was
    /// executed.
    pub after: u32,
}

impl BlockShape {
    /// Words of an execution, the first of which is its head.
    #[must_use]
    pub fn words(&self) -> usize {
        1 + self.accesses.iter().map(BlockAccess::words).sum::<usize>()
    }

    /// The head of an execution of the shape with this number.
    #[must_use]
    #[inline]
    pub fn head(number: u32) -> u64 {
        HEAD | u64::from(number)
    }

    /// The same, and the head states how many words follow ([`BlockShape::words`] - 1), so that a reader
    /// finds the next block without a look at the shape. More words than a head has room for are not stated.
    #[must_use]
    #[inline]
    pub fn sized_head(number: u32, behind: usize) -> u64 {
        Self::head(number) | u64::from(u16::try_from(behind).unwrap_or(0)) << BEHIND_SHIFT
    }

    /// Words behind this head of a block; 0: it does not state them.
    #[must_use]
    #[inline(always)]
    pub fn behind(head: u64) -> usize {
        usize::from((head >> BEHIND_SHIFT) as u16)
    }

    /// Gives each access that was executed to `each`, with its address, bytes and instructions.
    ///
    /// `words` are those behind the head. `carry` are the instructions since the thread's event before, at
    /// the start and, on return, at the end of the block.
    #[inline]
    pub fn accesses(
        &self,
        words: &[u64],
        carry: &mut u32,
        mut each: impl FnMut(&BlockAccess, u64, u32, u32),
    ) {
        let mut words = words.iter().copied();
        let mut executed = false;
        for access in &self.accesses {
            let addr = words.next().unwrap_or(0);
            let (len, more) = match access.len {
                Some(len) => (len, 0),
                None => {
                    let length = words.next().unwrap_or(0);
                    (length as u32, (length >> 32) as u32)
                }
            };
            executed = addr != 0;
            if executed {
                let instructions = std::mem::take(carry).wrapping_add(access.instructions);
                each(access, addr, len, instructions.wrapping_add(more));
            }
        }
        if executed {
            *carry = carry.wrapping_add(self.after);
        }
    }
}

/// What [`BlockBatch::items`] gives.
#[derive(Clone, Copy, Debug)]
pub enum BlockItem<'a> {
    /// An execution of the shape with this number. The words are those behind its head: per access its
    /// address, 0 if it was not executed because a jump left it out.
    Block(u32, &'a BlockShape, &'a [u64]),
    /// An event that belongs to no block. Its instructions are since the event before it, whatever that was.
    Event(&'a Event),
}

/// Consecutive events of one thread as a [`Batch`] holds them, most of them as blocks. It has no values: a
/// source with [`crate::Capabilities::VALUES`] pushes each event.
#[derive(Clone, Copy, Debug)]
pub struct BlockBatch<'a> {
    /// Whose events.
    pub thread: ThreadId,
    /// Nanoseconds from the start of the observed run to the first of the events; 0 if the source has no
    /// clock.
    pub time_ns: u64,
    /// Shapes by number. A stream's later batches have the same ones and may have more.
    pub shapes: &'a [Arc<BlockShape>],
    /// In program order: for each block its head ([`BlockShape::head`] or [`BlockShape::sized_head`]) and
    /// [`BlockShape::words`] - 1 more; for each event in between [`EVENT`].
    pub words: &'a [u64],
    /// The events in between.
    pub events: &'a [Event],
    /// How many events all that is.
    pub count: usize,
    /// Instructions of the thread since its last event before the batch, for the first event of a block.
    pub carry: u32,
}

impl<'a> BlockBatch<'a> {
    /// Its blocks and the events between them.
    ///
    /// # Panics
    /// The iterator panics at a head whose shape or whose words are not there.
    #[inline]
    pub fn items(&self) -> impl Iterator<Item = BlockItem<'a>> + use<'a> {
        let BlockBatch { shapes, mut words, events, .. } = *self;
        let mut events = events.iter();
        std::iter::from_fn(move || {
            let (&head, rest) = words.split_first()?;
            if head == EVENT {
                words = rest;
                return events.next().map(BlockItem::Event);
            }
            let number = head as u32;
            let shape = &*shapes[number as usize];
            let behind = BlockShape::behind(head);
            debug_assert!(behind == 0 || behind == shape.words() - 1, "a head states its shape's words");
            let (block, rest) = rest.split_at(if behind > 0 { behind } else { shape.words() - 1 });
            words = rest;
            Some(BlockItem::Block(number, shape, block))
        })
    }

    /// Instructions of the thread after the last of the events: [`BlockBatch::carry`] of its next batch, if
    /// there is nothing in between.
    #[must_use]
    pub fn carry_after(&self) -> u32 {
        // What the last event is shows at the end, most often in the last block.
        let mut end = self.words.len();
        while let Some(at) = self.words[..end].iter().rposition(|word| word & HEAD != 0) {
            if self.words[at] == EVENT {
                return 0;
            }
            let shape = &self.shapes[self.words[at] as u32 as usize];
            let (mut executed, mut carry) = (false, 0);
            shape.accesses(&self.words[at + 1..end], &mut carry, |_, _, _, _| executed = true);
            if executed {
                return carry;
            }
            end = at;
        }
        self.carry
    }

    /// Adds all its events to `out`.
    pub fn expand(&self, out: &mut Vec<Event>) {
        let before = out.len();
        out.reserve(self.count);
        let mut carry = self.carry;
        for item in self.items() {
            match item {
                BlockItem::Block(_, shape, words) => {
                    shape.accesses(words, &mut carry, |access, addr, len, instructions| {
                        out.push(Event { op: access.op(addr, len), site: access.site, instructions });
                    });
                }
                BlockItem::Event(event) => {
                    out.push(*event);
                    carry = 0;
                }
            }
        }
        debug_assert_eq!(out.len() - before, self.count);
    }

    /// Gives the same events as a [`Batch`] to `each`, and what it returns.
    pub fn expanded<T>(&self, each: impl FnOnce(Batch<'_>) -> T) -> T {
        let mut events = Vec::new();
        self.expand(&mut events);
        each(Batch { thread: self.thread, time_ns: self.time_ns, events: &events, values: &[] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(kind: AccessKind, len: Option<u32>, instructions: u32) -> BlockAccess {
        BlockAccess { kind, len, site: SiteId(u32::from(kind as u8) + 1), instructions }
    }

    #[test]
    fn a_head_states_what_it_has_room_for() {
        let heads = [0, 3, 0xffff, 0x1_0000].map(|behind| BlockShape::sized_head(u32::MAX - 1, behind));
        assert_eq!(heads.map(BlockShape::behind), [0, 3, 0xffff, 0]);
        assert!(heads.iter().all(|&head| head & HEAD != 0 && head != EVENT && head as u32 == u32::MAX - 1));
        assert_eq!(BlockShape::behind(BlockShape::head(5)), 0);
    }

    #[test]
    fn a_batch_expands_to_its_events() {
        let shapes = [
            BlockShape {
                accesses: vec![
                    access(AccessKind::Load, Some(8), 5),
                    access(AccessKind::Store, Some(4), 1),
                    access(AccessKind::Load, Some(2), 3),
                ],
                after: 7,
            },
            BlockShape { accesses: vec![access(AccessKind::StoreNt, None, 2)], after: 0 },
        ]
        .map(Arc::new);
        let plain = Event { op: Op::Free { addr: 9 }, site: SiteId(9), instructions: 40 };
        let words = [
            // All of it; nothing but its second access; nothing of it; the same after an event.
            vec![BlockShape::head(0), 100, 200, 300],
            vec![BlockShape::head(0), 0, 400, 0],
            vec![BlockShape::head(0), 0, 0, 0],
            vec![BlockShape::head(1), 500, 3 << 32 | 1000],
            vec![BlockShape::sized_head(0, 3), 1, 2, 3],
            vec![EVENT, BlockShape::head(0), 0, 0, 600],
        ]
        .concat();
        let batch = BlockBatch {
            thread: ThreadId(3),
            time_ns: 4,
            shapes: &shapes,
            words: &words,
            events: &[plain],
            count: 10,
            carry: 10,
        };
        let event = |op, site, instructions| Event { op, site: SiteId(site), instructions };
        let expected = [
            event(Op::Load { addr: 100, len: 8 }, 1, 15),
            event(Op::Store { addr: 200, len: 4 }, 2, 1),
            event(Op::Load { addr: 300, len: 2 }, 1, 3),
            event(Op::Store { addr: 400, len: 4 }, 2, 8),
            event(Op::StoreNt { addr: 500, len: 1000 }, 3, 5),
            event(Op::Load { addr: 1, len: 8 }, 1, 5),
            event(Op::Store { addr: 2, len: 4 }, 2, 1),
            event(Op::Load { addr: 3, len: 2 }, 1, 3),
            plain,
            event(Op::Load { addr: 600, len: 2 }, 1, 3),
        ];
        assert_eq!(batch.carry_after(), 7);
        batch.expanded(|batch| {
            assert_eq!(batch.events, expected);
            assert_eq!((batch.thread, batch.time_ns), (ThreadId(3), 4));
        });
    }
}
