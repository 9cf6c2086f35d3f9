//! Sizes as users write them: `64B`, `4KiB`, `2GiB`.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as a whole number with a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(
    /// Bytes.
    pub u64,
);

/// A text that is no [`Size`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a size; write a whole number and a unit, as in 64B, 4KiB, 32MiB, 2GiB, 1TiB; less than 16777216TiB"
)]
pub struct SizeError(
    /// The text.
    pub String,
);

/// Largest first, so that printing finds the largest unit that divides.
const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let refuse = || SizeError(text.to_owned());
        let trimmed = text.trim();
        let digits = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let (number, unit) = trimmed.split_at(digits);
        let number: u64 = number.parse().map_err(|_| refuse())?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit.trim_start()).ok_or_else(refuse)?;
        number.checked_mul(*factor).map(Size).ok_or_else(refuse)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |&&(_, factor): &&(&str, u64)| self.0 >= factor && self.0.is_multiple_of(factor);
        let (unit, factor) = UNITS.iter().find(divides).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / factor)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes) in [("0B", 0), ("64B", 64), ("4KiB", 4096), ("2GiB", 2 << 30), ("1TiB", 1 << 40)] {
            assert_eq!(text.parse(), Ok(Size(bytes)));
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(" 33 MiB ".parse(), Ok(Size(33 << 20)));
        assert_eq!(Size(1536).to_string(), "1536B");
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "64", "KiB", "4KB", "4kib", "-4KiB", "1.5MiB", "99999999999TiB", "4KiB4"] {
            let refused = text.parse::<Size>().expect_err(text);
            assert!(refused.to_string().contains("4KiB"), "{refused}");
        }
    }
}
