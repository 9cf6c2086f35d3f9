//! Where the events of a simulated thread come from when they are made while the machine runs.

use event::Event;

use crate::Time;

/// A synthetic thread. It is asked for its next events, with the time, whenever the ones before have been carried out.
/// A thread that measures a latency asks for one access and a fence at a time; one that only
/// produces load asks for many events at once.
pub trait Program: Send {
    /// Appends this thread's next events to `events`, which is empty, and says how to go on. `now` is this
    /// thread's clock: when its last event was retired, which for a fence is when all that it waits for is done.
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next;
}

/// How a [`Program`] goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the events that it appended; then it is asked again.
    Run,
    /// With nothing before this time (or at once, if that is past); then it is asked again.
    Idle(Time),
    /// Not at all; events that it appended are still carried out.
    Done,
}
