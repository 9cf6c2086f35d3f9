//! Virtualised, shared NVM: more persistent memory than there is, for several processes at once.
//!
//! A program maps a file ([`Process::allocate`]) and reads it through a plain pointer. It changes it in
//! transactions
//! ([`Process::begin`], [`Process::write`], [`Process::commit`]) that a crash leaves whole or not at all.
//! What it sees is as large as the disk behind it, and
//! as fast as the NVM in front, as long as the NVM absorbs the writes. (vNVML: Chou 2020, chapter 2; the
//! specification's part A. Its code was never published.)
//!
//! # Media
//! | medium | private region | shared region |
//! |---|---|---|
//! | DRAM | the file, mapped privately: a read cache; a commit copies pages of its own | the file, mapped shared |
//! | NVM log | redo log: pages of 4 KiB, stored non-temporally | the same |
//! | NVM cache | pages of files, filled by redo, emptied by write-back | – |
//! | the file | written from the NVM cache only | written by `msync` only |
//!
//! Reads go to DRAM and never search a log. A write goes to the log only; at commit it becomes visible in
//! DRAM, and durable by one link
//! in NVM. Then, in the background, *redo* ([`Process::redo_step`]) applies it to pages in the NVM cache and
//! frees its log pages, and *write-back*
//! ([`Process::write_back_step`]) brings cache pages to the file. So the log is short, and the file's disk
//! sees whole pages, once for many commits.
//!
//! # A page's way
//! `free → dirty ⇄ clean → free`: see `cache`. The state is one 8-byte word in NVM with everything else that
//! is to be known of the page, so
//! each transition is one store, and a crash sees it before or after. A page is dirty only once its content
//! is durable, clean only once the file is synced, filled anew only when
//! it is durably not dirty.
//!
//! # Order
//! 1. Commit: log pages and the transaction's object are durable; then its link.
//! 2. Redo takes linked transactions only; cache pages and their states are durable; then the list leads
//!    past the transaction; then its pages are free.
//! 3. Write-back: the file is written, and synced; then pages are clean.
//! 4. Recovery ([`recover`]): dirty pages to files, *then* lists to files, sync, erase. It can be repeated
//!    at any point.
//!
//! # Several processes
//! All map the same NVM. Free pages are common; each process may have its *equal share* of log and cache
//! (`pool`), and gives back what is
//! too much when another one joins. Each has a committed list of its own for its private regions; a shared
//! region has one for all. What a process has under way is its own: locks
//! know who holds them, and if that one is dead the next one to take it mends what they guard. Whoever finds
//! a dead process ([`Process::adopt`]) writes what it had committed to its files and frees its pages.
//! Nobody waits for a dead process.
//!
//! # Layers
//! `words`, `layout` (what a word says, where it is) → `log`, `list`, `files`, `pool`, `open` → `tx`,
//! `redo`, `write_back`, `shared`, `recover` on one [`Process`].
//! All of it is generic over [`Host`], the seam to files, mappings, other processes, and, in it,
//! [`space::Env`]. [`Real`] is the host of a real run; [`Vnvm`] adds the two workers.
//!
//! # Decisions where the source is silent or unsound
//! - The source makes a commit visible before it is durable, so a thread may see what a crash then loses. So
//!   does a private region here, unless
//!   [`Options::durable_first`]; a shared region never does, since a killed process would leave others half
//!   a transaction.
//! - The shared dirty bitmap is made from the log at each flush (`shared`).
//! - [`Process::free`] waits until all that the region's file is owed is in it. A short write may be
//!   continued or aborted.
//! - Where all cache pages are dirty, redo writes to the file itself ([`Options::bypass`]); the source waits.
//! - LRU lists and open lists are in ordinary memory: nothing of them is ever recovered.
//! - Conflicting transactions: the one that writes first must commit first, as in the source.

#![forbid(unsafe_code)]

mod cache;
mod error;
mod files;
mod host;
mod inspect;
pub mod layout;
mod list;
mod log;
mod open;
mod options;
mod pool;
mod process;
mod real;
mod recover;
mod redo;
mod shared;
mod tx;
mod words;
mod write_back;

pub use error::{Error, Result};
pub use host::{Backing, Host, Mode, Permit, View};
pub use inspect::{FileInfo, Info, ListInfo, format, inspect};
pub use layout::Sizes;
pub use options::{Flaw, Options};
pub use pool::{LOCKS, SHARED_BYTES};
pub use process::{Process, Region, Stats};
pub use real::{Real, RealFile, RealView, Setup, Transaction, Vnvm, inspect_directory, recover_directory};
pub use recover::{Recovered, recover};
