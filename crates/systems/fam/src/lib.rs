//! Fabric-attached memory: how a restored process gets its pages, and how soon its source is free.
//!
//! # The mechanism
//!
//! After the freeze the source lays out one *lazy-page file* per process in FAM (`file`): a table from addresses to
//! offsets in *vectors* of at most 2 MiB (`layout`), then the pages. Its daemon (`source`) writes vectors in order of
//! addresses on a background thread. The target restores the process at once and serves its faults (`server`): a page that
//! it knows to be in FAM it takes from there without a message; otherwise it asks, the daemon finishes the vector in hand,
//! writes the one that is wanted, and acknowledges with its progress and the vector's range. When all vectors are there the
//! daemon says so unasked, and the source may be killed.
//!
//! A *transport* is where pages come from: `target` is FAM, `socket` the baseline, post-copy as CRIU does it. `delay` makes
//! memory and network as slow as a named medium.
//!
//! # What a reader may rely on
//!
//! Pages are in place and fenced before the vector is *done*; progress follows; the file is *complete* last. So:
//!
//! - The target is killed: once the file is complete the process restores from it again, any number of times.
//! - The source is killed: the target goes on if the file is complete, and gets the number of missing bytes if not.
//! - A reader of a half-written file, one of another version, owner or a damaged one gets an error that says so.
//!
//! # Beyond the source
//!
//! - *Map, don't copy* ([`Install::Map`]): the process maps the file privately; a fault fills page tables for the whole
//!   vector, the first write to a page copies it. The server stays, since what the process drops must read as zero.
//! - Forks, `mremap`, `madvise` and `munmap` in between are followed (`space`).
//! - The order of faults is recorded and replayed (`order`).
//! - Pre-copy rounds by asynchronous write protection and `PAGEMAP_SCAN` (`precopy`).

pub mod batch;
mod delay;
mod error;
mod file;
mod layout;
mod memory;
mod message;
pub mod order;
mod pages;
pub mod precopy;
#[cfg(test)]
mod publish;
mod server;
mod socket;
mod source;
mod space;
mod stream;
pub mod study;
mod target;
mod transport;
pub mod uffd;

pub use delay::{Medium, Throttle, Way};
pub use error::Error;
pub use file::{FamFile, Owner, Room, VERSION, room};
pub use layout::{Layout, Region, VECTOR, Vector};
pub use memory::Memory;
pub use message::Frame;
pub use pages::{Pages, Remote};
pub use server::{Options, Served, serve};
pub use socket::{Socket, page_server};
pub use source::{Dumped, Source, Store};
pub use space::{Space, Step};
pub use stream::Stream;
pub use target::{Fam, Install};
pub use transport::Transport;
pub use uffd::PAGE;
