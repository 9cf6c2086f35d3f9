//! After a crash: of the system, or of one process.
//!
//! Recovery writes every dirty cache page to its file, *then* replays the committed lists from head to tail,
//! since the log is newer than the cache, syncs the
//! files, and erases the NVM by one word. Until that word is durable it can be repeated, and comes to the
//! same.
//!
//! Adoption is the same for the part of one dead process, while others go on: its private files are its own,
//! so nobody else is
//! in the way. In the end its cache pages are clean first and then its list is empty: the other way round, a
//! crash in between would let recovery put old pages over new data.

use std::collections::{BTreeMap, BTreeSet};

use space::{Env, Space};

use crate::error::{Error, Result};
use crate::files::{Record, head};
use crate::host::{Backing, Host, Mode};
use crate::layout::{Layout, SLOTS};
use crate::list::{lead, walk};
use crate::log::Object;
use crate::options::Flaw;
use crate::pool::{Pools, REGISTRY_LOCK, flush_lock, region_lock, region_pages, region_tail};
use crate::process::Process;
use crate::words::{LogPage, State, Tag};

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Dirty cache pages that it wrote.
    pub pages: u64,
    /// Committed transactions that it replayed.
    pub transactions: u64,
    /// Files that it wrote to.
    pub files: u64,
    /// Whether there was an NVM to recover at all.
    pub found: bool,
}

/// Files that are written to and then synced.
struct Writer<'h, H: Host> {
    host: &'h H,
    layout: Layout,
    records: BTreeMap<u16, Record>,
    open: BTreeMap<u16, H::File>,
    done: Recovered,
}

impl<'h, H: Host> Writer<'h, H> {
    fn new(host: &'h H, layout: Layout) -> Result<Self> {
        let records = Record::all(host.env().space(), &layout)?.into_iter().collect();
        Ok(Writer { host, layout, records, open: BTreeMap::new(), done: Recovered::default() })
    }

    fn write(&mut self, file: u16, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = self.layout.record(file.min(self.layout.sizes.files as u16 - 1));
        let damaged = |what| Error::Damaged { offset: at, what, found: u64::from(file) };
        let record = self.records.get(&file).ok_or_else(|| damaged("a file record that data are for"))?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > record.len) {
            return Err(damaged("the length of a file that data are for"));
        }
        if !self.open.contains_key(&file) {
            let opened = self.host.open(&record.path, None);
            self.open.insert(file, opened.map_err(|source| Record::failed(&record.path, "open", source))?);
        }
        match self.open.get(&file) {
            Some(backing) => {
                let written = backing.write(offset, bytes);
                written.map_err(|source| Record::failed(&record.path, "write", source))
            }
            None => Ok(()),
        }
    }

    /// Dirty pages, of one process or all.
    fn cache_pages(&mut self, slot: Option<u32>) -> Result<Vec<(u32, Tag)>> {
        let pages = dirty_pages(self.host.env().space(), &self.layout, slot)?;
        let mut bytes = vec![0; self.layout.sizes.cache_page as usize];
        for (index, tag) in &pages {
            self.host.env().space().load(self.layout.cache_page(*index), &mut bytes);
            let offset = u64::from(tag.page) * self.layout.sizes.cache_page;
            // The file may end within its last page.
            let len = self.records.get(&tag.file).map_or(u64::MAX, |record| record.len);
            let within = len.saturating_sub(offset).min(bytes.len() as u64) as usize;
            self.write(tag.file, offset, &bytes[..within.max(1)])?;
        }
        self.done.pages += pages.len() as u64;
        Ok(pages)
    }

    fn objects(&mut self, objects: &[Object]) -> Result<()> {
        let (space, layout) = (self.host.env().space(), self.layout);
        for object in objects {
            object.replay(space, &layout, |entry| self.write(entry.file, entry.offset, entry.data))?;
        }
        self.done.transactions += objects.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        for (file, backing) in &self.open {
            let path = self.records.get(file).map(|record| record.path.clone()).unwrap_or_default();
            backing.sync().map_err(|source| Record::failed(&path, "sync", source))?;
        }
        self.done.files += self.open.len() as u64;
        Ok(())
    }
}

