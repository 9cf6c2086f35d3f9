//! Misses by the number of lines that a fully associative cache holds.

/// A curve that falls from all accesses to the first uses of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct MissCurve {
    /// Lines, and misses of a cache of that size; lines increase.
    points: Vec<(f64, f64)>,
}

impl MissCurve {
    /// From counts of accesses by distance. One count stands for `scale` accesses, and one step of distance for `scale` lines;
    /// `cold` first uses miss at any size; `accesses` all miss in a cache of nothing.
    pub(super) fn of_distances(distances: &[u64], scale: f64, cold: f64, accesses: f64) -> MissCurve {
        let mut points = vec![(0.0, accesses)];
        let mut left: f64 = distances.iter().map(|&count| count as f64 * scale).sum();
        for (at, &count) in (1..).zip(distances) {
            if count > 0 {
                left -= count as f64 * scale;
                points.push((f64::from(at) * scale, (left + cold).max(0.0)));
            }
        }
        MissCurve { points }
    }

    /// Misses of a cache of so many lines.
    #[must_use]
    pub fn misses(&self, lines: f64) -> f64 {
        let after = self.points.partition_point(|&(at, _)| at <= lines + 1e-9);
        self.points[after.saturating_sub(1)].1
    }
}
