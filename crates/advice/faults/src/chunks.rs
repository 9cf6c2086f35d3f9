//! Aligned 2 MiB of blocks: which were touched, of faults that may each stand for many.

use std::collections::HashMap;

use crate::attribute::Kind;

#[derive(Clone, Copy)]
struct Chunk {
    key: u64,
    /// Samples, and the faults that they stand for.
    samples: u64,
    faults: u64,
    /// Of them, stores.
    stores: u64,
    /// The first store: its kind, and where it is among all that happened to the site.
    first: Option<(Kind, usize)>,
}

/// A chunk that was stored to in one fault.
pub(crate) struct Seen {
    pub(crate) key: u64,
    pub(crate) kind: Kind,
    pub(crate) at: usize,
}

/// Faults by block and chunk.
#[derive(Default)]
pub(crate) struct Chunks(HashMap<(usize, u64), Chunk>);

impl Chunks {
    pub(crate) fn add(&mut self, chunk: (usize, u64), key: u64, weight: u64, store: Option<(Kind, usize)>) {
        let empty = Chunk { key, samples: 0, faults: 0, stores: 0, first: None };
        let one = self.0.entry(chunk).or_insert(empty);
        one.samples += 1;
        one.faults += weight;
        one.stores += if store.is_some() { weight } else { 0 };
        one.first = one.first.or(store);
    }

    pub(crate) fn single_stores(&self) -> impl Iterator<Item = Seen> {
        self.0.values().filter(|chunk| chunk.stores == 1).filter_map(|chunk| {
            let (kind, at) = chunk.first?;
            Some(Seen { key: chunk.key, kind, at })
        })
    }

    /// Chunks of a site that were touched. Where samples stand for many faults, some chunks were touched and
    /// not seen: those that were have the samples of a Poisson distribution without its zero.
    pub(crate) fn touched(&self, key: u64) -> u64 {
        let of_site = || self.0.values().filter(|chunk| chunk.key == key);
        let exact = of_site().filter(|chunk| chunk.samples == chunk.faults).count() as u64;
        let sampled = || of_site().filter(|chunk| chunk.samples < chunk.faults);
        let seen = sampled().count() as u64;
        let (samples, faults) =
            sampled().fold((0, 0), |(samples, faults), one| (samples + one.samples, faults + one.faults));
        exact + estimated(seen, samples, faults)
    }
}

/// Chunks that were touched, where `seen` have all `samples`, which stand for `faults`.
fn estimated(seen: u64, samples: u64, faults: u64) -> u64 {
    if seen == 0 || samples == seen {
        return faults;
    }
    // The mean of a chunk that was seen is rate / (1 - exp(-rate)), which grows with the rate.
    let mean = samples as f64 / seen as f64;
    let (mut low, mut high) = (0.0f64, mean);
    for _ in 0..60 {
        let rate = (low + high) / 2.0;
        if rate / -(-rate).exp_m1() < mean { low = rate } else { high = rate }
    }
    let shown = -(-high).exp_m1();
    ((seen as f64 / shown).round() as u64).clamp(seen, faults.max(seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_that_no_sample_shows_are_estimated() {
        assert_eq!(estimated(0, 0, 0), 0);
        assert_eq!(estimated(100, 100, 1700), 1700, "each chunk has one fault: one in 17 was seen");
        assert_eq!(estimated(50, 1500, 25_600), 50, "512 faults each: all were seen");
        // 1000 chunks of 17 faults each, one sample on average: 632 are seen, with 1000 samples.
        assert!((950..1050).contains(&estimated(632, 1000, 17_000)));
    }

    #[test]
    fn exact_ones_are_counted() {
        let mut chunks = Chunks::default();
        chunks.add((1, 1), 7, 1, None);
        chunks.add((1, 2), 7, 1, Some((Kind::Write, 3)));
        (0..30).for_each(|_| chunks.add((1, 3), 7, 17, Some((Kind::Write, 4))));
        chunks.add((2, 3), 8, 1, None);
        assert_eq!((chunks.touched(7), chunks.touched(8)), (3, 1));
        let single: Vec<usize> = chunks.single_stores().map(|one| one.at).collect();
        assert_eq!(single, [3]);
    }
}
