//! Tells on standard error, when that is a terminal, how far a run has come.

use std::time::{Duration, Instant};

use event::{Batch, Definition, Sink, SinkError, Source};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs shorter than this show nothing.
const QUIET: Duration = Duration::from_secs(2);

/// A sink that passes everything on and shows events per second.
pub struct Progress<S> {
    inner: S,
    what: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
    events: u64,
    next_look: u64,
}

impl<S: Sink> Progress<S> {
    /// Shows `what` is being done while events go to `inner`.
    pub fn new(what: &'static str, inner: S) -> Self {
        Progress { inner, what, bar: None, started: Instant::now(), events: 0, next_look: 0 }
    }

    #[allow(clippy::cast_precision_loss)]
    fn look(&mut self) {
        self.next_look = self.events + (1 << 20);
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let events = self.events as f64;
        let rate = events / elapsed.as_secs_f64();
        bar.set_message(format!(
            "{}: {:.1} M events, {:.1} M events/s, {:.0} s",
            self.what,
            events / 1e6,
            rate / 1e6,
            elapsed.as_secs_f64()
        ));
        bar.tick();
    }
}

impl<S: Sink> Sink for Progress<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn needs(&self) -> event::Capabilities {
        self.inner.needs()
    }
    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.inner.begin(source)
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.inner.define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.events += batch.events.len() as u64;
        if self.events >= self.next_look {
            self.look();
        }
        self.inner.push(batch)
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.inner.finish()
    }
}
