//! The only source of chance in a simulated run: SplitMix64.

/// A stream of numbers that depends on its seed alone.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

/// What a stream is for, so that streams of one seed have nothing in common.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// Which thread goes on.
    Choices,
    /// At which accesses that is asked.
    Accesses,
    /// What [`crate::Env::random`] gives to that thread.
    Thread(u32),
}

impl Rng {
    pub fn new(seed: u64, purpose: Use) -> Self {
        let stream = match purpose {
            Use::Choices => 1,
            Use::Accesses => 2,
            Use::Thread(number) => 16 + u64::from(number),
        };
        let mut rng = Rng(seed);
        Rng(rng.next() ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Uniform in `0..bound`, but for a bias far below what a run could show. `bound` is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// A bijection that spreads every bit over all.
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, purpose| Rng::new(seed, purpose).next();
        assert_eq!(first(7, Use::Choices), first(7, Use::Choices));
        assert_ne!(first(7, Use::Choices), first(7, Use::Accesses));
        assert_ne!(first(7, Use::Thread(0)), first(7, Use::Thread(1)));
        assert_ne!(first(7, Use::Choices), first(8, Use::Choices));
    }

    #[test]
    fn below_reaches_everything_and_no_more() {
        let mut rng = Rng::new(1, Use::Choices);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[rng.below(5) as usize] += 1);
        assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    }
}
