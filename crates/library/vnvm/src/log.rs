//! The log of one transaction: pages of entries.
//!
//! A page begins with the transaction's number, then the bytes of its entries and its place in the
//! transaction, then a check of all of it. An entry is
//! 16 bytes (length, file, offset in the file) and the data, filled up to a multiple of 8. An entry lies in
//! one log page and goes to
//! one cache page: a write is split at both borders.

use space::Space;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::layout::{LOG_HEAD, LOG_OBJECT, Layout};
use crate::words::{LogPage, linked};

/// Bytes before the data of an entry.
pub(crate) const ENTRY_HEAD: usize = 16;
/// The least room that is used for a piece of an entry.
const PIECE_MIN: usize = ENTRY_HEAD + 8;

/// One piece of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'b> {
    pub file: u16,
    pub offset: u64,
    pub data: &'b [u8],
}

/// The bytes of the next entry that `room` bytes of a log page take of `left` bytes for `offset`; 0 if the
/// page is full.
pub(crate) fn piece(cache_page: u64, offset: u64, left: usize, room: usize) -> usize {
    if room < PIECE_MIN {
        return 0;
    }
    let to_border = (cache_page - offset % cache_page) as usize;
    left.min(to_border).min((room - ENTRY_HEAD) & !7)
}

/// Adds an entry to the bytes of a page.
pub(crate) fn append(page: &mut Vec<u8>, file: u16, offset: u64, data: &[u8]) {
    let length = data.len() as u64;
    page.extend_from_slice(&(length | u64::from(file) << 32).to_le_bytes());
    page.extend_from_slice(&offset.to_le_bytes());
    page.extend_from_slice(data);
    page.resize(page.len().next_multiple_of(8), 0);
}

/// The entries in the bytes of a page. What a page of ours holds is well formed; else it ends with `None`.
pub(crate) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Option<Entry<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let entry = first(bytes);
        bytes = entry.map_or(&[], |(_, rest)| rest);
        Some(entry.map(|(entry, _)| entry))
    })
}

fn first(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let head = u64::from_le_bytes(*head);
    let length = (head & u64::from(u32::MAX)) as usize;
    let file = u16::try_from(head >> 32).ok()?;
    let whole = length.checked_next_multiple_of(8).filter(|whole| length > 0 && *whole <= rest.len())?;
    let entry = Entry { file, offset: u64::from_le_bytes(*offset), data: &rest[..length] };
    Some((entry, &rest[whole..]))
}

/// Stores the entries of a page, non-temporally. Durable with the next fence.
pub(crate) fn store_page<S: Space>(
    space: &S,
    layout: &Layout,
    page: u32,
    tid: u64,
    place: u32,
    bytes: &[u8],
    whole: &mut Vec<u8>,
) {
    let second = bytes.len() as u64 | u64::from(place) << 32;
    whole.clear();
    whole.extend_from_slice(&tid.to_le_bytes());
    whole.extend_from_slice(&second.to_le_bytes());
    whole.extend_from_slice(&check_of(tid, second, bytes).to_le_bytes());
    whole.extend_from_slice(bytes);
    space.store_nt(layout.log_page(page), whole);
}

fn check_of(tid: u64, second: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, tid ^ second.rotate_left(32))
}

/// Reads the entries of a page into `bytes`.
///
/// # Errors
/// If they are not those of that place of the transaction, or damaged.
pub(crate) fn load_page<S: Space>(
    space: &S,
    layout: &Layout,
    page: u32,
    tid: u64,
    place: u32,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let at = layout.log_page(page);
    let second = space.load_u64(at + 8);
    let length = (second & u64::from(u32::MAX)) as usize;
    let damaged = Error::Damaged { offset: at, what: "a log page", found: second };
    if space.load_u64(at) != tid || second >> 32 != u64::from(place) || length > layout.log_room() {
        return Err(damaged);
    }
    bytes.resize(length, 0);
    space.load(at + LOG_HEAD, bytes);
    if space.load_u64(at + 16) != check_of(tid, second, bytes) {
        return Err(damaged);
    }
    Ok(())
}

/// A committed transaction, or one about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Its pages in order; the first one's number is the object's.
    pub pages: Vec<u32>,
    pub tid: u64,
    /// The shared region whose it is.
    pub region: Option<u16>,
}