/// The dirty pages of the cache, of one process or of all.
///
/// # Errors
/// If an object is damaged, or two say that they hold the same page.
pub(crate) fn dirty_pages<S: Space>(
    space: &S,
    layout: &Layout,
    slot: Option<u32>,
) -> Result<Vec<(u32, Tag)>> {
    let mut pages = Vec::new();
    let mut seen = BTreeSet::new();
    for index in 0..layout.sizes.cache_pages {
        let at = layout.tag(index);
        let word = space.load_u64(at);
        let tag = Tag::of(at, word)?;
        if tag.state != State::Dirty || slot.is_some_and(|slot| u32::from(tag.slot) != slot) {
            continue;
        }
        if !seen.insert((tag.file, tag.page)) {
            let what = "a cache page's object, whose page another one has as well,";
            return Err(Error::Damaged { offset: at, what, found: word });
        }
        pages.push((index, tag));
    }
    Ok(pages)
}

/// Every committed list, with its slot or its file.
pub(crate) fn heads(layout: &Layout, records: impl Iterator<Item = (u16, Mode)>) -> Vec<u64> {
    let slots = (0..SLOTS).map(|slot| layout.slot_head(slot));
    let shared = records.filter(|(_, mode)| *mode == Mode::Shared).map(|(file, _)| head(layout, file));
    slots.chain(shared).collect()
}

/// Recovers an NVM that nobody uses, and erases it. Nothing is written before all of it has been read and
/// found whole.
///
/// # Errors
/// If it is damaged, or a file can't be written. Then it is not erased, and recovery can be repeated.
pub fn recover<H: Host>(host: &H, flaw: Option<Flaw>) -> Result<Recovered> {
    let space = host.env().space();
    let Some(layout) = Layout::read(space)? else { return Ok(Recovered::default()) };
    let _permit = host.permit();
    let mut writer = Writer::new(host, layout)?;
    let modes: Vec<_> = writer.records.iter().map(|(file, record)| (*file, record.mode)).collect();
    let mut lists = Vec::new();
    for at in heads(&layout, modes.into_iter()) {
        lists.push(walk(space, &layout, at, None, usize::MAX)?);
    }
    for object in lists.iter().flatten() {
        object.replay(space, &layout, |_| Ok(()))?;
    }
    dirty_pages(space, &layout, None)?;
    if flaw == Some(Flaw::LogBeforeCache) {
        lists.iter().try_for_each(|objects| writer.objects(objects))?;
        writer.cache_pages(None)?;
    } else {
        writer.cache_pages(None)?;
        lists.iter().try_for_each(|objects| writer.objects(objects))?;
    }
    if flaw != Some(Flaw::EraseBeforeSync) {
        writer.sync()?;
    }
    space.store_u64(0, 0);
    space.persist(0, 8);
    if flaw == Some(Flaw::EraseBeforeSync) {
        writer.sync()?;
    }
    Ok(Recovered { found: true, ..writer.done })
}

impl<H: Host> Process<H> {
    /// Takes over what dead processes left: their committed data go to their files, and their pages are
    /// free. How many there were.
    ///
    /// # Errors
    /// If a file can't be written; their state stays, and the next one who looks tries again.
    pub fn adopt(&self) -> Result<u64> {
        if self.host.dead().is_empty() {
            return Ok(0);
        }
        let (_held, _) = self.host.lock(REGISTRY_LOCK);
        let _permit = self.host.permit();
        self.adopt_locked()
    }

