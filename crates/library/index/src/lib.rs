//! Persistent ordered maps and hash tables: the one home of structures that survive a crash.
//!
//! # For a newcomer
//! A structure lives in *extents*, pieces of a [`space::Space`] that were handed to it for good
//! ([`Extents`]). What it writes there survives; everything else that it knows (inner nodes, mapping tables,
//! free lists) is in ordinary memory and made again when the structure is opened. A node is in use if it can
//! be reached from a root word, and free otherwise, so no allocator has to survive a crash and nothing leaks.
//!
//! Every operation that changes something is durable when it returns: a crash at any moment leaves the state
//! before it or after it.
//!
//! Each runs under the crash checker, as do twins of it that make a mistake on purpose;
//! `docs/index-format.md` lists both.
//!
//! ```
//! use index::{BTree, BytesMap, Map, OrderedMap, Whole, btree, bytes};
//! use pmem::Os;
//! use space::{Env, Image};
//!
//! // A file instead: `Os::new(pmem::Options::new().create(path, 1 << 20)?)`.
//! let env = Os::new(Image::new(1 << 20));
//! let extents = Whole::create(env.space(), 64 << 10)?;
//! let ages = BTree::<_, u64, u64, _>::create(&env, extents, &btree::Options::default())?;
//! ages.insert(7, 70)?;
//! ages.insert(3, 30)?;
//! let mut sum = 0;
//! ages.range(4, &mut |_, age| {
//!     sum += age;
//!     true
//! });
//! assert_eq!((ages.get(3), sum), (Some(30), 70));
//!
//! let env = Os::new(Image::new(1 << 20));
//! let extents = Whole::create(env.space(), 64 << 10)?;
//! let names = BytesMap::create(&env, extents, &bytes::Options::default())?;
//! names.insert(b"seven", b"a prime")?;
//! assert_eq!(names.get(b"seven")?.as_deref(), Some(&b"a prime"[..]));
//! # Ok::<(), index::Error>(())
//! ```
#![forbid(unsafe_code)]

mod arena;
pub mod btree;
pub mod bytes;
mod error;
mod extents;
pub mod hash;
mod inner;
pub mod log_structured;
mod map;
pub mod memtable;
mod nodes;
pub mod paged;
pub mod sealed;
pub mod tree;
mod version;
mod wish;

pub use btree::BTree;
pub use bytes::BytesMap;
pub use error::Error;
pub use extents::{Extent, Extents, Whole};
pub use map::{Fixed, Map, OrderedMap};
