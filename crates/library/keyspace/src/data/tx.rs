//! A transaction: the changes of one command, or of those between `MULTI` and `EXEC`. It sees its own
//! changes; the records change only when it is committed, all at once.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::keyspace::{Aside, Keyspace};
use super::layout::{self, Entry, Value};
use super::records::{Change, Trouble};

/// A transaction.
pub struct Tx<'a> {
    keyspace: &'a Keyspace,
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    aside: Aside,
    touched: Vec<(usize, Vec<u8>)>,
    /// The current database.
    pub database: usize,
    /// Milliseconds since 1970.
    pub now: u64,
}

/// What is under a key.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The key.
    pub key: Vec<u8>,
    hash: u64,
    database: usize,
    /// What the records have, even if its time is over.
    raw: Option<Entry>,
    live: bool,
}

impl Slot {
    /// What is there.
    pub fn entry(&self) -> Option<&Entry> {
        self.raw.as_ref().filter(|_| self.live)
    }

    /// The value.
    pub fn value(&self) -> Option<&Value> {
        self.entry().map(|entry| &entry.value)
    }

    /// When it expired, if it is still there although it did.
    pub fn expired_at(&self) -> Option<u64> {
        self.raw.as_ref().filter(|_| !self.live).map(|raw| raw.expires)
    }

    /// When it expires; 0 for never.
    pub fn expires(&self) -> u64 {
        self.entry().map_or(0, |entry| entry.expires)
    }
}

/// What a transaction leaves: changes of records, and of what is kept beside them.
#[derive(Debug)]
pub struct Finished {
    /// The records.
    pub changes: Vec<Change>,
    /// What is kept in memory.
    pub aside: Aside,
    /// Keys that were changed, with their databases.
    pub touched: Vec<(usize, Vec<u8>)>,
}

impl<'a> Tx<'a> {
    /// Begins one.
    pub fn new(keyspace: &'a Keyspace, database: usize, now: u64) -> Tx<'a> {
        let aside = Aside {
            spaces: keyspace.spaces,
            bodies: keyspace.bodies,
            counts: Vec::new(),
            flags: keyspace.flags,
        };
        Tx { keyspace, pending: BTreeMap::new(), aside, touched: Vec::new(), database, now }
    }

    /// Ends it.
    pub fn finish(self) -> Finished {
        let changes = self.pending.into_iter().collect();
        Finished { changes, aside: self.aside, touched: self.touched }
    }

    /// The store that it belongs to.
    pub fn keyspace(&self) -> &Keyspace {
        self.keyspace
    }

    /// The hash that orders keys, fields and members.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        self.keyspace.hash(bytes)
    }

    /// The current space.
    pub fn space(&self) -> u32 {
        self.space_of(self.database)
    }

    /// The space of a database.
    pub fn space_of(&self, database: usize) -> u32 {
        self.aside.spaces.of[database]
    }

