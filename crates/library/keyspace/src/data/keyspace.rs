//! A store that is open: what is kept in ordinary memory beside the records.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use super::layout;
use super::records::{Change, Records, Trouble};

/// Databases, as many as Redis has.
pub const DATABASES: usize = 16;
/// Body numbers that one record reserves.
const RESERVED: u64 = 1024;
/// What the settings begin with: the version of the layout.
const MAGIC: &[u8] = b"SLSERVE1";

/// A store that is open.
pub struct Keyspace {
    pub(super) records: Arc<dyn Records>,
    hash_key: [u64; 2],
    pub(super) spaces: Spaces,
    pub(super) bodies: Bodies,
    /// How many keys a space has, once somebody asked.
    counts: HashMap<u32, i64>,
    /// Whether there may be something to remove, or keys that expire. Only then there is a need to look,
    /// for which the records must be put in order.
    pub(super) flags: Flags,
    /// The newest ticket.
    ticket: u64,
}

/// Which space each database has, and the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spaces {
    /// By database.
    pub of: [u32; DATABASES],
    /// Never used yet.
    pub next: u32,
}

/// What there may be. A record says so, too, which is written with the first that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Records that name what is to be removed.
    pub garbage: bool,
    /// Keys that expire.
    pub expiries: bool,
}

/// Body numbers: the next, and the first that is not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bodies {
    next: u64,
    end: u64,
}

impl Bodies {
    /// A new body number, and the record that reserves more if these were the last.
    pub fn take(&mut self) -> (u64, Option<Change>) {
        let body = self.next;
        self.next += 1;
        let reserved = (self.next > self.end).then(|| {
            self.end = self.next + RESERVED;
            (layout::BODIES.to_vec(), Some(self.end.to_be_bytes().to_vec()))
        });
        (body, reserved)
    }
}

impl Spaces {
    /// Its record.
    pub fn record(&self) -> Change {
        let words = self.of.iter().chain([&self.next]);
        (layout::SPACES.to_vec(), Some(words.flat_map(|word| word.to_be_bytes()).collect()))
    }

    fn parse(bytes: &[u8]) -> Option<Spaces> {
        let words: Vec<u32> = bytes.chunks_exact(4).map(|word| layout::number(word) as u32).collect();
        let (next, of) = words.split_last()?;
        Some(Spaces { of: of.try_into().ok()?, next: *next })
    }
}

/// What a transaction changes in ordinary memory once its records are written.
#[derive(Clone, Debug)]
pub struct Aside {
    /// The spaces.
    pub spaces: Spaces,
    /// The body numbers.
    pub bodies: Bodies,
    /// By how much the numbers of keys change, by space.
    pub counts: Vec<(u32, i64)>,
    /// What there may be.
    pub flags: Flags,
}

impl Keyspace {
    /// Opens what the records hold; new records get `seed` for their hashes.
    ///
    /// # Errors
    /// If they are not a store of this kind, or damaged.
    pub fn open(records: Arc<dyn Records>, seed: [u64; 2]) -> Result<Keyspace, Trouble> {
        let damaged = |what: &str| Trouble(format!("the store is damaged: its {what} can't be read"));
        let hash_key = match records.get(layout::SETTINGS)? {
            Some(settings) => {
                let key = settings.strip_prefix(MAGIC).filter(|key| key.len() == 16);
                let key = key.ok_or_else(|| damaged("settings"))?;
                [layout::number(&key[..8]), layout::number(&key[8..])]
            }
            None => {
                let mut other = false;
                records.scan(&[], &mut |_, _| {
                    other = true;
                    false
                })?;
                if other {
                    return Err(Trouble("the store has records that `serve` did not write".into()));
                }
                let key = seed.iter().flat_map(|word| word.to_be_bytes());
                let settings = MAGIC.iter().copied().chain(key).collect();
                records.wait(records.write(&[(layout::SETTINGS.to_vec(), Some(settings))])?)?;
                seed
            }
        };
        let spaces = match records.get(layout::SPACES)? {
            Some(bytes) => Spaces::parse(&bytes).ok_or_else(|| damaged("list of databases"))?,
            None => Spaces { of: std::array::from_fn(|database| database as u32), next: DATABASES as u32 },
        };
        let first = records.get(layout::BODIES)?.map_or(1, |bytes| layout::number(&bytes));
        let bodies = Bodies { next: first, end: first };
        let flags = Flags {
            garbage: records.get(layout::HAS_GARBAGE)?.is_some(),
            expiries: records.get(layout::HAS_EXPIRIES)?.is_some(),
        };
        Ok(Keyspace { records, hash_key, spaces, bodies, counts: HashMap::new(), flags, ticket: 0 })
    }

