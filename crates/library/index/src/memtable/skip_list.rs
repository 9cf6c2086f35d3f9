//! A skip list of byte strings.
//!
//! # Layout
//! Numbers are 8-byte words, offsets are those of the space, 0 is no node. The first extent begins with the
//! root; nodes follow it and each other, also in the extents behind.
//!
//! | root | | node | |
//! |---|---|---|---|
//! | 0 | magic | 0 | sequence number from bit 16, height from bit 8, kind |
//! | 64 + 8 l | first node of level l | 8 | length of the key, of the value from bit 32 |
//! | | | 16 + 8 l | next node of level l |
//! | | | behind them | key, value, each padded to words |
//!
//! # Why every crash leaves a list
//! A node is written where no link leads and made durable. Storing its offset in the link of level 0 inserts
//! it; once this is durable the operation is acknowledged. That is two fences. The links of the upper levels
//! only shorten the way: opening makes them again, whatever a crash left of them. A later version of a key
//! stands before an earlier one; a removal is a version, too. Room is used from front to back, and the nodes
//! that level 0 reaches say how far.
//!
//! # Threads
//! Writers take turns, from the search to the last fence. Readers wait for nobody and see what was durable
//! when they began.

use std::cmp::Ordering;
use std::ops::Deref;
use std::sync::atomic::{self, AtomicU64};

use space::{Env, Space};

use crate::{Error, Extent, Extents};

/// First word of a list.
const MAGIC: u64 = u64::from_le_bytes(*b"SLSKIP01");
/// Bytes of the root, and where the first links stand in it.
const ROOT: u64 = 256;
const HEADS: u64 = 64;
/// Of a node.
const LENGTHS: u64 = 8;
const TOWER: u64 = 16;
/// Levels; a node reaches each further one with a chance of one in four.
const LEVELS: usize = 12;
/// Kinds of nodes.
const VALUE: u64 = 1;
const REMOVED: u64 = 2;

/// What of the links is flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Links {
    /// Those of level 0. The others are made again when the list is opened.
    #[default]
    Bottom,
    /// All, from the bottom up, each with a fence of its own, as other authors' lists do. That makes nothing
    /// safer here, and takes a flush and a fence more for one in three nodes.
    All,
    /// None, nor the nodes: the list does not survive.
    None,
}

/// A mistake, for tests of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ListFlaw {
    /// None.
    #[default]
    Sound,
    /// A node is linked before it is durable.
    LinkedEarly,
    /// The link is not waited for.
    LinkNotFenced,
}

/// How a list is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOptions {
    /// What of the links is flushed.
    pub links: Links,
    /// Bytes of an extent that is added when there is no room; more for a pair that needs more.
    pub extent_bytes: u64,
    /// Nothing, but for tests.
    pub flaw: ListFlaw,
}

impl Default for ListOptions {
    fn default() -> Self {
        ListOptions { links: Links::Bottom, extent_bytes: 1 << 20, flaw: ListFlaw::Sound }
    }
}

/// The room for nodes, and the last sequence number.
#[derive(Debug)]
struct Room {
    pieces: Vec<Extent>,
    /// The piece in use, and the first free offset in it.
    piece: usize,
    free: u64,
    sequence: u64,
}

/// An ordered map of byte strings that only grows.
pub struct SkipList<H, X>
where
    H: Deref<Target: Env + Sized>,
{
    env: H,
    extents: X,
    options: ListOptions,
    root: u64,
    room: <H::Target as Env>::Mutex<Room>,
    /// The last sequence number that is durable.
    visible: AtomicU64,
}

