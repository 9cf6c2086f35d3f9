//! Where everything is in the NVM.
//!
//! | part | what |
//! |---|---|
//! | header, 128 bytes | word 0: [`MAGIC`], the last word of making, the first of erasing; version, sizes, their check |
//! | slots, 64 of 64 bytes | one per process: link to its first committed transaction, generation, process number |
//! | file records | state, users, length, link to the first committed transaction of a shared region, path, check |
//! | log objects, 64 bytes each | one per transaction, with the number of its first page: link, tid, pages, list, check |
//! | log page objects, a word each | owner and next page |
//! | cache page objects, a word each | file, page of it, owner, state |
//! | log pages | tid, bytes used and place in the transaction, check; then entries |
//! | cache pages | the bytes of a page of a file |
//!
//! Pointers are indices from 0; a link is an index plus 1 with a check (module `words`).

use space::Space;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

/// `slvnvm01`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"slvnvm01");
/// The format that this library reads and writes.
pub const VERSION: u64 = 1;
/// Processes at a time.
pub const SLOTS: u32 = 64;
/// Most file records.
pub const FILES_MAX: u32 = 4096;
/// Bytes of a file record.
pub(crate) const RECORD: u64 = 1024;
/// Bytes of a path.
pub const PATH_MAX: usize = 896;
pub(crate) const HEADER: u64 = 128;
pub(crate) const SLOT: u64 = 64;
pub(crate) const LOG_OBJECT: u64 = 64;
/// Bytes before the first entry of a log page.
pub(crate) const LOG_HEAD: u64 = 24;

/// Sizes of an NVM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a log page.
    pub log_page: u64,
    /// Bytes of a cache page.
    pub cache_page: u64,
    /// Log pages.
    pub log_pages: u32,
    /// Cache pages.
    pub cache_pages: u32,
    /// File records.
    pub files: u32,
}

impl Sizes {
    /// `log` and `cache` bytes, in log pages of 4 KiB and cache pages of `cache_page` bytes.
    ///
    /// # Errors
    /// If the page is neither 4 nor 8 KiB, or log or cache have fewer than 8 pages or more than 2^32 - 2.
    pub fn new(log: u64, cache: u64, cache_page: u64) -> Result<Sizes> {
        if cache_page != 4096 && cache_page != 8192 {
            let (what, range) = ("a cache page", "4096 or 8192 bytes");
            return Err(Error::Size { what, given: cache_page, range });
        }
        let pages = |what, bytes: u64, page: u64| {
            let error = Error::Size { what, given: bytes, range: "8 to 2^32 - 2 pages" };
            u32::try_from(bytes / page).ok().filter(|pages| (8..u32::MAX).contains(pages)).ok_or(error)
        };
        Ok(Sizes {
            log_page: 4096,
            cache_page,
            log_pages: pages("a log", log, 4096)?,
            cache_pages: pages("a cache", cache, cache_page)?,
            files: 256,
        })
    }

    /// Bytes of NVM in all.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        Layout::of(*self).len
    }

    fn words(&self) -> [u64; 6] {
        let pages = [self.log_pages, self.cache_pages, self.files].map(u64::from);
        [VERSION, self.log_page, self.cache_page, pages[0], pages[1], pages[2]]
    }
}

/// Offsets of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub sizes: Sizes,
    records: u64,
    objects: u64,
    log_words: u64,
    tags: u64,
    log: u64,
    cache: u64,
    pub len: u64,
}

impl Layout {
    pub(crate) fn of(sizes: Sizes) -> Layout {
        let align = |at: u64| at.next_multiple_of(sizes.log_page.max(sizes.cache_page).max(64));
        let (log, cache) = (u64::from(sizes.log_pages), u64::from(sizes.cache_pages));
        let records = HEADER + u64::from(SLOTS) * SLOT;
        let objects = records + u64::from(sizes.files) * RECORD;
        let log_words = objects + log * LOG_OBJECT;
        let tags = (log_words + log * 8).next_multiple_of(64);
        let first = align(tags + cache * 8);
        let second = align(first + log * sizes.log_page);
        let len = second + cache * sizes.cache_page;
        Layout { sizes, records, objects, log_words, tags, log: first, cache: second, len }
    }

