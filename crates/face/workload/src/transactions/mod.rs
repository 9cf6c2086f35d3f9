//! Transactions: structures of the published comparisons of persistency hardware, each operation one failure-atomic region.
//!
//! They run on `region` without protection: the hardware, or a log that a mapping adds, makes regions atomic. What is recorded is
//! the structure's own loads and stores, with the marks of regions and the locks that an operation holds.

mod btree;
mod hash;
mod rbtree;
mod record;
mod services;
mod structure;

pub use btree::BTree;
pub use hash::Hash;
pub use rbtree::RbTree;
pub(crate) use record::bytes;
pub use record::{Keys, Kind, Transactions, record, run};
pub use services::{Cache, HashMap, Orders, Queue, Reservations, Rows};
pub use structure::{Structure, Swaps, scatter};
