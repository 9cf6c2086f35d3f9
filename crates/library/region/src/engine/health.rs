//! Whether the memory that an engine relies on has failed it.
//!
//! Where fences are syncs of a file, one can fail; then it panics. From that moment nobody knows what is
//! durable of what was stored before: a record may be whole on the medium and not be carried out, and what
//! stands in the pool may be half of a region. So the first panic within an engine's work is the last. No
//! region of the pool commits after it, nobody waits for one that does not end, and nothing is stored that
//! recovery could be led astray by: it finds what a crash at the moment of the failure could have left.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use super::flaw::Flaw;

/// Whether the memory has failed.
#[derive(Debug)]
pub(super) struct Health<F: Flaw> {
    flaw: PhantomData<F>,
    lost: AtomicBool,
}

/// Says so if it is dropped.
struct Unwinding<'h>(&'h AtomicBool);

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<F: Flaw> Health<F> {
    pub(super) fn new() -> Self {
        Health { flaw: PhantomData, lost: AtomicBool::new(false) }
    }

    /// Does what regions rely on. If it panics, the memory has failed.
    #[inline]
    pub(super) fn guard<R>(&self, work: impl FnOnce() -> R) -> R {
        let unwinding = Unwinding(&self.lost);
        let done = work();
        std::mem::forget(unwinding);
        done
    }

    /// The memory has failed.
    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether it has failed. Who has a lock that the failing thread held knows for certain.
    #[inline]
    pub(super) fn is_lost(&self) -> bool {
        !F::FAILURE_IGNORED && self.lost.load(Ordering::Relaxed)
    }

    /// # Panics
    /// If it has failed.
    #[inline]
    #[track_caller]
    pub(super) fn check(&self) {
        if self.is_lost() {
            self.fail();
        }
    }

    /// # Panics
    /// Because it has failed.
    #[cold]
    #[track_caller]
    pub(super) fn fail(&self) -> ! {
        panic!("the memory of this pool has failed within a region; open the pool again");
    }
}
