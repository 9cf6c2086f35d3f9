//! "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory": a row for each result that its
//! text states (`xpoint-1` to `xpoint-26`) and for each shape of its sensitivity studies (`xpoint-s-...`).
//!
//! # Tolerances
//!
//! Fixed before any of these rows was run. Values are held to 10 % where the quantity is a calibration input
//! or a ratio of two such (the fit must reproduce what it was fitted to, and the published error bars are of
//! that order), and to 15 % where the mechanism must produce it unaided. Positions of peaks and knees may be
//! off by one step of the published axis. Where the text and the authors' released data disagree, the band
//! spans both. Other tolerances give their reason in the row.

pub mod applications;
pub mod bandwidth;
pub mod buffer;
pub mod contention;
pub mod instructions;
pub mod latency;
pub mod load;
pub mod micro_buffer;
pub mod numa;
pub mod placement;
pub mod sizes;
pub mod structures;
