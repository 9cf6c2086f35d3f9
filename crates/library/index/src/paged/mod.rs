//! Files in pages, each with a log: the data of small writes stands in the log itself.
//!
//! # The idea
//! A log-structured file system writes new data to a new page, then a log entry that points to it. A write
//! that is smaller than a page costs a whole one. Here it is *embedded*: the entry holds the bytes and says
//! which part of which page they replace. Reads lay embedded bytes over the page; a page with many of them,
//! or a large write, is copied with all that is pending.
//!
//! # Layout
//! Numbers are 8-byte words, offsets are those of the space, 0 is none.
//!
//! | root | | file | | log page | |
//! |---|---|---|---|---|---|
//! | 0 | magic | 0 | which of its two logs counts, 0 or 1 | 0 | next page of the log |
//! | 8 | number of files | 8 + 16 n | log n: first page | 64 | entries, from lines of their own |
//! | 16 | bytes of a page | 16 + 16 n | log n: where it ends | | |
//!
//! Files are lines behind the root in the first extent. All else are pages, of logs and of data. An entry:
//!
//! | | |
//! |---|---|
//! | 0 | kind, bytes from bit 8, where in the page from bit 32 |
//! | 8 | page of the file |
//! | 16 | length of the file |
//! | 24 | the data page; or the bytes |
//!
//! # Why every crash leaves the files
//! Data pages, entries and links between log pages are written where nothing leads yet, and made durable.
//! Storing where the log ends, one word, makes all entries of a write count together. That is two fences,
//! whatever a write is made of. An entry does not cross a page: what is left of the page is given up, which
//! an entry of its own kind says. Opening reads each log from its first page to its end, in order, and
//! knows then which pages are in use. All others are free.
//!
//! # Cleaning
//! An entry is *live* while reading the file needs it: the last one that names a page's data page, and those
//! embedded ones since then whose bytes no later one covers. Log pages without a live entry are taken out of
//! the list, one link each. If less than half of the rest is live, the live entries are copied to a second
//! log, in order, and the file's first word says that it counts from then on.
//!
//! # Pools
//! Each extent is a pool of pages. Where an extent is a DIMM of its own, [`Placement::Home`] keeps a file on
//! one, and a thread that writes only files of one pool writes to one DIMM.

mod clean;
mod entry;
mod file;
mod pool;
mod recover;
mod state;

use std::ops::Deref;

use space::{Env, LINE, Space};

use crate::{Error, Extents};
use pool::Pools;
use state::State;

pub use state::Usage;

const MAGIC: u64 = u64::from_le_bytes(*b"SLPAGED1");
/// In the root.
const FILES: u64 = 8;
const PAGE: u64 = 16;
/// Bytes of the root.
const ROOT: u64 = 256;

/// Which pool a file's pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// One after the other from each.
    #[default]
    Spread,
    /// File f's from pool f modulo their number, while there are any.
    Home,
}

/// A mistake, for tests of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PagedFlaw {
    /// None.
    #[default]
    Sound,
    /// A log's end is stored before its entries are durable.
    EndedEarly,
    /// A copied log counts before it is durable.
    SwitchedEarly,
}

/// How files are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedOptions {
    /// How many files there are. Of a new volume; one that is opened knows it.
    pub files: u32,
    /// Bytes of a page, a power of two from 256 on. Of a new volume; one that is opened knows it.
    pub page: u64,
    /// Writes into a page of at most so many bytes are embedded; 0 for none. Longer than fits into a log
    /// page means as long as fits.
    pub embed: u64,
    /// Embedded writes that a page may have pending; the next one copies it.
    pub pending: usize,
    /// Where pages come from.
    pub placement: Placement,
    /// Nothing, but for tests.
    pub flaw: PagedFlaw,
}

impl Default for PagedOptions {
    fn default() -> Self {
        PagedOptions {
            files: 64,
            page: 4096,
            embed: 1024,
            pending: 16,
            placement: Placement::Spread,
            flaw: PagedFlaw::Sound,
        }
    }
}

