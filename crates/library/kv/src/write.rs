//! Changes of one key.

use std::sync::atomic::Ordering::Relaxed;

use region::Ticket;
use space::{Env, Space};

use crate::chunks::Reserve;
use crate::handle::Handle;
use crate::lane::Lane;
use crate::layout::{CHUNK_HEAD, Use};
use crate::options::Flaw;
use crate::record::{self, KEY_MAX, Kind, VALUE_MAX};
use crate::shard::Keys;
use crate::store::Store;
use crate::{Engine, Error, Values};

/// Times that room is made before a store counts as full.
const TRIES: u32 = 3;

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// See [`crate::KeyValue::put`].
    ///
    /// # Errors
    /// If there is no room, or key or value are too long; nothing has changed then.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Ticket, Error> {
        check_lengths(key, value)?;
        self.with_room(|| self.try_put(key, value))
    }

    /// See [`crate::KeyValue::delete`].
    ///
    /// # Errors
    /// If there is no room for what has to be written to do so; nothing has changed then.
    pub fn delete(&self, key: &[u8]) -> Result<Option<Ticket>, Error> {
        self.with_room(|| self.try_delete(key))
    }

    /// Does what may need room; if there is none, makes some and does it again.
    pub(crate) fn with_room<T>(&self, mut act: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        self.check_health()?;
        self.changed.store(true, Relaxed);
        self.relieve()?;
        let mut tries = 0;
        loop {
            match act() {
                Err(Error::Full { wanted }) if tries < TRIES && self.make_room(wanted)? => tries += 1,
                other => return other,
            }
        }
    }

    fn try_put(&self, key: &[u8], value: &[u8]) -> Result<Ticket, Error> {
        let hash = self.hash(key);
        let number = self.shard_number(hash);
        let shard = &self.shards[number];
        self.ready(shard, number)?;
        let mut keys = shard.hold(&self.env);
        let old = self.find(shard, hash, key)?;
        let timestamp = keys.next_timestamp();
        let earlier = self.flush_replaced(&mut keys);
        if self.flawed(Flaw::ClearedTooEarly)
            && let Some(old) = old
        {
            self.clear(old);
        }
        let written = self.write_record(Kind::Value, timestamp, key, value, Reserve::Keep);
        let (location, ticket) = match written {
            Ok(written) => written,
            Err(error) => {
                keys.replaced.extend(earlier);
                return Err(error);
            }
        };
        self.reuse(earlier);
        if let Err(error) = self.point(shard, hash, key, old, location) {
            // The index in the file has no room. Nothing leads to the new record.
            self.retire(&mut keys, hash, location, ticket);
            return Err(error);
        }
        match old {
            Some(old) => self.retire(&mut keys, hash, old, ticket),
            None => self.order.note(number, &mut keys, key, true),
        }
        Ok(ticket)
    }

    fn try_delete(&self, key: &[u8]) -> Result<Option<Ticket>, Error> {
        let hash = self.hash(key);
        let number = self.shard_number(hash);
        let shard = &self.shards[number];
        self.ready(shard, number)?;
        let mut keys = shard.hold(&self.env);
        let Some(old) = self.find(shard, hash, key)? else { return Ok(None) };
        let ticket = match self.layout().engine {
            _ if self.is_indexed() => {
                self.unpoint(shard, hash, key, old)?;
                self.retire(&mut keys, hash, old, Ticket::DUE);
                Ticket::DUE
            }
            Engine::Log => {
                let timestamp = keys.next_timestamp();
                // What was written so far is in chunks up to this generation.
                let generation = self.chunks.generation().to_le_bytes();
                let (_, ticket) =
                    self.write_record(Kind::Tombstone, timestamp, key, &generation, Reserve::Share)?;
                self.unpoint(shard, hash, key, old)?;
                self.retire(&mut keys, hash, old, ticket);
                ticket
            }
            Engine::Slab => {
                self.finish_replaced(&mut keys, hash)?;
                self.unpoint(shard, hash, key, old)?;
                self.clear_now(&mut keys, hash, old)
            }
        };
        self.order.note(number, &mut keys, key, false);
        Ok(Some(ticket))
    }

    /// Writes a record: durable when this returns, or when its ticket is due.
    pub(crate) fn write_record(
        &self,
        kind: Kind,
        timestamp: u64,
        key: &[u8],
        value: &[u8],
        reserve: Reserve,
    ) -> Result<(u64, Ticket), Error> {
        let bytes = record::bytes_of(key.len() as u64, value.len() as u64);
        let in_log = self.layout().engine == Engine::Log && bytes <= self.longest_in_chunk();
        let (mut lane, log) = match in_log {
            true => self.lane_with_log(bytes, reserve).map(|(lane, open)| (lane, Some(open)))?,
            false => (self.lane(), None),
        };
        let lane = &mut *lane;
        let offset = match log {
            Some(open) => open.at,
            None => self.take_place(lane, bytes, reserve)?,
        };
        let generation = self.chunks.of(offset).1.head().generation;
        lane.buffer.clear();
        record::put_together(&mut lane.buffer, timestamp, key, value);
        let seed = record::seed(self.layout().id, generation, offset);
        record::confirm(&mut lane.buffer, kind, seed, self.covers());
        if let Some(open) = log {
            self.append(lane, open);
            if kind == Kind::Tombstone {
                self.note_tombstone(open.chunk, bytes, value);
            }
        } else {
            self.store_bytes(lane, offset);
        }
        let skips = self.flawed(Flaw::NotFenced) || self.flawed(Flaw::IndexFirst);
        if self.due.at_once() && !skips {
            self.fence();
        }
        let ticket = self.due.ticket();
        if !skips && self.options.values == Values::Flush {
            self.mark(lane);
        }
        if lane.buffer.capacity() > 1 << 20 {
            lane.buffer = Vec::new();
        }
        Ok((offset, ticket))
    }

    /// Waits until what this thread flushed is durable.
    pub(crate) fn fence(&self) {
        self.env.space().fence();
    }

    /// The longest record that lies in a chunk with others.
    pub(crate) fn longest_in_chunk(&self) -> u64 {
        // At least two in one, so that little room is wasted.
        (self.layout().chunk - CHUNK_HEAD) / 2 / 16 * 16
    }

    /// Nobody finds the record at `old` any more; `ticket` is that of what replaces it.
    pub(crate) fn retire(&self, keys: &mut Keys, hash: u64, old: u64, ticket: Ticket) {
        if self.chunks.of(old).1.head().used == Use::Log || self.is_indexed() {
            // In a log nothing is cleared, and with an index in the file recovery goes by that.
            self.drop_record(old);
        } else {
            self.replace_slot(keys, hash, old, ticket);
        }
    }

    /// Nothing leads to the record at `offset`, for recovery either.
    pub(crate) fn drop_record(&self, offset: u64) {
        let (chunk, info) = self.chunks.of(offset);
        if info.head().used == Use::Log {
            let lengths = self.env.space().load_u64(offset + 16);
            self.outdate(chunk, record::bytes_of(lengths >> 48, lengths & VALUE_MAX));
        } else {
            self.free_slot(offset);
        }
    }

    /// Stores 0 as the first word of the record at `offset`, so that recovery does not find it.
    pub(crate) fn clear(&self, offset: u64) {
        if self.due.at_once() {
            self.env.space().store_u64(offset, 0);
            if self.options.values == Values::Flush {
                self.env.space().flush(offset, 8);
            }
        } else {
            self.clear_in(&mut self.lane(), offset);
        }
    }

    /// The same, by who has a lane already, which notes it where somebody will wait.
    pub(crate) fn clear_in(&self, lane: &mut Lane, offset: u64) {
        self.env.space().store_u64(offset, 0);
        if self.due.at_once() {
            self.env.space().flush(offset, 8);
        } else {
            lane.note(offset, 8);
        }
    }
}

pub(crate) fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), Error> {
    if key.len() as u64 > KEY_MAX {
        return Err(Error::TooLong { what: "key", bytes: key.len() as u64, most: KEY_MAX });
    }
    if value.len() as u64 > VALUE_MAX {
        return Err(Error::TooLong { what: "value", bytes: value.len() as u64, most: VALUE_MAX });
    }
    Ok(())
}
