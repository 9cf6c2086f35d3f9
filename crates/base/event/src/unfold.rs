//! Unfolding: the accesses of many blocks, without events.
//!
//! Blocks are short, and no processor predicts which one comes next, so a loop over the accesses of one block
//! is slow. An [`Unfolder`] copies the accesses of many blocks into a *window* first, in strides of one
//! length whatever the length of the block; the consumer then works on the window in one loop. The head says
//! where the next block begins, so that nothing waits for the shape. A consumer chooses with [`Select`] which
//! accesses it wants and what it needs to know of them.

use std::fmt::Debug;

use crate::{BlockAccess, BlockShape, EVENT};

/// Selected accesses of a plain shape, at most.
const LONGEST: usize = 64;

/// What a consumer makes of an access of a shape.
#[derive(Clone, Copy, Debug)]
pub enum Selected<K> {
    /// The access comes into the window, as this.
    Keep(K),
    /// The access is left out.
    Skip,
    /// The shape is not plain: its blocks are left to the consumer ([`Stop::Other`]).
    Refuse,
}

/// Which accesses a consumer wants.
pub trait Select {
    /// What it needs to know of an access, beside its address.
    type Kind: Copy + Debug;

    /// Fills room that no access has taken yet.
    const EMPTY: Self::Kind;

    /// Whether no access is ever [`Selected::Skip`]: the addresses of a block are then copied together.
    const ALL: bool;

    /// What becomes of `access`. One whose length each execution states is [`Selected::Keep`] only in a shape
    /// of its own, and only if [`Select::sized`] is there.
    fn select(access: &BlockAccess) -> Selected<Self::Kind>;

    /// Called before the head at `at` is read: a chance to fetch later words.
    #[inline(always)]
    fn ahead(words: &[u64], at: usize) {
        let _ = (words, at);
    }

    /// An execution of a shape whose only access states its length: what comes into the window for it, or
    /// `None` to leave the block to the consumer.
    #[inline(always)]
    fn sized(&mut self, shape: usize, kind: Self::Kind, len: u32, instructions: u32) -> Option<Self::Kind> {
        let _ = (shape, kind, len, instructions);
        None
    }
}

/// Why [`Unfolder::unfold`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The window is full.
    Full,
    /// The words end.
    End,
    /// An event between blocks comes next.
    Event,
    /// A block of the shape with this number comes next, and the shape is not plain.
    Other(usize),
}

/// A shape, as far as unfolding needs it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Its first selected access among all shapes'.
    first: u32,
    /// How many accesses are selected.
    count: u16,
    /// Words behind the head of its blocks, at most `u16::MAX`.
    behind: u16,
    /// The same if the shape is plain and no access states its length; 1 for a single access that does; 0 if
    /// not plain.
    plain: u16,
    /// How often it was executed; if its access states its length, how often that was.
    executions: u64,
}

/// The window. `ROOM` is at least [`LONGEST`] and a stride more than the accesses after which it counts as
/// full.
#[derive(Clone, Debug)]
struct Buffers<K, const ROOM: usize> {
    addresses: [u64; ROOM],
    kinds: [K; ROOM],
    origins: [u32; ROOM],
}

/// Accesses that were unfolded together, in program order.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a, K> {
    /// The address of each; 0: it was not executed.
    pub addresses: &'a [u64],
    /// What it does.
    pub kinds: &'a [K],
    /// Its index among the selected accesses of all shapes, less its index in the window, modulo 2^32.
    pub origins: &'a [u32],
}

/// The shapes that are known, and the window. A block's first `STRIDE` accesses are copied at once, wanted or
/// not.
#[derive(Clone, Debug)]
pub struct Unfolder<S: Select, const STRIDE: usize, const ROOM: usize> {
    /// The consumer's own.
    pub select: S,
    shapes: Vec<Shape>,
    /// Of the selected accesses of all shapes, what they do; and `STRIDE` more.
    kinds: Vec<S::Kind>,
    /// Where their addresses are, in words behind the head.
    positions: Vec<u32>,
    window: Box<Buffers<S::Kind, ROOM>>,
    end: usize,
}

impl<S: Select + Default, const STRIDE: usize, const ROOM: usize> Default for Unfolder<S, STRIDE, ROOM> {
    fn default() -> Self {
        let window = Buffers { addresses: [0; ROOM], kinds: [S::EMPTY; ROOM], origins: [0; ROOM] };
        Unfolder {
            select: S::default(),
            shapes: Vec::new(),
            kinds: vec![S::EMPTY; STRIDE],
            positions: vec![0; STRIDE],
            window: Box::new(window),
            end: 0,
        }
    }
}

