//! The distribution of a mean of independent draws from page rates: a histogram that is convolved with
//! itself.
//!
//! A shuffle puts each page onto a frame at random, so the rate of a frame over many shuffles is the mean of
//! as many independent draws. The sum of 2^k draws takes k self-convolutions; other numbers of draws are put
//! together of these. After each convolution the histogram is laid anew over the values that still matter, so
//! it stays as fine as at the start while the distribution narrows. Mass between two bins goes to both so
//! that the mean is kept.

use crate::Rates;

/// Bins of a histogram.
const BINS: usize = 4096;
/// Mass at either end that is moved inwards instead of being kept in bins of its own: far below the share of
/// pages that lifetimes ask for.
const TAIL: f64 = 1e-10;

/// A distribution on evenly spaced values.
#[derive(Clone, Debug)]
pub struct Spread {
    first: f64,
    step: f64,
    mass: Vec<f64>,
}

impl Spread {
    /// The rate of a page that is chosen at random.
    #[must_use]
    pub fn of(rates: &Rates) -> Self {
        let atoms = rates.atoms();
        let (high, low) = match (atoms.first(), atoms.last()) {
            (Some(high), Some(low)) => (high.0, low.0),
            _ => (0.0, 0.0),
        };
        let mut spread = Spread::over(low, high, BINS);
        let parts = rates.parts().max(1) as f64;
        atoms.iter().for_each(|&(rate, count)| spread.add(rate, count as f64 / parts));
        spread
    }

    /// The mean of `draws` independent draws.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn mean_of(&self, draws: u64) -> Spread {
        Powers::of(self.clone()).mean_of(draws)
    }

    /// The value that a share of `p` of the mass stays below or at.
    #[must_use]
    pub fn quantile(&self, p: f64) -> f64 {
        let mut below = 0.0;
        for (bin, mass) in self.mass.iter().enumerate() {
            // Sums of doubles: a mass that should reach `p` exactly may fall short by their error.
            if below + mass >= p - 1e-12 {
                return self.value(bin);
            }
            below += mass;
        }
        self.value(self.mass.len().saturating_sub(1))
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mass.iter().enumerate().map(|(bin, mass)| self.value(bin) * mass).sum()
    }

    /// The standard deviation.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let square = |(bin, mass): (usize, &f64)| (self.value(bin) - mean).powi(2) * mass;
        self.mass.iter().enumerate().map(square).sum::<f64>().sqrt()
    }

    fn value(&self, bin: usize) -> f64 {
        self.first + bin as f64 * self.step
    }

    fn over(low: f64, high: f64, bins: usize) -> Self {
        let step = (high - low) / (bins - 1) as f64;
        // One value, or values that differ by less than a double can step.
        let bins = if step > 0.0 && low + step > low { bins } else { 1 };
        Spread { first: low, step: if bins == 1 { 0.0 } else { step }, mass: vec![0.0; bins] }
    }

    /// Adds mass at a value, shared between the two bins next to it.
    fn add(&mut self, value: f64, mass: f64) {
        if self.step == 0.0 {
            self.mass[0] += mass;
            return;
        }
        let at = ((value - self.first) / self.step).clamp(0.0, (self.mass.len() - 1) as f64);
        let bin = (at as usize).min(self.mass.len() - 2);
        let upper = at - bin as f64;
        self.mass[bin] += mass * (1.0 - upper);
        self.mass[bin + 1] += mass * upper;
    }

    /// The distribution of the sum of a draw from each.
    fn plus(&self, other: &Spread) -> Spread {
        let (a, b) = (self.trimmed(), other.trimmed());
        let span = |spread: &Spread| spread.step * (spread.mass.len() - 1) as f64;
        let step = (span(&a) + span(&b)) / (BINS - 2) as f64;
        if step == 0.0 {
            return Spread { first: a.first + b.first, step: 0.0, mass: vec![1.0] };
        }
        let (a, b) = (a.on(step), b.on(step));
        let mut mass = vec![0.0; a.mass.len() + b.mass.len() - 1];
        for (at, &from) in a.mass.iter().enumerate().filter(|(_, mass)| **mass > 0.0) {
            mass[at..].iter_mut().zip(&b.mass).for_each(|(to, with)| *to += from * with);
        }
        Spread { first: a.first + b.first, step, mass }
    }

    /// The same mass on bins of another width, from the same first value.
    fn on(&self, step: f64) -> Spread {
        let span = self.step * (self.mass.len() - 1) as f64;
        let bins = (span / step).ceil() as usize + 2;
        let mut spread = Spread { first: self.first, step, mass: vec![0.0; bins] };
        for (bin, &mass) in self.mass.iter().enumerate() {
            spread.add(self.value(bin), mass);
        }
        while spread.mass.len() > 1 && spread.mass.last() == Some(&0.0) {
            spread.mass.pop();
        }
        spread
    }

    /// Without the bins at either end whose mass does not matter; the mass moves to the first bin that is
    /// kept.
    fn trimmed(&self) -> Spread {
        let end = |mut bins: Box<dyn Iterator<Item = &f64> + '_>| {
            let mut sum = 0.0;
            let kept = bins.by_ref().position(|mass| {
                sum += mass;
                sum > TAIL
            });
            kept.unwrap_or(0)
        };
        let (low, high) = (end(Box::new(self.mass.iter())), end(Box::new(self.mass.iter().rev())));
        let last = self.mass.len() - 1 - high;
        if low >= last {
            let mass = vec![self.mass.iter().sum()];
            return Spread { first: self.value(low.min(self.mass.len() - 1)), step: 0.0, mass };
        }
        let mut mass = self.mass[low..=last].to_vec();
        mass[0] += self.mass[..low].iter().sum::<f64>();
        if let Some(top) = mass.last_mut() {
            *top += self.mass[last + 1..].iter().sum::<f64>();
        }
        Spread { first: self.value(low), step: self.step, mass }
    }
}

