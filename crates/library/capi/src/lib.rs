//! `libstrandline`: pools and failure-atomic regions for C and C++.
//!
//! Its face is the header `crates/observe/instrument/include/strandline_pool.h`, which says what each
//! function does; for key-value stores `strandline_kv.h`, for tiers of memory `strandline_tier.h` and for virtualised NVM
//! `strandline_vnvm.h` stand beside it; a test holds them against each
//! other. This crate makes that face over the engines of
//! [`region`] and the files of [`pmem`], and over [`vnvm`](::vnvm).
//!
//! ```text
//!   sl_write(pool, ref, data, bytes)       entry    return address taken, panics and errors made into codes
//!        |
//!   the region that this thread has        regions  begun, nested, failed, ended; per thread
//!        |                                 handle   what a `sl_pool *` is, open or closed
//!   dyn OpenPool, dyn OpenTx               engines  one line per engine
//!        |
//!   region::Pool on Os<Observed>               observed the file, and what a recording hears of it
//! ```
//!
//! The rules that everything here keeps:
//! - **What a program can do wrong is an error**, as far as it can be known: null, a closed pool, a reference
//!   that leads elsewhere, a block freed twice, a region that was not begun or not ended. What can't be known
//!   is a pointer to no pool at all, and a pool that is closed while another thread is within a call.
//! - **A region with a mistake in it is never committed**, whether the program looked at the results or not.
//! - **Nothing unwinds into C.** A panic ends in [`entry`], as an error.
//! - **Without a recording** `observed` costs one comparison per access.

mod calls;
mod engines;
mod entry;
mod error;
mod files;
mod handle;
mod kv;
mod regions;
mod tier;
mod vnvm;