impl<S: Select, const STRIDE: usize, const ROOM: usize> Unfolder<S, STRIDE, ROOM> {
    /// Accesses after which the window is full.
    const FULL: usize = ROOM - LONGEST - STRIDE;

    /// Shapes known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.shapes.len()
    }

    /// Adds the next shape; whether it is plain.
    pub fn learn(&mut self, shape: &BlockShape) -> bool {
        let first = self.kinds.len() - STRIDE;
        let words = shape.words() - 1;
        let sized = words != shape.accesses.len();
        let mut selected = Vec::new();
        let mut plain = !sized || shape.accesses.len() == 1;
        for (position, access) in (0..).zip(&shape.accesses) {
            match S::select(access) {
                Selected::Keep(kind) => selected.push((kind, position)),
                Selected::Skip => {}
                Selected::Refuse => plain = false,
            }
        }
        plain &=
            selected.len() <= LONGEST && words < usize::from(u16::MAX) && !(sized && selected.is_empty());
        if !plain {
            selected.clear();
        }
        self.shapes.push(Shape {
            first: first as u32,
            count: selected.len() as u16,
            behind: u16::try_from(words).unwrap_or(u16::MAX),
            plain: if plain { shape.accesses.len() as u16 } else { 0 },
            executions: 0,
        });
        self.kinds.splice(first..first, selected.iter().map(|(kind, _)| *kind));
        self.positions.splice(first..first, selected.iter().map(|(_, position)| *position));
        plain
    }

    /// Of each shape: its selected accesses (none if it is not plain), the index of the first of them among
    /// all shapes', and how often it was executed.
    pub fn executions(&self) -> impl Iterator<Item = (&[S::Kind], usize, u64)> {
        self.shapes.iter().map(|&Shape { first, count, executions, .. }| {
            let first = first as usize;
            (&self.kinds[first..first + usize::from(count)], first, executions)
        })
    }

    /// Fills the window with the accesses of plain blocks from `words[*at..]` on, and moves `at` behind
    /// these.
    ///
    /// # Panics
    /// If the words are no blocks of known shapes.
    pub fn unfold(&mut self, words: &[u64], at: &mut usize) -> Stop {
        let Unfolder { select, shapes, kinds, positions, window, .. } = self;
        let (mut word, mut end) = (*at, 0);
        let stop = loop {
            if end >= Self::FULL {
                break Stop::Full;
            }
            let Some(&head) = words.get(word) else { break Stop::End };
            S::ahead(words, word);
            let number = head as u32 as usize;
            let Some(shape) = shapes.get_mut(number) else {
                assert_eq!(head, EVENT, "a block has a shape");
                break Stop::Event;
            };
            let mut behind = BlockShape::behind(head);
            if behind == 0 {
                behind = behind_of(shape);
            }
            let first = shape.first as usize;
            if behind != usize::from(shape.plain) {
                if shape.plain == 0 {
                    break Stop::Other(number);
                }
                let [addr, length] = [words[word + 1], words[word + 2]];
                if addr != 0 {
                    let kind = select.sized(number, kinds[first], length as u32, (length >> 32) as u32);
                    let Some(kind) = kind else { break Stop::Other(number) };
                    shape.executions += 1;
                    window.addresses[end] = addr;
                    window.kinds[end] = kind;
                    end += 1;
                }
                word += 3;
                continue;
            }
            shape.executions += 1;
            let count = usize::from(shape.count);
            if S::ALL {
                let block = &words[word + 1..];
                window.copy::<STRIDE>(end, kinds, first, block);
                if behind > STRIDE {
                    window.copy_rest::<STRIDE>(end, kinds, first, block, behind);
                }
            } else {
                let block = &words[word + 1..word + 1 + behind];
                window.gather::<STRIDE>(end, kinds, positions, first, block);
                if count > STRIDE {
                    window.gather_rest::<STRIDE>(end, kinds, positions, first, block, count);
                }
            }
            end += count;
            word += 1 + behind;
        };
        assert!(word <= words.len(), "a block has all its words");
        self.end = end;
        *at = word;
        stop
    }

    /// The window, and the consumer's own.
    #[must_use]
    #[inline(always)]
    pub fn parts(&mut self) -> (Window<'_, S::Kind>, &mut S) {
        let Unfolder { select, window, end, .. } = self;
        let Buffers { addresses, kinds, origins } = &**window;
        let window =
            Window { addresses: &addresses[..*end], kinds: &kinds[..*end], origins: &origins[..*end] };
        (window, select)
    }

    /// Accesses in the window.
    #[must_use]
    pub fn unfolded(&self) -> usize {
        self.end
    }

    /// Their addresses.
    #[must_use]
    #[inline(always)]
    pub fn addresses(&self) -> &[u64] {
        &self.window.addresses[..self.end]
    }

    /// Access number `at` of the window: its address and what it does.
    ///
    /// # Panics
    /// If the window has no room for so many.
    #[must_use]
    #[inline(always)]
    pub fn access(&self, at: usize) -> (u64, S::Kind) {
        (self.window.addresses[at], self.window.kinds[at])
    }

    /// Bytes of memory held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shapes.capacity() * size_of::<Shape>()
            + self.kinds.capacity() * size_of::<S::Kind>()
            + self.positions.capacity() * size_of::<u32>()
            + size_of::<Buffers<S::Kind, ROOM>>()
    }
}