    /// What the header says.
    ///
    /// # Errors
    /// If it is damaged, another's, or of another version. `Ok(None)` if there is nothing: never made, or
    /// erased.
    pub(crate) fn read<S: Space>(space: &S) -> Result<Option<Layout>> {
        if space.len() < HEADER {
            return Err(Error::Cut { needed: HEADER, there: space.len() });
        }
        match space.load_u64(0) {
            0 => return Ok(None),
            MAGIC => {}
            found => return Err(Error::NotOurs { found }),
        }
        let mut words = [0; 6];
        (8..).step_by(8).zip(&mut words).for_each(|(at, word)| *word = space.load_u64(at));
        let found = space.load_u64(56);
        if words[0] != VERSION && found == check_of(&words) {
            return Err(Error::Version { found: words[0], known: VERSION });
        }
        let small = |word: u64| u32::try_from(word).ok().filter(|count| *count > 0 && *count < u32::MAX);
        let page = |word: u64| word.is_power_of_two() && (64..=65536).contains(&word);
        let whole = found == check_of(&words) && page(words[1]) && page(words[2]);
        let (true, Some(log_pages), Some(cache_pages), Some(files)) =
            (whole, small(words[3]), small(words[4]), small(words[5]).filter(|files| *files <= FILES_MAX))
        else {
            return Err(Error::Damaged { offset: 8, what: "the header", found });
        };
        let sizes = Sizes { log_page: words[1], cache_page: words[2], log_pages, cache_pages, files };
        let layout = Layout::of(sizes);
        if layout.len > space.len() {
            return Err(Error::Cut { needed: layout.len, there: space.len() });
        }
        Ok(Some(layout))
    }

    /// Makes an empty NVM: everything durable before the magic is.
    ///
    /// # Errors
    /// If the space is too short.
    pub(crate) fn make<S: Space>(space: &S, sizes: Sizes) -> Result<Layout> {
        let layout = Layout::of(sizes);
        if layout.len > space.len() {
            return Err(Error::Cut { needed: layout.len, there: space.len() });
        }
        space.store_u64(0, 0);
        space.persist(0, 8);
        let zeros = [0; 1024];
        let mut at = 0;
        while at < layout.log {
            let count = (layout.log - at).min(1024);
            space.store_nt(at, &zeros[..count as usize]);
            at += count;
        }
        let words = sizes.words();
        space.store_words(8, &words);
        space.store_u64(56, check_of(&words));
        space.flush(0, HEADER);
        space.fence();
        space.store_u64(0, MAGIC);
        space.persist(0, 8);
        Ok(layout)
    }

    /// The link to a process's first committed transaction.
    pub(crate) fn slot_head(&self, slot: u32) -> u64 {
        HEADER + u64::from(slot) * SLOT
    }
    /// The process's number, for messages.
    pub(crate) fn slot_pid(&self, slot: u32) -> u64 {
        self.slot_head(slot) + 8
    }
    pub(crate) fn record(&self, file: u16) -> u64 {
        self.records + u64::from(file) * RECORD
    }
    pub(crate) fn object(&self, log_page: u32) -> u64 {
        self.objects + u64::from(log_page) * LOG_OBJECT
    }
    pub(crate) fn log_word(&self, log_page: u32) -> u64 {
        self.log_words + u64::from(log_page) * 8
    }
    pub(crate) fn tag(&self, cache_page: u32) -> u64 {
        self.tags + u64::from(cache_page) * 8
    }
    pub(crate) fn log_page(&self, log_page: u32) -> u64 {
        self.log + u64::from(log_page) * self.sizes.log_page
    }
    pub(crate) fn cache_page(&self, cache_page: u32) -> u64 {
        self.cache + u64::from(cache_page) * self.sizes.cache_page
    }
    /// Bytes of entries in a log page.
    pub(crate) fn log_room(&self) -> usize {
        (self.sizes.log_page - LOG_HEAD) as usize
    }
}

fn check_of(words: &[u64; 6]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64(&bytes)
}

#[cfg(test)]
mod tests {
    use space::Image;

    use super::*;

    #[test]
    fn what_was_made_is_read() {
        let sizes = Sizes::new(1 << 20, 2 << 20, 8192).expect("sizes");
        let image = Image::new(sizes.bytes());
        assert_eq!(Layout::read(&image).expect("nothing there"), None);
        let made = Layout::make(&image, sizes).expect("room");
        assert_eq!(Layout::read(&image).expect("whole"), Some(made));
        for byte in 0..64 {
            let mut bytes = image.to_bytes();
            bytes[byte] ^= 1;
            assert!(Layout::read(&Image::from_bytes(&bytes)).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn pages_are_aligned_and_parts_follow_each_other() {
        let layout = Layout::of(Sizes::new(1 << 20, 2 << 20, 8192).expect("sizes"));
        assert!(layout.log.is_multiple_of(8192) && layout.cache.is_multiple_of(8192));
        assert!(layout.record(255) + RECORD <= layout.object(0));
        assert!(layout.log_word(255) + 8 <= layout.tag(0) && layout.tag(255) + 8 <= layout.log_page(0));
        assert!(layout.log_page(255) + 4096 <= layout.cache_page(0));
    }
}
