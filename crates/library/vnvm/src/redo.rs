//! The redo worker's step: committed transactions, the first one first, into cache pages; then their log
//! pages are free.

use std::collections::BTreeMap;
use std::sync::Arc;

use space::{Env, Space};

use crate::error::{Error, Result};
use crate::files::Record;
use crate::host::{Backing, Host};
use crate::list::{lead, walk};
use crate::log::{Entry, Object};
use crate::options::Flaw;
use crate::process::{Process, Region};
use crate::words::{State, Tag, linked};

/// Transactions that a step replays.
const BATCH: usize = 16;

/// Files that redo wrote to itself and that are to be synced before the log is cut.
type Through<H> = BTreeMap<u16, Arc<Region<H>>>;

impl<H: Host> Process<H> {
    /// Replays some committed transactions of private regions; whether there were any. Only such are taken
    /// as are linked durably: what redo makes
    /// of a transaction may survive a crash that its link does not.
    ///
    /// # Errors
    /// If a file can't be read or written, or the log is damaged. The transactions stay in the log.
    pub fn redo_step(&self) -> Result<bool> {
        let _one = self.env().lock(&self.redoing);
        let ends = *self.env().lock(&self.ends);
        if ends.first.is_none() {
            return Ok(false);
        }
        let _permit = self.host.permit();
        let (space, layout) = (self.space(), &self.layout);
        let slot = layout.slot_head(self.host.slot());
        let objects = walk(space, layout, slot, ends.last, BATCH)?;
        let Some(last) = objects.last() else {
            return Err(Error::Damaged {
                offset: slot,
                what: "the list's head",
                found: space.load_u64(slot),
            });
        };
        let through = self.replay(&objects)?;
        let early = self.options.flaw == Some(Flaw::DeleteBeforeRedo);
        if !early {
            self.make_durable(&through)?;
        }
        let pages: Vec<u32> = objects.iter().flat_map(|object| object.pages.iter().copied()).collect();
        if self.options.flaw == Some(Flaw::FreeBeforeDelete) {
            self.pools().give_log(&pages, self.host.slot())?;
        }
        self.delete_to(slot, last.pages[0], objects.len() as u64)?;
        if early {
            self.make_durable(&through)?;
        }
        self.pools().give_log(&pages, self.host.slot())?;
        self.count(|counts| &counts.replayed, objects.len() as u64);
        Ok(true)
    }

    /// What redo did is durable.
    fn make_durable(&self, through: &Through<H>) -> Result<()> {
        if self.options.flaw == Some(Flaw::DeleteBeforeRedo) {
            // The twin leaves it to chance.
            return Ok(());
        }
        self.space().fence();
        for region in through.values() {
            region.backing.sync().map_err(|source| Record::failed(&region.path, "sync", source))?;
        }
        Ok(())
    }

    /// The list begins behind the transaction `last` from here on.
    fn delete_to(&self, slot: u64, last: u32, count: u64) -> Result<()> {
        let mut ends = self.env().lock(&self.ends);
        let at = self.layout.object(last);
        let next = linked(at, self.space().load_u64(at))?;
        lead(self.space(), slot, next);
        ends.first = next;
        ends.cut += count;
        if next.is_none() {
            ends.last = None;
        }
        Ok(())
    }

    fn replay(&self, objects: &[Object]) -> Result<Through<H>> {
        let mut through = Through::new();
        let mut buffer = vec![0; self.layout.sizes.cache_page as usize];
        for object in objects {
            object.replay(self.space(), &self.layout, |entry| {
                self.redo_entry(entry, &mut buffer, &mut through)
            })?;
        }
        Ok(through)
    }

    /// Applies one entry to its cache page.
    fn redo_entry(&self, entry: Entry<'_>, buffer: &mut [u8], through: &mut Through<H>) -> Result<()> {
        let page_bytes = self.layout.sizes.cache_page;
        let Some(region) = self.region(entry.file) else {
            let (what, found) = ("an entry's file", u64::from(entry.file));
            return Err(Error::Damaged { offset: self.layout.record(entry.file), what, found });
        };
        let (page, within) = ((entry.offset / page_bytes) as u32, entry.offset % page_bytes);
        loop {
            let mut cache = self.env().lock(&self.cache);
            if let Some((index, dirty)) = cache.find(entry.file, page) {
                store_part(self.space(), self.layout.cache_page(index) + within, entry.data);
                if !dirty {
                    // Content and state may become durable in any order: until both are, the log has the
                    // entry.
                    self.set_tag(index, State::Dirty, entry.file, page);
                }
                cache.touch(index);
                self.count(|counts| &counts.hits, 1);
                return Ok(());
            }
            let room = self.pools().take_cache()?.or_else(|| cache.take_clean());
            if let Some(index) = room {
                if let Err(error) = self.fill(index, &region, page, within, entry.data, buffer) {
                    self.pools().give_cache(&[index])?;
                    return Err(error);
                }
                cache.insert(index, entry.file, page);
                return Ok(());
            }
            drop(cache);
            if self.options.bypass {
                let failed = |source| Record::failed(&region.path, "write", source);
                region.backing.write(entry.offset, entry.data).map_err(failed)?;
                self.count(|counts| &counts.through, 1);
                through.insert(entry.file, region);
                return Ok(());
            }
            self.write_back_step(true)?;
        }
    }

    /// Fills a cache page from the file, with an entry applied; then its object says what it holds.
    fn fill(
        &self,
        index: u32,
        region: &Region<H>,
        page: u32,
        within: u64,
        data: &[u8],
        buffer: &mut [u8],
    ) -> Result<()> {
        let space = self.space();
        let offset = u64::from(page) * self.layout.sizes.cache_page;
        region.backing.read(offset, buffer).map_err(|source| Record::failed(&region.path, "read", source))?;
        buffer[within as usize..][..data.len()].copy_from_slice(data);
        let early = self.options.flaw == Some(Flaw::TagBeforeContent);
        if early {
            self.set_tag(index, State::Dirty, region.file, page);
            space.fence();
        }
        space.store_nt(self.layout.cache_page(index), buffer);
        space.fence();
        self.set_tag(index, State::Dirty, region.file, page);
        self.count(|counts| &counts.filled, 1);
        Ok(())
    }

    /// Changes a cache page's object by one store, and flushes it. Durable with the next fence.
    pub(crate) fn set_tag(&self, index: u32, state: State, file: u16, page: u32) {
        let at = self.layout.tag(index);
        let tag = Tag { state, slot: self.host.slot() as u8, file, page };
        self.space().store_u64(at, tag.word());
        self.space().flush(at, 8);
    }
}

/// Stores bytes at any offset: whole words non-temporally, what is left at the ends through the cache, with
/// a flush.
fn store_part<S: Space>(space: &S, offset: u64, data: &[u8]) {
    let head = (offset.wrapping_neg() & 7).min(data.len() as u64) as usize;
    let middle = (data.len() - head) & !7;
    let (first, rest) = data.split_at(head);
    let (words, last) = rest.split_at(middle);
    if !first.is_empty() {
        space.store(offset, first);
        space.flush(offset, first.len() as u64);
    }
    if !words.is_empty() {
        space.store_nt(offset + head as u64, words);
    }
    if !last.is_empty() {
        let at = offset + (head + middle) as u64;
        space.store(at, last);
        space.flush(at, last.len() as u64);
    }
}
