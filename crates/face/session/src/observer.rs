//! What a verb reports while it works, and how it learns that it is to stop.

use event::{
    AnySink, Batch, BlockBatch, Capabilities, Consumed, Definition, RawBlocks, RunSink, Sink, SinkError,
    Source,
};

use crate::glob::is_named;

/// Events between two reports of progress.
const STEP: u64 = 1 << 20;

/// Receives progress and warnings of a verb. Several threads may call it at the same time.
pub trait Observer: Sync {
    /// Work went on. The first report of a piece of work comes when it begins.
    fn progress(&self, progress: &Progress<'_>);

    /// The piece of work whose progress was reported last is over.
    fn finished(&self);

    /// Something that the reader of the result has to know. It is in the result as well.
    fn warn(&self, warning: &str);

    /// Whether the verb is to stop and return what it has. A verb asks several times per second.
    fn stopped(&self) -> bool;
}

/// How far a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// Events of an input.
    Events {
        /// What is done with them: `profiling`.
        doing: &'static str,
        /// Events so far.
        events: u64,
    },
    /// Crash images of a run.
    Images {
        /// Crash points examined.
        points_done: u64,
        /// Crash points of the run.
        points: u64,
        /// Images examined.
        images: u64,
        /// Findings so far; each worker counts its own.
        findings: usize,
    },
    /// Bytes of a text.
    Bytes {
        /// What is done with them: `scanning`.
        doing: &'static str,
        /// Bytes so far.
        done: u64,
        /// Bytes of the text; 0 if its length is not known.
        all: u64,
        /// The text.
        name: &'a str,
    },
    /// Pieces of a known number.
    Steps {
        /// What is done: `reproducing`.
        doing: &'static str,
        /// Pieces that are done.
        done: usize,
        /// All pieces.
        all: usize,
        /// The piece that was done last; empty at the beginning.
        name: &'a str,
    },
}

/// Ignores everything and never stops a verb.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&self, _: &Progress<'_>) {}
    fn finished(&self) {}
    fn warn(&self, _: &str) {}
    fn stopped(&self) -> bool {
        false
    }
}

/// A sink that passes everything on and reports the number of events.
pub struct Watched<'o, S> {
    inner: S,
    observer: &'o dyn Observer,
    doing: &'static str,
    events: u64,
    next_report: u64,
    /// Patterns that no name has matched yet.
    unmatched: Vec<String>,
}

impl<'o, S: Sink> Watched<'o, S> {
    /// Reports that `doing` goes on while events go to `inner`.
    pub fn new(doing: &'static str, observer: &'o dyn Observer, inner: S) -> Self {
        let watched = Watched { inner, observer, doing, events: 0, next_report: STEP, unmatched: Vec::new() };
        watched.report();
        watched
    }

    /// Follows which of these patterns a file of the events matches.
    pub(crate) fn expect(mut self, patterns: Vec<String>) -> Self {
        self.unmatched = patterns;
        self
    }

    /// The patterns that no file of the events matched.
    pub(crate) fn unmatched(&self) -> &[String] {
        &self.unmatched
    }

    fn count(&mut self, events: usize) {
        self.events += events as u64;
        if self.events >= self.next_report {
            self.next_report = self.events + STEP;
            self.report();
        }
    }

    fn report(&self) {
        self.observer.progress(&Progress::Events { doing: self.doing, events: self.events });
    }
}

impl<S> Drop for Watched<'_, S> {
    fn drop(&mut self) {
        self.observer.finished();
    }
}

impl<S: Sink> Sink for Watched<'_, S> {
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
        if let Definition::Name(_, name) = &definition
            && !self.unmatched.is_empty()
        {
            self.unmatched.retain(|pattern| !is_named(name.as_bytes(), pattern.as_bytes()));
        }
        self.inner.define(definition)
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.count(batch.events.len());
        self.inner.push(batch)
    }
    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.inner.pause()
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}

impl<S: Sink> RunSink for Watched<'_, S> {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        self.count(batch.count);
        AnySink(&mut self.inner).push_blocks(batch)
    }

    fn lend(&mut self, words: &mut Vec<u64>) {
        AnySink(&mut self.inner).lend(words);
    }

    fn push_lent(
        &mut self,
        words: &mut Vec<u64>,
        from: usize,
        batch: BlockBatch<'_>,
    ) -> Result<(), SinkError> {
        self.count(batch.count);
        AnySink(&mut self.inner).push_lent(words, from, batch)
    }

    fn prefers_raw(&mut self) -> bool {
        AnySink(&mut self.inner).prefers_raw()
    }

    fn push_raw(&mut self, raw: RawBlocks<'_>) -> Result<Consumed, SinkError> {
        let consumed = AnySink(&mut self.inner).push_raw(raw)?;
        self.count(consumed.events);
        Ok(consumed)
    }
}
