//! Shared regions: a flush brings what was committed from the shared mapping to the file, and cuts the log.
//!
//! The source keeps a dirty bitmap from commit to commit. Here a flush makes the bitmap from the log itself:
//! the transactions from the list's head to
//! the one that was last when the flush began. So no commit has to keep a bitmap up to date that other
//! processes see, and none that a killed process left half done is missed.

use std::sync::Arc;

use space::{Env, Space};

use crate::error::{Error, Result};
use crate::files::{Record, head};
use crate::host::{Backing, Host, Mode, View};
use crate::list::{lead, walk};
use crate::log::Object;
use crate::pool::{flush_lock, region_lock, region_pages, region_tail};
use crate::process::{Process, Region};
use crate::words::linked;

/// A bit for each page of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bitmap(Vec<u64>);

impl Bitmap {
    pub(crate) fn new(pages: u64) -> Bitmap {
        Bitmap(vec![0; pages.div_ceil(64) as usize])
    }

    pub(crate) fn set(&mut self, page: u64) {
        self.0[page as usize / 64] |= 1 << (page % 64);
    }

    fn get(&self, page: u64) -> bool {
        self.0.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Runs of set bits: first, and the one behind the last.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let end = self.0.len() as u64 * 64;
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = (at..end).find(|page| self.get(*page))?;
            let behind = (first..end).find(|page| !self.get(*page)).unwrap_or(end);
            at = behind;
            Some((first, behind))
        })
    }
}

/// Bytes of the pages that `msync` takes.
const SYNC_PAGE: u64 = 4096;

impl<H: Host> Process<H> {
    /// Whether the log of a shared region is long enough to be flushed: half of a process's share of pages.
    /// The source has no number.
    pub fn wants_flush(&self, region: &Region<H>) -> bool {
        let pages = self.host.shared().load_u64(region_pages(region.file));
        region.mode == Mode::Shared && pages * 2 > u64::from(self.pools().log_share())
    }

    /// The shared regions of this process whose log is long; when this process's share of the log is nearly used
    /// up, all that have any.
    pub fn wanting(&self) -> Vec<Arc<Region<H>>> {
        let pools = self.pools();
        let short = pools.log_used() * 10 >= pools.log_share() * 9;
        let has_any = |file| self.host.shared().load_u64(region_pages(file)) > 0;
        let wants = |region: &&Arc<Region<H>>| {
            self.wants_flush(region) || short && region.mode == Mode::Shared && has_any(region.file)
        };
        self.env().read(&self.regions).values().filter(wants).cloned().collect()
    }

    /// Brings what is committed to a shared region to its file, durably, and cuts the log; how many of its
    /// pages are free again. Commits go on meanwhile.
    ///
    /// # Errors
    /// If the file can't be synced; the log is then as before. If the region is not shared.
    pub fn flush_region(&self, region: &Arc<Region<H>>) -> Result<u64> {
        if region.mode != Mode::Shared {
            let what = "only a shared region is flushed; what is private goes through the cache";
            return Err(Error::Mode { path: region.path.clone(), what });
        }
        // One flush of a region at a time, in whatever process.
        let (_flushing, _) = self.host.lock(flush_lock(region.file));
        let _permit = self.host.permit();
        let objects = {
            let (_held, died) = self.host.lock(region_lock(region.file));
            if died {
                self.mend_region(region.file)?;
            }
            walk(self.space(), &self.layout, head(&self.layout, region.file), None, usize::MAX)?
        };
        let Some(marked) = objects.last() else { return Ok(0) };
        let bitmap = self.bitmap(region, &objects)?;
        for (first, behind) in bitmap.runs() {
            let end = (behind * SYNC_PAGE).min(region.len);
            let failed = |source| Record::failed(&region.path, "sync", source);
            region.view.sync(first * SYNC_PAGE..end).map_err(failed)?;
            self.count(|counts| &counts.synced, behind - first);
        }
        let pages: Vec<u32> = objects.iter().flat_map(|object| object.pages.iter().copied()).collect();
        self.pools().own_log(&pages, self.host.slot())?;
        self.cut(region.file, marked.pages[0], pages.len() as u64)?;
        self.pools().give_log(&pages, self.host.slot())?;
        self.count(|counts| &counts.flushes, 1);
        Ok(pages.len() as u64)
    }

    /// Flushes all shared regions of this process; how many log pages that freed.
    ///
    /// # Errors
    /// As [`Process::flush_region`].
    pub fn flush_all(&self) -> Result<u64> {
        let regions: Vec<_> = self.env().read(&self.regions).values().cloned().collect();
        let mut freed = 0;
        for region in regions.iter().filter(|region| region.mode == Mode::Shared) {
            freed += self.flush_region(region)?;
        }
        Ok(freed)
    }

