//! The memory of a pool of a C program, and what a recording hears of it.
//!
//! `strandline record`, `check` and `profile` see what was compiled with `strandline cc`, and this library
//! was not. So when a pool is opened it looks whether the capture runtime is in the process and somebody
//! records; if so, each access, flush, fence, lock, region and allocation is reported to it (`abi::library`),
//! as done by the code that called the library: a finding then names the program's line. If not, that is one
//! comparison.
//!
//! Of a pool that is opened to look only, loads and locks are reported; the loads order this process after
//! the ones that stored what it finds. What recovery stores there is no change of the file.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use event::FlushKind;
use pmem::{Durability, Synced};
use space::{Observer, Prestore, Space, Word, check_range};

use abi::library::{ENTRY, Entry, Table, VERSION};

/// Whether any pool of this process is recorded.
static ANY: AtomicBool = AtomicBool::new(false);
/// The next lock's number. No address of memory is as high.
static NEXT_LOCK: AtomicU64 = AtomicU64::new(1 << 60);
/// The number of the next region that is reported.
static NEXT_REGION: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The return address of the program's call that this thread is in.
    static SITE: Cell<u64> = const { Cell::new(0) };
    /// What the thread flushed of files that are synced, until its next fence: pieces of address space. It has no
    /// destructor, so that it is there for what a thread stores last, in destructors of others.
    static UNSYNCED: RefCell<ManuallyDrop<Vec<(u64, u64)>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The program's code at `site` has called.
#[inline(always)]
pub fn called_from(site: u64) {
    if ANY.load(Ordering::Relaxed) {
        _ = SITE.try_with(|current| current.set(site));
    }
}

fn site() -> u64 {
    SITE.try_with(Cell::get).unwrap_or(0)
}

/// The runtime's functions, if it is there and somebody records.
fn runtime() -> Option<&'static Table> {
    // SAFETY: the name is a C string.
    let entry = unsafe { libc::dlsym(libc::RTLD_DEFAULT, ENTRY.as_ptr()) };
    if entry.is_null() {
        return None;
    }
    // SAFETY: only the runtime has a symbol of that name, and it is a function of that type.
    let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(entry) };
    // SAFETY: null, or a table of that version in the runtime, which is never unloaded.
    unsafe { entry(VERSION).as_ref() }
}

/// A disk that failed, on its way out of a fence.
#[derive(Debug)]
pub struct SyncFailed(pub pmem::MapError);

/// The memory of a pool.
pub struct Observed {
    memory: Synced,
    reporter: Reporter,
}

/// Reports what happens to it.
pub struct Reporter {
    table: Option<&'static Table>,
    /// The same, if what is stored is stored to the file.
    changes: Option<&'static Table>,
    /// Where the pool is mapped.
    base: u64,
    /// Whether the recording is of calls on files, so that what is durable is what was synced.
    by_sync: bool,
}

impl Observed {
    /// The memory of the file of that path, just mapped, and made before if so: nobody has written to it.
    /// `site` is the program's code that asks for it.
    pub fn new(memory: Synced, path: &Path, made: bool, site: u64) -> Observed {
        let mut observed = Observed::mapped(memory, path, made, site);
        observed.reporter.changes = observed.reporter.table;
        observed
    }

    /// The same, of memory that is this process's alone.
    pub fn to_read(memory: Synced, path: &Path, site: u64) -> Observed {
        Observed::mapped(memory, path, false, site)
    }

    /// Reports that the memory was mapped.
    fn mapped(memory: Synced, path: &Path, made: bool, site: u64) -> Observed {
        let base = memory.memory().address() as u64;
        let mut reporter = Reporter { table: None, changes: None, base, by_sync: false };
        if let (Some(table), Ok(path)) = (runtime(), CString::new(path.as_os_str().as_bytes())) {
            ANY.store(true, Ordering::Relaxed);
            called_from(site);
            // SAFETY: the path is a C string.
            let watched =
                unsafe { (table.mapped)(site, path.as_ptr(), base, memory.len(), 0, u32::from(made)) };
            reporter.by_sync = watched != 0;
            reporter.table = Some(table);
        }
        Observed { memory, reporter }
    }

