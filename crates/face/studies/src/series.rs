//! Points of a curve, and where its peak, knee and crossings lie.

/// A curve: pairs of x and y, by rising x.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series(
    /// The points.
    pub Vec<(f64, f64)>,
);

/// Points within this share of the highest count as the peak: curves are flat there.
const PEAK: f64 = 0.97;

impl Series {
    /// One point for each x.
    ///
    /// # Errors
    /// The first that `y` returns.
    pub fn measure<X: Copy + Into<f64>, E>(
        xs: &[X],
        mut y: impl FnMut(X) -> Result<f64, E>,
    ) -> Result<Series, E> {
        xs.iter().map(|x| Ok(((*x).into(), y(*x)?))).collect::<Result<_, E>>().map(Series)
    }

    /// The value at exactly this x; NaN, which no check accepts, if there is none.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.0.iter().find(|point| (point.0 - x).abs() < 1e-9).map_or(f64::NAN, |point| point.1)
    }

    /// The highest value.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0.iter().map(|point| point.1).fold(f64::NAN, f64::max)
    }

    /// The lowest value.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0.iter().map(|point| point.1).fold(f64::NAN, f64::min)
    }

    /// The smallest x at which the curve is within 3 % of its highest value.
    #[must_use]
    pub fn peak(&self) -> f64 {
        let high = self.max() * PEAK;
        self.0.iter().find(|point| point.1 >= high).map_or(f64::NAN, |point| point.0)
    }

    /// Where the lowest value is.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        let low = self.min();
        self.0.iter().find(|point| point.1 <= low).map_or(f64::NAN, |point| point.0)
    }

    /// The part with x between the two bounds.
    #[must_use]
    pub fn part(&self, from: f64, to: f64) -> Series {
        Series(self.0.iter().copied().filter(|point| (from..=to).contains(&point.0)).collect())
    }

    /// The largest drop from a value to a later one, as a share of the former; 0 for a curve that never
    /// falls.
    #[must_use]
    pub fn fall(&self) -> f64 {
        let mut highest = f64::NEG_INFINITY;
        self.0.iter().fold(0.0, |fall: f64, point| {
            highest = highest.max(point.1);
            fall.max(1.0 - point.1 / highest)
        })
    }

    /// The smallest x from which on the curve stays at or above `other`; infinite if it ends below. Both have
    /// the same xs.
    #[must_use]
    pub fn overtakes(&self, other: &Series) -> f64 {
        let below = self.0.iter().zip(&other.0).rposition(|(this, that)| this.1 < that.1);
        let first = below.map_or(0, |at| at + 1);
        self.0.get(first).map_or(f64::INFINITY, |point| point.0)
    }

    /// Mean of the relative distances to the published curve, over the published points that were measured.
    #[must_use]
    pub fn error(&self, published: &[(f64, f64)]) -> f64 {
        let errors: Vec<f64> = published
            .iter()
            .map(|(x, y)| (self.at(*x) / y - 1.0).abs())
            .filter(|error| error.is_finite())
            .collect();
        errors.iter().sum::<f64>() / count(errors.len())
    }

    /// Slope and constant of the straight line with the least squares, and the share of the variance that it
    /// explains.
    #[must_use]
    pub fn line(&self) -> (f64, f64, f64) {
        let n = count(self.0.len());
        let mean = |value: fn(&(f64, f64)) -> f64| self.0.iter().map(value).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let sum = |value: &dyn Fn(&(f64, f64)) -> f64| self.0.iter().map(value).sum::<f64>();
        let xx = sum(&|p| (p.0 - x).powi(2));
        let xy = sum(&|p| (p.0 - x) * (p.1 - y));
        let yy = sum(&|p| (p.1 - y).powi(2));
        (xy / xx, y - xy / xx * x, xy * xy / (xx * yy))
    }
}

#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(ys: &[f64]) -> Series {
        Series((1..).map(f64::from).zip(ys.iter().copied()).collect())
    }

    #[test]
    fn peaks_are_where_a_curve_first_comes_near_its_top() {
        assert_eq!(series(&[1.0, 2.0, 2.95, 3.0, 2.0]).peak(), 3.0);
        assert_eq!(series(&[5.0, 4.0]).peak(), 1.0);
        assert_eq!(series(&[5.0, 3.0, 4.0]).lowest(), 2.0);
        assert!(Series::default().peak().is_nan());
    }

    #[test]
    fn falls_are_measured_from_the_highest_before() {
        assert_eq!(series(&[1.0, 2.0, 3.0]).fall(), 0.0);
        assert_eq!(series(&[4.0, 3.0, 5.0, 2.5]).fall(), 0.5);
    }

    #[test]
    fn a_curve_overtakes_where_it_stays_above() {
        let flat = series(&[2.0, 2.0, 2.0, 2.0]);
        assert_eq!(series(&[1.0, 3.0, 1.0, 3.0]).overtakes(&flat), 4.0);
        assert_eq!(series(&[2.0, 3.0, 3.0, 3.0]).overtakes(&flat), 1.0);
        assert_eq!(series(&[3.0, 3.0, 3.0, 1.0]).overtakes(&flat), f64::INFINITY);
    }

    #[test]
    fn a_straight_line_is_found_again() {
        let (slope, constant, explained) = series(&[1.0, 3.0, 5.0, 7.0]).line();
        assert!(
            (slope - 2.0).abs() < 1e-9 && (constant + 1.0).abs() < 1e-9 && (explained - 1.0).abs() < 1e-9
        );
        let (.., explained) = series(&[1.0, 9.0, 1.0, 9.0, 1.0]).line();
        assert!(explained < 0.1, "{explained}");
    }

    #[test]
    fn errors_are_means_over_common_points() {
        let error = series(&[1.1, 2.0, 9.0]).error(&[(1.0, 1.0), (2.0, 2.0), (7.0, 1.0)]);
        assert!((error - 0.05).abs() < 1e-9, "{error}");
        assert!(series(&[1.0]).error(&[]).is_nan());
    }
}
