//! How numbers and names are written for people.
//!
//! Sizes in powers of 1024 (`4.2 KiB`), counts in powers of 1000 (`1.2 M`), three significant digits,
//! and never more digits than were measured.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const COUNT_UNITS: &[&str] = &["", "K", "M", "G", "T", "P", "E"];

/// `0 B`, `640 B`, `4.20 KiB`, `931 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    scaled_bytes(bytes as f64)
}

/// As [`bytes`], for averages: `3.25 B`, `0.125 B`.
#[must_use]
pub fn scaled_bytes(bytes: f64) -> String {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// A round size without the zeros after its point, for axes: `16 KiB`, `1 MiB`, `0.25 B`.
#[must_use]
pub fn tick_bytes(bytes: f64) -> String {
    without_zeros(&scaled_bytes(bytes))
}

/// A round count without the zeros after its point, for axes: `20 M`.
#[must_use]
pub fn tick_count(count: f64) -> String {
    without_zeros(&scaled(count, 1000.0, COUNT_UNITS))
}

/// Round nanoseconds with the unit that fits, for axes: `300 ns`, `50 us`, `2 s`.
#[must_use]
pub fn tick_nanoseconds(nanoseconds: f64) -> String {
    without_zeros(&scaled(nanoseconds, 1000.0, &["ns", "us", "ms", "s"]))
}

/// `0`, `999`, `1.20 K`, `45.0 M`, `1.00 G`.
#[must_use]
pub fn count(count: u64) -> String {
    scaled(count as f64, 1000.0, COUNT_UNITS)
}

/// All digits in groups of three: `1,234,567`.
#[must_use]
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share from 0 to 1: `0 %`, `< 0.1 %`, `3.4 %`, `71 %`, `> 99.9 %`, `100 %`.
///
/// Nothing but nothing is written as `0 %`, and nothing but all as `100 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if !p.is_finite() => "-".to_owned(),
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.1 => "< 0.1 %".to_owned(),
        p if p < 9.95 => format!("{p:.1} %"),
        p if p < 99.5 => format!("{p:.0} %"),
        p if p < 99.95 => format!("{p:.1} %"),
        p if p < 100.0 => "> 99.9 %".to_owned(),
        p => format!("{p:.0} %"),
    }
}

/// A ratio such as EWR: `0.28`, `0.004`, `1.00`, `37`; `-` if there is none.
#[must_use]
pub fn ratio(ratio: Option<f64>) -> String {
    match ratio {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(r) if r < 0.000_95 => "< 0.001".to_owned(),
        Some(r) if r < 0.0995 => format!("{r:.3}"),
        Some(r) if r < 10.0 => format!("{r:.2}"),
        Some(r) if r < 1000.0 => format!("{r:.0}"),
        Some(_) => "> 999".to_owned(),
    }
}

/// `950 ns`, `12.3 ms`, `4.56 s`, `3 min 20 s`, `2 h 05 min`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let whole = duration.as_secs();
    match seconds {
        s if s >= 3600.0 => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
        s if s >= 99.95 => format!("{} min {:02} s", whole / 60, whole % 60),
        s if s >= 0.9995 => format!("{} s", significant(s)),
        s if s >= 0.000_999_5 => format!("{} ms", significant(s * 1e3)),
        s if s >= 0.000_000_999_5 => format!("{} us", significant(s * 1e6)),
        _ => format!("{} ns", duration.as_nanos()),
    }
}

/// A word with its number: `1 finding`, `3 findings`.
#[must_use]
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// `text` without control characters, which could steer a terminal or break a page.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_direction_mark(c) { '\u{fffd}' } else { c }).collect()
}

/// Arguments as one would type them into a shell.
#[must_use]
pub fn shell(arguments: &[String]) -> String {
    arguments.iter().map(|argument| quoted(argument)).collect::<Vec<_>>().join(" ")
}

/// `text` cut in its middle to at most `columns`, so that a name's start and its line number both stay.
#[must_use]
pub fn elide(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(3);
    let tail_room = room * 2 / 5;
    let head = take_columns(text.chars(), room - tail_room);
    let tail: String = take_columns(text.chars().rev(), tail_room).chars().rev().collect();
    let dots = ".".repeat(columns.min(3));
    format!("{head}{dots}{tail}")
}

