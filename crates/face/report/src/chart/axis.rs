//! Axes of curves: what an axis counts in, and where its ticks are.

use super::scale::Scale;
use crate::human::{tick_bytes, tick_count, tick_nanoseconds};

/// What an axis of [`Curves`](super::Curves) shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is counted, with its unit unless the ticks name it: `threads`, `bandwidth, GB/s`, `access size`.
    pub title: String,
    /// How ticks are written.
    pub unit: Unit,
    /// Equal steps are equal factors. Points that are not above 0 on such an axis can't be shown and are
    /// left out.
    pub log: bool,
}

/// How the ticks of an [`Axis`] are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// As a number: `0.5`, `24`, `10 K`.
    Number,
    /// As a size: `256 B`, `4 KiB`.
    Bytes,
    /// Nanoseconds, as a time: `300 ns`, `50 us`.
    Nanoseconds,
}

impl Axis {
    /// A linear axis of plain numbers.
    #[must_use]
    pub fn linear(title: &str) -> Axis {
        Axis { title: title.to_owned(), unit: Unit::Number, log: false }
    }

    /// A logarithmic axis.
    #[must_use]
    pub fn log(title: &str, unit: Unit) -> Axis {
        Axis { title: title.to_owned(), unit, log: true }
    }
}

/// An axis with its range.
pub(super) struct Ruler {
    unit: Unit,
    range: Range,
}

enum Range {
    Linear(Scale),
    Log { low: f64, high: f64, ticks: Vec<f64> },
}

impl Ruler {
    /// An axis over `values` with about `ticks` ticks. A logarithmic one ends at round values if `round`,
    /// else at the least and the greatest value.
    pub fn new(axis: &Axis, values: impl Iterator<Item = f64>, ticks: u32, round: bool) -> Ruler {
        let shown = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let (low, high) =
            shown.fold((f64::MAX, 0.0), |(low, high): (f64, f64), value| (low.min(value), high.max(value)));
        let range = if axis.log {
            log_range(axis.unit, low, high, ticks, round)
        } else if axis.unit == Unit::Bytes {
            Range::Linear(Scale::binary(high, ticks))
        } else {
            Range::Linear(Scale::decimal(high, ticks))
        };
        Ruler { unit: axis.unit, range }
    }

    /// Whether `value` can be shown.
    pub fn shows(&self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || matches!(self.range, Range::Linear(_)))
    }

    /// Where `value` lies, 0 to 1.
    pub fn at(&self, value: f64) -> f64 {
        match &self.range {
            Range::Linear(scale) => scale.at(value),
            Range::Log { low, high, .. } => ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0),
        }
    }

    /// The ticks.
    pub fn ticks(&self) -> Vec<f64> {
        match &self.range {
            Range::Linear(scale) => scale.ticks().collect(),
            Range::Log { ticks, .. } => ticks.clone(),
        }
    }

    /// A tick's text.
    pub fn label(&self, tick: f64) -> String {
        match self.unit {
            // Ratios of EWR and the like have no smaller unit.
            Unit::Number if tick != 0.0 && tick.abs() < 1.0 => format!("{}", (tick * 1e6).round() / 1e6),
            Unit::Number => tick_count(tick),
            Unit::Bytes => tick_bytes(tick),
            Unit::Nanoseconds => tick_nanoseconds(tick),
        }
    }
}

/// Tick marks at round values between `low` and `high`, of which each is positive unless there are no values.
fn log_range(unit: Unit, low: f64, high: f64, ticks: u32, round: bool) -> Range {
    let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
    let marks = if unit == Unit::Bytes { powers_of_two(low, high) } else { steps_of_ten(low, high, ticks) };
    // The marks reach beyond both ends: the outermost ones are the round ends.
    let first = marks.iter().rposition(|mark| *mark <= low * 1.000_001).unwrap_or(0);
    let last = marks.iter().position(|mark| *mark >= high * 0.999_999).unwrap_or(marks.len() - 1);
    let (low, high) = if round { (marks[first], marks[last]) } else { (low, high) };
    // One value alone gets some room around it.
    let (low, high) = if low < high { (low, high) } else { (low / 2.0, high * 2.0) };
    let inside: Vec<f64> =
        marks.into_iter().filter(|mark| *mark >= low * 0.999_999 && *mark <= high * 1.000_001).collect();
    let every = inside.len().div_ceil(ticks.max(1) as usize).max(1);
    Range::Log { low, high, ticks: inside.into_iter().step_by(every).collect() }
}

fn powers_of_two(low: f64, high: f64) -> Vec<f64> {
    let (from, to) = (low.log2().floor() as i32, high.log2().ceil() as i32);
    (from - 1..=to + 1).map(|power| 2f64.powi(power)).collect()
}

/// 1, 2, 5, 10... over few decades, powers of ten over many.
fn steps_of_ten(low: f64, high: f64, ticks: u32) -> Vec<f64> {
    let (from, to) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let fine = 3 * (to - from).unsigned_abs() <= ticks;
    let steps: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
    (from - 1..=to).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruler(unit: Unit, values: &[f64], round: bool) -> Ruler {
        Ruler::new(&Axis::log("", unit), values.iter().copied(), 8, round)
    }

    #[test]
    fn sizes_have_ticks_at_powers_of_two() {
        let ruler = ruler(Unit::Bytes, &[64.0, 4096.0], false);
        let labels: Vec<_> = ruler.ticks().into_iter().map(|tick| ruler.label(tick)).collect();
        assert_eq!(labels, ["64 B", "128 B", "256 B", "512 B", "1 KiB", "2 KiB", "4 KiB"]);
        assert_eq!((ruler.at(64.0), ruler.at(512.0), ruler.at(4096.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn times_have_round_ends_and_units() {
        let ruler = ruler(Unit::Nanoseconds, &[93.0, 60_000.0], true);
        let labels: Vec<_> = ruler.ticks().into_iter().map(|tick| ruler.label(tick)).collect();
        assert_eq!(labels, ["10 ns", "100 ns", "1 us", "10 us", "100 us"]);
    }

    #[test]
    fn any_values_make_an_axis_with_few_ticks() {
        for unit in [Unit::Number, Unit::Bytes, Unit::Nanoseconds] {
            for values in [&[][..], &[0.0], &[-3.0, f64::NAN], &[7.0], &[1e-9, 1e18], &[3.0, 3.1]] {
                for round in [true, false] {
                    let ruler = ruler(unit, values, round);
                    assert!(ruler.ticks().len() <= 9, "{unit:?} {values:?}: {:?}", ruler.ticks());
                    for value in values.iter().copied().filter(|value| ruler.shows(*value)) {
                        assert!((0.0..=1.0).contains(&ruler.at(value)), "{unit:?} {values:?}");
                    }
                }
            }
        }
    }
}
