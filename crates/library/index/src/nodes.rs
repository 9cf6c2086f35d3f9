//! Which leaves or nodes a tree has in its extents: their numbers and offsets, and those that are free.

use space::Space;

use crate::{Error, Extents};

/// Words of the map, from the beginning of its first extent on.
pub(crate) mod root {
    /// Not 0 once the map is there.
    pub const MAGIC: u64 = 0;
    /// Bytes of a leaf, words of a key from bit 32 on, words of a value from bit 40 on.
    pub const SHAPE: u64 = 8;
    /// Leaves with this number or a higher one were never used.
    pub const CEILING: u64 = 16;
    /// Offset of the summary of a clean close, 0 if the map was not closed.
    pub const SUMMARY: u64 = 24;
    /// Extents that are for summaries, a bit each.
    pub const SUMMARIES: u64 = 32;
    /// Offset of the topmost node, if it is in the space.
    pub const TOP: u64 = 40;
    /// All of the words.
    pub const BYTES: u64 = 256;
}

/// Leaves by which the ceiling rises.
const STEP: u32 = 64;
/// Leaves of a new extent at least.
const GROWTH_MIN: u64 = 64;
/// Highest number of leaves, and of units of 256 bytes that a space may have.
const MOST: u64 = 1 << 31;

/// Leaves of one extent.
#[derive(Debug)]
struct Piece {
    first: u32,
    offset: u64,
    count: u32,
}

/// All leaves.
#[derive(Debug)]
pub(crate) struct Nodes {
    root: u64,
    /// Bytes of a leaf.
    node: u64,
    pieces: Vec<Piece>,
    pub free: Vec<u32>,
    /// This one and those behind it are free, too.
    pub next: u32,
    pub ceiling: u32,
    /// Offset and number of those that a clean close knew to be free, a word each.
    pub saved: (u64, u64),
}

impl Nodes {
    /// The leaves that the extents have room for, but for the first `head` bytes; none is known to be free.
    pub fn new<S: Space>(space: &S, root: u64, node: u64, head: u64, extents: &impl Extents<S>) -> Self {
        let mut nodes =
            Nodes { root, node, pieces: Vec::new(), free: Vec::new(), next: 0, ceiling: 0, saved: (0, 0) };
        let summaries = space.load_u64(root + root::SUMMARIES);
        for (at, extent) in extents.all(space).into_iter().enumerate() {
            let head = if at == 0 { head } else { 0 };
            if at >= 64 || summaries >> at & 1 == 0 {
                nodes.add(extent.offset + head, extent.bytes.saturating_sub(head));
            }
        }
        nodes
    }

    fn add(&mut self, offset: u64, bytes: u64) {
        let first = self.total();
        let count = (bytes / self.node).min(MOST - u64::from(first)) as u32;
        if count > 0 {
            self.pieces.push(Piece { first, offset, count });
        }
    }

    /// How many there are.
    pub fn total(&self) -> u32 {
        self.pieces.last().map_or(0, |piece| piece.first + piece.count)
    }

    /// Where a leaf is.
    pub fn offset(&self, number: u32) -> u64 {
        let behind = self.pieces.partition_point(|piece| piece.first <= number);
        match behind.checked_sub(1).map(|at| &self.pieces[at]) {
            Some(piece) => piece.offset + u64::from(number - piece.first) * self.node,
            None => unreachable!("the head leaf is in the first extent"),
        }
    }

    /// Which leaf is there, if one can be.
    pub fn number(&self, offset: u64) -> Option<u32> {
        let within = |piece: &&Piece| {
            offset.checked_sub(piece.offset).is_some_and(|at| at / self.node < u64::from(piece.count))
        };
        let piece = self.pieces.iter().find(within)?;
        let at = offset - piece.offset;
        at.is_multiple_of(self.node).then_some(piece.first + (at / self.node) as u32)
    }

    /// Takes a leaf that is free.
    pub fn take<S: Space>(&mut self, space: &S, extents: &impl Extents<S>) -> Result<(u32, u64), Error> {
        if let Some(number) = self.free.pop() {
            return Ok((number, self.offset(number)));
        }
        while self.saved.1 > 0 {
            self.saved.1 -= 1;
            let offset = space.load_u64(self.saved.0 + 8 * self.saved.1);
            if let Some(number) = self.number(offset) {
                return Ok((number, offset));
            }
        }
        if self.next == self.total() {
            self.grow(space, extents)?;
        }
        let number = self.next;
        if number >= self.ceiling {
            self.ceiling = self.total().min(number + STEP.max(number / 8));
            space.store_u64(self.root + root::CEILING, u64::from(self.ceiling));
            space.persist(self.root + root::CEILING, 8);
        }
        self.next += 1;
        Ok((number, self.offset(number)))
    }

    /// Gets an extent as large as all that there are, or the largest part of it that there is.
    fn grow<S: Space>(&mut self, space: &S, extents: &impl Extents<S>) -> Result<(), Error> {
        let full = Error::Full { wanted: self.node, len: space.len() };
        if u64::from(self.total()) >= MOST || space.len() > u64::from(u32::MAX) * 256 {
            return Err(full);
        }
        let mut count = u64::from(self.total()).max(GROWTH_MIN);
        while count > 0 {
            match extents.add(space, count * self.node) {
                Ok(extent) => {
                    self.add(extent.offset, extent.bytes);
                    return Ok(());
                }
                Err(Error::Full { .. }) => count /= 2,
                Err(other) => return Err(other),
            }
        }
        Err(full)
    }
}
