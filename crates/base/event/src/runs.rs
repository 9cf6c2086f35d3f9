//! Sinks that take straight-line code as blocks.
//!
//! One producer, the collector of compiled programs, knows blocks, and a few consumers are faster with them:
//! the trace writer, the counting machine, the guidelines. All other sinks see events. A sink offers
//! [`RunSink`] through [`Sink::as_runs`]; a producer writes to any sink through [`AnySink`].

use crate::{BlockBatch, Consumed, RawBlocks, Sink, SinkError};

/// A sink that takes blocks of straight-line code.
///
/// The calls come between [`Sink::begin`] and [`Sink::finish`], in one order with those of [`Sink::push`].
pub trait RunSink {
    /// Events of one thread, most of them as blocks. A sink that forwards to another forwards blocks as
    /// blocks.
    ///
    /// # Errors
    /// When the consumer can't go on.
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError>;

    /// Lends the producer memory for the words of the next [`BlockBatch`], which saves a copy: it appends
    /// them to what `words` holds. The next call that passes events is [`RunSink::push_lent`]; definitions
    /// may come between the two.
    ///
    /// By default the producer's own memory is used, emptied.
    fn lend(&mut self, words: &mut Vec<u64>) {
        words.clear();
    }

    /// As [`RunSink::push_blocks`], with `words` as [`RunSink::lend`] made them and the batch's words from
    /// index `from` on; [`BlockBatch::words`] is ignored. A batch of no events returns the memory and is no
    /// batch.
    ///
    /// # Errors
    /// When the consumer can't go on.
    fn push_lent(
        &mut self,
        words: &mut Vec<u64>,
        from: usize,
        batch: BlockBatch<'_>,
    ) -> Result<(), SinkError> {
        if batch.count == 0 {
            Ok(())
        } else {
            self.push_blocks(BlockBatch { words: &words[from..], ..batch })
        }
    }

    /// Whether [`RunSink::push_raw`] is faster for this sink than [`RunSink::push_blocks`].
    fn prefers_raw(&mut self) -> bool {
        false
    }

    /// Blocks of one thread as the observed code recorded them. By default they become a [`BlockBatch`].
    ///
    /// # Errors
    /// When the consumer can't go on.
    fn push_raw(&mut self, raw: RawBlocks<'_>) -> Result<Consumed, SinkError> {
        raw.translated(|batch| self.push_blocks(batch))
    }
}

/// Any sink as a [`RunSink`]: where the sink has no [`Sink::as_runs`], blocks are unfolded to events and
/// pushed.
#[derive(Debug)]
pub struct AnySink<'a, S: ?Sized>(
    /// The sink.
    pub &'a mut S,
);

impl<S: Sink + ?Sized> RunSink for AnySink<'_, S> {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        if let Some(runs) = self.0.as_runs() {
            return runs.push_blocks(batch);
        }
        batch.expanded(|batch| self.0.push(batch))
    }

    fn lend(&mut self, words: &mut Vec<u64>) {
        match self.0.as_runs() {
            Some(runs) => runs.lend(words),
            None => words.clear(),
        }
    }

    fn push_lent(
        &mut self,
        words: &mut Vec<u64>,
        from: usize,
        batch: BlockBatch<'_>,
    ) -> Result<(), SinkError> {
        if let Some(runs) = self.0.as_runs() {
            return runs.push_lent(words, from, batch);
        }
        if batch.count == 0 {
            return Ok(());
        }
        BlockBatch { words: &words[from..], ..batch }.expanded(|batch| self.0.push(batch))
    }

    fn prefers_raw(&mut self) -> bool {
        self.0.as_runs().is_some_and(RunSink::prefers_raw)
    }

    fn push_raw(&mut self, raw: RawBlocks<'_>) -> Result<Consumed, SinkError> {
        if let Some(runs) = self.0.as_runs() {
            return runs.push_raw(raw);
        }
        raw.translated(|batch| batch.expanded(|batch| self.0.push(batch)))
    }
}
