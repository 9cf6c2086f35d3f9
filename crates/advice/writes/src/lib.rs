//! What a program does to its files, from the events of a recording with `--files`: which orders of calls a crash can
//! break ([`Lints`]), and what writes and syncs cost ([`Figures`]).
//!
//! Lints need no recovery command. They hold the calls against what POSIX promises: contents are durable behind a sync
//! of the file, a name behind a sync of its folder, and nothing orders the one before the other. A lint is a suspicion
//! with the call, its call stack and a remedy; only recovery on crash images shows whether it does harm.
//!
//! # In doubt for the program
//! - What nobody syncs in a run that syncs other files is taken for something that need not survive (logs, caches).
//! - A file written over in place is named only if no other file, and no other part of this one, was written and synced
//!   since its last sync (a journal), and if no short write elsewhere follows its sync (a copy that is switched to).
//! - A length is named only where a write of exactly 4 or 8 bytes has the number of bytes that others cover: a record
//!   with a checksum is written differently.
//! - Removals are never named: many programs let a stale name come back.
#![forbid(unsafe_code)]

mod entries;
mod figures;
mod files;
mod kind;
mod lengths;
mod lints;
mod ranges;

pub use figures::{Figures, FileFigures, SiteFigures, Sizes, Sums, SyncFigures};
pub use kind::{Finding, Kind};
pub use lints::Lints;
