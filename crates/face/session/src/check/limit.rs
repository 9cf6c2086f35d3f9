//! How long a check may take, from the end of its program on.

use std::time::{Duration, Instant};

use event::{Batch, Capabilities, Definition, Sink, SinkError, Source};

/// The moment at which a check has had its time, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit(Option<Instant>);

impl Limit {
    /// So long from now on.
    pub fn from_now(time: Option<Duration>) -> Limit {
        Limit(time.and_then(|time| Instant::now().checked_add(time)))
    }

    pub fn is_over(self) -> bool {
        self.0.is_some_and(|moment| Instant::now() >= moment)
    }
}

/// Passes events on until a limit is over; then it refuses them.
pub struct Until<S> {
    inner: S,
    limit: Limit,
}

impl<S: Sink> Until<S> {
    pub fn new(limit: Limit, inner: S) -> Self {
        Until { inner, limit }
    }
}

impl<S: Sink> Sink for Until<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn needs(&self) -> Capabilities {
        self.inner.needs()
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.inner.begin(source)
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.inner.define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if self.limit.is_over() {
            return Err(SinkError::Other("the time is over".to_owned()));
        }
        self.inner.push(batch)
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.inner.pause()
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}
