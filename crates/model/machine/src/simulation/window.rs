//! The out-of-order window of a core: when instructions enter it, when they leave it, and what it stands still for.
//!
//! Two clocks run along the program. `dispatch` is when the next instruction can enter the window: it goes on by the issue
//! width, and stands still while the window, the load queue or the store queue is full. `retired` is when the last
//! instruction so far has left: in order, and not before it is done. A load that misses leaves late and everything after
//! it behind it; so the window fills up, and that is the whole of how a miss stalls a core. Loads that the
//! window holds together overlap.
//!
//! Only instructions that hold up the retirement of others are remembered, so an L1 hit costs a few additions.

use std::collections::VecDeque;

use super::figures::{Cause, ThreadTiming};
use crate::config::Pipeline;
use crate::{Config, Time};

/// An instruction that others in the window wait for.
///
/// Who waits for it is charged with its two causes in the proportion in which it waited for them itself, whichever part
/// of its time the waiting falls into: many are under way at once, and what each of them waited for is what the
/// core is short of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// When it wanted to begin,
    pub(crate) wanted: Time,
    /// when it could, after waiting for `before`,
    pub(crate) granted: Time,
    pub(crate) before: Cause,
    /// and when it is done, after waiting for `cause`.
    pub(crate) done: Time,
    pub(crate) cause: Cause,
    /// Whose it is.
    pub(crate) site: u32,
}

impl Wait {
    /// For one thing only.
    pub(crate) fn simple(done: Time, cause: Cause, site: u32) -> Self {
        Wait { wanted: Time::ZERO, granted: Time::ZERO, before: cause, done, cause, site }
    }

    /// What of `time` is charged to what it waited for first.
    fn first_part(&self, time: Time) -> Time {
        let (before, all) = (self.granted.since(self.wanted), self.done.since(self.wanted));
        if before == Time::ZERO {
            return Time::ZERO;
        }
        let part = u128::from(time.0) * u128::from(before.0) / u128::from(all.max(before).0);
        Time(part as u64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    wait: Wait,
    /// Number of this instruction, and of the first load that is not before it.
    instructions: u64,
    loads: u64,
}

/// How long each site's doings made cores stand still.
pub(crate) type SiteStalls = Vec<Time>;

/// A core's window and clocks.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// When the next instruction can enter.
    pub(crate) dispatch: Time,
    /// When the last instruction so far has left.
    pub(crate) retired: Time,
    instructions: u64,
    loads: u64,
    /// With retirement times that increase.
    held: VecDeque<Held>,
    /// Instructions and loads from which on the first of these must have retired.
    instruction_gate: u64,
    load_gate: u64,
    issue: Time,
    retire: Time,
    rob: u64,
    load_queue: u64,
    /// The thread that runs.
    pub(crate) account: ThreadTiming,
}

impl Window {
    pub(crate) fn new(config: &Config) -> Self {
        let Pipeline { cycle, issue_width, retire_width, rob, load_queue, .. } = config.cores.pipeline;
        Window {
            dispatch: Time::ZERO,
            retired: Time::ZERO,
            instructions: 0,
            loads: 0,
            held: VecDeque::new(),
            instruction_gate: u64::MAX,
            load_gate: u64::MAX,
            issue: share(cycle, issue_width),
            retire: share(cycle, retire_width),
            rob: rob.into(),
            load_queue: load_queue.into(),
            account: ThreadTiming::default(),
        }
    }

    /// Instructions that it holds.
    pub(crate) fn rob(&self) -> u64 {
        self.rob
    }

    /// So many instructions enter, the last of them an event.
    #[inline(always)]
    pub(crate) fn enter(&mut self, count: u64, sites: &mut SiteStalls) {
        self.instructions += count;
        if self.instructions > self.instruction_gate {
            self.make_room(self.instructions, 0, sites);
        }
        let busy = self.issue * count;
        self.dispatch += busy;
        self.account.busy += busy;
        self.account.instructions += count;
        self.retired = (self.retired + self.retire * count).max(self.dispatch);
    }

    /// A load is about to look for its line: it needs an entry of the load queue.
    #[inline(always)]
    pub(crate) fn load_room(&mut self, sites: &mut SiteStalls) {
        if self.loads + 1 > self.load_gate {
            self.make_room(0, self.loads + 1, sites);
        }
    }

    /// The instruction that entered last is a load that has its data at `done`, soon enough to hold up nobody.
    #[inline(always)]
    pub(crate) fn load_hit(&mut self, done: Time) {
        self.loads += 1;
        self.retired = self.retired.max(done);
    }

    /// It is a load that others wait for.
    pub(crate) fn load_miss(&mut self, wait: Wait) {
        self.loads += 1;
        self.hold_from(wait, self.loads);
    }

    /// It is no load, and can't retire before this is over.
    pub(crate) fn hold(&mut self, wait: Wait) {
        self.hold_from(wait, self.loads + 1);
    }

    /// Loads from the one of that number on are behind it.
    fn hold_from(&mut self, wait: Wait, loads: u64) {
        if wait.done <= self.retired {
            return;
        }
        self.retired = wait.done;
        self.held.push_back(Held { wait, instructions: self.instructions, loads });
        if self.held.len() == 1 {
            self.set_gates();
        }
    }

    /// Room for the instruction or load of that number: what must leave the window first does.
    #[cold]
    fn make_room(&mut self, instructions: u64, loads: u64, sites: &mut SiteStalls) {
        while instructions > self.instruction_gate || loads > self.load_gate {
            self.release_first(sites);
        }
    }

    fn release_first(&mut self, sites: &mut SiteStalls) {
        if let Some(first) = self.held.pop_front() {
            self.stand_still(&first.wait, sites);
        }
        self.set_gates();
    }

    fn set_gates(&mut self) {
        // What has retired already gates nobody.
        while self.held.front().is_some_and(|first| first.wait.done <= self.dispatch) {
            self.held.pop_front();
        }
        let first = self.held.front();
        self.instruction_gate = first.map_or(u64::MAX, |first| first.instructions + self.rob - 1);
        self.load_gate = first.map_or(u64::MAX, |first| first.loads + self.load_queue - 1);
    }

    /// Nothing enters until everything in the window has left it.
    pub(crate) fn empty(&mut self, sites: &mut SiteStalls) {
        while !self.held.is_empty() {
            self.release_first(sites);
        }
        let rest = self.retired.since(self.dispatch);
        self.dispatch += rest;
        self.account.busy += rest;
    }

    /// Nothing enters until `wait` is over.
    #[inline]
    pub(crate) fn stand_still(&mut self, wait: &Wait, sites: &mut SiteStalls) {
        let late = wait.done.since(self.dispatch);
        let early = wait.first_part(late);
        self.account.stalls.charge(wait.before, early);
        self.account.stalls.charge(wait.cause, late - early);
        sites[wait.site as usize] += late;
        self.dispatch += late;
    }

    /// The kernel works for the thread until `until`.
    pub(crate) fn occupied(&mut self, until: Time) {
        self.account.busy += until.since(self.dispatch);
        self.dispatch = self.dispatch.max(until);
        self.retired = self.retired.max(until);
    }

    /// There is nothing to do until `until`.
    pub(crate) fn idle(&mut self, until: Time) {
        self.account.idle += until.since(self.dispatch);
        self.dispatch = self.dispatch.max(until);
        self.retired = self.retired.max(until);
    }
}

/// One part of a cycle, to the nearest picosecond.
fn share(cycle: Time, width: u32) -> Time {
    Time((cycle.0 + u64::from(width) / 2) / u64::from(width))
}
