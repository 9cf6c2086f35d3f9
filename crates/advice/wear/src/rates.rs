//! How often each part of a memory is written, and the quantities that lifetimes are made of.

/// A value and how many parts have it.
type Atom = (f64, u64);

/// Write rates of the parts of a memory (lines, pages), in writes per second or per run. Parts with the same
/// rate are kept together, so a terabyte of idle pages costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Descending, each value once.
    atoms: Vec<Atom>,
    parts: u64,
    sum: f64,
}

impl Rates {
    /// The rates of as many parts as `rates` has; what is not a finite number of at least 0 counts as 0.
    #[must_use]
    pub fn new(rates: impl IntoIterator<Item = f64>) -> Self {
        Rates::counted(rates.into_iter().map(|rate| (rate, 1)))
    }

    /// The same of rates with the number of parts that have them.
    #[must_use]
    pub fn counted(rates: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let sound = |rate: f64| if rate.is_finite() && rate > 0.0 { rate } else { 0.0 };
        let mut atoms: Vec<Atom> = rates
            .into_iter()
            .filter(|(_, parts)| *parts > 0)
            .map(|(rate, parts)| (sound(rate), parts))
            .collect();
        atoms.sort_by(|a, b| b.0.total_cmp(&a.0));
        atoms.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        let parts = atoms.iter().map(|atom| atom.1).sum();
        let sum = atoms.iter().map(|atom| atom.0 * atom.1 as f64).sum();
        Rates { atoms, parts, sum }
    }

    /// The same memory with idle parts up to `parts` in all.
    #[must_use]
    pub fn within(&self, parts: u64) -> Self {
        let idle = parts.saturating_sub(self.parts);
        Rates::counted(self.atoms.iter().copied().chain([(0.0, idle)]))
    }

    /// Every rate times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Rates::counted(self.atoms.iter().map(|&(rate, parts)| (rate * factor, parts)))
    }

    /// Rates and how many parts have them, the highest first.
    #[must_use]
    pub fn atoms(&self) -> &[(f64, u64)] {
        &self.atoms
    }

    /// How many parts there are.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.parts
    }

    /// The rates of all parts together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.sum
    }

    /// The mean rate; 0 of no parts.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.parts == 0 { 0.0 } else { self.sum / self.parts as f64 }
    }

    /// The standard deviation over the parts.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.atoms.iter().map(|&(rate, parts)| (rate - mean).powi(2) * parts as f64).sum();
        if self.parts == 0 { 0.0 } else { (squares / self.parts as f64).sqrt() }
    }

    /// The lowest rate among the hottest `share` of the parts (rounded up to one part at least): when this
    /// part is worn out, that share is.
    #[must_use]
    pub fn hottest(&self, share: f64) -> f64 {
        let mut left = ((self.parts as f64 * share).ceil() as u64).max(1);
        for &(rate, parts) in &self.atoms {
            if parts >= left {
                return rate;
            }
            left -= parts;
        }
        0.0
    }

    /// Points of the curve of rates: for each of `points` shares of the parts, hottest first, the rate there.
    #[must_use]
    pub fn curve(&self, points: usize) -> Vec<(f64, f64)> {
        (1..=points)
            .map(|point| point as f64 / points as f64)
            .map(|share| (share, self.hottest(share)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_share_is_rounded_up() {
        let rates = Rates::new((0..200).map(f64::from));
        assert_eq!(rates.hottest(0.01), 198.0);
        assert_eq!(rates.hottest(0.011), 197.0, "three of two hundred");
        assert_eq!(Rates::new([3.0, 1.0]).hottest(0.01), 3.0);
        assert_eq!(Rates::default().hottest(0.01), 0.0);
    }

    #[test]
    fn idle_parts_lower_the_mean_and_not_the_total() {
        let rates = Rates::new([8.0, 8.0, f64::NAN, -1.0]).within(16);
        assert_eq!((rates.parts(), rates.total(), rates.mean()), (16, 16.0, 1.0));
        assert_eq!(rates.atoms(), [(8.0, 2), (0.0, 14)]);
        assert_eq!(rates.within(2), rates, "a memory does not shrink");
        assert!((rates.deviation() - 7f64.sqrt()).abs() < 1e-12);
    }
}
