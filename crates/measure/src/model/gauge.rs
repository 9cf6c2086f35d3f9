//! What the threads of a simulated measurement have in common: when to stop, and what they moved.

use std::cell::Cell;
use std::rc::Rc;

use machine::Time;

/// Shared by all programs of one measurement.
#[derive(Clone, Debug)]
pub struct Gauge(Rc<State>);

#[derive(Debug, Default)]
struct State {
    /// Events so far, and at most.
    events: Cell<u64>,
    events_max: Cell<u64>,
    /// The measured time.
    start: Cell<Time>,
    end: Cell<Time>,
    read_bytes: Cell<u64>,
    write_bytes: Cell<u64>,
}

impl Gauge {
    /// One that stops at once.
    pub fn new() -> Gauge {
        Gauge(Rc::new(State::default()))
    }

    /// Goes on for so many events.
    pub fn until_events(&self, events: u64) {
        self.reset(events);
        self.0.end.set(Time::NEVER);
    }

    /// Begins again at `start`, for about `events` events if they take as long as those of the warm-up took; never for
    /// more than twice as many.
    pub fn for_time(&self, start: Time, warm_time: Time, warm_events: u64, events: u64) {
        self.reset(events * 2);
        let time = u128::from(warm_time.0) * u128::from(events) / u128::from(warm_events.max(1));
        self.0.start.set(start);
        self.0.end.set(start + Time(u64::try_from(time).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4)));
    }

    fn reset(&self, events_max: u64) {
        self.0.events.set(0);
        self.0.events_max.set(events_max);
        self.0.start.set(Time::ZERO);
        self.0.read_bytes.set(0);
        self.0.write_bytes.set(0);
    }

    /// When threads begin.
    pub fn start(&self) -> Time {
        self.0.start.get()
    }

    /// Whether threads stop now.
    pub fn is_over(&self, now: Time) -> bool {
        self.0.events.get() >= self.0.events_max.get() || now >= self.0.end.get()
    }

    /// Events were given out.
    pub fn issued(&self, events: u64) {
        self.0.events.set(self.0.events.get() + events);
    }

    /// Bytes were accessed.
    pub fn moved(&self, reading: bool, bytes: u64) {
        let count = if reading { &self.0.read_bytes } else { &self.0.write_bytes };
        count.set(count.get() + bytes);
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// Bytes so far, read and written.
    pub fn bytes(&self) -> (u64, u64) {
        (self.0.read_bytes.get(), self.0.write_bytes.get())
    }
}
