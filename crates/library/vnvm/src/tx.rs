//! Open transactions: begin, write, commit, abort.
//!
//! A transaction's pages are filled in ordinary memory and stored to the log, non-temporally, one by one as
//! they become full, so that whole
//! lines go to NVM; nothing of it counts before it is linked. The copy in memory is what commit applies to
//! the DRAM mapping, so that commit never reads NVM.

use std::collections::VecDeque;

use space::{Env, Space};

use crate::error::{Error, Result};
use crate::files::head;
use crate::host::{Host, Mode, View};
use crate::list::lead;
use crate::log::{self, Object, entries, piece};
use crate::open::{Target, Tx};
use crate::options::Flaw;
use crate::pool::{region_lock, region_pages, region_tail};
use crate::process::{OPEN_LISTS, Process, Region};

impl<H: Host> Process<H> {
    fn list(&self, tid: u64) -> &crate::process::Mutex<H, VecDeque<Tx>> {
        &self.open[tid as usize % OPEN_LISTS]
    }

    /// Begins a transaction and returns its number.
    pub fn begin(&self) -> u64 {
        let tid = self.pools().next_tid();
        let tx = Tx {
            tid,
            began_ns: self.env().now_ns(),
            target: None,
            files: Vec::new(),
            pages: Vec::new(),
            spare: Vec::new(),
            full: Vec::new(),
            page: Vec::new(),
            whole: Vec::new(),
            aborted: false,
        };
        self.env().lock(self.list(tid)).push_back(tx);
        tid
    }

    /// Logs that `bytes` shall be at `offset` of a region. Returns how many of them were logged: fewer when
    /// the log is full. Then the transaction can be continued later,
    /// when redo has made room, or aborted.
    ///
    /// # Errors
    /// If the bytes are not inside the region, the transaction is not open, or writes elsewhere that
    /// excludes this.
    pub fn write(&self, tid: u64, region: &Region<H>, offset: u64, bytes: &[u8]) -> Result<usize> {
        if region.mode == Mode::Atomic {
            let what = "an atomic region is stored to directly and committed by sync";
            return Err(Error::Mode { path: region.path.clone(), what });
        }
        self.write_any(tid, region, offset, bytes)
    }

