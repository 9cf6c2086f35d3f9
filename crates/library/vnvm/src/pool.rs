//! Free pages, and how many of them a process may have.
//!
//! The heads of the free lists are in ordinary memory that all processes share, for free pages have nothing
//! to recover. A page that is not
//! free says whose it is, in its object; so a list that a process was changing when it was killed is made
//! again from the objects.
//! Pages that were never used are not in a list: they begin at a number of their own.
//!
//! **Equal shares**: a process has at most 1/n of the log pages and of the cache pages, n being the number
//! of processes. When one more joins,
//! the others have too many: committed transactions are replayed anyway, and write-back hands cache pages
//! back.

use space::{Env, Space};

use crate::error::Result;
use crate::host::Host;
use crate::layout::{Layout, SLOTS};
use crate::words::{LogPage, State, Tag};

/// Words of the shared memory.
const LOG_HEAD: u64 = 0;
const LOG_FRESH: u64 = 8;
const CACHE_HEAD: u64 = 16;
const CACHE_FRESH: u64 = 24;
const NEXT_TID: u64 = 32;
pub(crate) const USERS: u64 = 40;
const STARVED: u64 = 48;
const LOG_USED: u64 = 64;
const CACHE_USED: u64 = LOG_USED + 8 * SLOTS as u64;
/// Per file record: pages of the log that its list has, and its last transaction plus 1.
const REGION: u64 = CACHE_USED + 8 * SLOTS as u64;

/// Bytes of memory that the processes share.
pub const SHARED_BYTES: u64 = REGION + 16 * crate::layout::FILES_MAX as u64;
/// Locks that the processes share.
pub const LOCKS: u32 = REGION_LOCK + 2 * crate::layout::FILES_MAX;
pub(crate) const POOL_LOCK: u32 = 0;
pub(crate) const REGISTRY_LOCK: u32 = 1;
const REGION_LOCK: u32 = 2;

/// The lock of a shared region's list and memory.
pub(crate) fn region_lock(file: u16) -> u32 {
    REGION_LOCK + 2 * u32::from(file)
}

/// The lock of whoever flushes a shared region.
pub(crate) fn flush_lock(file: u16) -> u32 {
    region_lock(file) + 1
}

/// The word that counts the log pages of a shared region.
pub(crate) fn region_pages(file: u16) -> u64 {
    REGION + 16 * u64::from(file)
}

/// The word with the last transaction of a shared region, plus 1.
pub(crate) fn region_tail(file: u16) -> u64 {
    region_pages(file) + 8
}

/// The pools as one process sees them.
pub(crate) struct Pools<'h, H: Host> {
    host: &'h H,
    layout: Layout,
}

impl<'h, H: Host> Pools<'h, H> {
    pub(crate) fn new(host: &'h H, layout: Layout) -> Self {
        Pools { host, layout }
    }

    fn space(&self) -> &<H::Env as Env>::Space {
        self.host.env().space()
    }

    fn users(&self) -> u32 {
        self.host.shared().load_u64(USERS).clamp(1, u64::from(SLOTS)) as u32
    }

    /// Log pages that a process may have.
    pub(crate) fn log_share(&self) -> u32 {
        (self.layout.sizes.log_pages / self.users()).max(1)
    }

    /// Cache pages that a process may have.
    pub(crate) fn cache_share(&self) -> u32 {
        (self.layout.sizes.cache_pages / self.users()).max(1)
    }

    /// Log pages that this process has.
    pub(crate) fn log_used(&self) -> u32 {
        self.host.shared().load_u64(used(LOG_USED, self.host.slot())) as u32
    }

    /// Cache pages that this process has.
    pub(crate) fn cache_used(&self) -> u32 {
        self.host.shared().load_u64(used(CACHE_USED, self.host.slot())) as u32
    }

    /// How often log pages were wanted and there were none.
    pub(crate) fn starved(&self) -> u64 {
        self.host.shared().load_u64(STARVED)
    }

    /// The next number of a transaction, from 1.
    pub(crate) fn next_tid(&self) -> u64 {
        self.add(NEXT_TID, 1)
    }

    fn add(&self, word: u64, count: u64) -> u64 {
        let shared = self.host.shared();
        let mut old = shared.load_u64(word);
        while let Err(found) = shared.cas_u64(word, old, old.wrapping_add(count)) {
            old = found;
        }
        old.wrapping_add(count)
    }

