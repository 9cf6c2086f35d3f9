//! One sync for all who wait: which sync a fence needs, and who carries it out.
//!
//! Syncs are numbered and run one at a time. What threads note goes to the sync that is *collecting*, the next to begin. A
//! fence needs the sync to which its thread's last note went. If that has not begun and none runs, the thread carries it out
//! itself; whoever comes meanwhile notes for the one after, and waits.
//!
//! Two threads that commit in turns would never share a sync that way: each begins as soon as the other's ends. So who
//! begins first waits for as many fences as the last sync left behind (those it served and those that already waited), but
//! no longer than an eighth of a sync. A thread alone waits for nobody.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

thread_local! {
    /// The group in which this thread noted something last, and for which sync; group 0 if in none.
    static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The fences and syncs of one space.
#[derive(Debug)]
pub(super) struct Group {
    /// Not 0, and no other group's.
    number: u64,
    state: Mutex<State>,
    /// A sync ended, or as many fences wait as were expected.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The smallest range that holds everything noted for the collecting sync.
    noted: Option<Range<u64>>,
    /// The sync that has not begun.
    collecting: u64,
    /// The last sync that ended well.
    done: u64,
    running: bool,
    /// Fences that wait for the collecting sync.
    waiting: u32,
    /// Fences that may soon wait together.
    company: u32,
    /// How long the last sync took.
    took: Duration,
    /// Syncs that were carried out.
    syncs: u64,
    failed: Option<Errno>,
}

impl Group {
    pub(super) fn new() -> Group {
        static GROUPS: AtomicU64 = AtomicU64::new(1);
        let state = State {
            noted: None,
            collecting: 1,
            done: 0,
            running: false,
            waiting: 0,
            company: 1,
            took: Duration::ZERO,
            syncs: 0,
            failed: None,
        };
        Group { number: GROUPS.fetch_add(1, Relaxed), state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Syncs so far, those that failed included.
    pub(super) fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// The error of the sync that failed.
    pub(super) fn failed(&self) -> Option<Errno> {
        self.lock().failed
    }

    /// Lets all fences fail from here on.
    pub(super) fn fail(&self, errno: Errno) {
        self.lock().failed.get_or_insert(errno);
        self.changed.notify_all();
    }

    /// Has the next sync cover the range, which is not empty.
    pub(super) fn note(&self, range: Range<u64>) {
        let mut state = self.lock();
        let noted = state.noted.take().unwrap_or(range.clone());
        state.noted = Some(noted.start.min(range.start)..noted.end.max(range.end));
        LAST.set((self.number, state.collecting));
    }

    /// Waits until everything that this thread noted was synced. `sync` does it for a range, if it falls to this thread.
    ///
    /// # Errors
    /// If a sync failed, now or before: what was noted since the last success may never reach the disk, whatever a later
    /// sync says, because the system forgets what it could not write.
    pub(super) fn fence(&self, sync: impl FnOnce(Range<u64>) -> Result<(), Errno>) -> Result<(), Errno> {
        let mut state = self.lock();
        if let Some(errno) = state.failed {
            return Err(errno);
        }
        let Some(target) = self.target(&state) else { return Ok(()) };
        if target == state.collecting {
            state.waiting += 1;
            if state.waiting == state.company {
                self.changed.notify_all();
            }
        }
        loop {
            if state.done >= target {
                return Ok(());
            }
            if let Some(errno) = state.failed {
                return Err(errno);
            }
            if !state.running {
                state = self.wait_for_company(state, target);
            }
            if state.may_begin(target) {
                return self.carry_out(state, sync);
            }
            if state.running {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// The sync that this thread's notes went to, `None` if that has ended.
    fn target(&self, state: &State) -> Option<u64> {
        let target = match LAST.get() {
            (0, _) => return None,
            (group, sync) if group == self.number => sync,
            // It noted in another group since, and what it did here is forgotten: all that is under way.
            _ if state.noted.is_some() => state.collecting,
            _ if state.running => state.collecting - 1,
            _ => return None,
        };
        (target > state.done).then_some(target)
    }

    /// Waits a little for other fences, unless enough are here.
    fn wait_for_company<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        target: u64,
    ) -> MutexGuard<'a, State> {
        if state.waiting >= state.company {
            return state;
        }
        let deadline = Instant::now() + state.took / 8;
        while state.may_begin(target) && state.waiting < state.company {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state
    }

    fn carry_out(
        &self,
        mut state: MutexGuard<'_, State>,
        sync: impl FnOnce(Range<u64>) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let range = state.noted.take().expect("the collecting sync has what this thread noted");
        let (this, served) = (state.collecting, state.waiting);
        state.collecting += 1;
        state.waiting = 0;
        state.running = true;
        drop(state);
        let start = Instant::now();
        let result = sync(range);
        let took = start.elapsed();
        let mut state = self.lock();
        state.running = false;
        state.syncs += 1;
        state.took = took;
        state.company = served + state.waiting;
        match result {
            // A failure meanwhile may have been of the pages that this sync took for written.
            Ok(()) if state.failed.is_none() => state.done = this,
            Ok(()) => {}
            Err(errno) => _ = state.failed.get_or_insert(errno),
        }
        self.changed.notify_all();
        state.failed.map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a thread that needs `target` may begin it now.
    fn may_begin(&self, target: u64) -> bool {
        !self.running && self.failed.is_none() && target == self.collecting
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    /// A fence that returns the start and end of what it synced.
    fn fence(group: &Group) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        let result = group.fence(|range| {
            ranges.push((range.start, range.end));
            Ok(())
        });
        assert_eq!(result, Ok(()));
        ranges
    }

    /// Waits until so many fences wait for the next sync.
    fn until_waiting(group: &Group, count: u32) {
        while group.lock().waiting < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_fence_syncs_the_smallest_range_with_everything_noted() {
        let group = Group::new();
        assert_eq!(fence(&group), [], "nothing was noted");
        group.note(8192..8200);
        group.note(64..128);
        group.note(4096..4100);
        assert_eq!(fence(&group), [(64, 8200)]);
        assert_eq!(fence(&group), [], "nothing was noted since");
        group.note(16..24);
        assert_eq!(fence(&group), [(16, 24)]);
        assert_eq!(group.syncs(), 2);
    }

    #[test]
    fn a_thread_waits_for_its_own_notes_only() {
        let group = Group::new();
        group.note(0..8);
        thread::scope(|scope| {
            scope.spawn(|| assert_eq!(fence(&group), [], "another thread's notes"));
        });
        assert_eq!(fence(&group), [(0, 8)]);
    }

    #[test]
    fn notes_in_two_groups_are_both_kept() {
        let (one, other) = (Group::new(), Group::new());
        one.note(0..8);
        other.note(8..16);
        assert_eq!(fence(&one), [(0, 8)]);
        assert_eq!(fence(&other), [(8, 16)]);
        assert_eq!((fence(&one), fence(&other)), (vec![], vec![]));
    }

    #[test]
    fn who_comes_while_a_sync_runs_shares_the_next() {
        const LATER: u64 = 7;
        let group = Group::new();
        let (begun, begins) = channel();
        let (go, goes) = channel();
        thread::scope(|scope| {
            let group = &group;
            scope.spawn(move || {
                group.note(0..8);
                let first = group.fence(|range| {
                    assert_eq!(range, 0..8);
                    begun.send(()).expect("the test waits");
                    goes.recv().expect("the test goes on");
                    Ok(())
                });
                assert_eq!(first, Ok(()));
            });
            begins.recv().expect("the first sync begins");
            let later = |i: u64| {
                group.note(64 * i..64 * i + 8);
                fence(group)
            };
            let threads: Vec<_> = (1..=LATER).map(|i| scope.spawn(move || later(i))).collect();
            until_waiting(group, LATER as u32);
            go.send(()).expect("the first sync waits");
            let ranges: Vec<_> = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
            assert_eq!(ranges, [(64, 64 * LATER + 8)], "one of them synced for all");
        });
        assert_eq!(group.syncs(), 2);
    }

    /// What is noted while a sync runs is not in it, even if the thread that noted it asks only when that has ended.
    #[test]
    fn a_sync_covers_what_was_noted_before_it_began() {
        let group = Group::new();
        group.note(0..8);
        let result = group.fence(|range| {
            assert_eq!(range, 0..8);
            // As another thread might, were this one not the only one here.
            thread::scope(|scope| scope.spawn(|| group.note(8..16)).join()).expect("no panic");
            group.note(16..24);
            Ok(())
        });
        assert_eq!(result, Ok(()));
        assert_eq!(fence(&group), [(8, 24)]);
    }

    #[test]
    fn a_failure_is_everybodys_and_for_good() {
        let group = Group::new();
        let (begun, begins) = channel();
        let (go, goes) = channel();
        thread::scope(|scope| {
            let group = &group;
            let first = scope.spawn(move || {
                group.note(0..8);
                group.fence(|_| {
                    begun.send(()).expect("the test waits");
                    goes.recv().expect("the test goes on");
                    Err(Errno::IO)
                })
            });
            begins.recv().expect("the first sync begins");
            let second = scope.spawn(move || {
                group.note(8..16);
                group.fence(|_| panic!("no sync after one that failed"))
            });
            until_waiting(group, 1);
            go.send(()).expect("the first sync waits");
            assert_eq!(first.join().expect("no panic"), Err(Errno::IO));
            assert_eq!(second.join().expect("no panic"), Err(Errno::IO));
        });
        assert_eq!(group.failed(), Some(Errno::IO));
        group.note(0..8);
        assert_eq!(group.fence(|_| panic!("no sync after one that failed")), Err(Errno::IO));
        assert_eq!(group.syncs(), 1);
    }

    #[test]
    fn what_fails_elsewhere_while_a_sync_runs_fails_that_too() {
        let group = Group::new();
        group.note(0..8);
        let result = group.fence(|_| {
            group.fail(Errno::NOSPC);
            Ok(())
        });
        assert_eq!(result, Err(Errno::NOSPC));
        assert_eq!(group.failed(), Some(Errno::NOSPC));
    }

    /// Every fence returns after a sync that began after its note, whatever the order of things.
    #[test]
    fn no_fence_returns_before_its_notes_are_synced() {
        const THREADS: u64 = 6;
        let group = Group::new();
        // What each thread noted last, and what of that a sync found that has ended.
        let stored: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let synced: Vec<AtomicU64> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
        let sync = |range: Range<u64>| {
            let seen: Vec<_> = stored.iter().map(|word| word.load(Relaxed)).collect();
            thread::yield_now();
            for i in range.start / 8..range.end / 8 {
                synced[i as usize].fetch_max(seen[i as usize], Relaxed);
            }
            Ok(())
        };
        thread::scope(|scope| {
            for i in 0..THREADS {
                let (group, stored, synced) = (&group, &stored[i as usize], &synced[i as usize]);
                scope.spawn(move || {
                    for value in 1..=300 {
                        stored.store(value, Relaxed);
                        group.note(i * 8..i * 8 + 8);
                        group.fence(sync).expect("no sync fails");
                        assert!(synced.load(Relaxed) >= value);
                    }
                });
            }
        });
        assert!(group.syncs() <= THREADS * 300);
    }
}
