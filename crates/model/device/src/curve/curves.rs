//! Curves of latency by bandwidth, and their file.

use std::fmt::Write as _;

use crate::{LINE_BYTES, Time};

/// What the first line of a file says.
const HEADER: &str = "read_share,bandwidth_gbps,latency_ns";

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// GB/s (bytes per nanosecond), reads and writes together.
    pub bandwidth: f64,
    /// Mean latency of reads in nanoseconds.
    pub latency: f64,
}

/// Curves by read share. At least one; each begins at its unloaded latency and ends at its largest bandwidth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// By read share, 0 to 1, increasing; points by bandwidth, increasing.
    shares: Vec<(f64, Vec<Point>)>,
}

/// A text that has no curves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: `{text}`: {remedy}")]
pub struct CurvesError {
    /// Where; the line after the last if something is missing.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What to write instead.
    pub remedy: &'static str,
}

/// What the curves say of one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) latency: Time,
    /// Without load.
    pub(super) idle: Time,
    /// 64 B at the largest bandwidth.
    pub(super) line: Time,
}

impl Curves {
    /// Curves from measurements in any order. Of points with equal share, those that have less bandwidth at
    /// more latency than another (a load beyond saturation) are left out.
    #[must_use]
    pub fn new(measured: impl IntoIterator<Item = (f64, Point)>) -> Self {
        let mut shares: Vec<(f64, Vec<Point>)> = Vec::new();
        for (share, point) in measured {
            match shares.iter_mut().find(|(other, _)| *other == share) {
                Some((_, points)) => points.push(point),
                None => shares.push((share, vec![point])),
            }
        }
        shares.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, points) in &mut shares {
            points.sort_by(|a, b| a.latency.total_cmp(&b.latency).then(a.bandwidth.total_cmp(&b.bandwidth)));
            let mut most = f64::NEG_INFINITY;
            points.retain(|point| {
                let more = point.bandwidth > most;
                most = most.max(point.bandwidth);
                more
            });
        }
        Curves { shares }
    }

    /// Reads what [`Curves::text`] writes: a header, then `read_share,bandwidth_gbps,latency_ns` in any
    /// order; empty lines and those that start with `#` don't count.
    ///
    /// # Errors
    /// [`CurvesError`] with the first line that is not of that kind.
    pub fn parse(text: &str) -> Result<Curves, CurvesError> {
        let mut measured = Vec::new();
        let mut header = false;
        for (number, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let wrong = |remedy| CurvesError { line: number + 1, text: line_text.to_owned(), remedy };
            if !header {
                if line_text != HEADER {
                    return Err(wrong("the first line is read_share,bandwidth_gbps,latency_ns"));
                }
                header = true;
                continue;
            }
            measured.push(point(line_text).map_err(wrong)?);
        }
        if !measured.iter().any(|(_, point)| point.bandwidth > 0.0) {
            let line = text.lines().count() + 1;
            return Err(CurvesError { line, text: String::new(), remedy: "at least one bandwidth above 0" });
        }
        let curves = Curves::new(measured);
        let flat = curves.shares.iter().find(|(_, points)| points.iter().all(|point| point.bandwidth <= 0.0));
        match flat {
            Some((share, _)) => Err(CurvesError {
                line: text.lines().count() + 1,
                text: format!("read_share {share}"),
                remedy: "each share needs a point with a bandwidth above 0",
            }),
            None => Ok(curves),
        }
    }

    /// The curves as a file.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (share, points) in &self.shares {
            for point in points {
                // Writing to a string can't fail.
                let _ = writeln!(text, "{share},{},{}", point.bandwidth, point.latency);
            }
        }
        text
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Read shares with their points.
    pub fn shares(&self) -> impl Iterator<Item = (f64, &[Point])> {
        self.shares.iter().map(|(share, points)| (*share, points.as_slice()))
    }

    /// Between two measured shares, and two measured bandwidths, values lie on the straight line.
    pub(super) fn at(&self, share: f64, bandwidth: f64) -> Found {
        let above = self.shares.iter().position(|(other, _)| *other >= share);
        let above = above.unwrap_or(self.shares.len() - 1);
        let below = if self.shares[above].0 > share { above.saturating_sub(1) } else { above };
        let (low, high) = (&self.shares[below], &self.shares[above]);
        let weight = if high.0 > low.0 { ((share - low.0) / (high.0 - low.0)).clamp(0.0, 1.0) } else { 0.0 };
        let between = |of: &dyn Fn(&[Point]) -> f64| of(&low.1) + weight * (of(&high.1) - of(&low.1));
        let peak = between(&|points| points.last().map_or(0.0, |point| point.bandwidth));
        // Shares have peaks of their own: what counts is how near a load is to its own.
        let load = bandwidth / peak;
        #[allow(clippy::cast_precision_loss)]
        let line = LINE_BYTES as f64 / peak;
        Found {
            latency: time(between(&|points| latency(points, load))),
            idle: time(between(&|points| points.first().map_or(0.0, |point| point.latency))),
            line: time(line),
        }
    }
}

