//! Simulated time: points and spans, in picoseconds.

use std::{
    fmt,
    iter::Sum,
    ops::{Add, AddAssign, Mul, Sub},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in simulated time, counted from the start of the run, or a span between two. Picoseconds, so that
/// every clock of a modelled machine is a whole number; 64 bits last for 213 days.
///
/// Users write it with a unit: `75ns`, `0.5ns`, `50us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(
    /// Picoseconds.
    pub u64,
);

/// A text that is no [`Time`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a time; write a number and a unit, as in 0.5ns, 300ns, 50us, 2ms, 1s; at most 9000s")]
pub struct TimeError(
    /// The text.
    pub String,
);

/// Largest first, so that printing finds the largest unit of which there is at least one.
const UNITS: [(&str, u64); 5] =
    [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];

impl Time {
    /// The start of the run; an empty span.
    pub const ZERO: Time = Time(0);
    /// Later than everything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// So many nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }

    /// In nanoseconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// In seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// How much later this is than `earlier`; zero if it is not.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;
    #[inline(always)]
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    #[inline(always)]
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    #[inline(always)]
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    #[inline(always)]
    fn mul(self, times: u64) -> Time {
        Time(self.0 * times)
    }
}

impl Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

impl FromStr for Time {
    type Err = TimeError;

    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn from_str(text: &str) -> Result<Self, TimeError> {
        let refuse = || TimeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refuse)?;
        let (number, unit) = trimmed.split_at(digits);
        let number: f64 = number.parse().map_err(|_| refuse())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(refuse)?;
        let picoseconds = (number * *factor as f64).round();
        // A double holds every whole number up to here, 9007 s.
        if picoseconds < (1u64 << 53) as f64 { Ok(Time(picoseconds as u64)) } else { Err(refuse()) }
    }
}

impl fmt::Display for Time {
    #[allow(clippy::cast_precision_loss)]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, factor) = UNITS.iter().find(|(_, factor)| self.0 >= *factor).unwrap_or(&("ns", 1_000));
        if self.0.is_multiple_of(*factor) {
            write!(f, "{}{unit}", self.0 / factor)
        } else {
            write!(f, "{}{unit}", self.0 as f64 / *factor as f64)
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_and_printed() {
        for (text, picoseconds) in
            [("0ns", 0), ("455ps", 455), ("75ns", 75_000), ("1.5us", 1_500_000), ("2s", 2_000_000_000_000)]
        {
            assert_eq!(text.parse(), Ok(Time(picoseconds)));
            assert_eq!(Time(picoseconds).to_string(), text);
        }
        assert_eq!("0.4545 ns".parse(), Ok(Time(455)));
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in ["", "75", "ns", "-1ns", "75 parsecs", "1.2.3ns", "9000000s"] {
            let refused = text.parse::<Time>().expect_err(text);
            assert!(refused.to_string().contains("300ns"), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_time_reads_back(picoseconds in 0u64..1 << 50) {
            prop_assert_eq!(Time(picoseconds).to_string().parse(), Ok(Time(picoseconds)));
        }
    }
}
