//! Which pages are free.

use std::sync::atomic::{AtomicUsize, Ordering};

use space::Env;

use crate::Extent;

/// A pool for each extent. Only in ordinary memory: opening finds the pages in use, all others are free.
pub(super) struct Pools<E: Env> {
    /// First and last offset of the pages of each, and those that are free, the next one last.
    pools: Vec<(u64, u64, E::Latch<Vec<u64>>)>,
    page: u64,
    next: AtomicUsize,
}

impl<E: Env> Pools<E> {
    /// All pages are free; in the first extent those from `behind` on.
    pub(super) fn new(env: &E, pieces: &[Extent], behind: u64, page: u64) -> Self {
        let pool = |piece: &Extent| {
            let begin = piece.offset.max(if piece == &pieces[0] { behind } else { 0 }).next_multiple_of(page);
            let end = (piece.offset + piece.bytes) / page * page;
            let mut free: Vec<u64> = (begin..end.max(begin)).step_by(page as usize).collect();
            free.reverse();
            (begin, end, env.latch(free))
        };
        Pools { pools: pieces.iter().map(pool).collect(), page, next: AtomicUsize::new(0) }
    }

    /// A page, from this pool if it has one, or from the next in turn.
    pub(super) fn take(&self, env: &E, home: Option<usize>) -> Option<u64> {
        let first = home.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        let count = self.pools.len();
        (first..first + count).find_map(|pool| env.hold(&self.pools[pool % count].2).pop())
    }

    /// Gives pages back.
    pub(super) fn give(&self, env: &E, pages: impl IntoIterator<Item = u64>) {
        for page in pages {
            if let Some(pool) = self.pool_of(page) {
                env.hold(&self.pools[pool].2).push(page);
            }
        }
    }

    /// Takes out all pages that `used` says.
    pub(super) fn keep(&self, env: &E, used: impl Fn(u64) -> bool) {
        for (_, _, pool) in &self.pools {
            env.hold(pool).retain(|page| !used(*page));
        }
    }

    /// The pool of a page; `None` if it is not one.
    pub(super) fn pool_of(&self, page: u64) -> Option<usize> {
        let inside = |(begin, end, _): &(u64, u64, _)| (*begin..*end).contains(&page);
        self.pools.iter().position(inside).filter(|_| page.is_multiple_of(self.page))
    }

    pub(super) fn free(&self, env: &E) -> usize {
        self.pools.iter().map(|(_, _, pool)| env.hold(pool).len()).sum()
    }
}
