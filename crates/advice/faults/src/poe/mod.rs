//! POE, the page-fault offload engine, as actors on shared words.
//!
//! Software fills a table of zeroed pages per core and marks entries that may be filled (`worker`). The
//! hardware's page walker completes a fault with a page out of the table (`walker`); the kernel accounts
//! for the page later (`worker`), and still handles all other faults, `munmap`, `mprotect`, `fork` and exit
//! (`kernel`). The same actors run on any [`space::Env`] ([`Over`]) and under [`explore`], which tries
//! every interleaving.
//!
//! [`Flaw`] names the mistakes that the source's text permits. What closes them:
//! - Bit 5 of an entry is a lock only while no page is present, is taken by a compare-and-swap of the whole
//!   entry, and one store of the complete entry both publishes the page and gives the lock up.
//! - The walker marks the table's entry used *before* it publishes, so whoever sees a page that is not
//!   accounted for finds it in a table.
//! - The kernel changes a marked entry only from its unlocked value. A marked entry is no swap entry.
//! - Marking holds the lock of the page tables per page and looks whether the region is still there.
//! - Whoever needs a mapping count of a page that has none accounts for it first: unmapping, `fork`,
//!   copy-on-write.
//! - `fork` copies all entries before the child runs, and takes the right to write from both: nobody writes
//!   to memory that another has, and a child sees what its parent wrote before, and nothing that it wrote
//!   since.
//! - The child's entries name the child. Exit accounts for all pages before it gives the TGID back.
//! - A core does not answer a shootdown within a walk; unmapping and disabling wait for that before they
//!   free.
//!
//! - Moving a page takes a marked entry along, from its unlocked value; swap-off knows marked entries.
//! - Accounting charges the page to its memory group. Marking leaves executable regions out: the walker
//!   always sets NX.
//! - Enabling and disabling exclude each other, and disabling sets each table's head to its tail.
//!
//! Not modelled: swapping itself, more than one hardware thread per core (a table has one consumer).

mod check;
mod explore;
mod flaw;
mod kernel;
pub mod layout;
mod memory;
pub mod scene;
mod system;
mod walker;
mod worker;

pub use check::at_rest;
pub use explore::{Actor, Broken, Explorations, Explored, Run, explore};
pub use flaw::Flaw;
pub use layout::{Ring, Scope};
pub use memory::{Memory, Over, finish};
pub use scene::{Part, Scene};
pub use system::{Access, System, Touched};