impl<H, X> SkipList<H, X>
where
    H: Deref<Target: Env + Sized>,
    X: Extents<<H::Target as Env>::Space>,
{
    /// Makes an empty list in `extents`, whatever is there.
    ///
    /// # Errors
    /// If the first extent has not 256 bytes.
    pub fn create(env: H, extents: X, options: ListOptions) -> Result<Self, Error> {
        let list = SkipList::over(env, extents, options)?;
        let space = list.env.space();
        space.store_u64(list.root, 0);
        list.persist(list.root, 8);
        space.store_words(list.root + HEADS, &[0; LEVELS]);
        list.persist(list.root + HEADS, 8 * LEVELS as u64);
        space.store_u64(list.root, MAGIC);
        list.persist(list.root, 8);
        Ok(list)
    }

    /// Opens a list. Reads every node once.
    ///
    /// # Errors
    /// If there is no list, or a damaged one.
    pub fn open(env: H, extents: X, options: ListOptions) -> Result<Self, Error> {
        let list = SkipList::over(env, extents, options)?;
        let found = list.env.space().load_u64(list.root);
        if found != MAGIC {
            let what = "a skip list";
            return Err(Error::Mismatch { offset: list.root, found, expected: MAGIC, what });
        }
        list.recover()?;
        Ok(list)
    }

    fn over(env: H, extents: X, options: ListOptions) -> Result<Self, Error> {
        let pieces = extents.all(env.space());
        let Some(first) = pieces.first().filter(|first| first.bytes >= ROOT) else {
            return Err(Error::Full { wanted: ROOT, len: env.space().len() });
        };
        let root = first.offset;
        let room = env.mutex(Room { pieces, piece: 0, free: root + ROOT, sequence: 0 });
        Ok(SkipList { env, extents, options, root, room, visible: AtomicU64::new(0) })
    }

    /// Walks level 0, makes the upper levels again, and finds the room that is left.
    fn recover(&self) -> Result<(), Error> {
        let space = self.env.space();
        let mut room = self.env.lock(&self.room);
        let mut links: [u64; LEVELS] = std::array::from_fn(|level| self.link(0, level));
        let mut last: Option<(Vec<u8>, u64)> = None;
        loop {
            let node = space.load_u64(links[0]);
            if node == 0 {
                break;
            }
            let damaged = |what| Error::Damaged { offset: links[0], what };
            let (piece, end) = self.bounds(&room.pieces, node).ok_or(damaged("a link to no node"))?;
            let (key, sequence) = (self.key(node), self.sequence(node));
            let follows = last
                .as_ref()
                .is_none_or(|(before, number)| before.cmp(&key).then(sequence.cmp(number)) == Ordering::Less);
            if !follows {
                return Err(damaged("a node that is out of order"));
            }
            if (piece, end) > (room.piece, room.free) {
                (room.piece, room.free) = (piece, end);
            }
            room.sequence = room.sequence.max(sequence);
            last = Some((key, sequence));
            for (level, link) in links.iter_mut().enumerate().take(self.height(node)) {
                self.relink(*link, node);
                *link = self.link(node, level);
            }
        }
        for link in links {
            self.relink(link, 0);
        }
        self.visible.store(room.sequence, atomic::Ordering::Release);
        Ok(())
    }

    fn relink(&self, link: u64, node: u64) {
        let space = self.env.space();
        if space.load_u64(link) != node {
            space.store_u64(link, node);
        }
    }

    /// The piece that a node is in, and where the node ends; `None` if it is not a node.
    fn bounds(&self, pieces: &[Extent], node: u64) -> Option<(usize, u64)> {
        let inside = |piece: &Extent| (piece.offset..piece.offset + piece.bytes).contains(&node);
        let piece = pieces.iter().position(inside)?;
        let end = pieces[piece].offset + pieces[piece].bytes;
        if !node.is_multiple_of(8) || node < self.root + ROOT && piece == 0 || end - node < TOWER {
            return None;
        }
        let height = self.height(node);
        if !(1..=LEVELS).contains(&height) || !(VALUE..=REMOVED).contains(&self.kind(node)) {
            return None;
        }
        let (key, value) = self.lengths(node);
        let end_of_node = node + bytes(height, key, value);
        (end_of_node <= end).then_some((piece, end_of_node))
    }

    /// Sets the value of `key`, durably unless [`Links::None`] says otherwise.
    ///
    /// # Errors
    /// If there is no room, or one of the two is longer than 4 GiB; the list is as before.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.add(key, value, VALUE)
    }

    /// Takes `key` out, as [`Self::put`] sets it. It need not be there.
    ///
    /// # Errors
    /// As [`Self::put`]: a removal takes room.
    pub fn remove(&self, key: &[u8]) -> Result<(), Error> {
        self.add(key, &[], REMOVED)
    }

    fn add(&self, key: &[u8], value: &[u8], kind: u64) -> Result<(), Error> {
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len())) else {
            return Err(Error::Options("a key or value of 4 GiB or more"));
        };
        let space = self.env.space();
        let mut room = self.env.lock(&self.room);
        let sequence = room.sequence + 1;
        let height = height_of(sequence);
        let node = self.allocate(&mut room, bytes(height, key_len.into(), value_len.into()))?;
        room.sequence = sequence;
        let mut before = [0; LEVELS];
        self.seek(key, &mut before);
        let mut tower = [0; LEVELS];
        for (level, link) in tower.iter_mut().enumerate().take(height) {
            *link = space.load_u64(self.link(before[level], level));
        }
        space.store_u64(node, sequence << 16 | (height as u64) << 8 | kind);
        space.store_u64(node + LENGTHS, u64::from(value_len) << 32 | u64::from(key_len));
        space.store_words(node + TOWER, &tower[..height]);
        let at = node + TOWER + 8 * height as u64;
        self.store_padded(at, key);
        self.store_padded(at + u64::from(key_len).next_multiple_of(8), value);
        if self.options.flaw != ListFlaw::LinkedEarly {
            self.persist(node, room.free - node);
        }
        for (level, &before) in before.iter().enumerate().take(height) {
            atomic::fence(atomic::Ordering::Release);
            let link = self.link(before, level);
            space.store_u64(link, node);
            let flushed = level == 0 || self.options.links == Links::All;
            if flushed && self.options.flaw == ListFlaw::LinkNotFenced {
                space.flush(link, 8);
            } else if flushed {
                self.persist(link, 8);
            }
        }
        if self.options.flaw == ListFlaw::LinkedEarly {
            self.persist(node, room.free - node);
        }
        self.visible.store(sequence, atomic::Ordering::Release);
        Ok(())
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let visible = self.visible.load(atomic::Ordering::Acquire);
        let mut node = self.seek(key, &mut [0; LEVELS]);
        while node != 0 && self.compare(node, key) == Ordering::Equal {
            if self.sequence(node) <= visible {
                return (self.kind(node) == VALUE).then(|| self.value(node));
            }
            node = self.next(node);
        }
        None
    }

    /// Hands out the pairs from `from` on in the order of keys, until `visit` returns false.
    pub fn range(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let visible = self.visible.load(atomic::Ordering::Acquire);
        let mut node = self.seek(from, &mut [0; LEVELS]);
        let mut last = None;
        while node != 0 {
            if self.sequence(node) <= visible {
                let key = self.key(node);
                if last.as_ref() != Some(&key) {
                    if self.kind(node) == VALUE && !visit(&key, &self.value(node)) {
                        return;
                    }
                    last = Some(key);
                }
            }
            node = self.next(node);
        }
    }

    /// Bytes of the space that its nodes take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let room = self.env.lock(&self.room);
        let full: u64 = room.pieces[..room.piece].iter().map(|piece| piece.bytes).sum();
        full + room.free - room.pieces[room.piece].offset
    }

    /// Room for a node.
    fn allocate(&self, room: &mut Room, bytes: u64) -> Result<u64, Error> {
        let mut piece = room.piece;
        let mut at = room.free;
        while at + bytes > room.pieces[piece].offset + room.pieces[piece].bytes {
            piece += 1;
            if piece == room.pieces.len() {
                let wanted = bytes.max(self.options.extent_bytes);
                room.pieces.push(self.extents.add(self.env.space(), wanted)?);
            }
            at = room.pieces[piece].offset;
        }
        (room.piece, room.free) = (piece, at + bytes);
        Ok(at)
    }

    /// The first node whose key is not below `key`; `before[l]` is the node before it on level l.
    fn seek(&self, key: &[u8], before: &mut [u64; LEVELS]) -> u64 {
        let space = self.env.space();
        let (mut at, mut bound) = (0, 0);
        for level in (0..LEVELS).rev() {
            loop {
                let next = space.load_u64(self.link(at, level));
                atomic::fence(atomic::Ordering::Acquire);
                if next == 0 || next == bound {
                    break;
                }
                if self.compare(next, key) != Ordering::Less {
                    bound = next;
                    break;
                }
                at = next;
            }
            before[level] = at;
        }
        self.next(at)
    }

    /// How the key of a node compares to `key`.
    fn compare(&self, node: u64, key: &[u8]) -> Ordering {
        let space = self.env.space();
        let (len, _) = self.lengths(node);
        let at = self.key_at(node);
        let words = key.chunks(8).zip((at..at + len).step_by(8));
        for (ours, at) in words {
            let mut padded = [0; 8];
            padded[..ours.len()].copy_from_slice(ours);
            let order = space.load_u64(at).swap_bytes().cmp(&u64::from_be_bytes(padded));
            if order != Ordering::Equal {
                return order;
            }
        }
        len.cmp(&(key.len() as u64))
    }

    fn key(&self, node: u64) -> Vec<u8> {
        self.load(self.key_at(node), self.lengths(node).0)
    }

    fn value(&self, node: u64) -> Vec<u8> {
        let (key, value) = self.lengths(node);
        self.load(self.key_at(node) + key.next_multiple_of(8), value)
    }

    fn load(&self, at: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.env.space().load(at, &mut bytes);
        bytes
    }

    fn store_padded(&self, at: u64, bytes: &[u8]) {
        let space = self.env.space();
        let (words, rest) = bytes.as_chunks::<8>();
        for (word, at) in words.iter().zip((at..).step_by(8)) {
            space.store_u64(at, u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            space.store_u64(at + 8 * words.len() as u64, u64::from_le_bytes(last));
        }
    }

    fn key_at(&self, node: u64) -> u64 {
        node + TOWER + 8 * self.height(node) as u64
    }

    fn next(&self, node: u64) -> u64 {
        let next = self.env.space().load_u64(self.link(node, 0));
        atomic::fence(atomic::Ordering::Acquire);
        next
    }

    /// Where the link from a node, or from the root, to the next one of a level stands.
    fn link(&self, node: u64, level: usize) -> u64 {
        8 * level as u64 + if node == 0 { self.root + HEADS } else { node + TOWER }
    }

    fn sequence(&self, node: u64) -> u64 {
        self.env.space().load_u64(node) >> 16
    }

    fn height(&self, node: u64) -> usize {
        (self.env.space().load_u64(node) >> 8 & 0xFF) as usize
    }

    fn kind(&self, node: u64) -> u64 {
        self.env.space().load_u64(node) & 0xFF
    }

    fn lengths(&self, node: u64) -> (u64, u64) {
        let word = self.env.space().load_u64(node + LENGTHS);
        (word & 0xFFFF_FFFF, word >> 32)
    }

    fn persist(&self, offset: u64, len: u64) {
        if self.options.links != Links::None {
            self.env.space().persist(offset, len);
        }
    }
}

