//! Tells on standard error, when that is a terminal, how far a run has come.

use std::time::{Duration, Instant};

use event::{Batch, Capabilities, Definition, RunBatch, Sink, SinkError, Source, Taken, Told};
use indicatif::{ProgressBar, ProgressStyle};

/// Runs shorter than this show nothing.
pub const QUIET: Duration = Duration::from_secs(2);

/// One line that grows with the events.
pub struct Meter {
    what: &'static str,
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Meter {
    /// Shows `what` is being done.
    pub fn new(what: &'static str) -> Self {
        Meter { what, bar: None, started: Instant::now() }
    }

    /// So many events by now.
    #[allow(clippy::cast_precision_loss)]
    pub fn show(&mut self, events: u64) {
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(spinner);
        let (events, seconds) = (events as f64 / 1e6, elapsed.as_secs_f64());
        let rate = events / seconds;
        bar.set_message(format!("{}: {events:.1} M events, {rate:.1} M/s, {seconds:.0} s", self.what));
        bar.tick();
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// One line that counts pieces of work.
pub struct Steps {
    what: &'static str,
    done: usize,
    all: usize,
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Steps {
    /// Shows how many of `all` pieces are done.
    pub fn new(what: &'static str, all: usize) -> Self {
        Steps { what, done: 0, all, bar: None, started: Instant::now() }
    }

    /// The piece of that name is done.
    pub fn done(&mut self, name: &str) {
        self.done += 1;
        let elapsed = self.started.elapsed();
        if elapsed < QUIET {
            return;
        }
        let bar = self.bar.get_or_insert_with(spinner);
        let left = elapsed.as_secs_f64() / self.done as f64 * (self.all - self.done) as f64;
        bar.set_message(format!("{}: {} of {}, {left:.0} s left: {name}", self.what, self.done, self.all));
        bar.tick();
    }

    /// Prints what `print` prints, without the line in between.
    pub fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A line that turns.
pub fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let bar = ProgressBar::new_spinner();
    style.map(|style| bar.clone().with_style(style)).unwrap_or(bar)
}

/// A sink that passes everything on and shows events per second.
pub struct Progress<S> {
    inner: S,
    meter: Option<Meter>,
    events: u64,
    next_look: u64,
}

impl<S: Sink> Progress<S> {
    /// Shows `what` is being done while events go to `inner`.
    pub fn new(what: &'static str, inner: S) -> Self {
        Progress { inner, meter: Some(Meter::new(what)), events: 0, next_look: 0 }
    }

    fn count(&mut self, events: usize) {
        self.events += events as u64;
        if self.events >= self.next_look {
            self.next_look = self.events + (1 << 20);
            if let Some(meter) = &mut self.meter {
                meter.show(self.events);
            }
        }
    }
}

impl<S: Sink> Sink for Progress<S> {
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
        self.count(batch.events.len());
        self.inner.push(batch)
    }
    fn push_runs(&mut self, batch: RunBatch<'_>) -> Result<(), SinkError> {
        self.count(batch.count);
        self.inner.push_runs(batch)
    }
    fn lend(&mut self, words: &mut Vec<u64>) {
        self.inner.lend(words);
    }
    fn push_lent(&mut self, words: &mut Vec<u64>, from: usize, batch: RunBatch<'_>) -> Result<(), SinkError> {
        self.count(batch.count);
        self.inner.push_lent(words, from, batch)
    }
    fn takes_told(&self) -> bool {
        self.inner.takes_told()
    }
    fn push_told(&mut self, told: Told<'_>) -> Result<Taken, SinkError> {
        let taken = self.inner.push_told(told)?;
        self.count(taken.events);
        Ok(taken)
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.inner.pause()
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.meter = None;
        self.inner.finish()
    }
}
