//! A thread's chunk, and its words where the thread wrote them.
//!
//! Words are copied from memory that the observed program has too, a few at a time: nothing refers to them
//! there. Most of them come from another core's caches, so they are asked for some time before.

use std::sync::atomic::{AtomicU64, Ordering};

use event::{COMPARED, Compared, RawWords, copy_and_compare};

#[cfg(target_arch = "x86_64")]
use super::compare;
use super::records::length;
use crate::session::SessionFile;

/// Words that are copied together when many are.
const GROUP: usize = 64;
/// So many words ahead, words are asked for: about what is looked at while they come from another core.
const AHEAD: usize = 3 * GROUP;

/// A chunk of the thread.
#[derive(Debug)]
pub struct Piece {
    /// The session's chunk, in which the words are until it is given back.
    pub chunk: Option<usize>,
    /// Words of the chunk.
    pub size: usize,
    /// Its position among the thread's.
    pub number: u64,
    /// Nanoseconds from the session's start to the first record.
    pub start_ns: u64,
    /// Nanoseconds to the last record.
    pub end_ns: u64,
    /// Words that may be read; all of them once the writer is done with the chunk.
    pub ready: Option<usize>,
    /// Words that were looked through to find `ready`.
    pub(super) scanned: usize,
    /// What was copied out of the chunk, if it was given back before it was read.
    words: Vec<u64>,
    /// A record here made no sense: it and what follows it can't be read.
    pub(super) lost: Option<usize>,
}

/// Words of a piece from one of them on.
pub(super) enum Rest<'a> {
    /// In a chunk. Their writer is done with them.
    Shared(&'a [AtomicU64]),
    /// Copied out of it.
    Own(&'a [u64]),
}

impl RawWords for Rest<'_> {
    fn count(&self) -> usize {
        match self {
            Rest::Shared(words) => words.len(),
            Rest::Own(words) => words.len(),
        }
    }

    #[inline]
    fn copy(&self, from: usize, into: &mut [u64]) -> usize {
        match self {
            Rest::Shared(words) => {
                let words = words.get(from..).unwrap_or_default();
                if into.len() >= GROUP {
                    read_ahead(words);
                }
                copy(words, into)
            }
            Rest::Own(words) => words.copy(from, into),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn compare(
        &self,
        from: usize,
        block: &mut [u64],
        place: [usize; 2],
        heads: u64,
        differences: &mut [u64; COMPARED],
    ) -> Compared {
        if let Rest::Shared(words) = self
            && let Some(words) = words.get(from..)
            && let Some(these) = words.first_chunk()
            && let Some(width) = compare::Width::available()
        {
            read_ahead(words);
            // SAFETY: the processor has what it takes.
            return unsafe { compare::compare(width, these, block, place, differences) };
        }
        copy_and_compare(self, from, block, place, heads, differences)
    }
}

impl Rest<'_> {
    /// The first of them.
    pub(super) fn first(&self) -> Option<u64> {
        match self {
            Rest::Shared(words) => words.first().map(|word| word.load(Ordering::Relaxed)),
            Rest::Own(words) => words.first().copied(),
        }
    }

    /// The first three of them, if there are as many.
    #[inline]
    pub(super) fn start(&self) -> Option<[u64; 3]> {
        match self {
            Rest::Shared(words) => {
                Some(words.first_chunk()?.each_ref().map(|word: &AtomicU64| word.load(Ordering::Relaxed)))
            }
            Rest::Own(words) => words.first_chunk().copied(),
        }
    }

    /// Copies as many as the record has that begins with them, if they are there.
    pub(super) fn record(&self, into: &mut Vec<u64>) -> Option<()> {
        let mut start = [0; 4];
        let there = self.copy(0, &mut start);
        let length = length(&start[..there])?;
        if length > self.count() {
            return None;
        }
        into.clear();
        into.resize(length, 0);
        (self.copy(0, into) == length).then_some(())
    }
}

impl Piece {
    /// The session's chunk `chunk`, of `size` words; `ready` of them may be read if its writer is not done
    /// with it.
    #[must_use]
    pub fn new(chunk: usize, size: usize, number: u64, times_ns: [u64; 2], ready: Option<usize>) -> Self {
        let [start_ns, end_ns] = times_ns;
        let (chunk, words) = (Some(chunk), Vec::new());
        Piece { chunk, size, number, start_ns, end_ns, ready, scanned: 0, words, lost: None }
    }

    pub(super) fn complete(&self) -> bool {
        self.ready.is_none()
    }

    /// What may be read, from word `at` on.
    pub(super) fn rest<'a>(&'a self, session: &'a SessionFile, at: usize) -> Rest<'a> {
        let Some(chunk) = self.chunk else {
            return Rest::Own(self.words.get(at..self.lost.unwrap_or(self.words.len())).unwrap_or_default());
        };
        let words = session.area(chunk);
        let ready = self.lost.or(self.ready).unwrap_or(words.len());
        Rest::Shared(words.get(at..ready).unwrap_or_default())
    }

    /// Copies all words, and leaves the chunk.
    pub(super) fn copy_out(&mut self, session: &SessionFile) -> Option<usize> {
        let words = session.area(self.chunk?);
        self.words.resize(words.len(), 0);
        copy(words, &mut self.words);
        self.chunk.take()
    }
}

/// Asks for the words that will be copied soon: they are in the other core's caches, and what comes of them
/// is waited for.
#[inline]
fn read_ahead(words: &[AtomicU64]) {
    #[cfg(target_arch = "x86_64")]
    for line in (AHEAD..AHEAD + GROUP).step_by(8) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: nothing is read; that there may be nothing at this address does not matter.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}

/// Copies words that their writer is done with, as many as there are and as have room.
#[inline]
fn copy(words: &[AtomicU64], into: &mut [u64]) -> usize {
    let count = words.len().min(into.len());
    // SAFETY: so many words are there and have room. Nobody writes to these words any more; if a broken
    // program does, they are any numbers, as they may be anyway, and nothing refers to them where they are.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast::<u64>(), into.as_mut_ptr(), count) };
    count
}