/// Files that survive a crash, for any number of threads. A write is durable, and whole, when it returns.
pub struct Paged<H>
where
    H: Deref<Target: Env + Sized>,
{
    env: H,
    options: PagedOptions,
    /// The first file's line.
    table: u64,
    pools: Pools<H::Target>,
    files: Vec<<H::Target as Env>::RwLock<State>>,
}

impl<H> Paged<H>
where
    H: Deref<Target: Env + Sized>,
{
    /// Makes empty files in all of `extents`, whatever is there.
    ///
    /// # Errors
    /// If there is no room for a page, or the options are of no use.
    pub fn create<X>(env: H, extents: &X, options: PagedOptions) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        if !options.page.is_power_of_two() || !(256..=1 << 20).contains(&options.page) {
            return Err(Error::Options("a page has a power of two of bytes, from 256 to 1 MiB"));
        }
        let paged = Paged::over(env, extents, options)?;
        let (space, root) = (paged.env.space(), paged.table - ROOT);
        space.store_u64(root, 0);
        space.persist(root, 8);
        for word in (0..u64::from(options.files) * LINE).step_by(8) {
            space.store_u64(paged.table + word, 0);
        }
        space.store_words(root + FILES, &[options.files.into(), options.page]);
        space.persist(root, ROOT + u64::from(options.files) * LINE);
        space.store_u64(root, MAGIC);
        space.persist(root, 8);
        Ok(paged)
    }

    /// Opens files. Reads every log once.
    ///
    /// # Errors
    /// If there are none, or they are damaged.
    pub fn open<X>(env: H, extents: &X, options: PagedOptions) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        let space = env.space();
        let first = extents.all(space).first().copied().filter(|first| first.bytes >= ROOT);
        let root = first.ok_or(Error::Full { wanted: ROOT, len: space.len() })?.offset;
        let [found, files, page] = [0, FILES, PAGE].map(|word| space.load_u64(root + word));
        if found != MAGIC {
            return Err(Error::Mismatch { offset: root, found, expected: MAGIC, what: "files in pages" });
        }
        let files = u32::try_from(files).ok().filter(|_| page.is_power_of_two() && page >= 256);
        let files = files.ok_or(Error::Damaged { offset: root + FILES, what: "the number of files" })?;
        let mut paged = Paged::over(env, extents, PagedOptions { files, page, ..options })?;
        paged.recover()?;
        Ok(paged)
    }

    fn over<X>(env: H, extents: &X, options: PagedOptions) -> Result<Self, Error>
    where
        X: Extents<<H::Target as Env>::Space>,
    {
        let pieces = extents.all(env.space());
        let len = env.space().len();
        let table = u64::from(options.files) * LINE;
        let wanted = ROOT + table + options.page;
        let full = Error::Full { wanted, len };
        let first = pieces.first().filter(|first| first.bytes >= wanted).ok_or(full)?;
        let behind = first.offset + ROOT + table;
        let pools = Pools::new(&*env, &pieces, behind, options.page);
        let files = (0..options.files).map(|_| env.rw_lock(State::default())).collect();
        Ok(Paged { options, table: first.offset + ROOT, pools, files, env })
    }

    /// How long a file is: where its last byte that was written ends.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn len(&self, file: u32) -> u64 {
        self.env.read(self.lock_of(file)).len()
    }

    /// What a file takes.
    ///
    /// # Panics
    /// If there is no such file.
    #[must_use]
    pub fn usage(&self, file: u32) -> Usage {
        self.env.read(self.lock_of(file)).usage()
    }

    /// Pages that nobody has.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.pools.free(&*self.env)
    }

    fn lock_of(&self, file: u32) -> &<H::Target as Env>::RwLock<State> {
        let files = self.files.len();
        self.files.get(file as usize).unwrap_or_else(|| panic!("file {file} of {files}"))
    }

    /// The line of a file.
    fn inode(&self, file: u32) -> u64 {
        self.table + u64::from(file) * LINE
    }
}
