//! How many records a crash may leave torn.
//!
//! A word of the root has the greatest number of records that were being written at a time since the map was
//! opened, and says so durably before so many are written. So a crash leaves at most that many torn, and a
//! map that was closed, or only read, none. A load, which waits once for all of its records, may leave any
//! number. The upper half of the word is the complement of the lower one: damage of the word itself shows.

use std::sync::atomic::{AtomicU32, Ordering};

use space::Space;

use crate::Error;

/// Any number of records.
const ANY: u32 = u32::MAX;

fn word(torn: u32) -> u64 {
    u64::from(torn) | u64::from(!torn) << 32
}

/// Those who write records.
pub(super) struct Writers {
    /// Offset of the word.
    at: u64,
    active: AtomicU32,
    /// What the word durably says.
    said: AtomicU32,
}

impl Writers {
    /// Records that a crash may have left torn; the word is at `at`.
    pub fn open<S: Space>(space: &S, at: u64) -> Result<Writers, Error> {
        let found = space.load_u64(at);
        if found != word(found as u32) {
            return Err(Error::Damaged { offset: at, what: "how many records may be torn" });
        }
        Ok(Writers { at, active: AtomicU32::new(0), said: AtomicU32::new(found as u32) })
    }

    /// Stores the word of a map in which nothing is torn.
    pub fn create<S: Space>(space: &S, at: u64) {
        space.store_u64(at, word(0));
    }

    /// Whether so many records may be torn.
    pub fn may_leave(&self, torn: usize) -> bool {
        let said = self.said.load(Ordering::Relaxed);
        said == ANY || torn <= said as usize
    }

    /// One record more is being written, until [`Writers::end`]. `alone` keeps others out of the word
    /// meanwhile.
    #[inline]
    pub fn begin<S: Space, G>(&self, space: &S, alone: impl FnOnce() -> G) {
        let active = self.active.fetch_add(1, Ordering::Relaxed) + 1;
        if active > self.said.load(Ordering::Acquire) {
            let _alone = alone();
            if active > self.said.load(Ordering::Acquire) {
                self.say(space, active);
            }
        }
    }

    /// A record is durable.
    #[inline]
    pub fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// Nobody writes, and all that was written is durable.
    pub fn none<S: Space>(&self, space: &S) {
        if self.said.load(Ordering::Relaxed) != 0 {
            self.say(space, 0);
        }
    }

    /// One writer is alone, and may write any number of records.
    pub fn any<S: Space>(&self, space: &S) {
        self.say(space, ANY);
    }

    fn say<S: Space>(&self, space: &S, torn: u32) {
        space.store_u64(self.at, word(torn));
        space.persist(self.at, 8);
        self.said.store(torn, Ordering::Release);
    }
}
