//! A lock that the thread which uses it takes and gives up with plain stores.
//!
//! # What it avoids
//! An atomic read-modify-write waits until all earlier stores of its core are done: behind a fence as long as the fence itself, some hundred
//! nanoseconds on persistent memory. A lock taken by one makes a thread wait in each region for the fence of the last, where it could prepare the
//! next record meanwhile. A lock that lets others sleep needs another one when it is given up. Here neither happens to a thread that has a latch mostly to
//! itself; whoever waits looks again and again, at last with pauses.
//!
//! # How
//! A thread that took the latch many times in a row becomes its **owner**: it says in a mark, with a plain store, that it is inside, and looks
//! whether it is still the owner. Another thread takes the latch by swapping `held`; if there is an owner it says that there is none any more, has the
//! kernel make every thread of the process pass a full barrier (membarrier), and waits until the owner is not inside. After the barrier,
//! either the owner's store is seen, or the owner's second look will see that it is none: so the owner needs the barrier between its store and its look only when somebody
//! asks for it. The next thread to become the owner has to take it more times in a row, so that threads which take turns rarely pay for
//! barriers. Where the kernel has none, nobody becomes an owner.
//!
//! A thread may be stopped between its first look and its store, and go on when another is the owner. So each has a mark of its own, which nobody else
//! sets, as long as there is the latch.

use std::cell::Cell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::thread;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Looks in a row; then looks with the processor lent to others in between; then pauses.
const LOOKS: u32 = 64;
const LOANS: u32 = 32;
/// The longest pause, in microseconds.
const PAUSE_MAX: u64 = 256;

/// How many times in a row a thread takes a latch before it is the owner: about what a barrier costs. Twice as often each time that
/// one was needed, up to a limit.
const ROW_MIN: u32 = 64;
const ROW_MAX: u32 = 1 << 16;

/// No thread.
const NOBODY: u64 = 0;

