//! A chunk's words into those of [`event::RunBatch`], with the records between that are no runs left as they are.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{HEAD, RunShape};

use super::code::Code;
use super::decoder::Decoder;
use super::records::{length, touching};
use crate::wire::{accessed, descriptor_of, kind, kind_of};

/// The words of a chunk that were looked through so far.
#[derive(Debug, Default)]
pub struct Translation {
    /// As in the chunk, but for runs: these are as a batch of runs has them.
    pub words: Vec<u64>,
    /// Where in `words` the records stand that are no runs.
    pub stops: VecDeque<Stop>,
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
        let words = &self.words[from.at..to.at];
        let left_out = words.iter().filter(|word| **word == 0).count();
        words.len() - left_out - (to.other - from.other)
    }

    /// The record of `length` words at `stop` is done with; where it ends.
    pub fn leave(&mut self, stop: Stop, length: usize) -> Stop {
        self.stops.pop_front_if(|first| first.at <= stop.at);
        Stop { at: stop.at + length, other: stop.other + length }
    }
}

impl<C: Code> Decoder<C> {
    /// Goes on with a translation up to the end of `words`, of which it has the first ones; `process` wrote them.
    ///
    /// Ends before at a word that is zero, as no record begins there, and at one that makes no sense: then this is
    /// counted, and the header given.
    pub fn translate(&mut self, process: usize, words: &[AtomicU64], into: &mut Translation) -> bool {
        let mut at = into.words.len();
        into.words.extend(words[at..].iter().map(|word| word.load(Ordering::Relaxed)));
        while let Some(&header) = into.words.get(at).filter(|header| **header != 0) {
            let Some(run) = self.run(process, header) else {
                match length(&into.words[at..]) {
                    Some(length) if descriptor_of(header).is_none() && at + length <= into.words.len() => {
                        into.stops.push_back(Stop { at, other: into.other });
                        into.other += length;
                        at += length;
                        continue;
                    }
                    _ => return self.give_up(into, at),
                }
            };
            let end = at + usize::from(run.words);
            let Some(payload) = into.words.get_mut(at + 1..end) else { return self.give_up(into, at) };
            if run.tells_length {
                let [addr, len] = payload else { return self.give_up(into, at) };
                // What does not fit, or is none, is a matter for the way that all other records go.
                let Some(touching) = touching(*len).filter(|_| *addr != 0 && *addr & HEAD == 0) else {
                    into.stops.push_back(Stop { at, other: into.other });
                    into.other += 3;
                    at = end;
                    continue;
                };
                *len |= u64::from(touching) << 32;
                into.other += 2;
            } else {
                payload.iter_mut().for_each(|word| *word = accessed(*word));
                into.other += 1;
            }
            into.words[at] = RunShape::head(run.shape);
            at = end;
        }
        into.words.truncate(at);
        true
    }

    /// What is known of a record with this header, if it is told as a run.
    #[inline]
    fn run(&mut self, process: usize, header: u64) -> Option<super::runs::Run> {
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
