//! Key-value engines: keys and values of bytes that survive a crash, on any [`space::Space`].
//!
//! # For a newcomer
//! A [`Store`] is made in a file ([`Store::create`]) or on the space of any environment
//! ([`Store::create_on`]). Its operations are those of [`KeyValue`], which servers and benches use whatever
//! the engine.
//!
//! ```
//! use kv::{Batch, KeyValue, Options, Store};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("accounts");
//! let store = Store::create(&path, &Options::default())?;
//! store.put(b"from", b"100")?;
//! let ticket = store.write(Batch::new().put(b"from", b"90").put(b"to", b"10"))?;
//! store.wait(ticket)?;
//! store.close()?;
//!
//! let store = Store::open(&path, &Options::default())?;
//! assert_eq!(store.get(b"to")?.as_deref(), Some(&b"10"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it is built
//! The file is divided into *chunks* of 4 MiB (`chunks.rs`); what each is used for stands at its beginning
//! (`layout.rs`). A chunk is a log, a superblock of slots, or part of one long value. A change writes one
//! *record* (`record.rs`), waits for one fence, and then has the index lead to it, so that readers never see
//! what a crash could take back (on an ordinary file they may: a *ticket* says when a change is durable,
//! `due.rs`). The index is parted into *shards* (`shard.rs`); who changes a key holds its shard's latch,
//! readers hold nothing. Threads write in *lanes* of their own (`lane.rs`).
//!
//! `log.rs` and `collect.rs` are the log engine, `slab.rs` the slab engine, `together.rs` batches,
//! `recover.rs` what opening does after a crash, and `closed.rs` what it does after an orderly close.
#![forbid(unsafe_code)]

mod batch;
mod chunks;
mod closed;
mod collect;
mod due;
mod error;
mod file;
mod grown;
mod handle;
mod indexed;
mod interface;
mod lane;
mod layout;
mod left;
mod log;
mod newest;
mod options;
mod order;
mod pieces;
mod read;
mod record;
mod recover;
mod room;
mod shard;
mod slab;
mod snapshot;
mod sorted;
mod stats;
mod store;
mod table;
mod together;
mod tree;
mod write;

pub use batch::Batch;
pub use error::Error;
pub use handle::Handle;
pub use interface::{KeyValue, Snapshot};
pub use layout::VERSION;
#[doc(hidden)]
pub use options::Flaw;
pub use options::{Durable, Engine, Options, Placement, Progress, Values};
pub use record::{KEY_MAX, VALUE_MAX};
pub use region::Ticket;
pub use stats::Stats;
pub use store::Store;
