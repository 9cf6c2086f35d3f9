//! One process's part: its regions, its open transactions, its place among the others.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use space::{Env, Space};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::files::Record;
use crate::host::{Backing, Host, Mode, View};
use crate::layout::{Layout, SLOTS};
use crate::open::Tx;
use crate::options::Options;
use crate::pool::{Pools, REGISTRY_LOCK, USERS};

/// Lists of open transactions.
pub(crate) const OPEN_LISTS: usize = 32;

pub(crate) type Mutex<H, T> = <<H as Host>::Env as Env>::Mutex<T>;
pub(crate) type RwLock<H, T> = <<H as Host>::Env as Env>::RwLock<T>;

/// A region: a file's bytes in memory.
pub struct Region<H: Host> {
    pub(crate) file: u16,
    pub(crate) len: u64,
    pub(crate) mode: Mode,
    pub(crate) path: PathBuf,
    pub(crate) backing: H::File,
    pub(crate) view: H::View,
    /// What each page that was synced held, by its hash; of an atomic region.
    pub(crate) hashes: std::sync::Mutex<BTreeMap<u64, u64>>,
}

impl<H: Host> Region<H> {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }
    /// Whether there is no byte; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Where it is in memory. Reads go there; stores there are seen by this process alone and are never
    /// durable, unless the region is atomic.
    #[must_use]
    pub fn address(&self) -> usize {
        self.view.address()
    }
    /// The number that stands for the file.
    #[must_use]
    pub fn file(&self) -> u16 {
        self.file
    }
    /// How it is mapped.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Stores to the memory alone, as the program could by itself. In a private region this process sees it
    /// and it is never durable: the source fills its stores so before it measures. In an atomic region the
    /// next sync commits it.
    ///
    /// # Panics
    /// If the bytes are not inside the region.
    pub fn store(&self, offset: u64, bytes: &[u8]) {
        space::check_range(self.len, offset, bytes.len() as u64);
        self.view.apply(offset, bytes);
    }

    /// Reads committed data.
    ///
    /// # Panics
    /// If the bytes are not inside the region.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        space::check_range(self.len, offset, bytes.len() as u64);
        self.view.read(offset, bytes);
    }
}

/// The ends of this process's committed list, as far as they are durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub first: Option<u32>,
    pub last: Option<u32>,
    /// Transactions that were ever linked, and those that were replayed and cut off.
    pub linked: u64,
    pub cut: u64,
}

/// What happened so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub commits: AtomicU64,
    pub replayed: AtomicU64,
    pub written: AtomicU64,
    pub through: AtomicU64,
    pub filled: AtomicU64,
    pub hits: AtomicU64,
    pub aborted: AtomicU64,
    pub adopted: AtomicU64,
    pub flushes: AtomicU64,
    pub synced: AtomicU64,
}

/// Figures of one process since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions committed.
    pub commits: u64,
    /// Transactions that redo has replayed.
    pub replayed: u64,
    /// Cache pages written to files.
    pub pages_written: u64,
    /// Entries that redo wrote to files itself, because all cache pages were dirty.
    pub written_through: u64,
    /// Cache pages filled from files.
    pub pages_filled: u64,
    /// Entries that found their page in the cache.
    pub cache_hits: u64,
    /// Transactions that were open for too long.
    pub aborted: u64,
    /// Dead processes whose state this one took over.
    pub adopted: u64,
    /// Flushes of shared regions.
    pub flushes: u64,
    /// Pages of shared regions that these flushes synced.
    pub pages_synced: u64,
    /// How often log pages were wanted, by any process, and there were not enough.
    pub starved: u64,
    /// Dirty pages in the cache now.
    pub dirty: u64,
    /// Log pages of this process now.
    pub log_used: u64,
    /// Cache pages of this process now.
    pub cache_used: u64,
    /// Log pages that it may have.
    pub log_share: u64,
    /// Cache pages that it may have.
    pub cache_share: u64,
}

