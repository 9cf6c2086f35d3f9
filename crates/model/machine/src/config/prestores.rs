//! Hardware pre-stores: what the caches know of each memory, and do of their own accord.

use serde::{Deserialize, Serialize};

/// The table `[prestores]`; without it, caches keep what they are given until they must let it go. For simulated time
/// only. No processor that is sold has this: it is what programs do with `clwb` and `cldemote`, done by the core for whole ranges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HardwarePrestores {
    /// What a core does with stores to the persistent ranges. Default `"none"`.
    #[serde(default)]
    pub persistent: Eager,
    /// And with stores to all other memory. Default `"none"`.
    #[serde(default)]
    pub other: Eager,
}

/// What a core does before it is forced to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eager {
    /// Nothing.
    #[default]
    None,
    /// Writes lines back, and keeps them, once a unit of the device was filled and the stores have moved on.
    Clean,
    /// Makes a line visible once its last byte is stored, or stores have moved on to another line. Of use with weak ordering.
    Demote,
}