impl<K: Copy, const ROOM: usize> Buffers<K, ROOM> {
    /// Copies a stride of accesses to index `to`: those from `from` on, or as many as there are words.
    #[inline(always)]
    fn copy<const STRIDE: usize>(&mut self, to: usize, kinds: &[K], from: usize, words: &[u64]) {
        let room = &mut self.addresses[to..to + STRIDE];
        if let Some(block) = words.first_chunk::<STRIDE>() {
            room.copy_from_slice(block);
        } else {
            // The last words of a batch.
            room.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        }
        self.kinds[to..to + STRIDE].copy_from_slice(&kinds[from..from + STRIDE]);
        self.origins[to..to + STRIDE].fill((from as u32).wrapping_sub(to as u32));
    }

    /// The same for the accesses behind the first stride of a block of so many.
    #[inline(never)]
    fn copy_rest<const STRIDE: usize>(
        &mut self,
        to: usize,
        kinds: &[K],
        from: usize,
        words: &[u64],
        count: usize,
    ) {
        for done in (STRIDE..count).step_by(STRIDE) {
            self.copy::<STRIDE>(to + done, kinds, from + done, &words[done..]);
        }
    }

    /// As [`Buffers::copy`], with the addresses at their positions in the block, which has a word at least.
    #[inline(always)]
    fn gather<const STRIDE: usize>(
        &mut self,
        to: usize,
        kinds: &[K],
        positions: &[u32],
        from: usize,
        block: &[u64],
    ) {
        for (place, position) in positions[from..from + STRIDE].iter().enumerate() {
            // What is not wanted may be of another shape, and lie behind the block.
            self.addresses[to + place] = block[(*position as usize).min(block.len() - 1)];
        }
        self.kinds[to..to + STRIDE].copy_from_slice(&kinds[from..from + STRIDE]);
        self.origins[to..to + STRIDE].fill((from as u32).wrapping_sub(to as u32));
    }

    /// The same for the accesses behind the first stride of a block of which so many are selected.
    #[inline(never)]
    fn gather_rest<const STRIDE: usize>(
        &mut self,
        to: usize,
        kinds: &[K],
        positions: &[u32],
        from: usize,
        block: &[u64],
        count: usize,
    ) {
        for place in STRIDE..count {
            self.addresses[to + place] = block[positions[from + place] as usize];
            self.kinds[to + place] = kinds[from + place];
            self.origins[to + place] = (from as u32).wrapping_sub(to as u32);
        }
    }
}

