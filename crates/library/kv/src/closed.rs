//! What closing leaves, so that the next opening need not read the records.
//!
//! A store that is closed in order writes down, in chunks of their own, what an opening would have to find
//! out: of each chunk what of it is outdated or free, and of each shard its keys' hashes and where their
//! records are. One word of the header leads there, and is the last to become durable. Whoever opens the
//! store zeroes that word first, durably: what closing left holds for one opening, and a crash later than
//! that finds none of it. Of a shard's keys nothing is read until somebody asks for one of them.
//!
//! `left.rs` has its layout. Without room for all of it nothing is left, and
//! the next opening takes as long as after a crash.

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use space::{Env, Space};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Error;
use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::layout::{CHUNK_HEAD, Head, Use};
use crate::left::{HEAD, Left, Places, Writer, check_of, word_in};
use crate::options::Flaw;
use crate::shard::Shard;
use crate::store::Store;

impl<E: Env, H: Handle<E>> Store<E, H> {
    fn left_at(&self, chunk: u32) -> u64 {
        self.layout().chunk_at(chunk) + CHUNK_HEAD
    }

    /// Words of the bits of a chunk's free slots.
    fn bit_words(&self, head: Head) -> u64 {
        if head.used == Use::Slab && head.detail > 0 {
            ((self.layout().chunk - CHUNK_HEAD) / head.detail).div_ceil(64)
        } else {
            0
        }
    }

    /// Ends logs and gives back what lanes have, all of it durably.
    pub(crate) fn end_lanes(&self) -> Result<(), Error> {
        let mut collector = self.env.lock(&self.collector);
        if let Some(log) = collector.log.take() {
            self.end_log(&mut collector, log);
        }
        for lane in &self.lanes {
            let mut lane = self.env.hold(lane);
            if let Some(log) = lane.log.take() {
                self.end_log(&mut lane, log);
            }
            let journal = lane.journal.take();
            let slots = std::mem::take(&mut lane.slots);
            drop(lane);
            slots.into_values().flatten().for_each(|slot| self.free_slot(slot));
            if let Some(journal) = journal {
                self.chunks.release(&self.env, journal.chunk);
            }
        }
        // What the logs hold, then where they end.
        self.sync()?;
        self.confirm_copies(&mut collector);
        self.sync()?;
        self.confirm_copies(&mut collector);
        Ok(())
    }

