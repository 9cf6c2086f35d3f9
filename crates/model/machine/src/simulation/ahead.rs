//! Stores behind a store fence.
//!
//! A store fence keeps later stores out of the cache until earlier ones are where they must be. It does not keep the core from
//! asking for their lines: a store that is in the window wants its line at once, so that it is there when the fence is over. In
//! this machine a fence is carried out before the events behind it, and carrying it out takes the core's clock past
//! the time at which it would have asked; so the stores that are in the window ask just before.

use event::{Event, FenceKind, Op};

use super::core::{Later, TimedCore};
use super::shared::Shared;
use crate::core::lines;
use crate::memory_side::Request;
use crate::{LINE_BYTES, Time};

impl TimedCore {
    /// The stores that are in the window behind the event under way ask for their lines at `start`.
    pub(crate) fn ask_ahead(&mut self, start: Time, shared: &mut Shared) {
        let queue = std::mem::take(&mut self.queue);
        let (mut instructions, mut stores) = (0, 0);
        for event in queue.front().iter().skip(1) {
            instructions += u64::from(event.instructions.max(1));
            let (addr, len) = match event.op {
                Op::Store { addr, len } => (addr, len),
                Op::Load { .. } | Op::StoreNt { .. } | Op::Flush { .. } | Op::Fence(FenceKind::Store) => {
                    continue;
                }
                _ => break,
            };
            for (line, _) in lines(addr, len) {
                stores += 1;
                if instructions > self.window.rob() || stores > self.stores.capacity() {
                    break;
                }
                self.ask_for((shared.ranges.place(line), true), start, event.site.0, shared);
            }
            if self.fills.free_at() > start || instructions > self.window.rob() {
                break;
            }
        }
        self.queue = queue;
    }

    /// An instruction of its own asks for what a load will need later.
    pub(crate) fn prefetch_for(&mut self, later: &Event, shared: &mut Shared) -> Result<(), Later> {
        let Op::Load { addr, len } = later.op else { return Ok(()) };
        let start = self.turn(shared)?;
        self.window.enter(1, &mut shared.sites);
        for (line, _) in lines(addr, len) {
            self.ask_for((shared.ranges.place(line), false), start, later.site.0, shared);
        }
        Ok(())
    }

    /// A prefetch instruction.
    pub(crate) fn prefetch_line(&mut self, addr: u64, site: u32, shared: &mut Shared) -> Result<(), Later> {
        let start = self.turn(shared)?;
        self.ask_for((shared.ranges.place(addr / LINE_BYTES), false), start, site, shared);
        Ok(())
    }

    /// Brings `line` into the L2, to be stored to if `own`, if there is a fill buffer and nothing in the way.
    fn ask_for(&mut self, (line, own): (u64, bool), start: Time, site: u32, shared: &mut Shared) {
        let busy = self.outgoing.waits(line) || self.outgoing.until(line) > start;
        if busy || self.fills.free_at().max(self.l2_misses.free_at()).max(shared.ready_at().0) > start {
            return;
        }
        shared.evicts_at(start);
        let Some(answer) = shared.hierarchy.prefetch(self.number, line, site) else { return };
        shared.snooped(line, self.number, false);
        let request = Request { line, thread: self.window.account.thread, core: self.number as u32 };
        let done = shared.fetched(start, answer, own, request);
        shared.arrives(line, done);
        self.fills.take(line, done);
        self.l2_misses.take(done);
    }
}
