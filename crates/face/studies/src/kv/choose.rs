//! Which keys operations touch.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;

/// The exponent; the source does not name its own. YCSB's.
const THETA: f64 = 0.99;

/// How often which key is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keys {
    /// Each as often as any other.
    Uniform,
    /// The one of rank r about r^-0.99 times as often as the first.
    Zipf,
}

/// Draws keys.
pub(super) struct Chooser {
    random: Xoshiro256PlusPlus,
    count: u64,
    zipf: Option<Zipf<f64>>,
}

impl Chooser {
    /// Of so many keys.
    pub fn new(keys: Keys, count: u64, seed: u64) -> Chooser {
        // A count far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        let zipf = (keys == Keys::Zipf).then(|| Zipf::new(count as f64, THETA).ok()).flatten();
        Chooser { random: Xoshiro256PlusPlus::seed_from_u64(seed), count, zipf }
    }

    /// A key.
    pub fn key(&mut self) -> u64 {
        match self.zipf {
            None => self.random.random_range(0..self.count),
            // The rank is a whole number from 1 to the count; ranks are scattered over the keys.
            Some(zipf) => {
                let rank = self.random.sample(zipf) as u64;
                rank.wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32) % self.count
            }
        }
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.random_range(0..bound)
    }
}
