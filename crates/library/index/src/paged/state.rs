//! What is known of a file, and what an entry of its log changes.

use std::collections::BTreeMap;

use super::entry::Entry;

/// What a file takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Pages of its log.
    pub log_pages: usize,
    /// Pages of data.
    pub data_pages: usize,
    /// Embedded writes that reads lay over pages.
    pub pending: usize,
}

/// Bytes of a page that a log entry holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub at: u64,
    pub count: u64,
    /// Where the bytes stand.
    pub bytes: u64,
}

/// A page of a file.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Its data page, 0 for zeros, and the entry that says so.
    pub data: u64,
    pub entry: u64,
    /// What replaces bytes of it, the oldest first.
    pub pending: Vec<Pending>,
}

/// What is known of a file.
#[derive(Debug, Default)]
pub(super) struct State {
    pub pages: BTreeMap<u64, Page>,
    /// The log's pages in their order, and how many bytes of each are live.
    pub log: Vec<u64>,
    pub live: BTreeMap<u64, u64>,
    /// How much of the last log page is in use.
    pub used: u64,
    /// Which of the two logs counts.
    pub slot: u64,
    pub len: u64,
}

/// Where the next entry of a log goes.
pub(super) struct Tail {
    pub page: u64,
    pub used: u64,
    /// Log pages that were added.
    pub added: Vec<u64>,
}

impl State {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            log_pages: self.log.len(),
            data_pages: self.pages.values().filter(|page| page.data != 0).count(),
            pending: self.pages.values().map(|page| page.pending.len()).sum(),
        }
    }

    pub(super) fn tail(&self) -> Tail {
        Tail { page: self.log.last().copied().unwrap_or(0), used: self.used, added: Vec::new() }
    }

    /// What an entry at `at` changes; the data page that nobody needs any more, if there is one.
    pub(super) fn apply(&mut self, entry: Entry, at: u64, page_bytes: u64) -> Option<u64> {
        let log_page = |at: u64| at / page_bytes * page_bytes;
        let live = &mut self.live;
        *live.entry(log_page(at)).or_default() += entry.bytes();
        let mut dead = |at: u64, bytes: u64| {
            if let Some(live) = live.get_mut(&log_page(at)) {
                *live = live.saturating_sub(bytes);
            }
        };
        match entry {
            Entry::Data { page, len, data } => {
                self.len = self.len.max(len);
                let page = self.pages.entry(page).or_default();
                if page.entry != 0 {
                    dead(page.entry, entry.bytes());
                }
                for pending in page.pending.drain(..) {
                    dead(pending.bytes, Entry::embedded(pending.count));
                }
                let before = std::mem::replace(&mut page.data, data);
                page.entry = at;
                (before != 0).then_some(before)
            }
            Entry::Embedded { page, len, at: within, count, bytes } => {
                self.len = self.len.max(len);
                let pending = &mut self.pages.entry(page).or_default().pending;
                pending.retain(|old| {
                    let covered = within <= old.at && old.at + old.count <= within + count;
                    if covered {
                        dead(old.bytes, Entry::embedded(old.count));
                    }
                    !covered
                });
                pending.push(Pending { at: within, count, bytes });
                None
            }
            Entry::GoesOn => None,
        }
    }
}
