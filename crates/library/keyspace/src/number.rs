//! Numbers as Redis reads and writes them.

use num_bigint::BigUint;

/// A decimal integer without a plus sign, leading zeros or spaces.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !whole || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What C's `strtod` takes whole, without leading spaces; no NaN.
pub fn double(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned.starts_with(['-', '+']) {
        return None;
    }
    let hex = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"));
    let value = match hex {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok()? as f64,
        Some(_) => return None,
        None => {
            let value: f64 = unsigned.parse().ok()?;
            let named = unsigned.starts_with(|c: char| c.is_ascii_alphabetic());
            let zero = value == 0.0 && mantissa(unsigned).bytes().any(|c| (b'1'..=b'9').contains(&c));
            if (value.is_infinite() && !named) || value.is_nan() || zero {
                return None;
            }
            value
        }
    };
    Some(if text.starts_with('-') { -value } else { value })
}

fn mantissa(text: &str) -> &str {
    text.split(['e', 'E']).next().unwrap_or(text)
}

/// C's `%.17g`, and `inf`.
pub fn general(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let text = format!("{value:.16e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..17).contains(&exponent) {
        let (sign, digits) = match mantissa.strip_prefix('-') {
            Some(rest) => ("-", rest.replace('.', "")),
            None => ("", mantissa.replace('.', "")),
        };
        let text = if exponent < 0 {
            format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize))
        } else {
            let (whole, part) = digits.split_at(exponent as usize + 1);
            format!("{sign}{whole}.{part}")
        };
        return trimmed(&text);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// A number with the 64 bits of mantissa that x86's `long double` has, in which Redis adds floats:
/// `mantissa * 2^exponent`.
#[derive(Clone, Debug)]
pub struct Extended {
    negative: bool,
    mantissa: BigUint,
    exponent: i64,
}

/// Bits of a mantissa.
const BITS: u64 = 64;
/// Digits behind the point, as Redis prints such numbers.
const DIGITS: u32 = 17;
/// The longest text of such a number, and the highest power of two below infinity.
const TEXT_MAX: usize = 5 * 1024;
const EXPONENT_MAX: i64 = 16383;

impl Extended {
    /// What C's `strtold` takes whole: decimal numbers. None for others, and for what is infinite or NaN.
    pub fn parse(text: &[u8]) -> Option<Extended> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= TEXT_MAX)?;
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (digits, power) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], exponent(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{part}");
        if all.is_empty() || !all.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let value: BigUint = all.parse().ok()?;
        let power = power - part.len() as i64;
        // Beyond what 64 bits of mantissa with 15 of exponent hold in any case.
        if value != BigUint::ZERO && power.abs() > 12_000 {
            return None;
        }
        let ten = BigUint::from(10u32).pow(power.unsigned_abs() as u32);
        let (top, bottom) = if power < 0 { (value, ten) } else { (value * ten, BigUint::from(1u32)) };
        Extended::rounded(negative, top, bottom, 0)
    }

    /// `top / bottom * 2^exponent`, rounded to nearest, ties to even. None if it is infinite.
    fn rounded(negative: bool, top: BigUint, bottom: BigUint, exponent: i64) -> Option<Extended> {
        if top == BigUint::ZERO {
            return Some(Extended { negative, mantissa: top, exponent: 0 });
        }
        // A quotient of at least 66 bits, so that what is dropped decides the rounding.
        let shift = (BITS as i64 + 2 + bottom.bits() as i64 - top.bits() as i64).max(0) as u64;
        let shifted = top << shift;
        let quotient = &shifted / &bottom;
        let sticky = &quotient * &bottom != shifted;
        let exponent = exponent - shift as i64;
        let drop = quotient.bits() - BITS;
        let mut mantissa = &quotient >> drop;
        let rest = &quotient - (&mantissa << drop);
        let half = BigUint::from(1u32) << (drop - 1);
        if rest > half || (rest == half && (sticky || mantissa.bit(0))) {
            mantissa += 1u32;
        }
        let exponent = exponent + drop as i64;
        let finite = mantissa.bits() as i64 + exponent <= EXPONENT_MAX + 1;
        finite.then_some(Extended { negative, mantissa, exponent })
    }

    /// The sum, rounded. None if it is infinite.
    pub fn plus(&self, other: &Extended) -> Option<Extended> {
        let exponent = self.exponent.min(other.exponent);
        let aligned = |of: &Extended| &of.mantissa << (of.exponent - exponent) as u64;
        let (a, b) = (aligned(self), aligned(other));
        let (negative, sum) = match (self.negative == other.negative, a >= b) {
            (true, _) => (self.negative, a + b),
            (false, true) if a == b => (false, BigUint::ZERO),
            (false, true) => (self.negative, a - b),
            (false, false) => (other.negative, b - a),
        };
        Extended::rounded(negative, sum, BigUint::from(1u32), exponent)
    }

    /// With 17 digits behind the point, less zeros at the end.
    pub fn text(&self) -> String {
        let ten = BigUint::from(10u32).pow(DIGITS);
        let scaled = &self.mantissa * &ten;
        let scaled = if self.exponent >= 0 {
            scaled << self.exponent as u64
        } else {
            let drop = self.exponent.unsigned_abs();
            let mut kept = &scaled >> drop;
            let rest = &scaled - (&kept << drop);
            let half = BigUint::from(1u32) << (drop - 1);
            if rest > half || (rest == half && kept.bit(0)) {
                kept += 1u32;
            }
            kept
        };
        let digits = format!("{:0>width$}", scaled.to_string(), width = DIGITS as usize + 1);
        let (whole, part) = digits.split_at(digits.len() - DIGITS as usize);
        let part = part.trim_end_matches('0');
        let text = if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") };
        if self.negative && text != "0" { format!("-{text}") } else { text }
    }
}

/// The power of ten behind an `e`.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_spelling() {
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer(b"0"), Some(0));
        for wrong in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn doubles_are_what_strtod_takes() {
        for (text, value) in
            [("3.", 3.0), (".5", 0.5), ("+1e3", 1000.0), ("0x10", 16.0), ("-INF", f64::NEG_INFINITY)]
        {
            assert_eq!(double(text.as_bytes()), Some(value), "{text}");
        }
        for wrong in ["", "nan", " 1", "1 ", "1e400", "1e-400", "e5", "--1", "1_0"] {
            assert_eq!(double(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn doubles_print_as_c_does() {
        for (value, text) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1.5e-7, "1.4999999999999999e-07"),
            (-0.0001, "-0.0001"),
            (123456.75, "123456.75"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    #[test]
    fn extended_sums_are_those_of_x86() {
        for (a, b, sum) in [
            ("0.1", "0.2", "0.3"),
            ("10.5", "0.1", "10.6"),
            ("3.0e3", "200", "3200"),
            ("1", "-1", "0"),
            ("5.0e3", "-2.0e2", "4800"),
            ("1e20", "1", "100000000000000000000"),
            ("-0.1", "0.05", "-0.05"),
        ] {
            let [a, b] = [a, b].map(|text| Extended::parse(text.as_bytes()).expect("a number"));
            assert_eq!(a.plus(&b).expect("finite").text(), sum);
        }
        assert!(Extended::parse(b"1e5000").is_none() && Extended::parse(b"inf").is_none());
    }
}
