//! *btree-WAL*: sorted nodes, and a log of what is about to be written to one.
//!
//! A record says what part of a node will be: node, first word, words, number of pairs. An operation writes
//! the record and fences; commits it by one word and fences; writes the node and fences; and takes the
//! record back and fences. That is four fences, and some twelve flushes for a leaf of 512 bytes. A thread has
//! a log of one record, in which it writes with the node's latch held, so the records that a crash leaves are
//! of different nodes, and recovery writes each again.

use space::Space;

use super::node::{COUNT, Desk, Discipline, Flaw};
use super::sorted::{Sorted, count, position, slot_of};
use crate::Fixed;

/// Sorted, with a log.
#[derive(Debug)]
pub enum Logged {}

/// Words of a log: not 0 if the record counts, node, offset of the first word, number of words, number of
/// pairs.
const COMMIT: u64 = 0;
const NODE: u64 = 8;
const FIRST: u64 = 16;
const WORDS: u64 = 24;
const PAIRS: u64 = 32;
/// Where the words of the node follow.
const BODY: u64 = 64;

/// Bytes of a log for nodes of `node` bytes, a multiple of 64.
pub(super) const fn log_bytes(node: u64) -> u64 {
    BODY + node
}

/// Writes part of a node, through the log.
fn write<S: Space>(desk: &Desk<'_, S>, node: u64, first: u64, words: &[u64], pairs: u64) {
    let (space, log) = (desk.space, desk.log);
    let in_order = desk.flaw != Flaw::LogNotFenced;
    space.store_words(log + NODE, &[node, first, words.len() as u64, pairs]);
    space.store_words(log + BODY, words);
    space.flush(log, BODY + 8 * words.len() as u64);
    if in_order {
        space.fence();
    }
    space.store_u64(log + COMMIT, 1);
    space.flush(log + COMMIT, 8);
    if in_order {
        space.fence();
    }
    apply(space, node, first, words, pairs);
    space.fence();
    space.store_u64(log + COMMIT, 0);
    space.persist(log + COMMIT, 8);
}

/// Writes and flushes what a record says.
fn apply<S: Space>(space: &S, node: u64, first: u64, words: &[u64], pairs: u64) {
    space.store_words(first, words);
    space.store_u64(node + COUNT, pairs);
    space.flush(node + COUNT, 8);
    space.flush(first, 8 * words.len() as u64);
}

/// Redoes what a log's record says, if it counts; false if it makes no sense. The caller fences.
pub(super) fn redo<S: Space>(desk: &Desk<'_, S>, is_node: impl Fn(u64) -> bool) -> bool {
    let (space, log) = (desk.space, desk.log);
    if space.load_u64(log + COMMIT) == 0 {
        return true;
    }
    let [node, first, count, pairs] = [NODE, FIRST, WORDS, PAIRS].map(|word| space.load_u64(log + word));
    let inside =
        first.checked_sub(node).is_some_and(|at| at.saturating_add(count.saturating_mul(8)) <= desk.bytes);
    if !is_node(node) || !inside || !first.is_multiple_of(8) {
        return false;
    }
    let words: Vec<u64> = (0..count).map(|word| space.load_u64(log + BODY + 8 * word)).collect();
    apply(space, node, first, &words, pairs);
    space.fence();
    space.store_u64(log + COMMIT, 0);
    space.flush(log + COMMIT, 8);
    true
}

/// The words of slots.
fn slots<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, from: u64, to: u64) -> Vec<u64> {
    let range = desk.slot::<K, W>(node, from)..desk.slot::<K, W>(node, to);
    range.step_by(8).map(|at| desk.space.load_u64(at)).collect()
}

impl Discipline for Logged {
    const DURABLE: bool = true;
    const LOGGED: bool = true;

    #[inline]
    fn find<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        Sorted::find(desk, node, key)
    }

    #[inline]
    fn floor<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) -> Option<W> {
        Sorted::floor(desk, node, key)
    }

    fn pairs<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> Vec<(K, W)> {
        Sorted::pairs(desk, node)
    }

    fn is_full<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64) -> bool {
        Sorted::is_full::<S, K, W>(desk, node)
    }

    fn put<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K, to: W) {
        let pairs = count::<S, K, W>(desk, node);
        let slot = position::<S, K, W>(desk, node, pairs, key);
        let is_new = slot == pairs || desk.key_at::<K, W>(node, slot) != key;
        let mut words: Vec<u64> = (0..K::WORDS).map(|word| key.word(word)).collect();
        words.extend((0..W::WORDS).map(|word| to.word(word)));
        if is_new {
            words.extend(slots::<S, K, W>(desk, node, slot, pairs));
        }
        write(desk, node, desk.slot::<K, W>(node, slot), &words, pairs + u64::from(is_new));
    }

    fn take<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, key: K) {
        let Some(slot) = slot_of::<S, K, W>(desk, node, key) else { return };
        let pairs = count::<S, K, W>(desk, node);
        let words = slots::<S, K, W>(desk, node, slot + 1, pairs);
        write(desk, node, desk.slot::<K, W>(node, slot), &words, pairs - 1);
    }

    fn fill<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, pairs: &[(K, W)]) {
        Sorted::fill(desk, node, pairs);
    }

    /// One word, so no log.
    fn cut<S: Space, K: Fixed, W: Fixed>(desk: &Desk<'_, S>, node: u64, low: K) {
        Sorted::cut::<S, K, W>(desk, node, low);
        desk.space.persist(node + COUNT, 8);
    }

    fn recover<S: Space, K: Fixed, W: Fixed>(_: &Desk<'_, S>, _: u64) {}
}