    /// A record.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn get(&self, record: &[u8]) -> Result<Option<Vec<u8>>, Trouble> {
        if !self.pending.is_empty()
            && let Some(value) = self.pending.get(record)
        {
            return Ok(value.clone());
        }
        self.keyspace.records.get(record)
    }

    /// Sets a record.
    pub fn put(&mut self, record: Vec<u8>, value: Vec<u8>) {
        self.pending.insert(record, Some(value));
    }

    /// Removes a record.
    pub fn delete(&mut self, record: Vec<u8>) {
        self.pending.insert(record, None);
    }

    /// Hands out the records that begin with `prefix`, from `from` on, until `visit` returns false.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn walk(
        &self,
        prefix: &[u8],
        from: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Trouble> {
        let mine = self.pending.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        let mut mine = mine.take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut goes_on = true;
        self.keyspace.records.scan(from, &mut |key, value| {
            let inside = key.starts_with(prefix);
            let earlier = |mine: &[u8]| !inside || mine < key;
            while goes_on && let Some((mine, value)) = mine.next_if(|(mine, _)| earlier(mine)) {
                goes_on = value.as_ref().is_none_or(|value| visit(mine, value));
            }
            if !goes_on || !inside {
                return false;
            }
            goes_on = match mine.next_if(|(mine, _)| *mine == key) {
                Some((_, changed)) => changed.as_ref().is_none_or(|value| visit(key, value)),
                None => visit(key, value),
            };
            goes_on
        })?;
        while goes_on && let Some((mine, value)) = mine.next() {
            goes_on = value.as_ref().is_none_or(|value| visit(mine, value));
        }
        Ok(())
    }

    /// The same below `end`, the last first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn walk_back(
        &self,
        prefix: &[u8],
        end: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Trouble> {
        let mine = self.pending.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(end)));
        let mut mine = mine.rev().take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut goes_on = true;
        self.keyspace.records.scan_back(end, &mut |key, value| {
            let inside = key.starts_with(prefix);
            let later = |mine: &[u8]| !inside || mine > key;
            while goes_on && let Some((mine, value)) = mine.next_if(|(mine, _)| later(mine)) {
                goes_on = value.as_ref().is_none_or(|value| visit(mine, value));
            }
            if !goes_on || !inside {
                return false;
            }
            goes_on = match mine.next_if(|(mine, _)| *mine == key) {
                Some((_, changed)) => changed.as_ref().is_none_or(|value| visit(key, value)),
                None => visit(key, value),
            };
            goes_on
        })?;
        while goes_on && let Some((mine, value)) = mine.next() {
            goes_on = value.as_ref().is_none_or(|value| visit(mine, value));
        }
        Ok(())
    }

    /// Looks a key up in the current database.
    ///
    /// # Errors
    /// If the store can't be read, or the record is damaged.
    pub fn slot(&self, key: &[u8]) -> Result<Slot, Trouble> {
        let hash = self.hash(key);
        let raw = match self.get(&layout::key(self.space(), hash, key))? {
            None => None,
            Some(bytes) => Some(Entry::parse(&bytes).ok_or_else(|| {
                Trouble(format!("the record of key '{}' is damaged", String::from_utf8_lossy(key)))
            })?),
        };
        let live = raw.as_ref().is_some_and(|entry| entry.expires == 0 || entry.expires > self.now);
        Ok(Slot { key: key.to_vec(), hash, database: self.database, raw, live })
    }

    /// Sets what is under a key. A body that the new value does not have becomes garbage.
    pub fn set(&mut self, slot: &mut Slot, value: Value, expires: u64) {
        let entry = Entry { expires, value };
        self.leave(slot, entry.value.body(), expires);
        let space = self.aside.spaces.of[slot.database];
        if slot.raw.is_none() {
            self.aside.counts.push((space, 1));
        }
        if expires > 0 && slot.raw.as_ref().is_none_or(|raw| raw.expires != expires) {
            self.put(layout::expiry(expires, space, &slot.key), Vec::new());
            if !std::mem::replace(&mut self.aside.flags.expiries, true) {
                self.put(layout::HAS_EXPIRIES.to_vec(), Vec::new());
            }
        }
        self.put(layout::key(space, slot.hash, &slot.key), entry.bytes());
        slot.live = expires == 0 || expires > self.now;
        slot.raw = Some(entry);
        self.touched.push((slot.database, slot.key.clone()));
    }

    /// Sets the value; when it expires stays.
    pub fn update(&mut self, slot: &mut Slot, value: Value) {
        let expires = slot.expires();
        self.set(slot, value, expires);
    }

    /// Removes a key with all that it holds; whether there was something.
    pub fn remove(&mut self, slot: &mut Slot) -> bool {
        self.remove_but(slot, None)
    }

    /// Removes a key; its body stays, for another key that has it now.
    pub fn remove_but(&mut self, slot: &mut Slot, body: Option<u64>) -> bool {
        let live = slot.live;
        if slot.raw.is_some() {
            self.leave(slot, body, 0);
            let space = self.aside.spaces.of[slot.database];
            self.aside.counts.push((space, -1));
            self.delete(layout::key(space, slot.hash, &slot.key));
            slot.raw = None;
            slot.live = false;
            self.touched.push((slot.database, slot.key.clone()));
        }
        live
    }

    /// Lets go of what a slot has beside its record: the body, unless it is kept, and the expiry.
    fn leave(&mut self, slot: &Slot, kept: Option<u64>, expires: u64) {
        let Some(raw) = &slot.raw else { return };
        if let Some(body) = raw.value.body().filter(|body| Some(*body) != kept) {
            self.put(layout::garbage_body(body), Vec::new());
            self.has_garbage();
        }
        if raw.expires > 0 && raw.expires != expires {
            let space = self.aside.spaces.of[slot.database];
            self.delete(layout::expiry(raw.expires, space, &slot.key));
        }
    }

    /// Says that what is under a key changed, without its record.
    pub fn touch(&mut self, slot: &Slot) {
        self.touched.push((slot.database, slot.key.clone()));
    }

    /// A new body's number.
    pub fn new_body(&mut self) -> u64 {
        let (body, reserved) = self.aside.bodies.take();
        if let Some((record, value)) = reserved {
            self.pending.insert(record, value);
        }
        body
    }

    /// Gives a database a new space; the old one becomes garbage.
    pub fn flush(&mut self, database: usize) {
        let spaces = &mut self.aside.spaces;
        let old = std::mem::replace(&mut spaces.of[database], spaces.next);
        spaces.next += 1;
        self.pending.extend([self.aside.spaces.record()]);
        self.put(layout::garbage_space(old), Vec::new());
        self.has_garbage();
    }

    fn has_garbage(&mut self) {
        if !std::mem::replace(&mut self.aside.flags.garbage, true) {
            self.put(layout::HAS_GARBAGE.to_vec(), Vec::new());
        }
    }

    /// Exchanges two databases.
    pub fn swap(&mut self, a: usize, b: usize) {
        self.aside.spaces.of.swap(a, b);
        self.pending.extend([self.aside.spaces.record()]);
    }

    /// How many keys the current database has, if that is known: then it was counted before.
    pub fn key_count(&self) -> Option<i64> {
        let space = self.space();
        let own = self.aside.counts.iter().filter(|(of, _)| *of == space).map(|(_, more)| more);
        self.keyspace.known_count(space).map(|count| count + own.sum::<i64>())
    }
}