    /// Whether somebody records what happens to it.
    pub fn is_recorded(&self) -> bool {
        self.reporter.changes.is_some()
    }

    /// Where it is mapped.
    pub fn address(&self) -> usize {
        self.memory.memory().address()
    }

    /// What becomes of what is written there.
    pub fn durability(&self) -> Durability {
        self.memory.memory().durability()
    }

    /// Makes the memory and its file at least so many bytes long. One thread at a time.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn grow(&self, bytes: u64) -> Result<(), pmem::MapError> {
        let old = self.memory.len();
        self.memory.grow(bytes)?;
        let new = self.memory.len();
        let path = CString::new(self.memory.memory().path().as_os_str().as_bytes());
        if let (Some(table), Ok(path), true) = (self.reporter.table, path, new > old) {
            // SAFETY: the path is a C string.
            unsafe { (table.mapped)(site(), path.as_ptr(), self.reporter.base + old, new - old, old, 1) };
        }
        Ok(())
    }

    /// Runs `store` of so many bytes and reports it.
    #[cold]
    #[inline(never)]
    fn report_store(&self, table: &Table, offset: u64, len: u64, past_cache: bool, store: impl FnOnce()) {
        (table.about_to_store)();
        store();
        (table.stored)(site(), self.reporter.base + offset, len, u32::from(past_cache));
    }

    #[cold]
    #[inline(never)]
    fn report_load(&self, table: &Table, offset: u64, len: u64) {
        (table.loaded)(site(), self.reporter.base + offset, len);
    }

    #[cold]
    #[inline(never)]
    fn report_flush(&self, table: &Table, offset: u64, len: u64, kind: FlushKind) {
        let addr = self.reporter.base + offset;
        if self.reporter.by_sync {
            UNSYNCED.with(|noted| noted.borrow_mut().push((addr, len)));
            return;
        }
        // As in the runtime's `wire::flush`.
        let by = match kind {
            FlushKind::Clwb => 0,
            FlushKind::Clflushopt => 1,
            FlushKind::Clflush => 2,
        };
        (table.flushed)(site(), addr, len, by);
    }

    #[cold]
    #[inline(never)]
    fn report_fence(&self, table: &Table) {
        if self.reporter.by_sync {
            let noted = UNSYNCED.with(RefCell::take);
            return ManuallyDrop::into_inner(noted)
                .into_iter()
                .for_each(|(addr, len)| (table.synced)(site(), addr, len));
        }
        (table.fenced)(site());
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if let Some(table) = self.reporter.table {
            (table.unmapping)(site(), self.reporter.base, self.memory.len());
        }
    }
}

impl Space for Observed {
    type Observer = Reporter;

    #[inline(always)]
    fn observer(&self) -> &Reporter {
        &self.reporter
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.memory.len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        self.memory.flush_kind()
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let value = self.memory.load_word(offset);
        if let Some(table) = self.reporter.table {
            self.report_load(table, offset, W::BYTES);
        }
        value
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        match self.reporter.changes {
            None => self.memory.store_word(offset, value),
            Some(table) => {
                self.report_store(table, offset, W::BYTES, false, || self.memory.store_word(offset, value));
            }
        }
    }

