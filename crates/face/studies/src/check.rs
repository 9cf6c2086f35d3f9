//! A claim in numbers, and whether a measurement bears it out.
//!
//! Each kind of claim that rows make has a constructor here, so that a row says what it expects and nowhere
//! how a comparison is done.

use serde::Serialize;

/// One claim, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What is claimed.
    pub what: String,
    /// Whether it is about a shape or about a value.
    pub kind: Kind,
    /// What was published, with its tolerance.
    pub expected: String,
    /// What was measured.
    pub got: String,
    /// Whether the one bears out the other.
    pub holds: bool,
}

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Who wins, where a peak or knee lies, what rises and what falls.
    Shape,
    /// How much.
    Value,
}

impl Check {
    /// A value within a share of the published one, on either side.
    #[must_use]
    pub fn near(what: &str, published: f64, share: f64, got: f64) -> Check {
        Check {
            what: what.to_owned(),
            kind: Kind::Value,
            expected: format!("{} +-{:.0} %", number(published), share * 100.0),
            got: number(got),
            holds: (got - published).abs() <= share * published.abs(),
        }
    }

    /// A value between two bounds.
    #[must_use]
    pub fn within(what: &str, low: f64, high: f64, got: f64) -> Check {
        Check { kind: Kind::Value, ..Check::between(what, low, high, got) }
    }

    /// A position (of a peak, knee or crossing) or a ratio that tells a shape, between two bounds.
    #[must_use]
    pub fn between(what: &str, low: f64, high: f64, got: f64) -> Check {
        Check {
            what: what.to_owned(),
            kind: Kind::Shape,
            expected: if high.is_infinite() {
                format!("at least {}", number(low))
            } else if low.is_infinite() {
                format!("at most {}", number(high))
            } else {
                format!("{} to {}", number(low), number(high))
            },
            got: number(got),
            holds: low <= got && got <= high,
        }
    }

    /// A shape that shows in a number that is large enough.
    #[must_use]
    pub fn at_least(what: &str, low: f64, got: f64) -> Check {
        Check::between(what, low, f64::INFINITY, got)
    }

    /// A shape that shows in a number that is small enough.
    #[must_use]
    pub fn at_most(what: &str, high: f64, got: f64) -> Check {
        Check::between(what, f64::NEG_INFINITY, high, got)
    }
}

/// A number with three significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "none".to_owned(),
        0.0 => "0".to_owned(),
        _ if size < 0.001 => format!("{value:.1e}"),
        _ if size < 0.1 => format!("{value:.4}"),
        _ if size < 1.0 => format!("{value:.3}"),
        _ if value.fract() == 0.0 && size < 1e6 => format!("{value:.0}"),
        _ if size < 10.0 => format!("{value:.2}"),
        _ if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    #[test]
    fn a_value_is_held_to_its_tolerance() {
        for (got, holds) in
            [(1.0, true), (0.9, true), (0.89, false), (1.09, true), (1.12, false), (f64::NAN, false)]
        {
            assert_eq!(Check::near("x", 1.0, 0.1, got).holds, holds, "{got}");
        }
        assert!(Check::at_least("x", 2.0, 2.0).holds && !Check::at_least("x", 2.0, 1.9).holds);
        assert!(Check::at_most("x", 2.0, 2.0).holds && !Check::at_most("x", 2.0, 2.1).holds);
        assert!(!Check::at_most("x", 2.0, f64::NAN).holds && !Check::within("x", 1.0, 3.0, f64::NAN).holds);
    }

    #[test]
    fn verdicts_follow_from_the_checks() {
        let shape = |holds| Check { holds, ..Check::at_least("shape", 0.0, 1.0) };
        let value = |holds| Check { holds, ..Check::near("value", 1.0, 0.1, 1.0) };
        for (checks, verdict) in [
            (vec![shape(true), value(true)], Verdict::Matched),
            (vec![shape(true)], Verdict::Matched),
            (vec![value(true)], Verdict::Matched),
            (vec![shape(true), value(false)], Verdict::ShapeOnly),
            (vec![shape(false), value(true)], Verdict::Missed),
            (vec![value(false)], Verdict::Missed),
        ] {
            assert_eq!(Verdict::of(&checks), verdict, "{checks:?}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_06, "6.0e-5"),
            (0.98, "0.980"),
            (4.0, "4"),
            (2.284, "2.28"),
            (105.4, "105"),
            (f64::INFINITY, "none"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