    /// Takes the pools' lock, and mends them if their last user died within.
    fn locked(&self) -> Result<H::Guard<'_>> {
        let (guard, died) = self.host.lock(POOL_LOCK);
        if died {
            self.rebuild()?;
        }
        Ok(guard)
    }

    /// Up to `count` log pages for this process.
    pub(crate) fn take_log(&self, count: u32) -> Result<Vec<u32>> {
        let _held = self.locked()?;
        let (space, shared, slot) = (self.space(), self.host.shared(), self.host.slot());
        let wanted = count as usize;
        let count = count.min(self.log_share().saturating_sub(self.log_used()));
        let mut taken = Vec::with_capacity(count as usize);
        while taken.len() < count as usize {
            let head = shared.load_u64(LOG_HEAD);
            let page = match head.checked_sub(1) {
                Some(page) => {
                    let page = page as u32;
                    let at = self.layout.log_word(page);
                    let next = LogPage::of(at, space.load_u64(at))?.next;
                    shared.store_u64(LOG_HEAD, next.map_or(0, |next| u64::from(next) + 1));
                    page
                }
                None => {
                    let fresh = shared.load_u64(LOG_FRESH);
                    if fresh >= u64::from(self.layout.sizes.log_pages) {
                        break;
                    }
                    shared.store_u64(LOG_FRESH, fresh + 1);
                    fresh as u32
                }
            };
            let mine = LogPage { owner: Some(slot as u8), shared: false, next: None };
            space.store_u64(self.layout.log_word(page), mine.word());
            taken.push(page);
        }
        self.add(used(LOG_USED, slot), taken.len() as u64);
        if taken.len() < wanted {
            self.add(STARVED, 1);
        }
        Ok(taken)
    }

    /// Makes the process of `slot` the owner of log pages that others have: who is about to give pages back
    /// that are in no list any more, and is killed then,
    /// leaves them as its own.
    pub(crate) fn own_log(&self, pages: &[u32], slot: u32) -> Result<()> {
        let _held = self.locked()?;
        let space = self.space();
        for &page in pages {
            let at = self.layout.log_word(page);
            let word = LogPage::of(at, space.load_u64(at))?;
            let Some(owner) = word.owner.filter(|owner| u32::from(*owner) != slot) else { continue };
            space.store_u64(at, LogPage { owner: Some(slot as u8), ..word }.word());
            self.add(used(LOG_USED, u32::from(owner)), u64::MAX);
            self.add(used(LOG_USED, slot), 1);
        }
        Ok(())
    }

    /// Gives log pages of the process of `slot` back; those that are another's stay.
    pub(crate) fn give_log(&self, pages: &[u32], slot: u32) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let _held = self.locked()?;
        let (space, shared) = (self.space(), self.host.shared());
        for &page in pages {
            let at = self.layout.log_word(page);
            if LogPage::of(at, space.load_u64(at))?.owner != Some(slot as u8) {
                continue;
            }
            let head = shared.load_u64(LOG_HEAD).checked_sub(1).map(|head| head as u32);
            space.store_u64(at, LogPage { next: head, ..LogPage::default() }.word());
            shared.store_u64(LOG_HEAD, u64::from(page) + 1);
            self.add(used(LOG_USED, slot), u64::MAX);
        }
        Ok(())
    }

    /// A cache page for this process; `None` if it has its share, or there is none. It is [`State::Held`].
    pub(crate) fn take_cache(&self) -> Result<Option<u32>> {
        let _held = self.locked()?;
        let (space, shared, slot) = (self.space(), self.host.shared(), self.host.slot());
        if self.cache_used() >= self.cache_share() {
            return Ok(None);
        }
        let page = match shared.load_u64(CACHE_HEAD).checked_sub(1) {
            Some(page) => {
                let at = self.layout.tag(page as u32);
                let next = Tag::of(at, space.load_u64(at))?.page;
                shared.store_u64(CACHE_HEAD, u64::from(next));
                page as u32
            }
            None => {
                let fresh = shared.load_u64(CACHE_FRESH);
                if fresh >= u64::from(self.layout.sizes.cache_pages) {
                    return Ok(None);
                }
                shared.store_u64(CACHE_FRESH, fresh + 1);
                fresh as u32
            }
        };
        let held = Tag { state: State::Held, slot: slot as u8, file: 0, page: 0 };
        space.store_u64(self.layout.tag(page), held.word());
        self.add(used(CACHE_USED, slot), 1);
        Ok(Some(page))
    }

    /// Gives cache pages back; none is dirty.
    pub(crate) fn give_cache(&self, pages: &[u32]) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let _held = self.locked()?;
        let (space, shared) = (self.space(), self.host.shared());
        for &page in pages {
            let at = self.layout.tag(page);
            let tag = Tag::of(at, space.load_u64(at))?;
            if tag.state == State::Free {
                continue;
            }
            let next = shared.load_u64(CACHE_HEAD) as u32;
            space.store_u64(at, Tag { page: next, ..Tag::FREE }.word());
            shared.store_u64(CACHE_HEAD, u64::from(page) + 1);
            self.add(used(CACHE_USED, u32::from(tag.slot)), u64::MAX);
        }
        Ok(())
    }

    /// Makes lists and counts from what the pages say of themselves. The lock is held, or nobody else is
    /// there.
    pub(crate) fn rebuild(&self) -> Result<()> {
        let (space, shared) = (self.space(), self.host.shared());
        for slot in 0..SLOTS {
            shared.store_u64(used(LOG_USED, slot), 0);
            shared.store_u64(used(CACHE_USED, slot), 0);
        }
        let mut head = None;
        for page in (0..self.layout.sizes.log_pages).rev() {
            let at = self.layout.log_word(page);
            match LogPage::of(at, space.load_u64(at))?.owner {
                Some(owner) => _ = self.add(used(LOG_USED, u32::from(owner)), 1),
                None => {
                    space.store_u64(at, LogPage { next: head, ..LogPage::default() }.word());
                    head = Some(page);
                }
            }
        }
        shared.store_u64(LOG_HEAD, head.map_or(0, |head| u64::from(head) + 1));
        shared.store_u64(LOG_FRESH, u64::from(self.layout.sizes.log_pages));
        let mut head = 0;
        for page in (0..self.layout.sizes.cache_pages).rev() {
            let at = self.layout.tag(page);
            let tag = Tag::of(at, space.load_u64(at))?;
            if tag.state == State::Free {
                space.store_u64(at, Tag { page: head, ..Tag::FREE }.word());
                head = page + 1;
            } else {
                self.add(used(CACHE_USED, u32::from(tag.slot)), 1);
            }
        }
        shared.store_u64(CACHE_HEAD, u64::from(head));
        shared.store_u64(CACHE_FRESH, u64::from(self.layout.sizes.cache_pages));
        Ok(())
    }
}

fn used(words: u64, slot: u32) -> u64 {
    words + 8 * u64::from(slot)
}