    #[inline]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        if self.reporter.changes.is_none() {
            return self.memory.store_words(offset, words);
        }
        check_range(self.len(), offset, 8 * words.len() as u64);
        (offset..).step_by(8).zip(words).for_each(|(at, &word)| self.store_word(at, word));
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let Some(table) = self.reporter.changes else {
            let seen = self.memory.cas_u64(offset, old, new);
            if let Some(table) = self.reporter.table {
                self.report_load(table, offset, 8);
            }
            return seen;
        };
        check_range(self.len(), offset, 8);
        assert!(offset.is_multiple_of(8), "the word at {offset:#x} is not aligned");
        let addr = self.reporter.base + offset;
        // SAFETY: the word is aligned and in the mapping, which is only ever accessed atomically, and whose
        // words are little-endian as this processor's are: the runtime knows no other.
        let seen = unsafe { (table.compare_exchange)(site(), addr, old, new) };
        if seen == old { Ok(seen) } else { Err(seen) }
    }

    #[inline]
    #[track_caller]
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        let len = bytes.len() as u64;
        self.memory.load(offset, bytes);
        if let Some(table) = self.reporter.table {
            self.report_load(table, offset, len);
        }
    }

    #[inline]
    #[track_caller]
    fn store(&self, offset: u64, bytes: &[u8]) {
        match self.reporter.changes {
            None => self.memory.store(offset, bytes),
            Some(table) => {
                let len = bytes.len() as u64;
                self.report_store(table, offset, len, false, || self.memory.store(offset, bytes));
            }
        }
    }

    #[inline]
    #[track_caller]
    fn copy(&self, src: u64, dst: u64, len: u64) {
        if let Some(table) = self.reporter.table {
            self.report_load(table, src, len);
        }
        match self.reporter.changes {
            None => self.memory.copy(src, dst, len),
            Some(table) => {
                self.report_store(table, dst, len, false, || self.memory.copy(src, dst, len));
            }
        }
    }

    #[inline]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        match self.reporter.changes {
            None => self.memory.store_nt(offset, bytes),
            Some(table) => {
                let len = bytes.len() as u64;
                self.report_store(table, offset, len, true, || self.memory.store_nt(offset, bytes));
            }
        }
        if let Some(table) = self.reporter.changes
            && self.reporter.by_sync
        {
            // It needs no flush, and a sync all the same.
            self.report_flush(table, offset, bytes.len() as u64, self.flush_kind());
        }
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        self.memory.flush(offset, len);
        if let Some(table) = self.reporter.changes {
            self.report_flush(table, offset, len, self.flush_kind());
        }
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        self.memory.fence_writes()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        self.memory.nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        self.memory.has_failed()
    }

    #[inline(always)]
    #[track_caller]
    fn fence(&self) {
        if let Err(error) = self.memory.try_fence()
            && !std::thread::panicking()
        {
            // No panic, which would write to the program's standard error: `entry` reports it.
            resume_unwind(Box::new(SyncFailed(error)));
        }
        if let Some(table) = self.reporter.changes {
            self.report_fence(table);
        }
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.memory.prestore(offset, len, hint);
    }

    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        self.memory.prefetch(offset);
    }
}

impl Observer for Reporter {
    fn new_lock(&self) -> u64 {
        NEXT_LOCK.fetch_add(space::LINE, Ordering::Relaxed)
    }

    fn locked(&self, lock: u64, shared: bool) {
        if let Some(table) = self.table {
            (table.locked)(site(), lock, u32::from(shared));
        }
    }

    fn unlocking(&self, lock: u64) {
        if let Some(table) = self.table {
            (table.unlocking)(site(), lock);
        }
    }

    fn new_region(&self) -> u64 {
        if self.table.is_some() { NEXT_REGION.fetch_add(1, Ordering::Relaxed) } else { 0 }
    }

    fn region_begin(&self, region: u64) {
        if let Some(table) = self.table {
            (table.region_begun)(site(), region);
        }
    }

    fn region_end(&self, region: u64) {
        if let Some(table) = self.table {
            (table.region_ended)(site(), region);
        }
    }

    fn allocated(&self, offset: u64, len: u64) {
        if let Some(table) = self.table {
            (table.allocated)(site(), self.base + offset, len);
        }
    }

    fn freed(&self, offset: u64) {
        if let Some(table) = self.table {
            (table.freed)(site(), self.base + offset);
        }
    }
}
