//! How long writes are.

use serde::{Deserialize, Serialize};

/// Buckets of a [`SizeHistogram`]; the last one holds everything from 16 MiB.
pub const SIZE_BUCKETS: usize = 25;

/// Writes by size: bucket `i` is for `2^i` to `2^(i+1) - 1` bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeHistogram {
    /// Writes in each bucket.
    pub writes: [u64; SIZE_BUCKETS],
    /// Their bytes.
    pub bytes: [u64; SIZE_BUCKETS],
}

/// Ordinary and non-temporal writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritesByKind {
    /// Runs of ordinary stores.
    pub temporal: SizeHistogram,
    /// Runs of non-temporal stores.
    pub non_temporal: SizeHistogram,
}

/// Sizes of a program's writes. A write is a run of stores of one thread that lie next to each other, not a
/// single instruction; it ends where the program makes it durable (a flush, or non-temporal stores, and a
/// fence).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteSizes {
    /// To any memory.
    pub all: WritesByKind,
    /// To persistent ranges.
    pub persistent: WritesByKind,
}

impl SizeHistogram {
    /// Counts `writes` writes, at least 1, of `bytes` together.
    pub(super) fn add(&mut self, bytes: u64, writes: u64) {
        let each = if writes == 1 { bytes } else { bytes / writes };
        let bucket = (each.max(1).ilog2() as usize).min(SIZE_BUCKETS - 1);
        self.writes[bucket] += writes;
        self.bytes[bucket] = self.bytes[bucket].saturating_add(bytes);
    }

    /// Both histograms together.
    pub(super) fn plus(&self, other: &SizeHistogram) -> SizeHistogram {
        let mut sum = *self;
        for i in 0..SIZE_BUCKETS {
            sum.writes[i] += other.writes[i];
            sum.bytes[i] = sum.bytes[i].saturating_add(other.bytes[i]);
        }
        sum
    }

    /// All writes.
    #[must_use]
    pub fn total_writes(&self) -> u64 {
        self.writes.iter().sum()
    }

    /// Bytes of all writes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, &bytes| sum.saturating_add(bytes))
    }

    /// The writes shorter than `limit`. Exact for powers of two; for others, of the power of two below.
    #[must_use]
    pub fn below(&self, limit: u64) -> SizeHistogram {
        let mut part = SizeHistogram::default();
        let end = (limit.max(1).ilog2() as usize).min(SIZE_BUCKETS);
        part.writes[..end].copy_from_slice(&self.writes[..end]);
        part.bytes[..end].copy_from_slice(&self.bytes[..end]);
        part
    }

    /// Mean size in the bucket with the most writes; `None` without writes.
    #[must_use]
    pub fn typical(&self) -> Option<u64> {
        let (bucket, &writes) = self.writes.iter().enumerate().rev().max_by_key(|&(_, &writes)| writes)?;
        (writes > 0).then(|| self.bytes[bucket] / writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let mut sizes = SizeHistogram::default();
        for bytes in [1, 255, 256, 1 << 24, 1 << 40] {
            sizes.add(bytes, 1);
        }
        assert_eq!((sizes.writes[0], sizes.writes[7], sizes.writes[8], sizes.writes[24]), (1, 1, 1, 2));
        assert_eq!(sizes.below(256).total_bytes(), 256);
        assert_eq!(sizes.below(1 << 50), sizes);
    }

    #[test]
    fn typical_is_the_mean_of_the_commonest_size() {
        let mut sizes = SizeHistogram::default();
        assert_eq!(sizes.typical(), None);
        (0..3).for_each(|_| sizes.add(24, 1));
        sizes.add(4096, 1);
        assert_eq!(sizes.typical(), Some(24));
    }
}