/// `text` with spaces behind it up to `columns`.
#[must_use]
pub fn pad_right(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// `text` with spaces before it up to `columns`.
#[must_use]
pub fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text.width())))
}

fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}

/// Marks that reorder text, with which a name could pose as another.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn take_columns(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

/// Three significant digits, fewer where the number is whole.
fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let mut scaled = value;
    let mut unit = 0;
    // 999.5 would print as 1000: the next unit takes over there, also with base 1024.
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= base;
        unit += 1;
    }
    let digits =
        if unit == 0 && scaled.fract() == 0.0 { format!("{scaled:.0}") } else { significant(scaled) };
    if units[unit].is_empty() { digits } else { format!("{digits} {}", units[unit]) }
}

fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_once(' ').map_or((text, ""), |(number, unit)| (number, unit));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    if unit.is_empty() { number.to_owned() } else { format!("{number} {unit}") }
}

fn significant(value: f64) -> String {
    match value {
        v if v < 0.000_5 => "0".to_owned(),
        v if v < 0.099_95 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_the_right_unit() {
        let cases = [
            (0, "0 B"),
            (640, "640 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (1024, "1.00 KiB"),
            (4301, "4.20 KiB"),
            (43 << 20, "43.0 MiB"),
            (1_000_000_000_000, "931 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (value, text) in cases {
            assert_eq!(bytes(value), text);
        }
        assert_eq!(scaled_bytes(3.25), "3.25 B");
        assert_eq!(tick_bytes(16.0 * 1024.0), "16 KiB");
        assert_eq!(tick_bytes(0.25), "0.25 B");
        assert_eq!(tick_count(20_000_000.0), "20 M");
        assert_eq!(tick_count(100.0), "100");
        assert_eq!(scaled_bytes(0.0002), "0 B");
    }

    #[test]
    fn counts_never_show_four_digits_before_the_point() {
        let cases = [
            (7, "7"),
            (999, "999"),
            (1_000, "1.00 K"),
            (1_234_567, "1.23 M"),
            (999_600, "1.00 M"),
            (u64::MAX, "18.4 E"),
        ];
        for (value, text) in cases {
            assert_eq!(count(value), text);
        }
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn only_nothing_is_zero_percent_and_only_all_is_hundred() {
        let cases = [
            (0.0, "0 %"),
            (0.000_1, "< 0.1 %"),
            (0.034, "3.4 %"),
            (0.0996, "10 %"),
            (0.71, "71 %"),
            (0.996, "99.6 %"),
            (0.999_9, "> 99.9 %"),
            (1.0, "100 %"),
            (f64::NAN, "-"),
        ];
        for (share, text) in cases {
            assert_eq!(percent(share), text, "{share}");
        }
    }

    #[test]
    fn durations_and_ratios_change_unit_where_digits_would_run_out() {
        assert_eq!(duration(Duration::from_nanos(950)), "950 ns");
        assert_eq!(duration(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(duration(Duration::from_millis(4_560)), "4.56 s");
        assert_eq!(duration(Duration::from_secs(200)), "3 min 20 s");
        assert_eq!(duration(Duration::from_secs(7_500)), "2 h 05 min");
        assert_eq!(ratio(None), "-");
        assert_eq!(ratio(Some(0.281)), "0.28");
        assert_eq!(ratio(Some(0.0042)), "0.004");
        assert_eq!(ratio(Some(1e9)), "> 999");
    }

    #[test]
    fn eliding_keeps_both_ends_and_the_width() {
        let name = "very::long::path::to::a::function (file.rs:1234)";
        let short = elide(name, 30);
        assert_eq!(short.width(), 30);
        assert!(short.starts_with("very::long") && short.ends_with("rs:1234)"), "{short}");
        assert_eq!(elide("short", 30), "short");
        for columns in 0..20 {
            assert!(elide("日本語日本語日本語日本語", columns).width() <= columns);
        }
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc\u{202e}"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
    }

    #[test]
    fn shell_words_survive_a_shell() {
        let words = ["a b", "it's", "", "plain-1.0"].map(str::to_owned);
        assert_eq!(shell(&words), r"'a b' 'it'\''s' '' plain-1.0");
    }
}
