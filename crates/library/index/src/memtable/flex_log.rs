//! A log in memory that is mapped and allocated beforehand: an append is non-temporal stores and one fence.
//!
//! # Layout
//! The first extent holds all of it. After the root (magic, salt) records follow each other, each from the
//! next multiple of [`LogOptions::align`] on: a word with the checksum in its low half and the length of the
//! content in its high one, then the content, padded to words.
//!
//! # Why every crash leaves a log
//! How long the log is stands in ordinary memory only. A record counts if its checksum is right, which is
//! over the log's salt, the record's offset, its length and its content; reading ends at the first record
//! whose checksum is wrong. A record is begun after the one before it is durable. Beginning anew changes the
//! salt, one word, so that no earlier record counts any more.
//!
//! Records that begin at a line of their own send no line twice: a line that two records share would be
//! written by both, as each waits for its part.

use std::ops::Deref;

use space::{Env, LINE, Space};

use crate::{Error, Extents};

const MAGIC: u64 = u64::from_le_bytes(*b"SLFLEX01");
const SALT: u64 = 8;
/// Bytes of the root.
const ROOT: u64 = 256;
/// Bytes before a record's content.
const HEAD: u64 = 8;

/// A mistake, for tests of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFlaw {
    /// None.
    #[default]
    Sound,
    /// A record is not waited for.
    NotFenced,
    /// Every record that has a length counts.
    Unchecked,
    /// As `Unchecked`, and the head, which says that there is a record, is durable before the record.
    HeadFirst,
}

/// How a log is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Where records begin: multiples of 8 or 64.
    pub align: u64,
    /// Nothing, but for tests.
    pub flaw: LogFlaw,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions { align: LINE, flaw: LogFlaw::Sound }
    }
}

/// Where the log ends.
#[derive(Debug)]
struct End {
    at: u64,
    salt: u64,
    /// A record, as it goes to memory.
    record: Vec<u8>,
}

/// A log of byte strings.
pub struct FlexLog<H>
where
    H: Deref<Target: Env + Sized>,
{
    env: H,
    options: LogOptions,
    root: u64,
    limit: u64,
    end: <H::Target as Env>::Mutex<End>,
}

impl<H> FlexLog<H>
where
    H: Deref<Target: Env + Sized>,
{
    /// Makes an empty log of the first extent, whatever is there.
    ///
    /// # Errors
    /// If the extent is too short for a root, or records can't begin where the options say.
    pub fn create<X>(env: H, extents: &X, options: LogOptions) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        let log = FlexLog::over(env, extents, options)?;
        log.clear();
        log.env.space().store_u64(log.root, MAGIC);
        log.env.space().persist(log.root, 8);
        Ok(log)
    }

    /// Opens a log and hands its records to `visit`, the first first.
    ///
    /// # Errors
    /// If there is no log.
    pub fn open<X>(
        env: H,
        extents: &X,
        options: LogOptions,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        let log = FlexLog::over(env, extents, options)?;
        let found = log.env.space().load_u64(log.root);
        if found != MAGIC {
            return Err(Error::Mismatch { offset: log.root, found, expected: MAGIC, what: "a log" });
        }
        log.replay(visit);
        Ok(log)
    }

    fn over<X>(env: H, extents: &X, options: LogOptions) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        if ![8, LINE].contains(&options.align) {
            return Err(Error::Options("records begin at multiples of 8 or 64 bytes"));
        }
        let space = env.space();
        let first = extents.all(space).into_iter().next().filter(|first| first.bytes > ROOT);
        let first = first.ok_or(Error::Full { wanted: ROOT + HEAD, len: space.len() })?;
        let (root, limit) = (first.offset, first.offset + first.bytes);
        let end = env.mutex(End { at: root + ROOT, salt: 0, record: Vec::new() });
        Ok(FlexLog { env, options, root, limit, end })
    }

    /// Appends a record, durably.
    ///
    /// # Errors
    /// If there is no room; the log is as before.
    pub fn append(&self, parts: &[&[u8]]) -> Result<(), Error> {
        let space = self.env.space();
        let mut end = self.env.lock(&self.end);
        let End { at, salt, record } = &mut *end;
        record.clear();
        record.extend_from_slice(&[0; HEAD as usize]);
        parts.iter().for_each(|part| record.extend_from_slice(part));
        let len = record.len() as u64 - HEAD;
        let full = Error::Full { wanted: record.len() as u64, len: self.limit - self.root };
        let after = (*at + HEAD + len).next_multiple_of(self.options.align);
        if after > self.limit || u32::try_from(len).is_err() {
            return Err(full);
        }
        let head = head(*salt, *at, &record[HEAD as usize..]);
        record[..HEAD as usize].copy_from_slice(&head.to_le_bytes());
        // Whole lines, where records have them for themselves.
        record.resize((after - *at) as usize, 0);
        if self.options.flaw == LogFlaw::HeadFirst {
            space.store_u64(*at, head);
            space.persist(*at, 8);
        }
        space.store_nt(*at, record);
        if self.options.flaw != LogFlaw::NotFenced {
            space.fence();
        }
        *at = after;
        Ok(())
    }

    /// Begins anew: no record counts any more, durably.
    pub fn clear(&self) {
        let space = self.env.space();
        let mut end = self.env.lock(&self.end);
        // Never one before: the lowest bits count.
        end.salt = space.load_u64(self.root + SALT).wrapping_add(1) & 0xFFFF | self.env.random() << 16;
        space.store_u64(self.root + SALT, end.salt);
        space.persist(self.root + SALT, 8);
        end.at = self.root + ROOT;
    }

    /// Bytes that records take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.env.lock(&self.end).at - self.root - ROOT
    }

    fn replay(&self, visit: &mut dyn FnMut(&[u8])) {
        let space = self.env.space();
        let mut end = self.env.lock(&self.end);
        end.salt = space.load_u64(self.root + SALT);
        let mut content = Vec::new();
        while end.at + HEAD <= self.limit {
            let found = space.load_u64(end.at);
            let len = found >> 32;
            if end.at + HEAD + len > self.limit {
                break;
            }
            content.resize(len as usize, 0);
            space.load(end.at + HEAD, &mut content);
            let counts = match self.options.flaw {
                LogFlaw::Unchecked | LogFlaw::HeadFirst => found != 0,
                _ => found == head(end.salt, end.at, &content),
            };
            if !counts {
                break;
            }
            visit(&content);
            end.at = (end.at + HEAD + len).next_multiple_of(self.options.align);
        }
    }
}

