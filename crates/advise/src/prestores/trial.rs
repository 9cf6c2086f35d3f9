//! What the model says of a piece of advice: the run with it against the run without.

use machine::{Config, Ordering, TimedFigures};
use serde::{Deserialize, Serialize};

use super::decision::{Choice, PhaseAdvice, PlaceAdvice, Target};

/// Time that must be gained for advice to stand; less is within what a model can be wrong.
const GAIN_MIN: f64 = 0.01;
/// Media writes that must be saved for advice to stand if it gains no time, but costs none either.
const SAVED_MIN: f64 = 0.05;

impl Target {
    /// What matters of a machine.
    #[must_use]
    pub fn of(machine: &Config) -> Target {
        Target {
            unit_bytes: machine.device.unit.0,
            weakly_ordered: machine.cores.pipeline.ordering == Ordering::Weak,
            cache_bytes: machine.llc.size.0,
        }
    }
}

/// What a run took on the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds of the phases that are judged.
    pub time_ns: f64,
    /// Bytes that the media wrote in them.
    pub media_write_bytes: u64,
    /// Bytes that the controller wrote to the devices in them.
    pub controller_write_bytes: u64,
}

impl Cost {
    /// The part of a run that `judged` is about: the phases of these names, or all of it if phases are not marked.
    #[must_use]
    pub fn of<'a>(figures: &TimedFigures, judged: impl IntoIterator<Item = &'a PhaseAdvice>) -> Cost {
        let names: Vec<&str> = judged
            .into_iter()
            .filter(|phase| phase.judged)
            .filter_map(|phase| phase.phase.as_deref())
            .collect();
        let mut cost = Cost::default();
        let phases =
            figures.phases.iter().filter(|phase| names.is_empty() || names.contains(&phase.name.as_str()));
        for phase in phases {
            cost.time_ns += phase.end.since(phase.begin).ns();
            for traffic in phase.span.traffic {
                cost.media_write_bytes += traffic.media_write_bytes;
                cost.controller_write_bytes += traffic.controller_write_bytes;
            }
        }
        cost
    }

    /// Bytes at the media for each byte from the controller.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn write_amplification(&self) -> Option<f64> {
        (self.controller_write_bytes > 0)
            .then(|| self.media_write_bytes as f64 / self.controller_write_bytes as f64)
    }

    /// Whether this is faster by more than a model can be wrong.
    #[must_use]
    pub fn is_faster_than(&self, other: &Cost) -> bool {
        self.time_ns <= (1.0 - GAIN_MIN) * other.time_ns
    }

    /// Whether this is worth the change, against the run without it.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn gains_over(&self, without: &Cost) -> bool {
        // Where nothing was written to begin with, nothing can be saved.
        let kept = (1.0 - SAVED_MIN) * without.media_write_bytes as f64;
        let saves = without.media_write_bytes > 0 && self.media_write_bytes as f64 <= kept;
        self.is_faster_than(without) || self.time_ns <= without.time_ns && saves
    }
}

/// A piece of advice that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What was done at the place.
    pub choice: Choice,
    /// What the run then took.
    pub cost: Cost,
}

/// What can be tried at a place, what its pattern calls for first. Where the cache may be skipped it may also be cleaned, which needs
/// no rewriting of the code. Where cleaning is called for because of what others read, skipping is tried as well: it spares a fetch for each line
/// that is written and costs one for each that is read again, and which of them somebody waits for depends on the machine. Where a phase that no trial
/// counts may be the reader, nothing is skipped.
#[must_use]
pub fn alternatives(place: &PlaceAdvice) -> &'static [Choice] {
    match place.choice {
        Choice::Skip if place.may_skip => &[Choice::Skip, Choice::Clean],
        Choice::Clean if place.may_skip => &[Choice::Clean, Choice::Skip],
        Choice::Skip | Choice::Clean => &[Choice::Clean],
        Choice::Demote => &[Choice::Demote],
        Choice::Nothing => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_stands_if_it_gains_time_or_saves_writes_for_nothing() {
        let cost =
            |time_ns, media_write_bytes| Cost { time_ns, media_write_bytes, controller_write_bytes: 100 };
        let without = cost(1000.0, 400);
        assert!(cost(900.0, 400).gains_over(&without));
        assert!(cost(1000.0, 100).gains_over(&without));
        assert!(!cost(1000.0, 399).gains_over(&without));
        assert!(!cost(995.0, 400).is_faster_than(&without) && cost(990.0, 400).is_faster_than(&without));
        assert!(!cost(1001.0, 100).gains_over(&without), "it must cost no time");
        assert!(!cost(1000.0, 0).gains_over(&cost(1000.0, 0)), "nothing was written, so nothing is saved");
        assert_eq!(without.write_amplification(), Some(4.0));
    }
}
