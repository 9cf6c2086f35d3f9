//! Which record of a key is the newest, when all of them are read.
//!
//! Each record asks for a place of the index, and for the record that its key has so far, which no cache has.
//! So they are taken a group at a time: all ask before the first waits for its answer.

use std::hint::black_box;
use std::sync::atomic::Ordering::Relaxed;

use space::{Env, Space};

use crate::Error;
use crate::handle::Handle;
use crate::layout::Use;
use crate::record::{Kind, Record};
use crate::store::Store;

/// Records of a group.
const GROUP: usize = 32;

/// Records that were found, and wait until there are enough of them.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    records: Vec<Newcomer>,
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Newcomer {
    record: Record,
    hash: u64,
    /// Where its key begins.
    key: usize,
    /// Perhaps the record that has the key so far.
    other: u64,
}

impl<E: Env, H: Handle<E>> Store<E, H> {
    /// A whole record with its bytes.
    pub(crate) fn found(&self, waiting: &mut Waiting, record: &Record, bytes: &[u8]) -> Result<(), Error> {
        let key = record.key_in(bytes);
        if record.kind == Kind::Tombstone {
            let chunk = self.layout().chunk_of(record.offset);
            self.note_tombstone(chunk, record.bytes(), record.value_in(bytes));
        }
        let (hash, begin) = (self.hash(key), waiting.keys.len());
        waiting.records.push(Newcomer { record: *record, hash, key: begin, other: 0 });
        waiting.keys.extend_from_slice(key);
        if waiting.records.len() == GROUP { self.let_compete(waiting) } else { Ok(()) }
    }

    /// Each record that waits counts if none of its key is newer.
    pub(crate) fn let_compete(&self, waiting: &mut Waiting) -> Result<(), Error> {
        for newcomer in &mut waiting.records {
            newcomer.other = self.shard(newcomer.hash).table.first(newcomer.hash);
        }
        let space = self.env.space();
        let others = waiting.records.iter().filter(|newcomer| newcomer.other != 0);
        black_box(others.fold(0, |sum, newcomer| sum ^ space.load_u64(newcomer.other + 8)));
        for newcomer in waiting.records.drain(..) {
            let key = &waiting.keys[newcomer.key..][..newcomer.record.key as usize];
            self.compete(&newcomer.record, newcomer.hash, key)?;
        }
        waiting.keys.clear();
        Ok(())
    }

    fn compete(&self, record: &Record, hash: u64, key: &[u8]) -> Result<(), Error> {
        let shard = self.shard(hash);
        let mut keys = shard.hold(&self.env);
        keys.recovered += 1;
        keys.seen(record.timestamp);
        let space = self.env.space();
        let Some(other) = self.find(shard, hash, key)? else {
            shard.change(|table| table.insert(hash, record.offset));
            return Ok(());
        };
        if space.load_u64(other + 8) < record.timestamp {
            shard.change(|table| table.replace(hash, other, record.offset));
            self.drop_found(other);
        } else {
            self.drop_found(record.offset);
        }
        Ok(())
    }

    /// A record that a newer one replaces.
    fn drop_found(&self, offset: u64) {
        let space = self.env.space();
        let (_, info) = self.chunks.of(offset);
        if info.head().used != Use::Log {
            space.store_u64(offset, 0);
            space.persist(offset, 8);
            self.free_slot(offset);
            return;
        }
        let Some(record) = Record::at(space, offset, space.len()) else { return };
        if record.kind == Kind::Value {
            info.outdated.fetch_add(record.bytes(), Relaxed);
        }
    }
}