    pub(crate) fn write_any(&self, tid: u64, region: &Region<H>, offset: u64, bytes: &[u8]) -> Result<usize> {
        let len = bytes.len() as u64;
        if offset > region.len || len > region.len - offset {
            return Err(Error::Bounds { address: offset, len });
        }
        let _permit = self.host.permit();
        let mut list = self.env().lock(self.list(tid));
        let tx = list.iter_mut().find(|tx| tx.tid == tid).ok_or(Error::NotOpen { tid })?;
        if tx.aborted {
            list.retain(|tx| tx.tid != tid);
            return Err(Error::Aborted { tid, seconds: self.options.abort_after_ns / 1_000_000_000 });
        }
        let target = if region.mode == Mode::Shared { Target::Shared(region.file) } else { Target::Private };
        if tx.target.is_some_and(|is| is != target) {
            let first = tx.files.first().and_then(|file| self.region(*file));
            let path = first.map(|region| region.path.clone()).unwrap_or_default();
            return Err(Error::Mixed { tid, path });
        }
        tx.target = Some(target);
        if !tx.files.contains(&region.file) {
            tx.files.push(region.file);
        }
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let room = if tx.pages.is_empty() { 0 } else { self.layout.log_room() - tx.page.len() };
            let count = piece(self.layout.sizes.cache_page, at, bytes.len() - done, room);
            if count > 0 {
                log::append(&mut tx.page, region.file, at, &bytes[done..][..count]);
                done += count;
            } else if !self.turn_page(tx, bytes.len() - done)? {
                break;
            }
        }
        Ok(done)
    }

    /// Stores the page that is full and begins another one; whether there is one.
    fn turn_page(&self, tx: &mut Tx, left: usize) -> Result<bool> {
        if tx.spare.is_empty() {
            tx.spare = self.pools().take_log((left / self.layout.log_room()) as u32 + 1)?;
            tx.spare.reverse();
        }
        let Some(next) = tx.spare.pop() else { return Ok(false) };
        self.store_last(tx);
        tx.full.append(&mut tx.page);
        tx.pages.push(next);
        Ok(true)
    }

    fn store_last(&self, tx: &mut Tx) {
        if let Some(&last) = tx.pages.last() {
            let place = tx.pages.len() as u32 - 1;
            log::store_page(self.space(), &self.layout, last, tx.tid, place, &tx.page, &mut tx.whole);
        }
    }

    /// Takes a transaction out of its list.
    fn take(&self, tid: u64) -> Result<Tx> {
        let mut list = self.env().lock(self.list(tid));
        let at = list.iter().position(|tx| tx.tid == tid).ok_or(Error::NotOpen { tid })?;
        let tx = list.remove(at).ok_or(Error::NotOpen { tid })?;
        if tx.aborted {
            return Err(Error::Aborted { tid, seconds: self.options.abort_after_ns / 1_000_000_000 });
        }
        Ok(tx)
    }

    /// Commits: all of the transaction's writes are durable, and visible in memory, when this returns.
    ///
    /// # Errors
    /// If it is not open, or the library has ended it.
    pub fn commit(&self, tid: u64) -> Result<()> {
        let mut tx = self.take(tid)?;
        let _permit = self.host.permit();
        if !tx.pages.is_empty() {
            self.store_last(&mut tx);
            let region = match tx.target {
                Some(Target::Shared(file)) => Some(file),
                _ => None,
            };
            let object = Object { pages: std::mem::take(&mut tx.pages), tid, region };
            match region {
                Some(file) => self.commit_shared(&tx, &object, file)?,
                None => self.commit_private(&tx, &object),
            }
        }
        self.pools().give_log(&tx.spare, self.host.slot())?;
        self.count(|counts| &counts.commits, 1);
        Ok(())
    }

    fn commit_private(&self, tx: &Tx, object: &Object) {
        let space = self.space();
        let first = object.pages[0];
        if !self.options.durable_first {
            self.apply(tx);
        }
        let early = self.options.flaw == Some(Flaw::LinkBeforeContent);
        object.store(space, &self.layout, self.host.slot() as u8);
        if !early {
            space.fence();
        }
        {
            let mut ends = self.env().lock(&self.ends);
            let slot = self.layout.slot_head(self.host.slot());
            let from = ends.last.map_or(slot, |last| self.layout.object(last));
            if early {
                // Flushed above, but the fence comes after the link.
                space.store_u64(from, crate::words::link(Some(first)));
                space.flush(from, 8);
                space.fence();
            } else {
                lead(space, from, Some(first));
            }
            ends.last = Some(first);
            ends.linked += 1;
            ends.first.get_or_insert(first);
        }
        if self.options.durable_first {
            self.apply(tx);
        }
    }

    /// A shared region's commits go one after the other, durable before visible: whoever finds that one died
    /// within can replay the list.
    fn commit_shared(&self, tx: &Tx, object: &Object, file: u16) -> Result<()> {
        let space = self.space();
        let first = object.pages[0];
        object.store(space, &self.layout, self.host.slot() as u8);
        space.fence();
        let (_held, died) = self.host.lock(region_lock(file));
        if died {
            self.mend_region(file)?;
        }
        let shared = self.host.shared();
        let last = shared.load_u64(region_tail(file)).checked_sub(1);
        let from = last.map_or(head(&self.layout, file), |last| self.layout.object(last as u32));
        lead(space, from, Some(first));
        shared.store_u64(region_tail(file), u64::from(first) + 1);
        let pages = shared.load_u64(region_pages(file)) + object.pages.len() as u64;
        shared.store_u64(region_pages(file), pages);
        self.apply(tx);
        Ok(())
    }

    /// Copies a transaction's writes to the DRAM mappings, in their order.
    fn apply(&self, tx: &Tx) {
        let regions = self.env().read(&self.regions);
        for bytes in [&tx.full, &tx.page] {
            for entry in entries(bytes).flatten() {
                if let Some(region) = regions.get(&entry.file).filter(|region| region.mode != Mode::Atomic) {
                    region.view.apply(entry.offset, entry.data);
                }
            }
        }
    }

    /// Ends a transaction without effect.
    ///
    /// # Errors
    /// If it is not open.
    pub fn abort(&self, tid: u64) -> Result<()> {
        match self.take(tid) {
            Ok(mut tx) => {
                let _permit = self.host.permit();
                let pages = tx.all_pages();
                self.pools().give_log(&pages, self.host.slot())
            }
            Err(Error::Aborted { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Aborts transactions that have been open for longer than [`crate::Options::abort_after_ns`]: the first
    /// of each list, as they are the oldest. How many.
    ///
    /// # Errors
    /// If a page's object is damaged.
    pub fn abort_old(&self) -> Result<u64> {
        let now = self.env().now_ns();
        let _permit = self.host.permit();
        let mut ended = 0;
        for list in &self.open {
            let mut list = self.env().lock(list);
            let old =
                |tx: &&mut Tx| !tx.aborted && now.saturating_sub(tx.began_ns) > self.options.abort_after_ns;
            if let Some(tx) = list.iter_mut().find(|tx| !tx.aborted).filter(old) {
                tx.aborted = true;
                let pages = tx.all_pages();
                (tx.full, tx.page) = (Vec::new(), Vec::new());
                self.pools().give_log(&pages, self.host.slot())?;
                ended += 1;
            }
        }
        self.count(|counts| &counts.aborted, ended);
        Ok(ended)
    }
}
