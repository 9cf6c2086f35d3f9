//! The program as it would be with pre-stores: the same events, with some added or changed.
//!
//! Advice that is only reasoned can be wrong, so it is tried: [`Apply`] stands between a stream of events and
//! a model, and does to the stream what a programmer would do to the code. A *clean* or *demote* follows when
//! a place is done with a line: its stores have reached the line's end, have moved on to another line, or a
//! fence comes. That is the call outside the innermost loop, one instruction for each line. A *skip* turns
//! the place's stores into non-temporal ones.

use event::{Batch, Capabilities, Definition, Event, FlushKind, Op, Sink, SinkError, SiteId, Source};

use super::advice::Choice;
use super::lines::LINE;

/// Unfinished lines followed per thread; one more, and the oldest counts as done with.
const OPEN_MAX: usize = 8;

/// A line that a place has begun to write.
#[derive(Clone, Copy, Debug)]
struct Open {
    line: u64,
    site: SiteId,
    choice: Choice,
}

/// A sink in front of another, which sees the program with pre-stores.
#[derive(Debug)]
pub struct Apply<S> {
    inner: S,
    /// By site.
    plan: Vec<Choice>,
    /// By thread, oldest first.
    open: Vec<Vec<Open>>,
    events: Vec<Event>,
    added: u64,
}

impl<S: Sink> Apply<S> {
    /// Gives `inner` the program in which the sites of `plan` do what stands beside them.
    pub fn new(inner: S, plan: impl IntoIterator<Item = (SiteId, Choice)>) -> Self {
        let mut by_site = Vec::new();
        for (site, choice) in plan {
            let at = site.0 as usize;
            if at >= by_site.len() {
                by_site.resize(at + 1, Choice::Nothing);
            }
            by_site[at] = choice;
        }
        Apply { inner, plan: by_site, open: Vec::new(), events: Vec::new(), added: 0 }
    }

    /// The sink behind.
    pub fn into_inner(self) -> S {
        self.inner
    }

    /// Pre-stores that were added, and stores that were changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.added
    }

    fn event(&mut self, thread: usize, event: Event) {
        let choice = self.plan.get(event.site.0 as usize).copied().unwrap_or(Choice::Nothing);
        match (event.op, choice) {
            (Op::Store { addr, len }, Choice::Skip) => {
                self.added += 1;
                self.events.push(Event { op: Op::StoreNt { addr, len }, ..event });
            }
            (Op::Store { addr, len }, Choice::Clean | Choice::Demote) if len > 0 => {
                self.events.push(event);
                self.stored(thread, addr, addr.saturating_add(u64::from(len)), event.site, choice);
            }
            (Op::Fence(_) | Op::Release { .. } | Op::Unlock { .. } | Op::ThreadEnd { .. }, _) => {
                for open in std::mem::take(&mut self.open[thread]) {
                    self.prestore(open);
                }
                self.events.push(event);
            }
            _ => self.events.push(event),
        }
    }

    /// Bytes up to `end` were stored at a place with a pre-store.
    fn stored(&mut self, thread: usize, addr: u64, end: u64, site: SiteId, choice: Choice) {
        let (first, last) = (addr / LINE, (end - 1) / LINE);
        // Its stream has moved on from the line before, in whichever direction.
        let left = |open: &Open| {
            open.site == site && (open.line.wrapping_add(1) == first || open.line.wrapping_sub(1) == last)
        };
        while let Some(at) = self.open[thread].iter().position(left) {
            let open = self.open[thread].remove(at);
            self.prestore(open);
        }
        for line in first..=last {
            let known = self.open[thread].iter().position(|open| open.line == line);
            let whole = line < last || end.is_multiple_of(LINE);
            match known {
                Some(at) if whole => {
                    let open = self.open[thread].remove(at);
                    self.prestore(open);
                }
                Some(_) => {}
                None if whole => self.prestore(Open { line, site, choice }),
                None => {
                    if self.open[thread].len() == OPEN_MAX {
                        let oldest = self.open[thread].remove(0);
                        self.prestore(oldest);
                    }
                    self.open[thread].push(Open { line, site, choice });
                }
            }
        }
    }

    fn prestore(&mut self, open: Open) {
        let addr = open.line * LINE;
        let op = match open.choice {
            Choice::Demote => Op::Demote { addr },
            _ => Op::Flush { addr, kind: FlushKind::Clwb },
        };
        self.added += 1;
        self.events.push(Event { op, site: open.site, instructions: 1 });
    }
}

