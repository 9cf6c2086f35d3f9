//! Writing memory out in few calls.

pub mod nt;