/// Latency at `load` of the largest bandwidth.
fn latency(points: &[Point], load: f64) -> f64 {
    let Some(last) = points.last() else { return 0.0 };
    let bandwidth = load * last.bandwidth;
    let Some(above) = points.iter().position(|point| point.bandwidth >= bandwidth) else {
        return last.latency;
    };
    let high = points[above];
    let Some(low) = above.checked_sub(1).map(|below| points[below]) else { return high.latency };
    low.latency
        + (bandwidth - low.bandwidth) / (high.bandwidth - low.bandwidth) * (high.latency - low.latency)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn time(ns: f64) -> Time {
    Time((ns * 1e3).round() as u64)
}

fn point(line: &str) -> Result<(f64, Point), &'static str> {
    let mut fields = line.split(',').map(|field| field.trim().parse::<f64>());
    let mut next = || match fields.next() {
        Some(Ok(number)) if number.is_finite() => Ok(number),
        _ => Err("three numbers, as in 0.67,12.5,98"),
    };
    let (share, bandwidth, latency) = (next()?, next()?, next()?);
    if fields.next().is_some() {
        return Err("three numbers, as in 0.67,12.5,98");
    }
    if !(0.0..=1.0).contains(&share) {
        return Err("a share is from 0 (writes only) to 1 (reads only)");
    }
    if !(0.0..=1e5).contains(&bandwidth) || !(0.001..=1e9).contains(&latency) {
        return Err("bandwidth is from 0 to 1e5 GB/s, latency from 0.001 to 1e9 ns");
    }
    Ok((share, Point { bandwidth, latency }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# measured\nread_share,bandwidth_gbps,latency_ns\n1,10,200\n1,5,100\n\n0.5,20,300\n0.5,0,100\n";

    fn latency_at(share: f64, bandwidth: f64) -> f64 {
        Curves::parse(TEXT).unwrap().at(share, bandwidth).latency.ns()
    }

    #[test]
    fn values_lie_on_straight_lines_between_measurements() {
        assert!((latency_at(1.0, 0.0) - 100.0).abs() < 0.01, "below the first point its latency holds");
        assert!((latency_at(1.0, 7.5) - 150.0).abs() < 0.01);
        assert!((latency_at(1.0, 99.0) - 200.0).abs() < 0.01);
        assert!((latency_at(0.5, 10.0) - 200.0).abs() < 0.01);
        // Halfway between the shares the peak is 15: half of that is the first's 100 and the other's 200.
        assert!((latency_at(0.75, 7.5) - 150.0).abs() < 0.01);
        assert!((latency_at(0.2, 10.0) - 200.0).abs() < 0.01, "below the smallest share that one holds");
    }

    #[test]
    fn what_is_beyond_saturation_is_left_out() {
        let at = |bandwidth, latency| (1.0, Point { bandwidth, latency });
        let curves = Curves::new([at(10.0, 200.0), at(9.0, 250.0), at(2.0, 90.0), at(9.5, 180.0)]);
        let (_, points) = curves.shares().next().unwrap();
        assert_eq!(points.iter().map(|point| point.bandwidth).collect::<Vec<_>>(), [2.0, 9.5, 10.0]);
    }

    #[test]
    fn a_written_file_reads_back() {
        let curves = Curves::parse(TEXT).unwrap();
        assert_eq!(Curves::parse(&curves.text()), Ok(curves));
    }

    #[test]
    fn what_has_no_curves_is_refused_with_the_line() {
        for (text, line) in [
            ("", 1),
            ("1,5,100\n", 1),
            ("read_share,bandwidth_gbps,latency_ns\n", 2),
            ("read_share,bandwidth_gbps,latency_ns\n1,5\n", 2),
            ("read_share,bandwidth_gbps,latency_ns\n1,5,100,3\n", 2),
            ("read_share,bandwidth_gbps,latency_ns\n1,5,100\n1.5,5,100\n", 3),
            ("read_share,bandwidth_gbps,latency_ns\n1,5,NaN\n", 2),
            ("read_share,bandwidth_gbps,latency_ns\n1,-5,10\n", 2),
            ("read_share,bandwidth_gbps,latency_ns\n1,5,100\n0.5,0,100\n", 4),
        ] {
            assert_eq!(Curves::parse(text).expect_err(text).line, line, "{text}");
        }
    }
}