/// The number of the calling thread, from 1. No two threads of a process have the same one.
#[inline]
pub fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(NOBODY);
    thread_local! {
        // Without a destructor, so that it is there as long as the thread is.
        static NUMBER: Cell<u64> = const { Cell::new(NOBODY) };
    }
    NUMBER.with(|number| {
        if number.get() == NOBODY {
            number.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

/// Whether the kernel makes barriers for this process.
fn has_barriers() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// A full barrier in every thread of the process.
#[cold]
fn barrier_everywhere() {
    let done = membarrier(MembarrierCommand::PrivateExpedited);
    // Registered before any latch had an owner; a process that was forked since may have to do it again.
    let done = done.or_else(|_| {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)?;
        membarrier(MembarrierCommand::PrivateExpedited)
    });
    done.expect("the kernel had barriers for this process before");
}

/// Comes back once `is_done` says so.
#[cold]
fn wait_until(is_done: impl Fn() -> bool) {
    let mut looks = 0;
    let mut pause = 8;
    while !is_done() {
        looks += 1;
        if looks < LOOKS {
            spin_loop();
        } else if looks < LOOKS + LOANS {
            thread::yield_now();
        } else {
            thread::sleep(Duration::from_micros(pause));
            pause = PAUSE_MAX.min(2 * pause);
        }
    }
}

/// A thread that is a latch's owner, or was.
struct Owner {
    thread: u64,
    /// It has the latch as its owner, or looks whether it can. Set by this thread alone.
    inside: AtomicBool,
    /// The one who became an owner before.
    before: *mut Owner,
}

/// The lock without what it guards.
pub struct Raw {
    /// Who is not the owner takes the latch by this.
    held: AtomicBool,
    /// Null if there is none. Changed by the holder of `held` alone.
    owner: AtomicPtr<Owner>,
    /// As whom the latch's holder has it; null if by `held`. From here on: of the latch's holder alone.
    holder: AtomicPtr<Owner>,
    /// All threads that ever were owners, the newest first.
    owners: AtomicPtr<Owner>,
    /// Who took it by `held` last, how many times in a row, and how many times make an owner.
    last: AtomicU64,
    row: AtomicU32,
    asked: AtomicU32,
}

impl Raw {
    /// What stands behind a pointer of this latch, if anything does.
    #[inline(always)]
    fn at(&self, owner: *mut Owner) -> Option<&Owner> {
        // SAFETY: pointers of the latch are null or lead to an owner, which is freed with the latch.
        unsafe { owner.as_ref() }
    }

    /// Whether the calling thread has the latch as its owner.
    #[inline(always)]
    fn enter(&self, me: u64) -> bool {
        let found = self.owner.load(Ordering::Acquire);
        let Some(owner) = self.at(found).filter(|owner| owner.thread == me) else { return false };
        if owner.inside.load(Ordering::Acquire) {
            // It has the latch already, or gave its guard to another thread.
            return false;
        }
        #[cfg(test)]
        tests::between_looks();
        owner.inside.store(true, Ordering::Relaxed);
        // The processor may still look first, unless `barrier_everywhere` comes in between.
        compiler_fence(Ordering::SeqCst);
        // What was written under the latch is this thread's own, or came with the mark: nobody else took it since it became the owner.
        if self.owner.load(Ordering::Relaxed) == found {
            return true;
        }
        owner.inside.store(false, Ordering::Release);
        false
    }

    #[inline(never)]
    fn take(&self, me: u64) {
        if self.held.swap(true, Ordering::Acquire) {
            wait_until(|| !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire));
        }
        self.taken(me);
    }

    /// `held` is the calling thread's: so is the latch, once the owner has left.
    #[inline]
    fn taken(&self, me: u64) {
        if let Some(owner) = self.at(self.owner.load(Ordering::Relaxed)) {
            self.disown(owner);
        }
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.row.store(0, Ordering::Relaxed);
            return;
        }
        let row = self.row.load(Ordering::Relaxed) + 1;
        self.row.store(row, Ordering::Relaxed);
        if row >= self.asked.load(Ordering::Relaxed) {
            self.own(me);
        }
    }

    #[cold]
    fn disown(&self, owner: &Owner) {
        self.owner.store(ptr::null_mut(), Ordering::Relaxed);
        barrier_everywhere();
        wait_until(|| !owner.inside.load(Ordering::Acquire));
        self.holder.store(ptr::null_mut(), Ordering::Relaxed);
        self.last.store(NOBODY, Ordering::Relaxed);
        self.asked.store(ROW_MAX.min(2 * self.asked.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    /// The holder becomes the owner.
    #[cold]
    fn own(&self, me: u64) {
        self.row.store(0, Ordering::Relaxed);
        if !has_barriers() {
            return;
        }
        let newest = self.owners.load(Ordering::Relaxed);
        let mut known = newest;
        while let Some(owner) = self.at(known).filter(|owner| owner.thread != me) {
            known = owner.before;
        }
        if known.is_null() {
            known =
                Box::into_raw(Box::new(Owner { thread: me, inside: AtomicBool::new(true), before: newest }));
            self.owners.store(known, Ordering::Relaxed);
        } else if let Some(owner) = self.at(known) {
            owner.inside.store(true, Ordering::Relaxed);
        }
        self.holder.store(known, Ordering::Relaxed);
        self.owner.store(known, Ordering::Release);
        self.held.store(false, Ordering::Release);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let mut newest = *self.owners.get_mut();
        while !newest.is_null() {
            // SAFETY: it comes from a box, is in the list once, and nobody has the latch any more.
            newest = unsafe { Box::from_raw(newest) }.before;
        }
    }
}

// SAFETY: the pointers lead to owners that the latch alone has; of these, threads change atomics only.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

// SAFETY: who is not the owner has the latch from a swap of `held` that only one thread can see succeed, behind which there is no owner and the last
// one is not inside, until `unlock`. The owner has it from `enter` on: whoever swaps `held` meanwhile waits in `disown` for its mark, which it sees because its barrier came
// after the owner's store; had it come before, the owner would have seen in its second look that it is none. A thread becomes the owner as the holder, with its mark set, and no two
// threads have the same number. `holder` is written by holders alone, so `unlock` gives up what was taken. The pairs of release and acquire on `held` and the marks make what was written
// under the latch visible to the next holder; an owner follows itself.
unsafe impl lock_api::RawMutex for Raw {
    #[allow(clippy::declare_interior_mutable_const, reason = "how the trait asks for the free lock")]
    const INIT: Raw = Raw {
        held: AtomicBool::new(false),
        owner: AtomicPtr::new(ptr::null_mut()),
        holder: AtomicPtr::new(ptr::null_mut()),
        owners: AtomicPtr::new(ptr::null_mut()),
        last: AtomicU64::new(NOBODY),
        row: AtomicU32::new(0),
        asked: AtomicU32::new(ROW_MIN),
    };

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        let me = thread_number();
        if !self.enter(me) {
            self.take(me);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let me = thread_number();
        if self.enter(me) {
            return true;
        }
        if self.held.swap(true, Ordering::Acquire) {
            return false;
        }
        if !self.owner.load(Ordering::Relaxed).is_null() {
            // Its owner may be inside, and would have to be waited for.
            self.held.store(false, Ordering::Release);
            return false;
        }
        self.taken(me);
        true
    }

    #[inline]
    unsafe fn unlock(&self) {
        match self.at(self.holder.load(Ordering::Relaxed)) {
            Some(owner) => owner.inside.store(false, Ordering::Release),
            None => self.held.store(false, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Instant;

    use super::*;

    type Latch = lock_api::Mutex<Raw, u64>;

    thread_local! {
        /// What happens next while this thread, an owner, is between its first look and its store.
        static BETWEEN: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    pub(super) fn between_looks() {
        if let Ok(Some(happens)) = BETWEEN.try_with(Cell::take) {
            happens();
        }
    }

    /// Whose the latch is, and whether that thread is inside.
    fn owner(latch: &Latch) -> Option<(u64, bool)> {
        // SAFETY: nothing is done to the lock.
        let raw = unsafe { latch.raw() };
        let owner = raw.at(raw.owner.load(Ordering::Relaxed));
        owner.map(|owner| (owner.thread, owner.inside.load(Ordering::Relaxed)))
    }

    /// Takes the latch so often that it is the calling thread's, and each time is inside as its owner.
    fn own(latch: &Latch) {
        let me = thread_number();
        for _ in 0..16 * ROW_MIN {
            let held = latch.lock();
            assert!(owner(latch).is_none_or(|owner| owner == (me, true)), "{:?}, not {me}", owner(latch));
            drop(held);
        }
        assert_eq!(owner(latch), has_barriers().then_some((me, false)));
    }

    #[test]
    fn who_becomes_the_owner_is_inside() {
        let latch = Latch::new(0);
        own(&latch);
        // Another one in between, and the first one again, with the mark that it had.
        thread::scope(|scope| _ = scope.spawn(|| own(&latch)));
        own(&latch);
    }

    #[test]
    fn threads_in_turn_own_nothing() {
        let latch = Latch::new(0);
        for _ in 0..2 * ROW_MIN {
            *latch.lock() += 1;
            thread::scope(|scope| _ = scope.spawn(|| *latch.lock() += 1));
            assert_eq!(owner(&latch), None);
        }
        assert_eq!(*latch.lock(), 4 * u64::from(ROW_MIN));
    }

    /// Another thread takes the latch while its owner is between its looks, and has seen that it is the owner.
    #[test]
    fn an_owner_that_was_on_its_way_in_waits_for_the_next_one() {
        if !has_barriers() {
            println!("skipped: the kernel has no membarrier, so that no latch has an owner");
            return;
        }
        let latch: &Latch = Box::leak(Box::new(Latch::new(0)));
        let taken: &Barrier = Box::leak(Box::new(Barrier::new(2)));
        own(latch);
        let other = thread::spawn(move || {
            taken.wait();
            let mut held = latch.lock();
            taken.wait();
            // As long as the other one may take to go on.
            let (began, found) = (Instant::now(), owner(latch));
            while began.elapsed() < Duration::from_millis(50) {
                thread::yield_now();
            }
            *held += 1;
            found
        });
        BETWEEN.set(Some(Box::new(|| {
            taken.wait();
            taken.wait();
        })));
        let mut held = latch.lock();
        let found = *held;
        *held = found + 1;
        drop(held);
        assert_eq!(other.join().expect("it did not panic"), None, "it is nobody's");
        assert_eq!((found, *latch.lock()), (1, 2), "both had it at once");
    }

    #[test]
    fn who_only_tries_does_not_wait_for_an_owner() {
        let latch = Latch::new(0);
        let tries = || thread::scope(|scope| scope.spawn(|| latch.try_lock().is_some()).join().ok());
        assert_eq!(tries(), Some(true), "nobody has it");
        let held = latch.lock();
        assert_eq!(tries(), Some(false), "somebody has it, who is no owner");
        drop(held);
        (0..2 * u64::from(ROW_MIN)).for_each(|_| *latch.lock() += 1);
        assert_eq!(owner(&latch).is_some(), has_barriers());
        let held = latch.lock();
        assert!(latch.try_lock().is_none(), "the owner has it already");
        assert_eq!(tries(), Some(false), "the owner has it");
        drop(held);
        assert!(latch.try_lock().is_some(), "the owner can have it again");
        thread::scope(|scope| _ = scope.spawn(|| *latch.lock() += 1));
        assert_eq!(*latch.lock(), 2 * u64::from(ROW_MIN) + 1);
    }
}
