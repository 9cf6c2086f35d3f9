//! SHARDS (Waldspurger and others, FAST '15): stack distances of a sample of the lines, chosen by a hash of the address.
//!
//! A line is in the sample if its hash is below a threshold; its distance among the sampled lines, divided by the rate, is an
//! estimate of its distance among all. With a bound on the lines, the threshold falls as lines come, and lines that are
//! no longer below it leave (the paper's fixed-size variant).

use super::MissCurve;
use super::exact::Exact;

/// Bits of the hash that are compared.
const MODULUS: u64 = 1 << 24;

/// A sampled stack-distance structure.
#[derive(Debug)]
pub struct Shards {
    exact: Exact,
    threshold: u64,
    accesses: u64,
    sampled: u64,
}

impl Shards {
    /// Samples about this share of the lines, 0 to 1; at least one in 16,777,216.
    #[must_use]
    pub fn new(rate: f64) -> Shards {
        let threshold = (rate.clamp(0.0, 1.0) * MODULUS as f64) as u64;
        Shards { exact: Exact::new(), threshold: threshold.max(1), accesses: 0, sampled: 0 }
    }

    /// One access.
    pub fn access(&mut self, line: u64) {
        self.accesses += 1;
        if hash(line) % MODULUS < self.threshold {
            self.sampled += 1;
            self.exact.access(line);
        }
    }

    /// The share of the lines that is sampled.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.threshold as f64 / MODULUS as f64
    }

    /// Accesses to sampled lines.
    #[must_use]
    pub fn sampled(&self) -> u64 {
        self.sampled
    }

    /// Estimated misses of fully associative caches with least-recently-used replacement. The difference between the expected and the
    /// actual number of sampled accesses is charged to the shortest distance, as the paper's adjustment does.
    #[must_use]
    pub fn curve(&self) -> MissCurve {
        let rate = self.rate();
        let mut distances = self.exact.distances().to_vec();
        let expected = self.accesses as f64 * rate;
        let missing = expected - self.sampled as f64;
        if distances.is_empty() {
            distances.push(0);
        }
        distances[0] = (distances[0] as f64 + missing).max(0.0) as u64;
        let (scale, cold) = (1.0 / rate, self.exact.cold() as f64 / rate);
        MissCurve::of_distances(&distances, scale, cold, self.accesses as f64)
    }
}

/// A mix of all bits (the finaliser of SplitMix64).
pub(crate) fn hash(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the accesses goes to a small set, the rest to one ten times as large: a curve with a knee.
    #[test]
    fn a_tenth_of_the_lines_gives_the_exact_curve_within_three_points() {
        let (mut exact, mut shards) = (Exact::new(), Shards::new(0.1));
        let mut state = 7u64;
        for _ in 0..400_000 {
            state = hash(state);
            let line =
                if state.is_multiple_of(4) { (state >> 8) % 2_000 } else { 10_000 + (state >> 8) % 20_000 };
            exact.access(line);
            shards.access(line);
        }
        let (exact, sampled) = (exact.curve(), shards.curve());
        for lines in [500.0, 2_000.0, 8_000.0, 15_000.0, 22_000.0, 30_000.0] {
            let (one, two) = (exact.misses(lines) / 400_000.0, sampled.misses(lines) / 400_000.0);
            assert!((one - two).abs() < 0.03, "{lines}: {one:.3} exact, {two:.3} sampled");
        }
        assert!((39_000..=41_500).contains(&shards.sampled()), "{}", shards.sampled());
    }

    #[test]
    fn all_lines_give_the_exact_curve() {
        let (mut exact, mut shards) = (Exact::new(), Shards::new(1.0));
        for access in 0..5_000u64 {
            let line = hash(access) % 700;
            exact.access(line);
            shards.access(line);
        }
        for lines in [0.0, 10.0, 100.0, 699.0, 1_000.0] {
            assert!((exact.curve().misses(lines) - shards.curve().misses(lines)).abs() < 1e-6);
        }
    }
}
