//! A chunk's words into those of [`event::RunBatch`], with the records between that are no runs left as they are.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use event::HEAD;

use super::code::Code;
use super::decoder::Decoder;
use super::records::length;
use super::runs::{Run, Runs};
use super::tags::{BITS, Tags};
use crate::wire::{descriptor_of, kind, kind_of};

/// The words of a chunk that were looked through so far.
#[derive(Debug, Default)]
pub struct Translation {
    /// As in the chunk, but for runs: these are as a batch of runs has them.
    pub words: Vec<u64>,
    /// Where in `words` the records stand that are no runs.
    pub stops: VecDeque<Stop>,
    tags: Tags,
    /// Words up to here that are no accesses: heads, lengths, records.
    other: usize,
}

/// A place in a translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stop {
    /// The word.
    pub at: usize,
    /// Words before it that are no accesses.
    pub other: usize,
}

impl Translation {
    /// Where the next record stands that is no run, or the end.
    #[must_use]
    pub fn next_stop(&self) -> Stop {
        self.stops.front().copied().unwrap_or(Stop { at: self.words.len(), other: self.other })
    }

    /// Events that runs from one place to another tell.
    #[must_use]
    pub fn events(&self, from: Stop, to: Stop) -> usize {
        to.at - from.at - self.tags.zeros(from.at..to.at) - (to.other - from.other)
    }

    /// The record of `length` words at `stop` is done with; where it ends.
    pub fn leave(&mut self, stop: Stop, length: usize) -> Stop {
        self.stops.pop_front_if(|first| first.at <= stop.at);
        Stop { at: stop.at + length, other: stop.other + length }
    }
}

impl Translation {
    /// Translates runs that were seen lately, from `at` on, one behind the other. Where a header stands that is
    /// something else; none if there is no more. Headers before `next` are not looked at.
    fn follow(&mut self, runs: &Runs, at: &mut usize, next: &mut usize) -> Option<usize> {
        let near = runs.near()?;
        let words = &mut self.words[..];
        // In variables of their own, so that they stay in registers.
        let (mut position, mut other) = (*at, self.other);
        let mut unusual = None;
        let first = *next / BITS;
        'all: for (element, &headers) in self.tags.headers.iter().enumerate().skip(first) {
            let mut headers = if element == first { headers & !0 << (*next % BITS) } else { headers };
            while headers != 0 {
                let header_at = element * BITS + headers.trailing_zeros() as usize;
                headers &= headers - 1;
                let run = near[Run::place(words[header_at])];
                let end = position + usize::from(run.words);
                let usual = header_at == position && run.is(words[header_at]) && end <= words.len();
                let told = if usual { run.tell(&mut words[position..end]) } else { None };
                let Some(told) = told else {
                    unusual = Some(header_at);
                    break 'all;
                };
                other += told;
                position = end;
            }
        }
        (*at, self.other) = (position, other);
        unusual
    }
}

impl<C: Code> Decoder<C> {
    /// Goes on with a translation up to the end of `words`, of which it has the first ones; `process` wrote them.
    ///
    /// Ends before at a word that is zero, as no record begins there. False if it ends at one that makes no sense: then
    /// the rest is counted as lost.
    pub fn translate(&mut self, process: usize, words: &[AtomicU64], into: &mut Translation) -> bool {
        let mut at = into.words.len();
        copy(&words[at..], &mut into.words);
        into.tags.read(&mut into.words, at);
        let (mut next, mut in_run) = (at, false);
        loop {
            let before = at;
            let found = into.follow(&self.processes[process].runs, &mut at, &mut next);
            in_run |= at != before;
            let Some(header_at) = found.filter(|header_at| *header_at <= at) else { break };
            next = header_at + 1;
            if header_at < at {
                // Part of a record, or an address that no process has.
                if in_run {
                    into.words[header_at] &= !HEAD;
                }
                continue;
            }
            let Some(end) = self.translate_record(process, words, at, into) else {
                return self.give_up(into, at);
            };
            in_run = into.words[at] & HEAD != 0;
            at = end;
        }
        if into.words.get(at).is_some_and(|word| *word != 0) {
            return self.give_up(into, at);
        }
        into.words.truncate(at);
        true
    }

    /// Translates the record at `at`; where it ends, if it makes sense.
    fn translate_record(
        &mut self,
        process: usize,
        original: &[AtomicU64],
        at: usize,
        into: &mut Translation,
    ) -> Option<usize> {
        let Translation { words, stops, other, .. } = into;
        let header = words[at];
        if let Some(run) = self.run(process, header) {
            let end = at + usize::from(run.words);
            if end > words.len() {
                return None;
            }
            if let Some(told) = run.tell(&mut words[at..end]) {
                *other += told;
                return Some(end);
            }
            // What does not fit, or is none, goes the way of all other records.
        }
        if descriptor_of(header).is_some() {
            return None;
        }
        let word = |at: usize| original.get(at).map_or(0, |word| word.load(Ordering::Relaxed));
        let length = length(&[word(at), word(at + 1), word(at + 2), word(at + 3)])?;
        let record = words.get_mut(at..at + length)?;
        record.iter_mut().zip(at..).for_each(|(to, at)| *to = word(at));
        stops.push_back(Stop { at, other: *other });
        *other += length;
        Some(at + length)
    }

    /// What is known of a record with this header, if it is told as a run.
    #[inline]
    fn run(&mut self, process: usize, header: u64) -> Option<Run> {
        if let Some(run) = self.processes[process].runs.get(header) {
            return Some(run);
        }
        let known = if let Some(descriptor) = descriptor_of(header) {
            self.learn(process, descriptor)
        } else {
            kind_of(header) == kind::ACCESS && self.learn_access(process, header)
        };
        if known { self.processes[process].runs.get(header) } else { None }
    }

    /// Counts what is from `at` on as lost.
    pub fn give_up(&mut self, into: &mut Translation, at: usize) -> bool {
        let lost = &into.words[at..];
        self.undecoded.0 += lost.iter().filter(|word| **word != 0).count() as u64;
        self.undecoded.1 = self.undecoded.1.or(lost.first().copied());
        into.words.truncate(at);
        false
    }
}

/// Adds words that their writer is done with.
fn copy(words: &[AtomicU64], into: &mut Vec<u64>) {
    into.reserve(words.len());
    let (from, to) = (words.as_ptr().cast::<u64>(), into.spare_capacity_mut().as_mut_ptr().cast::<u64>());
    // SAFETY: there is room. Nobody writes to these words any more; if a broken program does, they are any numbers, as they
    // may be anyway.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, words.len());
        into.set_len(into.len() + words.len());
    }
}