    /// The hash that orders keys, fields and members.
    pub fn hash(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.hash_key[0], self.hash_key[1]);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Whether keys may expire.
    pub fn may_expire(&self) -> bool {
        self.flags.expiries
    }

    /// The records.
    pub fn records(&self) -> &Arc<dyn Records> {
        &self.records
    }

    /// The newest ticket: everything up to it is what readers see.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Writes the records of a transaction.
    ///
    /// # Errors
    /// If there is no room; nothing is changed.
    pub fn commit(&mut self, changes: &[Change], aside: Aside) -> Result<(), Trouble> {
        if !changes.is_empty() {
            self.ticket = self.records.write(changes)?.max(self.ticket);
        }
        self.spaces = aside.spaces;
        self.bodies = aside.bodies;
        self.flags = aside.flags;
        for (space, more) in aside.counts {
            if let Some(count) = self.counts.get_mut(&space) {
                *count += more;
            }
        }
        Ok(())
    }

    /// How many keys a space has, those included whose time is over but that are still there, if they were
    /// counted.
    pub fn known_count(&self, space: u32) -> Option<i64> {
        self.counts.get(&space).copied()
    }

    /// The same of a database; the first time it counts.
    ///
    /// # Errors
    /// If the store can't be read.
    pub fn count(&mut self, database: usize) -> Result<i64, Trouble> {
        let space = self.spaces.of[database];
        if let Some(count) = self.known_count(space) {
            return Ok(count);
        }
        let (prefix, mut count) = (layout::space(space), 0);
        self.records.scan(&prefix, &mut |key, _| {
            let inside = key.starts_with(&prefix);
            count += i64::from(inside);
            inside
        })?;
        self.counts.insert(space, count);
        Ok(count)
    }

    /// Removes up to `most` records of what was deleted; whether there is more.
    ///
    /// # Errors
    /// If the store can't be read, or has no room.
    pub fn tidy_up(&mut self, most: usize) -> Result<bool, Trouble> {
        if !self.flags.garbage {
            return Ok(false);
        }
        let mut changes: Vec<Change> = Vec::new();
        for spaces in [true, false] {
            let list = if spaces { layout::garbage_spaces() } else { layout::garbage_bodies() };
            while changes.len() < most {
                let Some(record) = self.first(&list, &changes)? else { break };
                let number = layout::garbage_of(&record);
                let (prefix, space) = match spaces {
                    true => (layout::space(number as u32), Some(number as u32)),
                    false => (layout::body(number), None),
                };
                if self.sweep(&prefix, space, most, &mut changes)? {
                    changes.push((record, None));
                }
            }
        }
        let more = !changes.is_empty();
        if !more {
            changes.push((layout::HAS_GARBAGE.to_vec(), None));
        }
        self.ticket = self.records.write(&changes)?.max(self.ticket);
        self.flags.garbage = more;
        Ok(more)
    }

    /// The first record under `prefix` that `changes` does not remove.
    fn first(&self, prefix: &[u8], changes: &[Change]) -> Result<Option<Vec<u8>>, Trouble> {
        let mut found = None;
        self.records.scan(prefix, &mut |key, _| {
            let inside = key.starts_with(prefix);
            let removed = changes.iter().any(|(removed, _)| removed == key);
            if inside && !removed {
                found = Some(key.to_vec());
            }
            inside && removed
        })?;
        Ok(found)
    }

    /// Removes records under `prefix`, keys of `space` with their bodies and expiries; whether these are all.
    fn sweep(
        &self,
        prefix: &[u8],
        space: Option<u32>,
        most: usize,
        changes: &mut Vec<Change>,
    ) -> Result<bool, Trouble> {
        let mut all = true;
        self.records.scan(prefix, &mut |key, value| {
            if !key.starts_with(prefix) {
                return false;
            }
            if changes.len() >= most {
                all = false;
                return false;
            }
            if let (Some(space), Some(entry)) = (space, layout::Entry::parse(value)) {
                if let Some(body) = entry.value.body() {
                    changes.push((layout::garbage_body(body), Some(Vec::new())));
                }
                if entry.expires > 0 {
                    changes.push((layout::expiry(entry.expires, space, layout::key_of(key).1), None));
                }
            }
            changes.push((key.to_vec(), None));
            true
        })?;
        Ok(all)
    }
}
