//! Accesses that are kept to try cures on.

const KEPT_MAX: usize = 1 << 18;
/// Moments of a window, as a power of two.
const WINDOW: u32 = 14;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its thread's clock, by which threads that ran one after another can run side by side.
    pub(crate) now: u64,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    pub(crate) site: u32,
    /// Of [`crate::calls::Table`].
    pub(crate) row: u32,
    pub(crate) thread: u32,
    pub(crate) instructions: u32,
    /// Allocation site of the block that it goes to, [`NO_BLOCK`] if there is none.
    pub(crate) block: u32,
    /// Where in this block.
    pub(crate) offset: u32,
    pub(crate) store: bool,
    /// Its address was read by the miss before.
    pub(crate) hop: bool,
    /// It ends a locked instruction.
    pub(crate) locked: bool,
    /// It stores what was there.
    pub(crate) silent: bool,
    /// It is a prefetch.
    pub(crate) prefetch: bool,
}

/// Globals, stacks and what was allocated unseen.
pub(crate) const NO_BLOCK: u32 = u32::MAX;

/// Windows of the threads' clocks, the same ones of all threads; the more time goes by, the fewer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    kept: Vec<Kept>,
    every: u32,
}

impl Tape {
    /// Whether a moment lies in a window.
    #[inline]
    pub(crate) fn keeps(&self, now: u64) -> bool {
        (now >> WINDOW) & ((1 << self.every) - 1) == 0
    }

    #[inline]
    pub(crate) fn keep(&mut self, access: Kept) {
        if !self.keeps(access.now) {
            return;
        }
        if self.kept.len() >= KEPT_MAX {
            self.every += 1;
            let mask = (1u64 << self.every) - 1;
            self.kept.retain(|access| (access.now >> WINDOW) & mask == 0);
            if self.kept.len() >= KEPT_MAX {
                return;
            }
        }
        self.kept.push(access);
    }

    /// The last access of a thread, if it was kept, is the end of a locked instruction.
    pub(crate) fn locked(&mut self, thread: u32) {
        if let Some(last) = self.kept.last_mut()
            && last.thread == thread
        {
            last.locked = true;
        }
    }

    /// The last access, if it was kept and is of this address, stored what was there.
    pub(crate) fn silent(&mut self, thread: u32, addr: u64) {
        if let Some(last) = self.kept.last_mut()
            && (last.thread, last.addr) == (thread, addr)
        {
            last.silent = true;
        }
    }

    /// The last access, if it was kept, waited for the miss before.
    pub(crate) fn hop(&mut self, now: u64, thread: u32) {
        if let Some(last) = self.kept.last_mut()
            && (last.now, last.thread) == (now, thread)
        {
            last.hop = true;
        }
    }

    /// All of it, by time of recording.
    pub(crate) fn all(&self) -> &[Kept] {
        &self.kept
    }

    /// All of it, as if threads had run side by side.
    pub(crate) fn in_order(&self) -> Vec<Kept> {
        let mut all = self.kept.clone();
        all.sort_by_key(|access| (access.now, access.thread));
        all
    }
}
