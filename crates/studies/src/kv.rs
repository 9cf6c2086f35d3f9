//! Persistent key-value stores (Wu 2026, chapter 2).

use crate::{Means, Row, Source};

/// Result A-R10.
pub const ROWS: &[Row] = &[Row {
    source: Source::Kv,
    id: "A-R10",
    claim: "Full persistence by transactions is 9 times slower than persisting keys and values only; 70 % of the time goes to locks \
            of the allocator's metadata",
    expected: "9; 0.7",
    tolerance: "30 %",
    method: "an allocator engine with its index in DRAM, against the same with the index and the allocator's metadata in a pool and each \
             insertion a region",
    calibration: "",
    note: "",
    means: Means::Later(
        "the key-value engines: one that persists keys and values only, and a persistent B+-tree in regions",
    ),
    lacks: "",
}];
