//! Division by a number that is known long before: one multiplication instead.

/// A divisor, with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    divisor: u64,
    /// 2^64 / divisor, rounded down (2^64 - 1 for 1).
    reciprocal: u64,
}

impl Divisor {
    /// `divisor` is not 0.
    #[must_use]
    pub fn new(divisor: u64) -> Self {
        Divisor { divisor, reciprocal: u64::MAX / divisor }
    }

    /// Quotient and remainder.
    #[inline(always)]
    #[must_use]
    pub fn divide(self, number: u64) -> (u64, u64) {
        // The reciprocal is too small by less than 1, and so the quotient by 1 at most.
        let quotient = ((u128::from(number) * u128::from(self.reciprocal)) >> 64) as u64;
        let remainder = number - quotient * self.divisor;
        let short = u64::from(remainder >= self.divisor);
        (quotient + short, remainder - if short == 1 { self.divisor } else { 0 })
    }

    /// The remainder alone.
    #[inline(always)]
    #[must_use]
    pub fn remainder(self, number: u64) -> u64 {
        self.divide(number).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn agrees(number: u64, divisor: u64) -> bool {
        Divisor::new(divisor).divide(number) == (number / divisor, number % divisor)
    }

    #[test]
    fn the_ends_of_the_ranges_divide_as_they_should() {
        let ends =
            [1, 2, 3, 6, 49_152, 1 << 32, (1 << 32) + 1, 1 << 63, (1 << 63) + 1, u64::MAX - 1, u64::MAX];
        for divisor in ends {
            let near =
                ends.iter().flat_map(|&end| [end - 1, end, end.saturating_add(1), end / divisor * divisor]);
            assert!(near.into_iter().all(|number| agrees(number, divisor)), "{divisor}");
        }
    }

    proptest! {
        #[test]
        fn a_reciprocal_divides_as_division_does(number: u64, shift in 0u32..64, wide in 1u64..) {
            let divisor = (wide >> shift).max(1);
            prop_assert!(agrees(number, divisor), "{} / {}", number, divisor);
            prop_assert!(agrees(number / divisor * divisor, divisor));
        }
    }
}
