//! What became of the first lines that cores sent to persistent memory: for a picture of who waited for whom.

use super::figures::Persist;
use crate::Time;
use crate::interleave::PERSISTENT;

/// The first so many lines, from a number on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chronicle {
    /// Lines that are passed over first.
    skip: u64,
    room: usize,
    pub(crate) persists: Vec<Persist>,
}

impl Chronicle {
    /// Keeps `count` lines behind the first `skip`.
    pub(crate) fn keep(&mut self, skip: u64, count: usize) {
        (self.skip, self.room) = (skip, count);
    }

    /// A line left.
    #[inline]
    pub(crate) fn sent(&mut self, core: usize, line: u64, ready: Time, left: Time, durable: Time) {
        if self.room == 0 || line & PERSISTENT == 0 {
            return;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        self.room -= 1;
        self.persists.push(Persist { core: core as u32, line: line & !PERSISTENT, ready, left, durable });
    }
}