/// Bytes of a node.
fn bytes(height: usize, key: u64, value: u64) -> u64 {
    TOWER + 8 * height as u64 + key.next_multiple_of(8) + value.next_multiple_of(8)
}

/// Levels of the node of that number: the same in each run.
fn height_of(sequence: u64) -> usize {
    // SplitMix64.
    let mut mixed = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (1 + mixed.trailing_zeros() as usize / 2).min(LEVELS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pmem::Os;
    use proptest::prelude::*;
    use space::Image;

    use super::*;
    use crate::Whole;

    fn list(env: &Os<Image>, links: Links) -> SkipList<&Os<Image>, Whole> {
        let extents = Whole::create(env.space(), 512).expect("room");
        let options = ListOptions { links, extent_bytes: 4096, ..ListOptions::default() };
        SkipList::create(env, extents, options).expect("room")
    }

    fn pairs<X: Extents<Image>>(list: &SkipList<&Os<Image>, X>, from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut pairs = Vec::new();
        list.range(from, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()));
            true
        });
        pairs
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..3, 0..18)
    }

    fn values() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

        /// The list is a map, before and after it is opened again.
        #[test]
        fn a_list_is_a_map(
            steps in prop::collection::vec((keys(), prop::option::of(values())), 0..60),
            from in prop::collection::vec(0u8..3, 0..4),
        ) {
            let env = Os::new(Image::new(64 << 10));
            let list = list(&env, Links::Bottom);
            let mut map = BTreeMap::new();
            for (key, value) in &steps {
                match value {
                    Some(value) => {
                        list.put(key, value).expect("room");
                        map.insert(key.clone(), value.clone());
                    }
                    None => {
                        list.remove(key).expect("room");
                        map.remove(key);
                    }
                }
                prop_assert_eq!(list.get(key), map.get(key).cloned());
            }
            let all = map.range(from.clone()..);
            let all: Vec<_> = all.map(|(key, value)| (key.clone(), value.clone())).collect();
            prop_assert_eq!(pairs(&list, &from), all.clone());
            let bytes = list.bytes();
            drop(list);
            let again = Whole::open(env.space()).expect("it is there");
            let options = ListOptions { extent_bytes: 4096, ..ListOptions::default() };
            let again = SkipList::open(&env, again, options).expect("a list");
            prop_assert_eq!(pairs(&again, &from), all);
            prop_assert_eq!(again.bytes(), bytes);
            again.put(b"\xff", b"new").expect("room");
            prop_assert_eq!(again.get(b"\xff"), Some(b"new".to_vec()));
        }
    }

    #[test]
    fn a_full_list_stays_as_it_is() {
        let env = Os::new(Image::new(8 << 10));
        let list = list(&env, Links::All);
        let full = (0u64..).find(|number| list.put(&number.to_be_bytes(), &[7; 100]).is_err()).expect("full");
        assert!(full > 20, "{full} pairs");
        assert!(matches!(list.put(b"k", &[0; 100]), Err(Error::Full { .. })));
        assert_eq!(pairs(&list, b"").len() as u64, full);
    }

    #[test]
    fn damage_is_found() {
        let env = Os::new(Image::new(64 << 10));
        let list = list(&env, Links::Bottom);
        for key in ["a", "b", "c"] {
            list.put(key.as_bytes(), b"value").expect("room");
        }
        let first = list.link(0, 0);
        let node = env.space().load_u64(first);
        let reopen =
            || SkipList::open(&env, Whole::open(env.space()).expect("extents"), ListOptions::default());
        for wrong in [3, 1 << 40, list.root, node + 8] {
            env.space().store_u64(first, wrong);
            assert!(matches!(reopen().err(), Some(Error::Damaged { .. })), "{wrong:#x}");
        }
        env.space().store_u64(first, node);
        env.space().store_u64(list.link(node, 0), node);
        assert!(matches!(reopen().err(), Some(Error::Damaged { what, .. }) if what.contains("order")));
    }

    #[test]
    fn heights_thin_out() {
        let count = |height| (1..=1 << 16).filter(|number| height_of(*number) > height).count();
        assert!((15_000..18_000).contains(&count(1)) && (3_500..4_700).contains(&count(2)));
    }
}
