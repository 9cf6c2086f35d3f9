//! Counting the events of a profile: of runs, how often each shape began and which accesses were left out.

use event::{AccessKind, Batch, Counts, EVENT, RunBatch, RunShape, Sink, SinkError};

/// An access of a shape.
struct Access {
    kind: AccessKind,
    len: u32,
    instructions: u32,
    /// Times that a run left it out.
    skipped: u64,
}

/// A shape of which each execution is as long.
struct Shape {
    /// Its first access in [`Tally::accesses`].
    first: usize,
    /// How many accesses it has; 0: some tell their length, and its runs are counted one by one.
    count: usize,
    after: u32,
    runs: u64,
}

/// [`Counts`] of a stream that is told in runs.
#[derive(Default)]
pub struct Tally {
    /// What is not in `shapes`.
    counts: Counts,
    shapes: Vec<Shape>,
    accesses: Vec<Access>,
}

impl Tally {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        for shape in &self.shapes {
            for access in &self.accesses[shape.first..][..shape.count] {
                let times = shape.runs - access.skipped;
                let bytes = times * u64::from(access.len);
                let (of_kind, of_bytes) = match access.kind {
                    AccessKind::Load => (&mut counts.loads, &mut counts.load_bytes),
                    AccessKind::Store => (&mut counts.stores, &mut counts.store_bytes),
                    AccessKind::StoreNt => (&mut counts.nt_stores, &mut counts.nt_bytes),
                };
                *of_kind += times;
                *of_bytes += bytes;
                counts.events += times;
                counts.instructions += times * u64::from(access.instructions);
            }
        }
        counts
    }

    fn learn(&mut self, shape: &RunShape) {
        let first = self.accesses.len();
        for access in &shape.accesses {
            let Some(len) = access.len else {
                self.accesses.truncate(first);
                break;
            };
            self.accesses.push(Access {
                kind: access.kind,
                len,
                instructions: access.instructions,
                skipped: 0,
            });
        }
        let count = self.accesses.len() - first;
        self.shapes.push(Shape { first, count, after: shape.after, runs: 0 });
    }
}

impl Sink for Tally {
    fn name(&self) -> &'static str {
        "tally"
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.counts.push(batch)
    }

    fn push_runs(&mut self, batch: RunBatch<'_>) -> Result<(), SinkError> {
        for shape in batch.shapes.get(self.shapes.len()..).unwrap_or_default() {
            self.learn(shape);
        }
        let mut words = batch.words;
        let mut events = batch.events.iter();
        // Instructions before the next access, if a run tells it.
        let (mut carry, mut instructions) = (batch.carry, 0);
        while let Some((&head, rest)) = words.split_first() {
            if head == EVENT {
                words = rest;
                events.next().into_iter().for_each(|event| self.counts.add(event));
                carry = 0;
                continue;
            }
            let number = head as u32 as usize;
            let shape = &mut self.shapes[number];
            if shape.count == 0 {
                let odd = &batch.shapes[number];
                let (run, next) = rest.split_at(odd.words() - 1);
                words = next;
                let counts = &mut self.counts;
                odd.accesses(run, &mut carry, |access, addr, len, instructions| {
                    counts.add(&event::Event { op: access.op(addr, len), site: access.site, instructions });
                });
                continue;
            }
            shape.runs += 1;
            let (run, next) = rest.split_at(shape.count);
            words = next;
            if run.iter().fold(false, |any, &addr| any | (addr == 0)) {
                let accesses = &mut self.accesses[shape.first..][..shape.count];
                for (access, &addr) in accesses.iter_mut().zip(run) {
                    access.skipped += u64::from(addr == 0);
                }
                if run.iter().any(|&addr| addr != 0) {
                    instructions += u64::from(carry);
                    carry = if run[shape.count - 1] == 0 { 0 } else { shape.after };
                }
            } else {
                instructions += u64::from(carry);
                carry = shape.after;
            }
        }
        self.counts.instructions += instructions;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use event::{Event, Op, RunAccess, SiteId, ThreadId};

    use super::*;

    #[test]
    fn a_tally_counts_what_a_count_of_the_events_does() {
        let access = |kind, len, instructions| RunAccess { kind, len, site: SiteId(1), instructions };
        let shapes = [
            vec![
                access(AccessKind::Load, Some(8), 3),
                access(AccessKind::Store, Some(4), 2),
                access(AccessKind::Load, Some(2), 1),
            ],
            vec![access(AccessKind::StoreNt, None, 5), access(AccessKind::Load, Some(1), 7)],
            vec![access(AccessKind::StoreNt, Some(64), 11)],
        ]
        .map(|accesses| Arc::new(RunShape { accesses, after: 13 }));
        let plain = Event { op: Op::Free { addr: 9 }, site: SiteId(9), instructions: 40 };
        let words = [
            vec![RunShape::head(0), 0, 0, 0],
            vec![RunShape::head(0), 100, 200, 300],
            vec![RunShape::head(0), 0, 400, 0],
            vec![RunShape::head(2), 640],
            vec![RunShape::head(1), 500, 3 << 32 | 1000, 8],
            vec![RunShape::head(1), 500, 4 << 32 | 1000, 0],
            vec![RunShape::head(0), 0, 0, 300],
            vec![RunShape::head(0), 0, 0, 0, EVENT],
            vec![RunShape::head(0), 1, 0, 3],
        ]
        .concat();
        let (thread, time_ns, events) = (ThreadId(0), 0, &[plain]);
        let batch =
            RunBatch { thread, time_ns, shapes: &shapes, words: &words, events, count: 12, carry: 17 };
        let (mut tally, mut counts) = (Tally::default(), Counts::default());
        for _ in 0..3 {
            tally.push_runs(batch).expect("takes everything");
            batch.expanded(|batch| counts.push(batch)).expect("takes everything");
        }
        assert_eq!(tally.counts(), counts);
        assert!(counts.instructions > 0 && counts.nt_bytes > 0 && counts.load_bytes > 0);
    }
}
