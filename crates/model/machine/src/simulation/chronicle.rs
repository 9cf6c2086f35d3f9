//! What became of the first lines that cores sent to persistent memory: for a picture of who waited for whom.

use super::figures::{Awaited, Persist};
use crate::Time;
use crate::interleave::PERSISTENT;

/// The first so many lines, from a number on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chronicle {
    /// Lines that are passed over first.
    skip: u64,
    room: usize,
    pub(crate) persists: Vec<Persist>,
    /// By core: until when it stood at its last fence for lines under way.
    fences: Vec<Time>,
}

impl Chronicle {
    /// Keeps `count` lines behind the first `skip`.
    pub(crate) fn keep(&mut self, skip: u64, count: usize) {
        (self.skip, self.room) = (skip, count);
    }

    /// Whether lines are still kept.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.room > 0
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
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.room -= 1;
        let (why, behind) = match persist.why {
            Awaited::Nothing => self.before_ready(persist),
            why => (why, self.durable_at(until, |_| true)),
        };
        self.persists.push(Persist { line: persist.line & !PERSISTENT, why, behind, ..persist });
    }

    /// Why a line was not ready before, if it was for another line.
    fn before_ready(&self, persist: Persist) -> (Awaited, Option<u32>) {
        let own = |at: Time| self.durable_at(at, |other| other.core == persist.core);
        if let Some(before) = own(persist.ready) {
            return (Awaited::Step, Some(before));
        }
        let fence = self.fences.get(persist.core as usize).copied().unwrap_or_default();
        match own(fence) {
            Some(before) if fence > Time::ZERO && fence <= persist.ready => (Awaited::Fence, Some(before)),
            _ => (Awaited::Nothing, None),
        }
    }

    /// The last of the kept lines that was durable then.
    fn durable_at(&self, time: Time, which: impl Fn(&Persist) -> bool) -> Option<u32> {
        let found = self.persists.iter().rposition(|other| other.durable == time && which(other));
        found.map(|at| at as u32)
    }
}
