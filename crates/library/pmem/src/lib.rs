//! Real memory: the instructions that move it, the mapping that holds it, the environment around it.
//!
//! [`Mapped`] is the [`space::Space`] of a real run: anonymous memory, or a file. On a file system with DAX a
//! flushed and fenced line has reached the persistent device; elsewhere it has reached the page cache, and
//! [`Mapped::sync`] asks the kernel to write that. Which of the two it is, [`Mapped::durability`] says. [`Options`] are the
//! ways to open it; [`Mapped::grow`] makes it longer.
//!
//! [`Synced`] is a space over it that needs no such call: there a fence itself reaches the disk, with one sync for all who
//! wait. On memory that is persistent it adds nothing.
//!
//! [`isa`] knows the instructions: how to write back a line, demote it, store around the cache and fence, on
//! x86-64 and aarch64. Which of them this processor offers is found out once, at run time.
//!
//! [`Levelled`] is a space whose pages change their frames while threads use it, so that memory wears evenly.
//!
//! [`prestore`] uses them to send written data on its way early.
//!
//! [`Os`] is the real [`space::Env`]: locks and threads of the standard library, the monotonic clock, the
//! kernel's random numbers. With `Os<Mapped>` the seam compiles to the bare accesses, with
//! `Os<Recorded<Mapped>>` the same program is recorded.
//!
//! [`FileView`] is a file in memory, private or shared, for a program that reads it through a pointer; [`protect`] keeps a program's stray
//! stores out of a mapping; [`life`] knows whether another process lives; [`Worker`] is a thread that does a step again and again.
//!
//! [`probe`] measures memory: accesses in tight loops or timed one by one, pinned threads, a calibrated clock.
//!
//! This crate is one of the few with `unsafe`: pointers into mappings and inline assembly. It all stands in
//! `isa`, whose functions on addresses are `unsafe` to call, in `mapped`, `levelled` and `prestore`, which make them
//! safe, in `view` and `protect`, and in `probe`.

pub mod isa;
mod latch;
pub mod levelled;
pub mod life;
mod mapped;
mod os;
pub mod prestore;
pub mod probe;
pub mod protect;
mod synced;
mod view;
mod worker;

pub use levelled::{LevelError, Levelled};
pub use mapped::{Durability, MapError, Mapped, Options, own_words};
pub use os::{Guard, Os, OsMutex, OsRwLock};
pub use synced::Synced;
pub use view::FileView;
pub use worker::Worker;
