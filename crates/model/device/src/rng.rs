//! Chance: every draw of the model comes from a seed.

/// SplitMix64: every draw of the model comes from one of these, seeded from the description.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The draws of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The seed of part `number` of something that has `seed`: one that no other part has, whatever parts it
    /// has in turn.
    #[must_use]
    pub fn part(seed: u64, number: u64) -> u64 {
        Rng(Rng(seed).next() ^ number).next()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is below 2^32.
    pub fn below(&mut self, limit: usize) -> usize {
        (((self.next() >> 32) * limit as u64) >> 32) as usize
    }

    /// True with probability `p`: never at 0 or less, always at 1 or more. Takes one draw.
    #[allow(clippy::cast_precision_loss)]
    pub fn chance(&mut self, p: f64) -> bool {
        // As many bits as a double holds exactly.
        ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chance_is_what_it_says() {
        let mut rng = Rng::new(3);
        let mut share = |p| (0..10_000).filter(|_| rng.chance(p)).count();
        assert_eq!([share(-1.0), share(0.0), share(1.0), share(2.0)], [0, 0, 10_000, 10_000]);
        for p in [0.01, 0.3, 0.5, 0.9] {
            let (times, expected) = (share(p) as f64, p * 1e4);
            assert!((times - expected).abs() < 4.0 * (expected * (1.0 - p)).sqrt(), "{p}: {times}");
        }
    }

    #[test]
    fn parts_of_parts_have_seeds_of_their_own() {
        let two_levels =
            (0..64).flat_map(|outer| (0..64).map(move |inner| Rng::part(Rng::part(1, outer), inner)));
        let mut seeds: Vec<u64> = (0..64).map(|number| Rng::part(1, number)).chain(two_levels).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 64 + 64 * 64);
    }
}