impl<S: Sink> Sink for Apply<S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn needs(&self) -> Capabilities {
        self.inner.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.inner.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.inner.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let thread = batch.thread.0 as usize % super::watcher::THREADS_MAX;
        if thread >= self.open.len() {
            self.open.resize_with(thread + 1, Vec::new);
        }
        self.events.clear();
        batch.events.iter().for_each(|&event| self.event(thread, event));
        // The values no longer fit the stores where stores became others; no model reads them.
        self.inner.push(Batch { events: &self.events, values: &[], ..batch })
    }

    fn pause(&mut self) -> Result<(), SinkError> {
        self.inner.pause()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.inner.finish()
    }
}

#[cfg(test)]
mod tests {
    use event::{FenceKind, ThreadId};

    use super::*;

    /// Keeps what it is given.
    #[derive(Default)]
    struct Kept(Vec<Op>);

    impl Sink for Kept {
        fn name(&self) -> &'static str {
            "kept"
        }
        fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
            self.0.extend(batch.events.iter().map(|event| event.op));
            Ok(())
        }
    }

    fn applied(choice: Choice, ops: &[Op]) -> Vec<Op> {
        let mut apply = Apply::new(Kept::default(), [(SiteId(3), choice)]);
        let events: Vec<Event> =
            ops.iter().map(|&op| Event { op, site: SiteId(3), instructions: 1 }).collect();
        for events in events.chunks(2) {
            let batch = Batch { thread: ThreadId(1), time_ns: 0, events, values: &[] };
            apply.push(batch).unwrap();
        }
        apply.into_inner().0
    }

    fn store(addr: u64, len: u32) -> Op {
        Op::Store { addr, len }
    }

    fn clwb(line: u64) -> Op {
        Op::Flush { addr: line * 64, kind: FlushKind::Clwb }
    }

    #[test]
    fn a_line_is_cleaned_once_when_its_last_byte_is_written() {
        let stores: Vec<Op> = (0..16).map(|n| store(640 + n * 8, 8)).collect();
        let mut expected = stores.clone();
        expected.insert(8, clwb(10));
        expected.push(clwb(11));
        assert_eq!(applied(Choice::Clean, &stores), expected);
    }

    #[test]
    fn an_unfinished_line_is_cleaned_when_the_stream_moves_on_or_a_fence_comes() {
        let fence = Op::Fence(FenceKind::Store);
        assert_eq!(
            applied(Choice::Clean, &[store(0, 8), store(64, 8), fence]),
            [store(0, 8), store(64, 8), clwb(0), clwb(1), fence]
        );
        let scattered: Vec<Op> = (0..=OPEN_MAX as u64).map(|n| store(n * 4096, 8)).collect();
        let seen = applied(Choice::Clean, &scattered);
        assert_eq!(seen.last(), Some(&clwb(0)), "the oldest is done with");
    }

    #[test]
    fn long_stores_demote_every_line_and_skips_change_the_store() {
        let demote = |line: u64| Op::Demote { addr: line * 64 };
        assert_eq!(applied(Choice::Demote, &[store(32, 96)]), [store(32, 96), demote(0), demote(1)]);
        assert_eq!(applied(Choice::Skip, &[store(32, 96)]), [Op::StoreNt { addr: 32, len: 96 }]);
        assert_eq!(applied(Choice::Nothing, &[store(32, 96)]), [store(32, 96)]);
    }
}