/// The sums of 1, 2, 4, ... draws, each made once: for means of many numbers of draws.
#[derive(Clone, Debug)]
pub(crate) struct Powers(Vec<Spread>);

impl Powers {
    /// Of draws from a distribution.
    pub(crate) fn of(one: Spread) -> Self {
        Powers(vec![one])
    }

    /// As [`Spread::mean_of`].
    ///
    /// # Panics
    /// If there are no draws.
    pub(crate) fn mean_of(&mut self, draws: u64) -> Spread {
        assert!(draws > 0, "a mean is of one draw at least");
        let bits = (u64::BITS - draws.leading_zeros()) as usize;
        while self.0.len() < bits {
            let last = &self.0[self.0.len() - 1];
            self.0.push(last.plus(last));
        }
        let mut powers = self.0.iter().enumerate().filter(|(bit, _)| draws & (1 << bit) != 0);
        let first = powers.next().map_or_else(|| self.0[0].clone(), |(_, power)| power.clone());
        let sum = powers.fold(first, |sum, (_, power)| sum.plus(power));
        let draws = draws as f64;
        Spread { first: sum.first / draws, step: sum.step / draws, mass: sum.mass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All means of `draws` draws, one by one: what the convolution stands for.
    fn all_means(values: &[f64], draws: u32) -> Vec<f64> {
        let count = values.len().pow(draws);
        let mut means: Vec<f64> = (0..count)
            .map(|mut number| {
                let mut sum = 0.0;
                for _ in 0..draws {
                    sum += values[number % values.len()];
                    number /= values.len();
                }
                sum / f64::from(draws)
            })
            .collect();
        means.sort_by(f64::total_cmp);
        means
    }

    #[test]
    fn convolution_is_the_enumeration_of_all_draws() {
        let values = [0.0, 1.0, 1.0, 2.0, 9.0, 30.0];
        let rates = Rates::new(values);
        for draws in [1, 2, 3, 5, 6] {
            let means = all_means(&values, draws);
            let spread = Spread::of(&rates).mean_of(u64::from(draws));
            for p in [0.1, 0.5, 0.9, 0.95, 0.991] {
                let expected = means[((p * means.len() as f64).ceil() as usize - 1).min(means.len() - 1)];
                let found = spread.quantile(p);
                assert!((found - expected).abs() < 0.02, "{draws} draws, {p}: {found} for {expected}");
            }
            assert!((spread.mean() - rates.mean()).abs() < 1e-9);
        }
    }

    #[test]
    fn many_draws_follow_the_central_limit() {
        let rates = Rates::counted([(1000.0, 1000), (40.0, 9000), (0.0, 252_144)]);
        let spread = Spread::of(&rates);
        for draws in [1024u64, 8192, 10_000, 65_536] {
            let mean = spread.mean_of(draws);
            let deviation = rates.deviation() / (draws as f64).sqrt();
            assert!((mean.mean() / rates.mean() - 1.0).abs() < 1e-6);
            assert!((mean.deviation() / deviation - 1.0).abs() < 0.01, "{draws}: {}", mean.deviation());
            // With the first term for skewness of Cornish and Fisher.
            let cubes: f64 = rates.atoms().iter().map(|a| (a.0 - rates.mean()).powi(3) * a.1 as f64).sum();
            let skewness = cubes / rates.parts() as f64 / rates.deviation().powi(3) / (draws as f64).sqrt();
            let z = 2.3263 + (2.3263f64.powi(2) - 1.0) * skewness / 6.0;
            let expected = rates.mean() + z * deviation;
            let found = mean.quantile(0.99);
            assert!((found / expected - 1.0).abs() < 0.015, "{draws}: {found} for {expected}");
        }
    }

    #[test]
    fn one_value_stays_one_value() {
        let spread = Spread::of(&Rates::counted([(5.0, 1 << 18)])).mean_of(8192);
        assert_eq!((spread.quantile(0.99), spread.mean(), spread.deviation()), (5.0, 5.0, 0.0));
        let nothing = Spread::of(&Rates::default()).mean_of(3);
        assert_eq!(nothing.quantile(0.99), 0.0);
    }
}
