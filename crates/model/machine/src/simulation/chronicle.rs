//! What became of the first lines that cores sent to persistent memory: for a picture of who waited for whom.

use super::figures::{Awaited, Persist};
use crate::Time;
use crate::interleave::PERSISTENT;

/// So many lines from a number on; of a run that has fewer, the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chronicle {
    skip: u64,
    passed: u64,
    count: usize,
    /// Of the lines before that number,
    early: Vec<Persist>,
    /// and of those from it on.
    late: Vec<Persist>,
    /// By core: until when it stood at its last fence for lines under way.
    fences: Vec<Time>,
}

impl Chronicle {
    /// Keeps `count` lines behind the first `skip`.
    pub(crate) fn keep(&mut self, skip: u64, count: usize) {
        (self.skip, self.count) = (skip, count);
    }

    /// The lines that were kept.
    pub(crate) fn kept(&self) -> &[Persist] {
        if self.late.len() < self.count && !self.early.is_empty() { &self.early } else { &self.late }
    }

    /// Whether lines are still kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.late.len() < self.count
    }

    /// The core stands still until its lines so far are durable.
    pub(crate) fn fenced(&mut self, core: usize, until: Time) {
        if self.is_on() {
            if self.fences.len() <= core {
                self.fences.resize(core + 1, Time::ZERO);
            }
            self.fences[core] = self.fences[core].max(until);
        }
    }

    /// A line left, after it had waited for something of its queue until a time.
    pub(crate) fn sent(&mut self, persist: Persist, until: Time) {
        if !self.is_on() || persist.line & PERSISTENT == 0 {
            return;
        }
        let is_early = self.passed < self.skip;
        self.passed += 1;
        let list = if is_early { &self.early } else { &self.late };
        if list.len() == self.count {
            return;
        }
        let (why, behind) = match persist.why {
            Awaited::Nothing => self.before_ready(persist, list),
            why => (why, durable_at(list, until, |_| true)),
        };
        let persist = Persist { line: persist.line & !PERSISTENT, why, behind, ..persist };
        if is_early { self.early.push(persist) } else { self.late.push(persist) }
    }

    /// Why a line was not ready before, if it was for another line.
    fn before_ready(&self, persist: Persist, list: &[Persist]) -> (Awaited, Option<u32>) {
        let own = |at: Time| durable_at(list, at, |other| other.core == persist.core);
        if let Some(before) = own(persist.ready) {
            return (Awaited::Step, Some(before));
        }
        let fence = self.fences.get(persist.core as usize).copied().unwrap_or_default();
        match own(fence) {
            Some(before) if fence > Time::ZERO && fence <= persist.ready => (Awaited::Fence, Some(before)),
            _ => (Awaited::Nothing, None),
        }
    }
}

/// The last of the lines in `list` that was durable then.
fn durable_at(list: &[Persist], time: Time, which: impl Fn(&Persist) -> bool) -> Option<u32> {
    let found = list.iter().rposition(|other| other.durable == time && which(other));
    found.map(|at| at as u32)
}
