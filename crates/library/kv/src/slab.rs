//! Slots: who gets which, and when one may be used again.
//!
//! A slot is free for recovery when its first word is 0 or its record is not whole. A record that was
//! replaced is cleared once the new one is durable, and its slot is used again once that zero is. Otherwise a
//! crash could leave neither, or bring an old version back after the newer one was deleted.

use std::sync::PoisonError;

use region::Ticket;
use space::{Env, Space};

use crate::Error;
use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::Lane;
use crate::layout::{CHUNK_HEAD, Use};
use crate::options::Flaw;
use crate::shard::{Keys, Replaced};
use crate::store::Store;

/// Bytes of the slot for a record of `bytes`: four sizes between a power of two and the next, whole words of
/// 16.
pub(crate) fn slot_size(bytes: u64) -> u64 {
    if bytes <= 64 {
        return bytes.next_multiple_of(16);
    }
    let step = (bytes - 1).ilog2() - 2;
    bytes.next_multiple_of(1 << step)
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// A place for a record of `bytes` without a log: a slot, or chunks of its own.
    pub(crate) fn take_place(&self, lane: &mut Lane, bytes: u64, reserve: Reserve) -> Result<u64, Error> {
        if bytes <= self.longest_in_chunk() {
            return self.take_slot(lane, bytes, reserve);
        }
        let count = (CHUNK_HEAD + bytes).div_ceil(self.layout().chunk);
        let count32 = u32::try_from(count).map_err(|_| Error::Full { wanted: bytes })?;
        let (chunk, _) = self.chunks.take(&self.env, Use::Large, count, count32, reserve)?;
        Ok(self.layout().chunk_at(chunk) + CHUNK_HEAD)
    }

    /// A free slot for a record of `bytes`.
    pub(crate) fn take_slot(&self, lane: &mut Lane, bytes: u64, reserve: Reserve) -> Result<u64, Error> {
        let size = slot_size(bytes).min(self.layout().chunk - CHUNK_HEAD);
        let slots = lane.slots.entry(size).or_default();
        if let Some(slot) = slots.pop() {
            return Ok(slot);
        }
        *slots = match self.partial_of(size) {
            Some(slots) => slots,
            None => {
                let (chunk, _) = self.chunks.take(&self.env, Use::Slab, size, 1, reserve)?;
                self.slots_of(chunk, size).rev().collect()
            }
        };
        slots.pop().ok_or(Error::Full { wanted: size })
    }

    /// All slots of a chunk, in order.
    pub(crate) fn slots_of(&self, chunk: u32, size: u64) -> impl DoubleEndedIterator<Item = u64> {
        let begin = self.layout().chunk_at(chunk) + CHUNK_HEAD;
        let count = (self.layout().chunk - CHUNK_HEAD) / size;
        (0..count).map(move |slot| begin + slot * size)
    }

    /// The free slots of a chunk that has some.
    fn partial_of(&self, size: u64) -> Option<Vec<u64>> {
        let mut partial = self.env.lock(&self.partial);
        let chunks = partial.get_mut(&size)?;
        while let Some(chunk) = chunks.pop() {
            let info = self.chunks.info(chunk);
            let head = info.head();
            if head.used == Use::Slab && head.detail == size {
                self.take_bits(chunk);
                let slots = std::mem::take(&mut *info.free.lock().unwrap_or_else(PoisonError::into_inner));
                if !slots.is_empty() {
                    return Some(slots);
                }
            }
        }
        None
    }

    /// The slot may be used again, by whoever comes first.
    pub(crate) fn free_slot(&self, offset: u64) {
        if self.pins.count.load(std::sync::atomic::Ordering::Acquire) > 0 {
            self.env.lock(&self.pins.withheld).slots.push(offset);
            return;
        }
        let (chunk, info) = self.chunks.of(offset);
        let head = info.head();
        let at = offset.wrapping_sub(self.layout().chunk_at(chunk) + CHUNK_HEAD);
        match head.used {
            Use::Large if at == 0 => return self.chunks.release(&self.env, chunk),
            Use::Slab if head.detail > 0 && at.is_multiple_of(head.detail) => {}
            // An index that is damaged led here. What is there may be in use.
            _ => return,
        }
        let count = {
            let mut free = info.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.push(offset);
            free.len() as u64
        };
        if count == 1 {
            self.env.lock(&self.partial).entry(head.detail).or_default().push(chunk);
        }
    }

    /// Has anybody use the slots that lanes have; whether there were some.
    pub(crate) fn give_back_slots(&self) -> bool {
        let mut any = false;
        for lane in &self.lanes {
            let slots = std::mem::take(&mut self.env.hold(lane).slots);
            for slot in slots.into_values().flatten() {
                self.free_slot(slot);
                any = true;
            }
        }
        any
    }

    /// Gives chunks back in which all slots are free; whether there was one.
    pub(crate) fn release_empty_slabs(&self) -> bool {
        let mut partial = self.env.lock(&self.partial);
        let mut released = false;
        for (size, chunks) in partial.iter_mut() {
            let all = ((self.layout().chunk - CHUNK_HEAD) / size) as usize;
            chunks.retain(|&chunk| {
                let info = self.chunks.info(chunk);
                let head = info.head();
                if head.used != Use::Slab || head.detail != *size {
                    return false;
                }
                self.take_bits(chunk);
                let mut free = info.free.lock().unwrap_or_else(PoisonError::into_inner);
                if free.len() < all {
                    return !free.is_empty();
                }
                free.clear();
                drop(free);
                self.chunks.release(&self.env, chunk);
                released = true;
                false
            });
        }
        released
    }

    /// The record at `old`, in a slot or alone in its chunks, was replaced by one with that ticket.
    pub(crate) fn replace_slot(&self, keys: &mut Keys, hash: u64, old: u64, ticket: Ticket) {
        if !self.due.at_once() {
            keys.replaced.push(Replaced { hash, offset: old, cleared: false, ticket });
            return;
        }
        if !self.flawed(Flaw::ClearedTooEarly) {
            self.clear(old);
        }
        let large = self.chunks.of(old).1.head().used == Use::Large;
        if large || self.flawed(Flaw::SlotReusedEarly) {
            if large {
                self.fence();
            }
            return self.free_slot(old);
        }
        keys.replaced.push(Replaced { hash, offset: old, cleared: true, ticket });
    }

    /// Clears the record at `old` of a key that is deleted. The ticket of that.
    pub(crate) fn clear_now(&self, keys: &mut Keys, hash: u64, old: u64) -> Ticket {
        self.clear(old);
        if self.due.at_once() {
            self.fence();
            self.free_slot(old);
            return Ticket::DUE;
        }
        let ticket = self.due.latest();
        keys.replaced.push(Replaced { hash, offset: old, cleared: true, ticket });
        ticket
    }

    /// Before a fence of this thread: what the shard's slots wait for becomes durable by it. Those slots.
    pub(crate) fn flush_replaced(&self, keys: &mut Keys) -> Vec<Replaced> {
        if keys.replaced.is_empty() {
            return Vec::new();
        }
        if self.due.at_once() {
            for old in &keys.replaced {
                // Perhaps another thread cleared it, whose flush no fence followed.
                self.env.space().flush(old.offset, 8);
            }
            return std::mem::take(&mut keys.replaced);
        }
        let mut done = Vec::new();
        for mut old in std::mem::take(&mut keys.replaced) {
            if !self.due.is_done(&self.env, old.ticket) {
                keys.replaced.push(old);
            } else if old.cleared {
                done.push(old);
            } else {
                self.clear(old.offset);
                old = Replaced { cleared: true, ticket: self.due.latest(), ..old };
                keys.replaced.push(old);
            }
        }
        done
    }

    /// After that fence.
    pub(crate) fn reuse(&self, slots: Vec<Replaced>) {
        slots.into_iter().for_each(|old| self.free_slot(old.offset));
    }

    /// Makes sure that no older record of the keys with that hash can come back.
    pub(crate) fn finish_replaced(&self, keys: &mut Keys, hash: u64) -> Result<(), Error> {
        if keys.replaced.iter().any(|old| old.hash == hash) { self.finish_shard(keys) } else { Ok(()) }
    }

    /// Makes sure of that for all keys of a shard.
    pub(crate) fn finish_shard(&self, keys: &mut Keys) -> Result<(), Error> {
        while !keys.replaced.is_empty() {
            self.sync()?;
            let slots = self.flush_replaced(keys);
            if self.due.at_once() {
                self.fence();
            }
            self.reuse(slots);
        }
        Ok(())
    }

    /// Frees all slots that wait in shards, as far as a sync or a fence lets them be used again; whether
    /// there were some.
    pub(crate) fn finish_all_replaced(&self) -> Result<bool, Error> {
        let mut any = false;
        // First what was replaced is cleared, then the zeros are durable.
        for _ in 0..2 {
            self.sync()?;
            for shard in &self.shards {
                let slots = self.flush_replaced(&mut shard.hold(&self.env));
                if self.due.at_once() && !slots.is_empty() {
                    self.fence();
                }
                any |= !slots.is_empty();
                self.reuse(slots);
            }
        }
        self.sync()?;
        for shard in &self.shards {
            let slots = self.flush_replaced(&mut shard.hold(&self.env));
            any |= !slots.is_empty();
            self.reuse(slots);
        }
        Ok(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_hardly_longer_than_what_is_in_them() {
        for bytes in 24..100_000 {
            let size = slot_size(bytes);
            assert!(size >= bytes && size.is_multiple_of(16), "{bytes} {size}");
            assert!(bytes <= 64 || size < bytes + bytes / 4 + 1, "{bytes} {size}");
            assert_eq!(slot_size(size), size, "a class of its own");
        }
    }
}