/// For a head that does not state it. Not in line, so that the common case does not wait for the shape.
#[cold]
#[inline(never)]
fn behind_of(shape: &Shape) -> usize {
    usize::from(shape.behind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{AccessKind, SiteId};

    /// Sites of all accesses but non-temporal ones.
    #[derive(Default)]
    struct All;

    impl Select for All {
        type Kind = (u32, u32);
        const EMPTY: (u32, u32) = (0, 0);
        const ALL: bool = true;
        fn select(access: &BlockAccess) -> Selected<(u32, u32)> {
            match access.kind {
                AccessKind::StoreNt => Selected::Refuse,
                _ => Selected::Keep((access.site.0, access.len.unwrap_or(0))),
            }
        }
        fn sized(&mut self, _: usize, (site, _): (u32, u32), len: u32, _: u32) -> Option<(u32, u32)> {
            (len < 100).then_some((site, len))
        }
    }

    /// Sites of stores.
    #[derive(Default)]
    struct Stores;

    impl Select for Stores {
        type Kind = (u32, u32);
        const EMPTY: (u32, u32) = (0, 0);
        const ALL: bool = false;
        fn select(access: &BlockAccess) -> Selected<(u32, u32)> {
            match (access.kind, access.len) {
                (AccessKind::StoreNt, _) | (_, None) => Selected::Refuse,
                (AccessKind::Load, _) => Selected::Skip,
                (AccessKind::Store, Some(len)) => Selected::Keep((access.site.0, len)),
            }
        }
    }

    fn shape() -> impl Strategy<Value = BlockShape> {
        let kind = prop_oneof![
            9 => Just(AccessKind::Load), 9 => Just(AccessKind::Store), 1 => Just(AccessKind::StoreNt)
        ];
        let access = (kind, prop_oneof![20 => Just(Some(8)), 1 => Just(None)]);
        let accesses = prop_oneof![4 => 1usize..6, 1 => 1usize..90];
        accesses.prop_flat_map(move |count| prop::collection::vec(access.clone(), count)).prop_map(|kinds| {
            let access = |(site, (kind, len))| BlockAccess { kind, len, site: SiteId(site), instructions: 1 };
            BlockShape { accesses: (0..).zip(kinds).map(access).collect(), after: 0 }
        })
    }

    /// What is executed, by the window or, where it stops, by the shape: address, site and length of each
    /// access that is `kept`.
    fn unfolded<S: Select<Kind = (u32, u32)> + Default, const STRIDE: usize, const ROOM: usize>(
        shapes: &[BlockShape],
        words: &[u64],
        kept: impl Fn(AccessKind) -> bool,
    ) -> Vec<(u64, u32, u32)> {
        let mut unfolder = Unfolder::<S, STRIDE, ROOM>::default();
        shapes.iter().for_each(|shape| {
            unfolder.learn(shape);
        });
        let (mut at, mut out) = (0, Vec::new());
        loop {
            let stop = unfolder.unfold(words, &mut at);
            let executed = (0..unfolder.unfolded()).map(|place| unfolder.access(place));
            out.extend(executed.filter(|(addr, _)| *addr != 0).map(|(addr, (site, len))| (addr, site, len)));
            match stop {
                Stop::Full => {}
                Stop::End => return out,
                Stop::Event => at += 1,
                Stop::Other(number) => {
                    let end = at + shapes[number].words();
                    shapes[number].accesses(&words[at + 1..end], &mut 0, |access, addr, len, _| {
                        if kept(access.kind) {
                            out.push((addr, access.site.0, len));
                        }
                    });
                    at = end;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_window_has_the_accesses_of_the_blocks(
            shapes in prop::collection::vec(shape(), 1..8),
            blocks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0u64..9), 0..120),
        ) {
            let mut words = Vec::new();
            for (number, states, seed) in blocks {
                if seed == 8 {
                    words.push(EVENT);
                }
                let number = number.index(shapes.len());
                let shape = &shapes[number];
                let behind = if states { shape.words() - 1 } else { 0 };
                words.push(BlockShape::sized_head(number as u32, behind));
                for (access, at) in shape.accesses.iter().zip(seed..) {
                    words.push(if at % 5 == 0 { 0 } else { at << 8 });
                    if access.len.is_none() {
                        words.push(at * 31 % 200);
                    }
                }
            }
            let expected = |kept: &dyn Fn(AccessKind) -> bool| {
                let (mut at, mut out) = (0, Vec::new());
                while at < words.len() {
                    if words[at] == EVENT {
                        at += 1;
                        continue;
                    }
                    let shape = &shapes[words[at] as u32 as usize];
                    shape.accesses(&words[at + 1..at + shape.words()], &mut 0, |access, addr, len, _| {
                        if kept(access.kind) {
                            out.push((addr, access.site.0, len));
                        }
                    });
                    at += shape.words();
                }
                out
            };
            let store = |kind| kind != AccessKind::Load;
            prop_assert_eq!(unfolded::<All, 8, 100>(&shapes, &words, |_| true), expected(&|_| true));
            prop_assert_eq!(unfolded::<Stores, 2, 80>(&shapes, &words, store), expected(&store));
        }
    }
}
