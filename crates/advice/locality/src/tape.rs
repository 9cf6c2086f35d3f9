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
    pub(crate) thread: u32,
    pub(crate) instructions: u32,
    pub(crate) store: bool,
}

/// Windows of the threads' clocks, the same ones of all threads; the more time goes by, the fewer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    kept: Vec<Kept>,
    every: u32,
}

impl Tape {
    #[inline]
    pub(crate) fn keep(&mut self, access: Kept) {
        if (access.now >> WINDOW) & ((1 << self.every) - 1) != 0 {
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

    /// All of it, as if threads had run side by side.
    pub(crate) fn in_order(&self) -> Vec<Kept> {
        let mut all = self.kept.clone();
        all.sort_by_key(|access| (access.now, access.thread));
        all
    }
}