/// A process that uses the NVM.
pub struct Process<H: Host> {
    pub(crate) host: H,
    pub(crate) layout: Layout,
    pub(crate) options: Options,
    pub(crate) regions: RwLock<H, BTreeMap<u16, Arc<Region<H>>>>,
    pub(crate) open: Vec<Mutex<H, VecDeque<Tx>>>,
    pub(crate) ends: Mutex<H, Ends>,
    pub(crate) cache: Mutex<H, Cache>,
    /// One redo at a time, one write-back at a time.
    pub(crate) redoing: Mutex<H, ()>,
    pub(crate) writing: Mutex<H, ()>,
    pub(crate) counts: Counts,
}

impl<H: Host> Process<H> {
    /// Joins the processes that use the NVM, and takes over what dead ones left.
    ///
    /// # Errors
    /// If the NVM is not made, or damaged, or a dead process's files can't be written.
    pub fn join(host: H, options: Options) -> Result<Self> {
        let Some(layout) = Layout::read(host.env().space())? else {
            return Err(Error::NotOurs { found: 0 });
        };
        let env = host.env();
        let open = (0..OPEN_LISTS).map(|_| env.mutex(VecDeque::new())).collect();
        let (regions, ends) = (env.rw_lock(BTreeMap::new()), env.mutex(Ends::default()));
        let (cache, redoing, writing) = (env.mutex(Cache::new()), env.mutex(()), env.mutex(()));
        let counts = Counts::default();
        let process = Process { host, layout, options, regions, open, ends, cache, redoing, writing, counts };
        process.register()?;
        Ok(process)
    }

    fn register(&self) -> Result<()> {
        let (_held, _) = self.host.lock(REGISTRY_LOCK);
        let _permit = self.host.permit();
        self.adopt_locked()?;
        let space = self.space();
        let pid = self.layout.slot_pid(self.host.slot());
        space.store_u64(pid, self.host.pid());
        space.persist(pid, 8);
        self.count_users();
        Ok(())
    }

    /// Counts the processes that have a slot. The registry is locked.
    pub(crate) fn count_users(&self) -> u64 {
        let has = |slot: &u32| self.space().load_u64(self.layout.slot_pid(*slot)) != 0;
        let users = (0..SLOTS).filter(has).count() as u64;
        self.host.shared().store_u64(USERS, users);
        users
    }

    pub(crate) fn space(&self) -> &<H::Env as Env>::Space {
        self.host.env().space()
    }

    pub(crate) fn env(&self) -> &H::Env {
        self.host.env()
    }

