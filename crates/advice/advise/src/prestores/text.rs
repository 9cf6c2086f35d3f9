//! The advice as text, in the form of the method's authors.

use std::fmt;

use super::advice::{Advice, PhaseAdvice, PlaceAdvice, SizeRow};

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marked = self.phases.iter().any(|phase| phase.phase.is_some());
        let mut first = true;
        for phase in self.phases.iter().filter(|phase| phase.judged || !marked) {
            if marked {
                let name = phase.phase.as_deref().unwrap_or("before the first mark");
                writeln!(f, "{}Phase: {name}", if first { "" } else { "\n" })?;
            }
            first = false;
            write!(f, "{phase}")?;
        }
        if first {
            let least = self.phases.iter().map(|phase| phase.store_intensity).fold(0.0, f64::max);
            writeln!(
                f,
                "Nothing to judge: no phase stores enough (at most {:.1}% of its accesses).",
                100.0 * least
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for PhaseAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.judged {
            let percent = 100.0 * self.store_intensity;
            return writeln!(f, "Not write-intensive: {percent:.1}% of what it does in memory is storing.");
        }
        for (at, place) in self.places.iter().enumerate() {
            write!(f, "{}{place}", if at > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for PlaceAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.function)?;
        if !self.file.is_empty() {
            writeln!(f, "Location: {} line {}", self.file, self.line)?;
        }
        writeln!(f, "Perc. Seq. Writes: {:.0}%", 100.0 * self.sequential)?;
        if let Some(distance) = self.fence_distance {
            writeln!(
                f,
                "Before a fence: {:.0}%, at least {} instructions",
                100.0 * self.fenced,
                count(distance)
            )?;
        }
        for row in &self.sizes {
            writeln!(f, "{row}")?;
        }
        writeln!(f, "Pre-store choice: {} ({})", self.choice.name(), self.reason)
    }
}

impl fmt::Display for SizeRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let distance = |instructions: Option<u64>| instructions.map_or_else(|| "inf".to_owned(), count);
        let (size, share) = (bytes(self.bytes), 100.0 * self.share);
        let (reread, rewrite) = (distance(self.reread), distance(self.rewrite));
        write!(f, "Size: {size} - {share:.0}% - re-read {reread} - re-write {rewrite}")
    }
}

/// `23.8K`.
#[allow(clippy::cast_precision_loss)]
fn count(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{:.1}K", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// `2.1MB`.
#[allow(clippy::cast_precision_loss)]
fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number}B"),
        1_000..1_000_000 => format!("{:.1}KB", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1}MB", number as f64 / 1e6),
        _ => format!("{:.1}GB", number as f64 / 1e9),
    }
}
