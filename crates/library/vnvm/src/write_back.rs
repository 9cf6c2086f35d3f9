//! The write-back worker's step: dirty cache pages, used longest ago first, into their files.
//!
//! It begins above 30 % of the share and ends below 10 %. A page is clean only when its file has been
//! *synced*: a write alone reaches the system's memory,
//! and a page that is clean is not recovered. Pages are copied under the cache's lock and written without
//! it, so that redo goes on meanwhile; a page that redo
//! changed while it was written stays dirty.

use std::collections::BTreeMap;
use std::sync::Arc;

use space::{Env, Space};

use crate::error::Result;
use crate::files::Record;
use crate::host::{Backing, Host};
use crate::options::Flaw;
use crate::process::{Process, Region};
use crate::words::State;

/// Pages that a step writes.
const BATCH: usize = 64;

/// A page that is to be written.
struct Copy {
    index: u32,
    page: u32,
    bytes: Vec<u8>,
}

/// Pages that are to be written, by file; of a file whose region is gone none are.
type Chosen<H> = BTreeMap<u16, (Option<Arc<Region<H>>>, Vec<Copy>)>;

impl<H: Host> Process<H> {
    /// Writes some dirty pages if there are enough, or `all` are wanted; how many. Hands clean pages back
    /// that are more than the share.
    ///
    /// # Errors
    /// If a file can't be written; its pages stay dirty.
    pub fn write_back_step(&self, all: bool) -> Result<usize> {
        let _one = self.env().lock(&self.writing);
        let _permit = self.host.permit();
        let pages = self.choose(all);
        let count = pages.values().map(|(_, copies)| copies.len()).sum();
        let mut error = None;
        for (file, (region, mut copies)) in pages {
            let written = self.write_file(region.as_deref(), &mut copies);
            let clean = written.is_ok() && region.is_some();
            self.end(file, &copies, clean);
            error = error.or(written.err());
        }
        self.trim()?;
        error.map_or(Ok(count), Err)
    }

    /// Chooses and copies pages, by file.
    fn choose(&self, all: bool) -> Chosen<H> {
        let share = u64::from(self.pools().cache_share());
        let mut cache = self.env().lock(&self.cache);
        let dirty = u64::from(cache.dirty());
        let at = |percent: u32| share * u64::from(percent);
        if dirty * 100 > at(self.options.start_percent) {
            cache.active = true;
        } else if dirty * 100 < at(self.options.stop_percent) {
            cache.active = false;
        }
        // So many that fewer than the lower threshold are left.
        let low = at(self.options.stop_percent).div_ceil(100).max(1) - 1;
        let over = u64::from(self.pools().cache_used()) > share;
        let most = match (all, cache.active) {
            (true, _) => BATCH,
            (false, true) => (dirty.saturating_sub(low) as usize).min(BATCH),
            (false, false) if over && cache.clean() == 0 => BATCH,
            (false, false) => 0,
        };
        let mut pages = BTreeMap::new();
        for (index, file, page) in cache.begin_writing(most) {
            let mut bytes = vec![0; self.layout.sizes.cache_page as usize];
            self.space().load(self.layout.cache_page(index), &mut bytes);
            let of_file: &mut (_, Vec<Copy>) =
                pages.entry(file).or_insert_with(|| (self.region(file), Vec::new()));
            of_file.1.push(Copy { index, page, bytes });
        }
        pages
    }

    /// Writes the pages of one file, neighbours together, and syncs it.
    fn write_file(&self, region: Option<&Region<H>>, copies: &mut [Copy]) -> Result<()> {
        let Some(region) = region else { return Ok(()) };
        copies.sort_by_key(|copy| copy.page);
        let page_bytes = self.layout.sizes.cache_page;
        for run in copies.chunk_by(|before, after| before.page + 1 == after.page) {
            let offset = u64::from(run[0].page) * page_bytes;
            let mut bytes = Vec::with_capacity(run.len() * page_bytes as usize);
            run.iter().for_each(|copy| bytes.extend_from_slice(&copy.bytes));
            // The file may end within the last page.
            let within = region.len.saturating_sub(offset).min(bytes.len() as u64);
            bytes.truncate(within as usize);
            let failed = |source| Record::failed(&region.path, "write", source);
            region.backing.write(offset, &bytes).map_err(failed)?;
            self.count(|counts| &counts.written, run.len() as u64);
        }
        if self.options.flaw == Some(Flaw::CleanBeforeSync) {
            return Ok(());
        }
        region.backing.sync().map_err(|source| Record::failed(&region.path, "sync", source))
    }

    /// Pages that were written, and not changed since, are clean, durably.
    fn end(&self, file: u16, copies: &[Copy], written: bool) {
        let mut cache = self.env().lock(&self.cache);
        let mut clean = Vec::new();
        for copy in copies {
            if cache.end_writing(copy.index, written) {
                self.set_tag(copy.index, State::Clean, file, copy.page);
                clean.push(copy.index);
            }
        }
        self.space().fence();
        clean.into_iter().for_each(|index| cache.cleaned(index));
    }

    /// Gives clean pages back while this process has more than its share.
    fn trim(&self) -> Result<()> {
        let pools = self.pools();
        let over = pools.cache_used().saturating_sub(pools.cache_share());
        if over == 0 {
            return Ok(());
        }
        let mut given = Vec::new();
        let mut cache = self.env().lock(&self.cache);
        while given.len() < over as usize
            && let Some(index) = cache.take_clean()
        {
            given.push(index);
        }
        drop(cache);
        pools.give_cache(&given)
    }
}
