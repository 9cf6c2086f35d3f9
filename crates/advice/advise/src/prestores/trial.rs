//! What the model says of a piece of advice: the run with it against the run without.

use machine::{Config, TimedFigures};
use persistency::Model;
use serde::{Deserialize, Serialize};

use super::advice::{Choice, PhaseAdvice, PlaceAdvice, Target};

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
            weakly_ordered: machine.cores.pipeline.ordering.model() == Model::Arm,
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
    /// Nanoseconds of the program's other phases, but those that prepare or examine: they may wait for what a
    /// judged one skipped.
    pub elsewhere_ns: f64,
}

impl Cost {
    /// What a run took, by the phases of its advice; all of it if phases are not marked or none is judged.
    #[must_use]
    pub fn of(figures: &TimedFigures, advised: &[PhaseAdvice]) -> Cost {
        let all = !advised.iter().any(|phase| phase.judged && phase.phase.is_some());
        let mut cost = Cost::default();
        for phase in &figures.phases {
            let advice = advised.iter().find(|advice| advice.phase.as_deref() == Some(phase.name.as_str()));
            let time = phase.end.since(phase.begin).ns();
            if !all && !advice.is_some_and(|advice| advice.judged) {
                cost.elsewhere_ns += if advice.is_some_and(|advice| !advice.aside) { time } else { 0.0 };
                continue;
            }
            cost.time_ns += time;
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

    /// By how much the program's other phases take longer than in `other`, if that is more than a model can
    /// be wrong.
    #[must_use]
    pub fn longer_elsewhere_than(&self, other: &Cost) -> Option<f64> {
        let longer = self.elsewhere_ns - other.elsewhere_ns;
        (longer.abs() > GAIN_MIN * other.elsewhere_ns).then_some(longer)
    }

    /// Nanoseconds that this takes less than `other`, in all that counts.
    fn gain_over(&self, other: &Cost) -> f64 {
        other.time_ns - self.time_ns - self.longer_elsewhere_than(other).unwrap_or_default()
    }

    /// Whether this is faster by more than a model can be wrong.
    #[must_use]
    pub fn is_faster_than(&self, other: &Cost) -> bool {
        self.gain_over(other) >= GAIN_MIN * other.time_ns
    }

    /// Whether this is worth the change, against the run without it.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn gains_over(&self, without: &Cost) -> bool {
        // Where nothing was written to begin with, nothing can be saved.
        let kept = (1.0 - SAVED_MIN) * without.media_write_bytes as f64;
        let saves = without.media_write_bytes > 0 && self.media_write_bytes as f64 <= kept;
        self.is_faster_than(without) || self.gain_over(without) >= 0.0 && saves
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

/// What can be tried at a place, what its pattern calls for first. Where the cache may be skipped it may also
/// be cleaned, which needs no rewriting of the code. Where cleaning is called for because of what others
/// read, skipping is tried as well: it spares a fetch for each line that is written and costs one for each
/// that is read again, and which of them somebody waits for depends on the machine.
#[must_use]
pub fn alternatives(place: &PlaceAdvice) -> &'static [Choice] {
    match place.choice {
        Choice::Skip => &[Choice::Skip, Choice::Clean],
        Choice::Clean if place.may_skip => &[Choice::Clean, Choice::Skip],
        Choice::Clean => &[Choice::Clean],
        Choice::Demote => &[Choice::Demote],
        Choice::Nothing => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_stands_if_it_gains_time_or_saves_writes_for_nothing() {
        let cost = |time_ns, media_write_bytes| Cost {
            time_ns,
            media_write_bytes,
            controller_write_bytes: 100,
            elsewhere_ns: 5000.0,
        };
        let without = cost(1000.0, 400);
        assert!(cost(900.0, 400).gains_over(&without));
        assert!(cost(1000.0, 100).gains_over(&without));
        assert!(!cost(1000.0, 399).gains_over(&without));
        assert!(!cost(995.0, 400).is_faster_than(&without) && cost(990.0, 400).is_faster_than(&without));
        assert!(!cost(1001.0, 100).gains_over(&without), "it must cost no time");
        assert!(!cost(1000.0, 0).gains_over(&cost(1000.0, 0)), "nothing was written, so nothing is saved");
        assert_eq!(without.write_amplification(), Some(4.0));

        let elsewhere = |elsewhere_ns| Cost { elsewhere_ns, ..cost(900.0, 400) };
        assert!(elsewhere(5040.0).gains_over(&without), "within what a model can be wrong");
        assert!(elsewhere(5080.0).gains_over(&without), "it loses less there than it gains here");
        assert!(!elsewhere(5100.0).gains_over(&without), "it loses as much");
        assert!(
            !Cost { media_write_bytes: 100, ..elsewhere(5200.0) }.gains_over(&without),
            "whatever it saves"
        );
    }
}
