//! The order between threads: who waits for whose release.
//!
//! A recorded run has one global order of synchronisation. What the machine keeps of it is the order at each
//! variable: an event of a variable is not carried out before the earlier ones of the same variable, and an acquire, lock,
//! start or join not before the time of the release, unlock, spawn or end that precedes it. Threads that met at
//! different variables owe each other nothing, however the recorded machine happened to order them.
//!
//! Programs that are asked for events while the machine runs have no recorded order: theirs comes about as
//! they run, and a lock keeps others out until it is given up.

use std::collections::BTreeMap;

use event::{Op, ThreadId};

use crate::Time;

/// Variables that are remembered without anybody waiting for them; beyond, those that are long past are forgotten.
const REMEMBERED: usize = 65_536;

/// What threads meet at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MeetingPoint {
    Variable(u64),
    Lock(u64),
    Start(u32),
    End(u32),
}

/// What a thread does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Others may go on from here.
    Publish,
    /// It goes on from where another published.
    Follow,
    /// It wants the lock, perhaps beside others.
    Lock { shared: bool },
    /// It gives the lock up.
    Unlock,
}

/// The synchronisation in `op`, done by `thread`.
pub(crate) fn step(op: &Op, thread: ThreadId) -> Option<(MeetingPoint, Step)> {
    Some(match *op {
        Op::Acquire { var, .. } => (MeetingPoint::Variable(var), Step::Follow),
        Op::Release { var, .. } => (MeetingPoint::Variable(var), Step::Publish),
        Op::Lock { lock, shared, .. } => (MeetingPoint::Lock(lock), Step::Lock { shared }),
        Op::Unlock { lock, .. } => (MeetingPoint::Lock(lock), Step::Unlock),
        Op::Spawn { child, .. } => (MeetingPoint::Start(child.0), Step::Publish),
        Op::ThreadStart { .. } => (MeetingPoint::Start(thread.0), Step::Follow),
        Op::ThreadEnd { .. } => (MeetingPoint::End(thread.0), Step::Publish),
        Op::Join { thread, .. } => (MeetingPoint::End(thread.0), Step::Follow),
        Op::Load { .. }
        | Op::Store { .. }
        | Op::StoreNt { .. }
        | Op::Flush { .. }
        | Op::Demote { .. }
        | Op::Prefetch { .. }
        | Op::Context
        | Op::Fence(_)
        | Op::Alloc { .. }
        | Op::Free { .. }
        | Op::Map { .. }
        | Op::MapOffset { .. }
        | Op::MapSync { .. }
        | Op::Unmap { .. }
        | Op::RegionBegin { .. }
        | Op::RegionEnd { .. }
        | Op::Phase { .. }
        | Op::Strand(_)
        | Op::Process { .. }
        | event::file_operations!() => return None,
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Meeting {
    /// Events of the recorded run that have come in.
    arrived: u64,
    /// Of these, carried out.
    served: u64,
    /// When the last publication could be seen.
    published: Time,
    /// Threads that hold it, as a lock.
    holders: u32,
    /// Whether they are one that tolerates no others.
    exclusive: bool,
    /// Who gave it up last, if that was so.
    last: Option<ThreadId>,
}

/// All places where threads met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    meetings: BTreeMap<MeetingPoint, Meeting>,
}

impl Order {
    /// An event of a recorded run comes in. Returns its ticket.
    pub(crate) fn arrive(&mut self, place: MeetingPoint) -> u64 {
        let meeting = self.meetings.entry(place).or_default();
        meeting.arrived += 1;
        meeting.arrived - 1
    }

    /// Whether the event may be carried out; `ticket` is that of a recorded run.
    pub(crate) fn may_go(&self, place: MeetingPoint, step: Step, ticket: Option<u64>) -> bool {
        let meeting = self.meetings.get(&place).copied().unwrap_or_default();
        match (ticket, step) {
            (Some(ticket), _) => meeting.served == ticket,
            (None, Step::Lock { shared: true }) => meeting.holders == 0 || !meeting.exclusive,
            (None, Step::Lock { shared: false }) => meeting.holders == 0,
            (None, _) => true,
        }
    }

    /// The event is carried out; what it publishes can be seen from `visible` on. Returns when it can be over,
    /// for what it follows.
    pub(crate) fn serve(&mut self, place: MeetingPoint, step: Step, visible: Time, thread: ThreadId) -> Time {
        let meeting = self.meetings.entry(place).or_default();
        meeting.served += 1;
        match step {
            Step::Publish => meeting.published = meeting.published.max(visible),
            Step::Follow => return meeting.published,
            Step::Lock { shared } => {
                meeting.holders += 1;
                meeting.exclusive = !shared;
                // What a thread has stored itself it need not wait to see.
                return if meeting.last == Some(thread) { Time::ZERO } else { meeting.published };
            }
            Step::Unlock => {
                meeting.last = meeting.exclusive.then_some(thread);
                meeting.holders = meeting.holders.saturating_sub(1);
                meeting.published = meeting.published.max(visible);
            }
        }
        Time::ZERO
    }

    /// Forgets, if there are many, the places where nobody waits and whose last publication all have passed.
    pub(crate) fn forget_before(&mut self, now: Time) {
        if self.meetings.len() > REMEMBERED {
            self.meetings.retain(|_, meeting| {
                meeting.served < meeting.arrived || meeting.holders > 0 || meeting.published > now
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_variable_keep_their_order_and_others_do_not_matter() {
        let mut order = Order::default();
        let (here, there) = (MeetingPoint::Variable(1), MeetingPoint::Variable(2));
        let release = order.arrive(here);
        let acquire = order.arrive(here);
        let elsewhere = order.arrive(there);
        assert!(!order.may_go(here, Step::Follow, Some(acquire)));
        assert!(order.may_go(there, Step::Follow, Some(elsewhere)));
        assert!(order.may_go(here, Step::Publish, Some(release)));
        order.serve(here, Step::Publish, Time(70), ThreadId(1));
        assert!(order.may_go(here, Step::Follow, Some(acquire)));
        assert_eq!(order.serve(here, Step::Follow, Time(10), ThreadId(2)), Time(70));
    }

    #[test]
    fn a_lock_keeps_others_out_unless_all_only_read() {
        let mut order = Order::default();
        let lock = MeetingPoint::Lock(1);
        let (read, write) = (Step::Lock { shared: true }, Step::Lock { shared: false });
        order.serve(lock, read, Time(1), ThreadId(1));
        assert!(order.may_go(lock, read, None) && !order.may_go(lock, write, None));
        order.serve(lock, Step::Unlock, Time(5), ThreadId(1));
        assert!(order.may_go(lock, write, None));
        assert_eq!(order.serve(lock, write, Time(6), ThreadId(2)), Time(5));
        assert!(!order.may_go(lock, read, None));
        order.serve(lock, Step::Unlock, Time(9), ThreadId(2));
        assert_eq!(order.serve(lock, write, Time(9), ThreadId(2)), Time::ZERO, "its own");
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut order = Order::default();
        for var in 0..=REMEMBERED as u64 {
            order.serve(MeetingPoint::Variable(var), Step::Publish, Time(var), ThreadId(1));
        }
        order.forget_before(Time(REMEMBERED as u64 - 10));
        assert_eq!(order.meetings.len(), 10);
    }
}
