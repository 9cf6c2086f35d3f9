//! A keyed permutation of addresses, computed and not stored.

use device::Rng;

const ROUNDS: usize = 4;

/// A Feistel network over `bits` bits of address: four rounds with keys of a seed.
#[derive(Clone, Debug)]
pub struct Feistel {
    /// Of the half that is changed last, and of the other.
    halves: [u32; 2],
    keys: [u64; ROUNDS],
}

impl Feistel {
    /// A permutation of the numbers below 2^`bits`.
    #[must_use]
    pub fn new(bits: u32, seed: u64) -> Self {
        let key = |round| Rng::part(seed, round) | 1;
        Feistel { halves: [bits.div_ceil(2), bits / 2], keys: std::array::from_fn(|round| key(round as u64)) }
    }

    /// Where `number` goes.
    #[must_use]
    #[inline]
    pub fn apply(&self, number: u64) -> u64 {
        let [mut right_bits, mut left_bits] = self.halves;
        let (mut left, mut right) = (number >> right_bits, number & ((1 << right_bits) - 1));
        for key in self.keys {
            let mixed = (right ^ (key >> 32)).wrapping_mul(key);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            (left, right) = (right, left ^ (mixed & ((1 << left_bits) - 1)));
            std::mem::swap(&mut left_bits, &mut right_bits);
        }
        left << right_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_permutation_without_long_runs() {
        for bits in [1, 2, 5, 10, 13] {
            let feistel = Feistel::new(bits, 7);
            let mut seen: Vec<u64> = (0..1 << bits).map(|number| feistel.apply(number)).collect();
            let neighbours = seen.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
            assert!(bits < 10 || neighbours < seen.len() / 50, "{bits} bits: {neighbours}");
            seen.sort_unstable();
            assert_eq!(seen, (0..1 << bits).collect::<Vec<u64>>());
        }
    }
}