    /// As [`Process::adopt`], with the registry locked.
    pub(crate) fn adopt_locked(&self) -> Result<u64> {
        let mut count = 0;
        for slot in self.host.dead() {
            self.adopt_slot(slot)?;
            self.host.retire(slot);
            count += 1;
        }
        self.count(|counts| &counts.adopted, count);
        Ok(count)
    }

    fn adopt_slot(&self, slot: u32) -> Result<()> {
        let (space, layout) = (self.space(), &self.layout);
        let mut writer = Writer::new(&self.host, *layout)?;
        let pages = writer.cache_pages(Some(slot))?;
        let list = layout.slot_head(slot);
        let objects = walk(space, layout, list, None, usize::MAX)?;
        writer.objects(&objects)?;
        writer.sync()?;
        if self.options.flaw == Some(Flaw::ListBeforeTags) {
            lead(space, list, None);
        }
        for (index, tag) in &pages {
            let at = layout.tag(*index);
            space.store_u64(at, Tag { state: State::Clean, ..*tag }.word());
            space.flush(at, 8);
        }
        space.fence();
        lead(space, list, None);
        self.adopt_records(slot, writer)?;
        self.free_pages_of(slot)?;
        let pid = layout.slot_pid(slot);
        space.store_u64(pid, 0);
        space.persist(pid, 8);
        self.count_users();
        Ok(())
    }

    /// The dead process's regions end; a shared one that nobody else has is brought to its file.
    fn adopt_records(&self, slot: u32, mut writer: Writer<'_, H>) -> Result<()> {
        let (space, layout) = (self.space(), &self.layout);
        let records = writer.records.clone();
        for (file, record) in records {
            if record.users & 1 << slot == 0 {
                continue;
            }
            let users = record.users & !(1 << slot);
            if users != 0 {
                Record::store_users(space, layout, file, users);
                continue;
            }
            if record.mode == Mode::Shared {
                let (_held, _) = self.host.lock(region_lock(file));
                let objects = walk(space, layout, head(layout, file), None, usize::MAX)?;
                writer.objects(&objects)?;
                writer.sync()?;
                let pages: Vec<u32> = objects.iter().flat_map(|object| object.pages.clone()).collect();
                self.pools().own_log(&pages, slot)?;
                lead(space, head(layout, file), None);
                self.pools().give_log(&pages, slot)?;
                self.host.shared().store_u64(region_tail(file), 0);
                self.host.shared().store_u64(region_pages(file), 0);
            }
            Record::remove(space, layout, file);
        }
        Ok(())
    }

    /// Frees the dead process's pages, but those that a shared region's list still has.
    fn free_pages_of(&self, slot: u32) -> Result<()> {
        let (space, layout) = (self.space(), &self.layout);
        let mut listed = BTreeSet::new();
        for (file, record) in Record::all(space, layout)? {
            if record.mode == Mode::Shared {
                // A flush that has cut the list gives pages back, whoever had them: it is over before they
                // are looked at.
                let (_flushing, _) = self.host.lock(flush_lock(file));
                let (_held, died) = self.host.lock(region_lock(file));
                if died {
                    self.mend_region(file)?;
                }
                let objects = walk(space, layout, head(layout, file), None, usize::MAX)?;
                listed.extend(objects.into_iter().flat_map(|object| object.pages));
            }
        }
        let mut log = Vec::new();
        for page in 0..layout.sizes.log_pages {
            let at = layout.log_word(page);
            let word = LogPage::of(at, space.load_u64(at))?;
            if word.owner == Some(slot as u8) && !listed.contains(&page) {
                log.push(page);
            }
        }
        let mut cache = Vec::new();
        for index in 0..layout.sizes.cache_pages {
            let at = layout.tag(index);
            let tag = Tag::of(at, space.load_u64(at))?;
            if tag.state != State::Free && u32::from(tag.slot) == slot {
                cache.push(index);
            }
        }
        let pools = Pools::new(&self.host, self.layout);
        pools.give_log(&log, slot)?;
        pools.give_cache(&cache)
    }
}