/// The word before a record's content.
fn head(salt: u64, at: u64, content: &[u8]) -> u64 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&salt.to_le_bytes());
    hash.update(&at.to_le_bytes());
    hash.update(&(content.len() as u64).to_le_bytes());
    hash.update(content);
    (content.len() as u64) << 32 | u64::from(hash.finalize())
}

#[cfg(test)]
mod tests {
    use pmem::Os;
    use space::Image;

    use super::*;
    use crate::Whole;

    fn records(env: &Os<Image>, options: LogOptions) -> (Vec<Vec<u8>>, FlexLog<&Os<Image>>) {
        let mut records = Vec::new();
        let extents = Whole::open(env.space()).expect("extents");
        let log = FlexLog::open(env, &extents, options, &mut |record| records.push(record.to_vec()));
        (records, log.expect("a log"))
    }

    #[test]
    fn records_are_found_again_and_a_torn_one_ends_the_log() {
        for align in [8, 64] {
            let options = LogOptions { align, ..LogOptions::default() };
            let env = Os::new(Image::new(8 << 10));
            let extents = Whole::create(env.space(), 4 << 10).expect("room");
            let log = FlexLog::create(&env, &extents, options).expect("room");
            let written: Vec<Vec<u8>> =
                (0u8..12).map(|number| vec![number; 11 * usize::from(number)]).collect();
            for record in &written {
                log.append(&[&record[..record.len() / 2], &record[record.len() / 2..]]).expect("room");
            }
            let (found, log) = records(&env, options);
            assert_eq!(found, written);
            // Longer than what is left: nothing of it counts, and the next one does.
            assert!(matches!(log.append(&[&[1; 4 << 10]]), Err(Error::Full { .. })));
            log.append(&[b"more"]).expect("room");
            let at = log.root + ROOT + log.bytes() - align.max(16);
            assert_eq!(records(&env, options).0.len(), 13);
            env.space().store_u64(at + 8, 0);
            assert_eq!(records(&env, options).0, written);
        }
    }

    #[test]
    fn a_log_begins_anew() {
        let env = Os::new(Image::new(8 << 10));
        let extents = Whole::create(env.space(), 4 << 10).expect("room");
        let log = FlexLog::create(&env, &extents, LogOptions::default()).expect("room");
        for round in 0..3u8 {
            log.clear();
            log.append(&[&[round; 100]]).expect("room");
            if round == 1 {
                log.append(&[&[round; 100]]).expect("room");
            }
        }
        assert_eq!(records(&env, LogOptions::default()).0, [[2; 100]]);
        assert!(FlexLog::create(&env, &extents, LogOptions { align: 32, ..LogOptions::default() }).is_err());
    }
}
