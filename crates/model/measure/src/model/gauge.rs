//! What the threads of a simulated measurement have in common: when to stop, and what they moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use machine::Time;

/// Shared by all programs of one measurement.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Events so far, and at most.
    events: AtomicU64,
    events_max: AtomicU64,
    /// The measured time, in picoseconds.
    start: AtomicU64,
    end: AtomicU64,
    read_bytes: AtomicU64,
    write_bytes: AtomicU64,
}

impl Gauge {
    /// One that stops at once.
    pub fn new() -> Gauge {
        Gauge(Arc::new(State::default()))
    }

    /// Goes on for so many events.
    pub fn until_events(&self, events: u64) {
        self.reset(events);
        self.0.end.store(Time::NEVER.0, Relaxed);
    }

    /// Begins again at `start`, for about `events` events if they take as long as those of the warm-up took;
    /// never for more than twice as many.
    pub fn for_time(&self, start: Time, warm_time: Time, warm_events: u64, events: u64) {
        self.reset(events.saturating_mul(2));
        let time = u128::from(warm_time.0) * u128::from(events) / u128::from(warm_events.max(1));
        self.0.start.store(start.0, Relaxed);
        let time = u64::try_from(time).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4);
        self.0.end.store(start.0 + time, Relaxed);
    }

    fn reset(&self, events_max: u64) {
        self.0.events.store(0, Relaxed);
        self.0.events_max.store(events_max, Relaxed);
        self.0.start.store(0, Relaxed);
        self.0.read_bytes.store(0, Relaxed);
        self.0.write_bytes.store(0, Relaxed);
    }

    /// When threads begin.
    pub fn start(&self) -> Time {
        Time(self.0.start.load(Relaxed))
    }

    /// Whether threads stop now.
    pub fn is_over(&self, now: Time) -> bool {
        self.0.events.load(Relaxed) >= self.0.events_max.load(Relaxed) || now.0 >= self.0.end.load(Relaxed)
    }

    /// Events were given out.
    pub fn issued(&self, events: u64) {
        self.0.events.fetch_add(events, Relaxed);
    }

    /// Bytes were accessed.
    pub fn moved(&self, reading: bool, bytes: u64) {
        let count = if reading { &self.0.read_bytes } else { &self.0.write_bytes };
        count.fetch_add(bytes, Relaxed);
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.0.events.load(Relaxed)
    }

    /// Bytes so far, read and written.
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.read_bytes.load(Relaxed), self.0.write_bytes.load(Relaxed))
    }
}