    pub(crate) fn pools(&self) -> Pools<'_, H> {
        Pools::new(&self.host, self.layout)
    }

    /// The world of this process.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Maps a file: `len` bytes of it, made if it is not there. What other processes committed to it and did
    /// not live to see in the file is in it.
    ///
    /// # Errors
    /// If the file can't be had, or another region of this or another process excludes this one, or there
    /// are too many.
    pub fn allocate(&self, path: &Path, len: u64, mode: Mode) -> Result<Arc<Region<H>>> {
        if len == 0 || len >= 1 << 44 {
            return Err(Error::Size { what: "a region", given: len, range: "1 byte to 16 TiB" });
        }
        let (_held, _) = self.host.lock(REGISTRY_LOCK);
        let _permit = self.host.permit();
        self.adopt_locked()?;
        let failed = |action| move |source| Record::failed(path, action, source);
        let backing = self.host.open(path, Some(len)).map_err(failed("open"))?;
        let identity = backing.identity();
        let mine = 1 << self.host.slot();
        let all = Record::all(self.space(), &self.layout)?;
        let file = match all.iter().find(|(_, record)| record.identity == identity) {
            Some((file, record)) => {
                self.refuse_use(record, mode)?;
                if record.len != len {
                    let what = "another process has it shared with another length; give the same";
                    return Err(Error::Mode { path: path.to_owned(), what });
                }
                Record::store_users(self.space(), &self.layout, *file, record.users | mine);
                *file
            }
            None => {
                let used: Vec<u16> = all.iter().map(|(file, _)| *file).collect();
                let free = (0..self.layout.sizes.files as u16).find(|file| !used.contains(file));
                let max = u64::from(self.layout.sizes.files);
                let file = free.ok_or(Error::TooMany { what: "regions", max })?;
                let record = Record { mode, users: mine, len, identity, path: path.to_owned() };
                record.store(self.space(), &self.layout, file)?;
                let shared = self.host.shared();
                shared.store_u64(crate::pool::region_pages(file), 0);
                shared.store_u64(crate::pool::region_tail(file), 0);
                file
            }
        };
        let view = self.host.view(&backing, len, mode).map_err(|source| {
            // Best effort: a record without a region is removed when this process leaves.
            Record::failed(path, "map", source)
        })?;
        let hashes = std::sync::Mutex::default();
        let region = Arc::new(Region { file, len, mode, path: path.to_owned(), backing, view, hashes });
        self.env().write(&self.regions).insert(file, region.clone());
        Ok(region)
    }

    /// Refuses a second use of a file that the first one excludes.
    fn refuse_use(&self, record: &Record, mode: Mode) -> Result<()> {
        let slot = record.users.trailing_zeros() % SLOTS;
        if record.users != 0 && (record.mode != Mode::Shared || mode != Mode::Shared) {
            let pid = self.space().load_u64(self.layout.slot_pid(slot));
            return Err(Error::InUse { path: record.path.clone(), pid, how: record.mode.name() });
        }
        if record.users & 1 << self.host.slot() != 0 {
            let what = "this process has it already; use that region";
            return Err(Error::Mode { path: record.path.clone(), what });
        }
        Ok(())
    }

    /// The region with that number.
    pub fn region(&self, file: u16) -> Option<Arc<Region<H>>> {
        self.env().read(&self.regions).get(&file).cloned()
    }

    /// The region that holds `len` bytes at an address, and where in it they are.
    ///
    /// # Errors
    /// If no region holds them all.
    pub fn region_at(&self, address: usize, len: usize) -> Result<(Arc<Region<H>>, u64)> {
        let regions = self.env().read(&self.regions);
        let inside = |region: &&Arc<Region<H>>| {
            let base = region.address();
            address >= base
                && ((address - base) as u64).checked_add(len as u64).is_some_and(|end| end <= region.len)
        };
        match regions.values().find(inside) {
            Some(region) => Ok((region.clone(), (address - region.address()) as u64)),
            None => Err(Error::Bounds { address: address as u64, len: len as u64 }),
        }
    }

    /// Ends a region. All that was committed to it is in its file, durably, when this returns.
    ///
    /// # Errors
    /// If its file can't be written; the region is then still there. If an open transaction has written to
    /// it.
    pub fn free(&self, region: &Arc<Region<H>>) -> Result<()> {
        for list in &self.open {
            if self.env().lock(list).iter().any(|tx| tx.has_written(region.file)) {
                let what = "an open transaction has written to the region: commit or abort it first";
                return Err(Error::Busy { what });
            }
        }
        match region.mode {
            Mode::Shared => self.flush_region(region).map(drop)?,
            Mode::Private | Mode::Atomic => self.drain_so_far()?,
        }
        let _permit = self.host.permit();
        let clean = self.env().lock(&self.cache).take_file(region.file);
        self.pools().give_cache(&clean)?;
        let (_held, _) = self.host.lock(REGISTRY_LOCK);
        self.env().write(&self.regions).remove(&region.file);
        self.leave_record(region.file)
    }

    /// This process does not use a record any more. The registry is locked.
    fn leave_record(&self, file: u16) -> Result<()> {
        let Some(record) = Record::load(self.space(), &self.layout, file)? else { return Ok(()) };
        let users = record.users & !(1 << self.host.slot());
        if users == 0 {
            Record::remove(self.space(), &self.layout, file);
        } else {
            Record::store_users(self.space(), &self.layout, file, users);
        }
        Ok(())
    }

    /// As [`Process::drain`], for what is committed when it is called: other threads may go on committing.
    fn drain_so_far(&self) -> Result<()> {
        let linked = self.env().lock(&self.ends).linked;
        while self.env().lock(&self.ends).cut < linked {
            self.redo_step()?;
        }
        // Those used longest ago are written first: nobody uses this region's any more, so they are among so many.
        let mut left = self.env().lock(&self.cache).dirty() as usize;
        while left > 0 {
            let written = self.write_back_step(true)?;
            if written == 0 {
                break;
            }
            left = left.saturating_sub(written);
        }
        Ok(())
    }

    /// Replays all that is committed and writes all dirty pages.
    ///
    /// # Errors
    /// If a file can't be written; all stays in NVM.
    pub fn drain(&self) -> Result<()> {
        while self.redo_step()? {}
        while self.write_back_step(true)? > 0 {}
        Ok(())
    }

    /// Leaves: everything is in the files. Whether it was the last process, whose host erases the NVM then.
    ///
    /// # Errors
    /// If a file can't be written: the process has not left, and may try again.
    pub fn leave(&self) -> Result<bool> {
        for list in &self.open {
            let tids: Vec<u64> = self.env().lock(list).iter().map(|tx| tx.tid).collect();
            tids.into_iter().try_for_each(|tid| self.abort(tid))?;
        }
        let regions: Vec<_> = self.env().read(&self.regions).values().cloned().collect();
        regions.iter().try_for_each(|region| self.free(region))?;
        self.drain()?;
        let (_held, _) = self.host.lock(REGISTRY_LOCK);
        let _permit = self.host.permit();
        self.give_back_slot()?;
        let users = self.count_users();
        if users == 0 {
            let space = self.space();
            space.store_u64(0, 0);
            space.persist(0, 8);
        }
        Ok(users == 0)
    }

    /// Frees clean pages, records and the slot. The registry is locked.
    fn give_back_slot(&self) -> Result<()> {
        let mut clean = Vec::new();
        {
            let mut cache = self.env().lock(&self.cache);
            while let Some(index) = cache.take_clean() {
                clean.push(index);
            }
        }
        self.pools().give_cache(&clean)?;
        for (file, record) in Record::all(self.space(), &self.layout)? {
            if record.users & 1 << self.host.slot() != 0 {
                self.leave_record(file)?;
            }
        }
        let pid = self.layout.slot_pid(self.host.slot());
        self.space().store_u64(pid, 0);
        Ok(())
    }

    /// Figures so far.
    pub fn stats(&self) -> Stats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (counts, pools) = (&self.counts, self.pools());
        Stats {
            commits: of(&counts.commits),
            replayed: of(&counts.replayed),
            pages_written: of(&counts.written),
            written_through: of(&counts.through),
            pages_filled: of(&counts.filled),
            cache_hits: of(&counts.hits),
            aborted: of(&counts.aborted),
            adopted: of(&counts.adopted),
            flushes: of(&counts.flushes),
            pages_synced: of(&counts.synced),
            starved: pools.starved(),
            dirty: u64::from(self.env().lock(&self.cache).dirty()),
            log_used: u64::from(pools.log_used()),
            cache_used: u64::from(pools.cache_used()),
            log_share: u64::from(pools.log_share()),
            cache_share: u64::from(pools.cache_share()),
        }
    }

    pub(crate) fn count(&self, counter: impl Fn(&Counts) -> &AtomicU64, by: u64) {
        counter(&self.counts).fetch_add(by, Ordering::Relaxed);
    }
}
