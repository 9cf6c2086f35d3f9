//! What memory is placed and protected by.

/// Bytes of a page.
pub const PAGE: usize = 4096;
