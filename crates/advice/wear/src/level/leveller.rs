//! What every levelling policy is.

use serde::Serialize;

use super::Media;

/// A policy that decides where a logical unit lies, and moves units as they are written.
///
/// Units are numbered from 0. A policy may have more physical units than logical ones: its spares.
pub trait Leveller {
    /// The physical unit in which a logical one lies.
    fn remap(&self, unit: u64) -> u64;

    /// Logical unit `unit` was written, in the physical one `at`. Whatever the policy now moves wears
    /// `media`.
    fn tick(&mut self, unit: u64, at: u64, media: &mut Media);

    /// Physical units that it needs for its logical ones.
    fn physical(&self) -> u64;

    /// What it costs to have it.
    fn cost(&self) -> Cost;
}

/// What a policy costs beside the writes that it causes. Times are assumptions that are the same for all
/// policies: an arithmetic step a nanosecond, a table in DRAM that is looked up 50 ns, one in the page table
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    /// Nanoseconds that a look-up adds to each access of the memory.
    pub lookup_ns: f64,
    /// Bytes of tables and counters.
    pub table_bytes: u64,
    /// Units that an access may have to wait for while they are moved.
    pub moved_at_once: u64,
}