impl Object {
    /// Stores the object and the chain of its pages, with no link, and flushes both. Durable with the next
    /// fence.
    pub(crate) fn store<S: Space>(&self, space: &S, layout: &Layout, slot: u8) {
        let shared = self.region.is_some();
        for (place, &page) in self.pages.iter().enumerate() {
            let word = LogPage { owner: Some(slot), shared, next: self.pages.get(place + 1).copied() };
            space.store_u64(layout.log_word(page), word.word());
        }
        let mut flushed = None;
        for &page in &self.pages {
            let line = layout.log_word(page) & !63;
            if flushed != Some(line) {
                space.flush(line, 8);
                flushed = Some(line);
            }
        }
        let at = layout.object(self.pages[0]);
        let words = [self.tid, self.pages.len() as u64, self.region.map_or(0, |file| u64::from(file) + 1)];
        space.store_words(at, &[0, words[0], words[1], words[2], object_check(words)]);
        space.flush(at, LOG_OBJECT);
    }

    /// The object of a list that begins with page `first`, and its link.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn load<S: Space>(space: &S, layout: &Layout, first: u32) -> Result<(Object, Option<u32>)> {
        let count = layout.sizes.log_pages;
        let at = layout.object(first.min(count - 1));
        let words = [8, 16, 24].map(|word| space.load_u64(at + word));
        let damaged = |found| Error::Damaged { offset: at, what: "a log object", found };
        if first >= count || object_check(words) != space.load_u64(at + 32) {
            return Err(damaged(words[0]));
        }
        let region = match words[2].checked_sub(1).map(u16::try_from) {
            None => None,
            Some(Ok(file)) if u32::from(file) < layout.sizes.files => Some(file),
            Some(_) => return Err(damaged(words[2])),
        };
        if words[1] == 0 || words[1] > u64::from(count) {
            return Err(damaged(words[1]));
        }
        let mut pages = vec![first];
        loop {
            let at = layout.log_word(pages[pages.len() - 1]);
            let word = space.load_u64(at);
            let wrong =
                Error::Damaged { offset: at, what: "the chain of a transaction's pages", found: word };
            let page = LogPage::of(at, word)?;
            let last = pages.len() as u64 == words[1];
            if page.owner.is_none() || page.shared != region.is_some() || last != page.next.is_none() {
                return Err(wrong);
            }
            match page.next {
                None => break,
                Some(next) if next < count => pages.push(next),
                Some(_) => return Err(wrong),
            }
        }
        let next = linked(at, space.load_u64(at))?;
        Ok((Object { pages, tid: words[0], region }, next))
    }

    /// Gives each entry to `to`.
    ///
    /// # Errors
    /// If a page is damaged, or what `to` returns.
    pub(crate) fn replay<S: Space>(
        &self,
        space: &S,
        layout: &Layout,
        mut to: impl FnMut(Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (place, &page) in (0..).zip(&self.pages) {
            load_page(space, layout, page, self.tid, place, &mut bytes)?;
            for entry in entries(&bytes) {
                let offset = layout.log_page(page);
                let damaged = Error::Damaged { offset, what: "an entry of the log", found: self.tid };
                let entry = entry.ok_or(damaged)?;
                to(entry)?;
            }
        }
        Ok(())
    }
}

fn object_check(words: [u64; 3]) -> u64 {
    let mut bytes = [0; 24];
    bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    xxh3_64_with_seed(&bytes, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_split_at_both_borders() {
        assert_eq!(piece(4096, 4000, 1000, 4072), 96);
        assert_eq!(piece(4096, 0, 5000, 4072), 4056);
        assert_eq!(piece(4096, 0, 5000, 30), 8);
        assert_eq!(piece(4096, 0, 5000, 23), 0);
        assert_eq!(piece(4096, 10, 3, 4072), 3);
    }

    #[test]
    fn what_was_appended_is_there() {
        let mut page = Vec::new();
        append(&mut page, 3, 77, b"abc");
        append(&mut page, 4, 4096, &[9; 100]);
        let found: Vec<_> = entries(&page).collect();
        let first = Entry { file: 3, offset: 77, data: b"abc" };
        assert_eq!(found, [Some(first), Some(Entry { file: 4, offset: 4096, data: &[9; 100] })]);
        assert_eq!(entries(&page[..30]).last(), Some(None));
    }
}