    fn bitmap(&self, region: &Region<H>, objects: &[Object]) -> Result<Bitmap> {
        let mut bitmap = Bitmap::new(region.len.div_ceil(SYNC_PAGE));
        for object in objects {
            object.replay(self.space(), &self.layout, |entry| {
                let end = entry.offset.checked_add(entry.data.len() as u64).filter(|end| *end <= region.len);
                let offset = self.layout.record(region.file);
                let outside = Error::Damaged { offset, what: "a write's place", found: entry.offset };
                let end = end.ok_or(outside)?;
                (entry.offset / SYNC_PAGE..end.div_ceil(SYNC_PAGE)).for_each(|page| bitmap.set(page));
                Ok(())
            })?;
        }
        Ok(bitmap)
    }

    /// The region's list begins behind `marked`.
    fn cut(&self, file: u16, marked: u32, pages: u64) -> Result<()> {
        let (_held, died) = self.host.lock(region_lock(file));
        if died {
            self.mend_region(file)?;
        }
        let at = self.layout.object(marked);
        let next = linked(at, self.space().load_u64(at))?;
        lead(self.space(), head(&self.layout, file), next);
        let shared = self.host.shared();
        if next.is_none() {
            shared.store_u64(region_tail(file), 0);
        }
        let left = shared.load_u64(region_pages(file)).saturating_sub(pages);
        shared.store_u64(region_pages(file), left);
        Ok(())
    }

    /// The last one who had the region's lock died with it: it may have linked a transaction and not, or in
    /// part, applied it to the mapping.
    /// Everything in the list is applied once more, through the file, which is the same memory. The lock is
    /// held.
    pub(crate) fn mend_region(&self, file: u16) -> Result<()> {
        let Some(record) = Record::load(self.space(), &self.layout, file)? else { return Ok(()) };
        let objects = walk(self.space(), &self.layout, head(&self.layout, file), None, usize::MAX)?;
        let path = &record.path;
        let failed = |action| move |source| Record::failed(path, action, source);
        let backing = self.host.open(path, None).map_err(failed("open"))?;
        let mut pages = 0;
        for object in &objects {
            object.replay(self.space(), &self.layout, |entry| {
                backing.write(entry.offset, entry.data).map_err(failed("write"))
            })?;
            pages += object.pages.len() as u64;
        }
        let last = objects.last().map_or(0, |object| u64::from(object.pages[0]) + 1);
        self.host.shared().store_u64(region_tail(file), last);
        self.host.shared().store_u64(region_pages(file), pages);
        Ok(())
    }

    /// Commits whatever changed in an atomic region since the last sync, in one step, and returns how many
    /// pages that were.
    /// Durable when this returns; a crash before leaves all as at the last sync.
    ///
    /// # Errors
    /// If the region is not atomic, or its changes are more than the log takes at once: then nothing of them
    /// is committed.
    pub fn sync(&self, region: &Arc<Region<H>>) -> Result<u64> {
        if region.mode != Mode::Atomic {
            let what = "only an atomic region is committed by sync; write to this one in transactions";
            return Err(Error::Mode { path: region.path.clone(), what });
        }
        let mut hashes = region.hashes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = || (0..region.len.div_ceil(SYNC_PAGE)).collect();
        let pages: Vec<u64> = region.view.changed().unwrap_or_else(all);
        let tid = self.begin();
        let mut new = Vec::new();
        let mut bytes = vec![0; SYNC_PAGE as usize];
        for page in pages {
            let offset = page * SYNC_PAGE;
            let count = region.len.saturating_sub(offset).min(SYNC_PAGE) as usize;
            region.view.read(offset, &mut bytes[..count]);
            let hash = xxhash_rust::xxh3::xxh3_64(&bytes[..count]);
            if hashes.get(&page) == Some(&hash) {
                continue;
            }
            if self.write_any(tid, region, offset, &bytes[..count])? < count {
                self.abort(tid)?;
                let share = u64::from(self.pools().log_share()) * self.layout.sizes.log_page;
                return Err(Error::LogFull { needed: (new.len() as u64 + 1) * SYNC_PAGE, share });
            }
            new.push((page, hash));
        }
        let count = new.len() as u64;
        self.commit(tid)?;
        hashes.extend(new);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_bits() {
        let mut bitmap = Bitmap::new(130);
        assert_eq!(bitmap.runs().next(), None);
        [0, 1, 2, 63, 64, 129].into_iter().for_each(|page| bitmap.set(page));
        assert_eq!(bitmap.runs().collect::<Vec<_>>(), [(0, 3), (63, 65), (129, 130)]);
    }
}
