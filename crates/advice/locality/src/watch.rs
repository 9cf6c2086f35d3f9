//! Which events are looked at: the first ones, then bursts.

const WHOLE: u64 = 8 << 20;
const BURST: u64 = 1 << 17;
const PART: u64 = 8;

/// Says when to look.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    idle: bool,
    left: u64,
    all: u64,
    watched: u64,
}

impl Default for Watch {
    fn default() -> Self {
        Watch { idle: false, left: WHOLE, all: 0, watched: 0 }
    }
}

impl Watch {
    pub(crate) fn idle(&self) -> bool {
        self.idle
    }

    /// So many events went by; whether a gap has ended, so that what was known is stale.
    pub(crate) fn count(&mut self, events: usize) -> bool {
        let events = events as u64;
        self.all += events;
        self.watched += if self.idle { 0 } else { events };
        self.left = self.left.saturating_sub(events);
        if self.left > 0 {
            return false;
        }
        self.idle = !self.idle;
        self.left = if self.idle { BURST * (PART - 1) } else { BURST };
        !self.idle
    }

    /// Part of the events that were looked at.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn watched(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.watched as f64 / self.all as f64 }
    }
}