    /// Leaves everything, if there is room. Nobody uses the store any more, its logs are ended, and all of it
    /// is durable.
    pub(crate) fn leave(&self) -> Result<(), Error> {
        if let Some(left) = self.left.get() {
            if !self.changed.load(Relaxed) {
                self.layout().set_closed(self.env.space(), Some(left.chunk));
                return Ok(());
            }
            self.load_all()?;
            (0..self.chunks.usage(&self.env).0).for_each(|at| self.take_bits(at));
            self.chunks.release(&self.env, left.chunk);
        }
        let (chunks, _) = self.chunks.usage(&self.env);
        // Its own chunks get entries, too: how many those are, is not known yet.
        let heads = (0..chunks).map(|at| self.chunks.info(at).head());
        let bits: u64 = heads.map(|head| 8 * self.bit_words(head)).sum();
        let keys: u64 = self.shards.iter().map(|shard| shard.table.count()).sum();
        let places = Places { chunks: u64::from(chunks), shards: self.shards.len() as u64 };
        let bytes = CHUNK_HEAD + places.bits() + bits + 16 * keys;
        let count = bytes.div_ceil(self.layout().chunk);
        let Ok(count32) = u32::try_from(count) else { return Ok(()) };
        let (chunk, _) = match self.chunks.take(&self.env, Use::Left, count, count32, Reserve::Use) {
            Ok(taken) => taken,
            Err(Error::Full { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.write_left(chunk, places, bits);
        if !self.flawed(Flaw::ClosedEarly) {
            self.fence();
        }
        self.layout().set_closed(self.env.space(), Some(chunk));
        Ok(())
    }

    fn write_left(&self, chunk: u32, places: Places, bits: u64) {
        let (space, seed) = (self.env.space(), self.layout().id);
        let begin = self.left_at(chunk);
        let mut keys_at = places.bits() + bits;
        let mut shards = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            let mut keys = Writer::new(space, begin + keys_at, seed);
            shard.table.each(|hash, location| [hash, location].into_iter().for_each(|word| keys.word(word)));
            let timestamp = shard.hold(&self.env).newest();
            shards.push([keys_at, shard.count(), timestamp, keys.finish()]);
            keys_at += 16 * shard.table.count();
        }
        let head = [
            places.shards,
            places.chunks,
            self.tombstones.load(Relaxed),
            self.log_bytes.load(Relaxed),
            places.bits() + bits,
            0,
            0,
        ];
        let mut rest = Writer::new(space, begin + HEAD, seed);
        let mut bits_at = places.bits();
        for at in 0..places.chunks as u32 {
            let info = self.chunks.info(at);
            let words = self.bit_words(info.head());
            rest.word(info.outdated.load(Relaxed));
            rest.word(info.tombstones.load(Relaxed));
            rest.word(info.oldest_needed.load(Relaxed));
            rest.word(if words == 0 { 0 } else { bits_at });
            bits_at += 8 * words;
        }
        shards.iter().flatten().for_each(|word| rest.word(*word));
        for at in 0..places.chunks as u32 {
            self.free_bits(at).into_iter().for_each(|word| rest.word(word));
        }
        let check = rest.finish();
        space.store_words(begin, &head);
        space.store_u64(begin + 56, check_of(&head, check, seed));
        space.flush(begin, HEAD);
    }

    /// A bit for each slot of a chunk that is free.
    fn free_bits(&self, chunk: u32) -> Vec<u64> {
        let info = self.chunks.info(chunk);
        let head = info.head();
        let mut bits = vec![0; self.bit_words(head) as usize];
        for slot in info.free.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let slot = (slot - self.left_at(chunk)) / head.detail;
            bits[slot as usize / 64] |= 1 << (slot % 64);
        }
        bits
    }

    /// Opens the store by what closing left; false if there is nothing, or it is damaged.
    pub(crate) fn resume(&mut self, used: &[(u32, Head)]) -> Result<bool, Error> {
        let space = self.env.space();
        let Some(chunk) = self.layout().closed(space) else { return Ok(false) };
        let open =
            |head: &Head| head.used == Use::Journal || head.used == Use::Log && head.log_end().is_none();
        // From here on it holds no more.
        if !self.flawed(Flaw::ClosedWhileOpen) {
            self.layout().set_closed(space, None);
        }
        if used.iter().any(|(_, head)| open(head)) {
            return Ok(false);
        }
        let Some(left) = used.iter().find(|(at, head)| *at == chunk && head.used == Use::Left) else {
            return Ok(false);
        };
        let begin = self.left_at(chunk);
        let bytes = left.1.detail * self.layout().chunk - CHUNK_HEAD;
        let head: [u64; 7] = std::array::from_fn(|at| space.load_u64(begin + 8 * at as u64));
        let [shards, chunks, tombstones, log_bytes, end, ..] = head;
        let places = Places { chunks, shards };
        let same = shards == self.shards.len() as u64;
        let fits = chunks <= u64::from(self.chunks.usage(&self.env).0) && shards <= 1 << 16;
        // Keys that are in the file's index are counted by shards, and not known here.
        if !fits || self.is_indexed() && !same || end < places.bits() || end > bytes || !end.is_multiple_of(8)
        {
            return Ok(false);
        }
        let mut rest = vec![0; (end - HEAD) as usize];
        space.load(begin + HEAD, &mut rest);
        let check = xxh3_64_with_seed(&rest, self.layout().id);
        if space.load_u64(begin + 56) != check_of(&head, check, self.layout().id) {
            return Ok(false);
        }
        // It is what was written: all of it is right.
        if self.is_indexed() {
            self.tree = Some(self.open_tree()?);
        }
        self.tombstones.store(tombstones, Relaxed);
        self.log_bytes.store(log_bytes, Relaxed);
        let word = |at: u64| word_in(&rest, at - HEAD);
        for &(at, head) in used.iter().filter(|(at, _)| u64::from(*at) < chunks) {
            self.take_over_chunk(at, head, places.chunk(at.into()), &word);
        }
        for (number, shard) in (0..shards).zip(self.shards.iter()).filter(|_| same) {
            shard.leave(word(places.shard(number) + 8), self.is_indexed());
            shard.hold(&self.env).seen(word(places.shard(number) + 16));
        }
        self.left.set(Left { chunk, places }).map_err(|_| Error::Failed)?;
        if !same {
            // As many as there were have other keys.
            (0..shards).try_for_each(|number| self.load_left(number, None))?;
        }
        for (chunk, _) in self.chunks.logs(&self.env) {
            self.weigh(chunk);
        }
        Ok(true)
    }

    fn take_over_chunk(&self, chunk: u32, head: Head, entry: u64, word: &impl Fn(u64) -> u64) {
        let info = self.chunks.info(chunk);
        info.outdated.store(word(entry), Relaxed);
        info.tombstones.store(word(entry + 8), Relaxed);
        info.oldest_needed.store(word(entry + 16), Relaxed);
        let bits = word(entry + 24);
        if head.used != Use::Slab || bits == 0 {
            return;
        }
        let any = (0..self.bit_words(head)).any(|at| word(bits + 8 * at) != 0);
        if any {
            info.bits.store(bits, Relaxed);
            self.env.lock(&self.partial).entry(head.detail).or_default().push(chunk);
        }
    }

    /// Adds the free slots of a chunk that closing left to those that are known. One thread at a time: the
    /// caller has `partial`, or the store.
    pub(crate) fn take_bits(&self, chunk: u32) {
        let (info, space) = (self.chunks.info(chunk), self.env.space());
        let bits = info.bits.swap(0, Relaxed);
        let Some(left) = self.left.get().filter(|_| bits != 0) else { return };
        let begin = self.left_at(left.chunk) + bits;
        let mut free = Vec::new();
        for (at, slot) in (0u64..).zip(self.slots_of(chunk, info.head().detail)) {
            if space.load_u64(begin + at / 64 * 8) >> (at % 64) & 1 == 1 {
                free.push(slot);
            }
        }
        info.free.lock().unwrap_or_else(PoisonError::into_inner).append(&mut free);
    }

    /// Makes sure that a shard has its keys.
    ///
    /// # Errors
    /// If they are damaged where closing left them. The next opening reads all records instead.
    #[inline]
    pub(crate) fn ready(&self, shard: &Shard<E>, number: usize) -> Result<(), Error> {
        if shard.is_left.load(Acquire) { self.load_left(number as u64, Some(shard)) } else { Ok(()) }
    }

    /// The same of all shards.
    pub(crate) fn load_all(&self) -> Result<(), Error> {
        self.shards.iter().enumerate().try_for_each(|(number, shard)| self.ready(shard, number))
    }

    /// Takes over the keys of shard `number` of those that closing left: into `only`, or each where it
    /// belongs.
    #[cold]
    fn load_left(&self, number: u64, only: Option<&Shard<E>>) -> Result<(), Error> {
        let Some(left) = self.left.get() else { return Ok(()) };
        let (space, begin) = (self.env.space(), self.left_at(left.chunk));
        let _held = only.map(|shard| shard.hold(&self.env));
        if only.is_some_and(|shard| !shard.is_left.load(Acquire)) {
            return Ok(());
        }
        let entry = begin + left.places.shard(number);
        let [at, count, timestamp, check] = [0, 8, 16, 24].map(|word| space.load_u64(entry + word));
        // These are right: the head's checksum has them.
        let mut keys = vec![0; 16 * count as usize];
        space.load(begin + at, &mut keys);
        if xxh3_64_with_seed(&keys, self.layout().id) != check {
            return Err(Error::damaged(begin + at, "the keys that closing left, with their checksum", check));
        }
        let pairs = || keys.chunks_exact(16).map(|pair| (word_in(pair, 0), word_in(pair, 8)));
        if let Some(shard) = only {
            shard.take_back(|table| pairs().for_each(|(hash, at)| table.insert(hash, at)));
            return Ok(());
        }
        for shard in &self.shards {
            // Any of them may have the newest.
            shard.hold(&self.env).seen(timestamp);
        }
        pairs().for_each(|(hash, at)| self.shard(hash).change(|table| table.insert(hash, at)));
        Ok(())
    }
}
