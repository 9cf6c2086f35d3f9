//! Batches: changes of several keys that a crash leaves all or none of.
//!
//! A batch is one record, whose value is the records of its changes. In a log whose index is in ordinary
//! memory it stays where it is: the index leads to the records in it. Otherwise it is a journal: durable
//! first, then each change is made, then the journal is cleared; recovery makes the changes of a journal that
//! it finds.

use region::Ticket;
use space::{Env, Space};

use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::{Lane, Open};
use crate::layout::{CHUNK_HEAD, Use};
use crate::record::{self, Kind, Record};
use crate::shard::Keys;
use crate::store::Store;
use crate::write::check_lengths;
use crate::{Batch, Engine, Error};

/// One change, and what there is to know of its key.
struct Change<'a> {
    key: &'a [u8],
    value: Option<&'a [u8]>,
    hash: u64,
    shard: usize,
    old: Option<u64>,
    /// Where the new record is.
    new: u64,
    timestamp: u64,
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`crate::KeyValue::write`].
    ///
    /// # Errors
    /// If there is no room, or a key, a value or the batch is too long; nothing has changed then.
    pub fn write(&self, batch: &Batch) -> Result<Ticket, Error> {
        let most = self.layout().chunk - CHUNK_HEAD;
        let mut bytes = record::HEAD;
        for (key, value) in batch.iter() {
            check_lengths(key, value.unwrap_or_default())?;
            bytes += record::bytes_of(key.len() as u64, value.map_or(8, |value| value.len() as u64));
        }
        if bytes > most {
            return Err(Error::TooLong { what: "batch", bytes, most });
        }
        self.with_room(|| self.try_write(batch))
    }

    fn try_write(&self, batch: &Batch) -> Result<Ticket, Error> {
        let mut changes: Vec<Change<'_>> = batch.iter().map(|(key, value)| self.change(key, value)).collect();
        let mut numbers: Vec<usize> = changes.iter().map(|change| change.shard).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.iter().try_for_each(|number| self.ready(&self.shards[*number], *number))?;
        let mut held: Vec<_> = numbers.iter().map(|number| self.shards[*number].hold(&self.env)).collect();
        for change in &mut changes {
            change.old = self.find(&self.shards[change.shard], change.hash, change.key)?;
        }
        changes.retain(|change| change.value.is_some() || change.old.is_some());
        if changes.is_empty() {
            return Ok(Ticket::DUE);
        }
        let place = |shard: usize| numbers.binary_search(&shard).unwrap_or(0);
        for change in &mut changes {
            change.timestamp = held[place(change.shard)].next_timestamp();
        }
        if self.layout().engine == Engine::Log && !self.is_indexed() {
            let ticket = self.log_batch(&mut changes)?;
            for change in &changes {
                let keys = &mut held[place(change.shard)];
                self.show(change)?;
                self.note_order(change, keys);
                if let Some(old) = change.old {
                    self.retire(keys, change.hash, old, ticket);
                }
            }
            return Ok(ticket);
        }
        for keys in &mut held {
            self.finish_shard(keys)?;
        }
        self.journal_batch(&mut changes)?;
        for change in &changes {
            self.note_order(change, &mut held[place(change.shard)]);
            if let Some(old) = change.old {
                self.drop_record(old);
            }
        }
        Ok(Ticket::DUE)
    }

    fn change<'a>(&self, key: &'a [u8], value: Option<&'a [u8]>) -> Change<'a> {
        let hash = self.hash(key);
        Change { key, value, hash, shard: self.shard_number(hash), old: None, new: 0, timestamp: 0 }
    }

    /// Has readers see a change.
    fn show(&self, change: &Change<'_>) -> Result<(), Error> {
        let shard = &self.shards[change.shard];
        match (change.value, change.old) {
            (Some(_), old) => self.point(shard, change.hash, change.key, old, change.new),
            (None, Some(old)) => self.unpoint(shard, change.hash, change.key, old),
            (None, None) => Ok(()),
        }
    }

    /// Takes that back.
    fn hide(&self, change: &Change<'_>) -> Result<(), Error> {
        let shard = &self.shards[change.shard];
        match (change.value, change.old) {
            (Some(_), None) => self.unpoint(shard, change.hash, change.key, change.new),
            (Some(_), Some(old)) => self.point(shard, change.hash, change.key, Some(change.new), old),
            (None, Some(old)) => self.point(shard, change.hash, change.key, None, old),
            (None, None) => Ok(()),
        }
    }

    fn note_order(&self, change: &Change<'_>, keys: &mut Keys) {
        if change.value.is_some() != change.old.is_some() {
            self.order.note(change.shard, keys, change.key, change.value.is_some());
        }
    }

    /// Puts the batch together in the lane's buffer, as it will be at `open.at`.
    fn put_together(&self, lane: &mut Lane, open: Open, changes: &mut [Change<'_>]) {
        let mut buffer = std::mem::take(&mut lane.buffer);
        buffer.clear();
        record::put_together(&mut buffer, 0, &[], &[]);
        let generation = self.chunks.generation().to_le_bytes();
        for change in changes {
            let start = buffer.len();
            change.new = open.at + start as u64;
            let kind = if change.value.is_some() { Kind::Value } else { Kind::Tombstone };
            let value = change.value.unwrap_or(&generation);
            record::put_together(&mut buffer, change.timestamp, change.key, value);
            let seed = record::seed(self.layout().id, open.generation, change.new);
            record::confirm(&mut buffer[start..], kind, seed, self.covers());
        }
        let value = buffer.len() as u64 - record::HEAD;
        buffer[16..24].copy_from_slice(&value.to_le_bytes());
        let seed = record::seed(self.layout().id, open.generation, open.at);
        record::confirm(&mut buffer, Kind::Batch, seed, self.covers());
        lane.buffer = buffer;
    }

    fn log_batch(&self, changes: &mut [Change<'_>]) -> Result<Ticket, Error> {
        let sizes = changes.iter().map(|change| {
            record::bytes_of(change.key.len() as u64, change.value.map_or(8, |value| value.len() as u64))
        });
        let bytes = record::HEAD + sizes.sum::<u64>();
        let (mut lane, open) = self.lane_with_log(bytes, Reserve::Keep)?;
        let lane = &mut *lane;
        self.put_together(lane, open, changes);
        self.append(lane, open);
        if self.due.at_once() {
            self.fence();
        }
        self.outdate(open.chunk, record::HEAD);
        let generation = self.chunks.generation().to_le_bytes();
        for change in changes.iter().filter(|change| change.value.is_none()) {
            self.note_tombstone(open.chunk, record::bytes_of(change.key.len() as u64, 8), &generation);
        }
        Ok(self.due.ticket())
    }

    /// Makes a batch: the journal first.
    fn journal_batch(&self, changes: &mut [Change<'_>]) -> Result<(), Error> {
        let mut lane = self.lane();
        let lane = &mut *lane;
        let journal = self.journal(lane)?;
        // Room for all, before there is no way back.
        let places = self.places_for(lane, changes)?;
        self.put_together(lane, journal, changes);
        self.store_bytes(lane, journal.at);
        self.persist_noted(lane);
        for (change, place) in changes.iter_mut().zip(places) {
            if let Some(value) = change.value {
                change.new = self.write_at(lane, place, change.timestamp, change.key, value);
            }
            if let Some(old) = change.old.filter(|_| !self.is_indexed()) {
                self.clear_in(lane, old);
            }
        }
        self.persist_noted(lane);
        let mut shown = Ok(());
        if self.is_indexed() {
            shown = self.show_all(changes);
        }
        self.clear_in(lane, journal.at);
        self.persist_noted(lane);
        if !self.is_indexed() {
            shown = self.show_all(changes);
        }
        if shown.is_err() {
            changes
                .iter()
                .filter(|change| change.value.is_some())
                .for_each(|change| self.drop_record(change.new));
        }
        shown
    }

    /// Has readers see all changes, or none if the index has no room.
    fn show_all(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        for (at, change) in changes.iter().enumerate() {
            if let Err(error) = self.show(change) {
                // What was there before has its place in the index still.
                changes[..at].iter().rev().try_for_each(|change| self.hide(change))?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// The lane's journal.
    fn journal(&self, lane: &mut Lane) -> Result<Open, Error> {
        if let Some(journal) = lane.journal {
            return Ok(journal);
        }
        let (chunk, head) = self.chunks.take(&self.env, Use::Journal, 0, 1, Reserve::Keep)?;
        let begin = self.layout().chunk_at(chunk);
        let (at, end) = (begin + CHUNK_HEAD, begin + self.layout().chunk);
        let journal = Open { chunk, generation: head.generation, at, end, marked: at, next_mark: None };
        lane.journal = Some(journal);
        Ok(journal)
    }

    /// A place for each change that has a value; in a log there is room for all of them.
    fn places_for(&self, lane: &mut Lane, changes: &[Change<'_>]) -> Result<Vec<Option<u64>>, Error> {
        let sizes = changes.iter().map(|change| {
            change.value.map(|value| record::bytes_of(change.key.len() as u64, value.len() as u64))
        });
        if self.layout().engine == Engine::Log {
            self.open_log(lane, sizes.flatten().sum(), Reserve::Keep)?;
            return Ok(vec![None; changes.len()]);
        }
        let mut places = Vec::with_capacity(changes.len());
        for bytes in sizes {
            match bytes.map(|bytes| self.take_place(lane, bytes, Reserve::Keep)).transpose() {
                Ok(place) => places.push(place),
                Err(error) => {
                    // Nothing was written there.
                    places.into_iter().flatten().for_each(|place| self.free_slot(place));
                    return Err(error);
                }
            }
        }
        Ok(places)
    }

    /// Writes a record to its place, or to the lane's log.
    fn write_at(&self, lane: &mut Lane, place: Option<u64>, timestamp: u64, key: &[u8], value: &[u8]) -> u64 {
        match (place, lane.log) {
            (Some(place), _) => {
                self.fill_slot(lane, place, timestamp, key, value);
                place
            }
            (None, Some(open)) => {
                lane.buffer.clear();
                record::put_together(&mut lane.buffer, timestamp, key, value);
                let seed = record::seed(self.layout().id, open.generation, open.at);
                record::confirm(&mut lane.buffer, Kind::Value, seed, self.covers());
                self.append(lane, open);
                open.at
            }
            (None, None) => unreachable!("places_for opened a log"),
        }
    }

    /// Writes a record into a slot; its lane notes it.
    fn fill_slot(&self, lane: &mut Lane, slot: u64, timestamp: u64, key: &[u8], value: &[u8]) {
        lane.buffer.clear();
        record::put_together(&mut lane.buffer, timestamp, key, value);
        let generation = self.chunks.of(slot).1.head().generation;
        let seed = record::seed(self.layout().id, generation, slot);
        record::confirm(&mut lane.buffer, Kind::Value, seed, self.covers());
        self.store_bytes(lane, slot);
    }

    /// Makes durable what this lane noted or this thread flushed.
    fn persist_noted(&self, lane: &mut Lane) {
        for (begin, end) in lane.ranges.drain(..) {
            self.env.space().flush(begin, end - begin);
        }
        self.fence();
    }

    /// Makes the changes of journals that a crash has left, and gives their chunks back.
    pub(crate) fn finish_batches(&self) -> Result<(), Error> {
        let mut buffer = Vec::new();
        for (chunk, head) in self.chunks.used_as(&self.env, Use::Journal) {
            let begin = self.layout().chunk_at(chunk);
            let (at, end) = (begin + CHUNK_HEAD, begin + self.layout().chunk);
            let seed = record::seed(self.layout().id, head.generation, at);
            let found = Record::whole_at(self.env.space(), at, end, seed, self.covers(), &mut buffer);
            if let Some(batch) = found.filter(|record| record.kind == Kind::Batch) {
                self.make_again(&batch, &buffer)?;
            }
            self.chunks.release(&self.env, chunk);
        }
        Ok(())
    }

    fn make_again(&self, batch: &Record, bytes: &[u8]) -> Result<(), Error> {
        let space = self.env.space();
        let mut lane = self.lane();
        let mut at = record::HEAD;
        while at < batch.bytes() {
            let offset = batch.offset + at;
            let end = batch.offset + batch.bytes();
            let record = Record::at(space, offset, end).filter(|record| record.kind != Kind::Batch);
            let record = record
                .ok_or_else(|| Error::damaged(offset, "a record of a batch", space.load_u64(offset)))?;
            self.make_change_again(&mut lane, &record, &bytes[at as usize..])?;
            at += record.bytes();
        }
        Ok(())
    }

    fn make_change_again(&self, lane: &mut Lane, record: &Record, bytes: &[u8]) -> Result<(), Error> {
        let space = self.env.space();
        let (key, value) = (record.key_in(bytes), record.value_in(bytes));
        let hash = self.hash(key);
        let shard = self.shard(hash);
        let mut keys = shard.hold(&self.env);
        keys.seen(record.timestamp);
        let old = self.find(shard, hash, key)?;
        let made = |old: u64| !self.is_indexed() && space.load_u64(old + 8) >= record.timestamp;
        if old.is_some_and(made) {
            return Ok(());
        }
        if record.kind == Kind::Value {
            let place = match self.layout().engine {
                Engine::Log => {
                    self.open_log(lane, record.bytes(), Reserve::Use)?;
                    None
                }
                Engine::Slab => Some(self.take_place(lane, record.bytes(), Reserve::Use)?),
            };
            let new = self.write_at(lane, place, record.timestamp, key, value);
            self.persist_noted(lane);
            self.point(shard, hash, key, old, new)?;
        } else if let Some(old) = old {
            self.unpoint(shard, hash, key, old)?;
        }
        if let Some(old) = old {
            if !self.is_indexed() {
                self.clear_in(lane, old);
                self.persist_noted(lane);
            }
            self.drop_record(old);
        }
        Ok(())
    }
}
