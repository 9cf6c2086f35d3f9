//! What page faults cost, what would remove them, and what a page-fault offload engine (POE) would add.
//!
//! [`attribute`] brings faults and the log of large blocks together, [`cost`] is what a fault of each kind costs on a
//! machine, [`advice`] predicts what remedies gain ([`ahead`]: a thread that populates), [`estimate`] what an
//! offload engine would; [`timing`] is that engine in time, [`poe`] its states and every interleaving of
//! them.
#![forbid(unsafe_code)]

pub mod advice;
pub mod ahead;
pub mod attribute;
mod blocks;
mod chunks;
pub mod cost;
pub mod estimate;
pub mod poe;
pub mod timing;
