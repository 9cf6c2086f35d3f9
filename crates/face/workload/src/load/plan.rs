//! Operations, made in advance.

use std::ops::Range;

use rand::RngExt;
use rand_distr::Exp1;

use super::choose::{Chooser, Distribution};
use super::mix::{Mix, ScanLength};
use super::target::Kind;
use crate::rng::nth;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The record's id.
    pub id: u64,
    /// What is done with it.
    pub kind: Kind,
    /// For a scan, how many records.
    pub count: u32,
}

/// The operations of a slice of a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// Each thread's operations.
    pub threads: Vec<Vec<Op>>,
    /// When each of them is due, nanoseconds from the start of the slice; empty for a closed loop.
    pub due_ns: Vec<Vec<u64>>,
    /// Number of the slice's first operation among all of the planner's.
    pub first: u64,
}

impl Slice {
    /// How many operations.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.threads.iter().map(|ops| ops.len() as u64).sum()
    }
}

/// A mix, run for a while.
#[derive(Clone, Debug)]
pub struct Phase {
    mix: Mix,
    left: u64,
    /// One for each thread.
    choosers: Vec<Chooser>,
    rate: Option<f64>,
}

/// Knows which records there are, and makes the operations of one phase after the other.
///
/// The same seed, number of threads and sizes of slices give the same operations. A thread chooses among the
/// records that there were before the slice and stay until its end, and those that it inserts itself, so a
/// read finds its record whichever thread is faster.
#[derive(Clone, Debug)]
pub struct Planner {
    seed: u64,
    threads: u32,
    /// Records inserted so far, and how many of the oldest were taken out.
    records: u64,
    deleted: u64,
    operations: u64,
    phases: u64,
}

impl Planner {
    /// For an empty target and so many threads, at least 1.
    #[must_use]
    pub fn new(seed: u64, threads: u32) -> Planner {
        Planner { seed, threads: threads.max(1), records: 0, deleted: 0, operations: 0, phases: 0 }
    }

    /// Records that are there.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.records - self.deleted
    }

    /// So many operations of a mix, over records by `distribution`, by default the mix's own. With a rate,
    /// operations per second of all threads together, they arrive at random times (a Poisson process), and
    /// the phase is one slice.
    pub fn phase(
        &mut self,
        mix: &Mix,
        distribution: Option<Distribution>,
        operations: u64,
        rate: Option<f64>,
    ) -> Phase {
        self.phases += 1;
        // As in YCSB: twice as many new records as are expected.
        let share = u128::from(mix.shares.insert);
        let new = u64::try_from(u128::from(operations) * share / 50).unwrap_or(u64::MAX);
        let keyspace = self.live().saturating_add(new);
        let chooser = |thread: u32| {
            let seed = nth(self.seed ^ nth(!0, self.phases), thread.into());
            Chooser::new(distribution.unwrap_or(mix.distribution), keyspace, seed)
        };
        Phase { mix: mix.clone(), left: operations, choosers: (0..self.threads).map(chooser).collect(), rate }
    }

    /// The next operations of the phase, at most so many; none when the phase is over, or a mix that only
    /// deletes has nothing left to delete.
    pub fn next(&mut self, phase: &mut Phase, most: u64) -> Option<Slice> {
        let only_deletes = phase.mix.shares.delete == 100;
        let left = if only_deletes { phase.left.min(self.live()) } else { phase.left };
        let operations = if phase.rate.is_some() { left } else { left.min(most.max(1)) };
        if operations == 0 {
            return None;
        }
        phase.left = left - operations;
        let mut slice = Slice { first: self.operations, ..Slice::default() };
        let kinds = self.kinds(phase, operations);
        let deletes = kinds.iter().flatten().filter(|kind| **kind == Kind::Delete).count() as u64;
        // Nobody touches what somebody deletes in this slice.
        let shared = self.deleted + deletes..self.records;
        for (chooser, kinds) in phase.choosers.iter_mut().zip(&kinds) {
            let own = self.records;
            slice
                .threads
                .push(kinds.iter().map(|kind| self.op(&phase.mix, chooser, &shared, own, *kind)).collect());
            if let Some(rate) = phase.rate {
                let count = kinds.len() as u64;
                slice.due_ns.push(arrivals(chooser, rate / f64::from(self.threads), count));
            }
        }
        self.operations += operations;
        Some(slice)
    }

    /// What the threads' operations do. Where there is nothing to delete any more they insert.
    fn kinds(&self, phase: &mut Phase, operations: u64) -> Vec<Vec<Kind>> {
        let threads = u64::from(self.threads);
        let mut deletes = self.live();
        let mix = &phase.mix;
        let mut draw = |chooser: &mut Chooser| match kind(mix, chooser.between(0, 99)) {
            Kind::Delete if deletes == 0 => Kind::Insert,
            Kind::Delete => {
                deletes -= 1;
                Kind::Delete
            }
            other => other,
        };
        let of_thread = |(thread, chooser): (u64, &mut Chooser)| {
            let count = operations / threads + u64::from(thread < operations % threads);
            (0..count).map(|_| draw(chooser)).collect()
        };
        (0..threads).zip(&mut phase.choosers).map(of_thread).collect()
    }

    /// One operation of a thread, which may touch the shared records, and its own from `own` on.
    fn op(&mut self, mix: &Mix, chooser: &mut Chooser, shared: &Range<u64>, own: u64, kind: Kind) -> Op {
        let others = shared.end - shared.start;
        let there = others + (self.records - own);
        let kind = if there == 0 && kind != Kind::Delete { Kind::Insert } else { kind };
        let number = match kind {
            Kind::Insert => {
                self.records += 1;
                self.records - 1
            }
            Kind::Delete => {
                self.deleted += 1;
                self.deleted - 1
            }
            _ => {
                let chosen = chooser.below(there);
                if chosen < others { shared.start + chosen } else { own + (chosen - others) }
            }
        };
        let count = match (kind, mix.scan) {
            (Kind::Scan, ScanLength::UpTo(most)) => chooser.between(1, most.into()),
            (Kind::Scan, ScanLength::PerMillion(share)) => per_million(self.live(), share),
            _ => 0,
        };
        Op { id: nth(self.seed, number), kind, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }
}

/// So many of a million of `records`, at least one.
fn per_million(records: u64, share: u64) -> u64 {
    (records / 1_000_000 * share + records % 1_000_000 * share / 1_000_000).max(1)
}

/// What the operation does whose percentile this is.
fn kind(mix: &Mix, percentile: u64) -> Kind {
    let shares = &mix.shares;
    let table = [
        (shares.read, Kind::Read),
        (shares.update, Kind::Update),
        (shares.insert, Kind::Insert),
        (shares.scan, Kind::Scan),
        (shares.modify, Kind::Modify),
        (shares.delete, Kind::Delete),
    ];
    let mut bound = 0;
    for (share, kind) in table {
        bound += u64::from(share);
        if percentile < bound {
            return kind;
        }
    }
    Kind::ReadMany
}

/// Arrival times at so many per second, each gap by itself exponential.
fn arrivals(chooser: &mut Chooser, rate: f64, count: u64) -> Vec<u64> {
    let mut at = 0.0;
    (0..count)
        .map(|_| {
            let gap: f64 = chooser.rng.sample(Exp1);
            at += gap * 1e9 / rate;
            at as u64
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn filled(seed: u64, threads: u32, records: u64) -> Planner {
        let mut planner = Planner::new(seed, threads);
        let fill = Mix::find("fill").expect("it is in the table");
        let mut phase = planner.phase(&fill, None, records, None);
        while planner.next(&mut phase, 1000).is_some() {}
        assert_eq!(planner.live(), records);
        planner
    }

    fn slices(planner: &mut Planner, name: &str, operations: u64, most: u64) -> Vec<Slice> {
        let mut phase = planner.phase(&Mix::find(name).expect("it is known"), None, operations, None);
        std::iter::from_fn(|| planner.next(&mut phase, most)).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_operations() {
        for name in ["ycsb-a", "ycsb-d", "ycsb-e", "mixed", "delete", "put-20"] {
            let made = |seed| slices(&mut filled(seed, 3, 5000), name, 4000, 700);
            assert_eq!(made(5), made(5), "{name}");
            assert_ne!(made(5), made(6), "{name}");
            assert_eq!(made(5).iter().map(Slice::operations).sum::<u64>(), 4000, "{name}");
        }
    }

    #[test]
    fn shares_are_those_of_the_mix() {
        let operations = 50_000;
        for mix in Mix::all() {
            let mut counts = BTreeMap::new();
            for op in slices(&mut filled(9, 1, 60_000), &mix.name, operations, 10_000)
                .iter()
                .flat_map(|s| &s.threads[0])
            {
                *counts.entry(op.kind).or_insert(0u64) += 1;
            }
            let shares = mix.shares;
            for (kind, share) in [
                (Kind::Read, shares.read),
                (Kind::Update, shares.update),
                (Kind::Insert, shares.insert),
                (Kind::Scan, shares.scan),
                (Kind::Modify, shares.modify),
                (Kind::Delete, shares.delete),
                (Kind::ReadMany, shares.read_many),
            ] {
                let found = counts.get(&kind).copied().unwrap_or(0) as f64 / operations as f64;
                let expected = f64::from(share) / 100.0;
                // Five standard deviations.
                let allowed = 5.0 * (expected * (1.0 - expected) / operations as f64).sqrt();
                assert!((found - expected).abs() <= allowed, "{}: {kind:?} {found}, seed 9", mix.name);
            }
        }
    }

    #[test]
    fn a_thread_touches_only_what_is_there_for_it() {
        for (name, threads) in [("ycsb-d", 1), ("ycsb-d", 4), ("mixed", 1), ("mixed", 4), ("put-50", 4)] {
            let mut planner = filled(3, threads, 100);
            let mut there: BTreeSet<u64> = (0..100).map(|record| nth(3, record)).collect();
            for slice in slices(&mut planner, name, 3000, 500) {
                let ops = || slice.threads.iter().flatten();
                let deleted: Vec<u64> = ops().filter(|op| op.kind == Kind::Delete).map(|op| op.id).collect();
                let mut before = there.clone();
                deleted.iter().for_each(|id| assert!(before.remove(id), "{name}: nothing to delete"));
                for ops in &slice.threads {
                    let mut own = BTreeSet::new();
                    for op in ops {
                        match op.kind {
                            Kind::Insert => {
                                assert!(there.insert(op.id), "{name}: {} is there already", op.id);
                                own.insert(op.id);
                            }
                            Kind::Delete => _ = there.remove(&op.id),
                            _ => assert!(before.contains(&op.id) || own.contains(&op.id), "{name}: {op:?}"),
                        }
                    }
                }
            }
            assert_eq!(there.len() as u64, planner.live());
        }
    }

    #[test]
    fn deletes_end_with_the_last_record_and_reads_of_nothing_insert() {
        let mut planner = filled(1, 2, 100);
        assert_eq!(slices(&mut planner, "delete", 1000, 64).iter().map(Slice::operations).sum::<u64>(), 100);
        assert_eq!(planner.live(), 0);
        let read = slices(&mut planner, "read", 10, 64);
        assert_eq!(read[0].threads[0][0].kind, Kind::Insert);
        assert_eq!(read[0].threads[0][1].kind, Kind::Read);
    }

    #[test]
    fn scans_are_as_long_as_they_are_to_be() {
        let counts = |name, records| -> Vec<u32> {
            let made = slices(&mut filled(2, 1, records), name, 20_000, 5000);
            made.iter()
                .flat_map(|s| &s.threads[0])
                .filter(|op| op.kind == Kind::Scan)
                .map(|op| op.count)
                .collect()
        };
        let scans = counts("ycsb-e", 1000);
        let mean = scans.iter().map(|count| f64::from(*count)).sum::<f64>() / scans.len() as f64;
        assert!((49.5..51.5).contains(&mean), "{mean}");
        assert_eq!((scans.iter().min(), scans.iter().max()), (Some(&1), Some(&100)));
        assert!(counts("range", 1000).iter().all(|count| *count == 1));
        assert!(counts("range", 300_000).iter().all(|count| *count == 3));
    }

    #[test]
    fn arrivals_come_at_the_rate() {
        let mut planner = filled(4, 2, 100);
        let mut phase = planner.phase(&Mix::find("read").expect("known"), None, 40_000, Some(1e6));
        let slice = planner.next(&mut phase, 10).expect("one slice");
        assert!(planner.next(&mut phase, 10).is_none());
        for due in &slice.due_ns {
            assert_eq!(due.len(), 20_000);
            assert!(due.is_sorted());
            let last = *due.last().expect("there are some") as f64;
            // 20,000 gaps of 2,000 ns, each with that deviation: five of the sum's.
            assert!((last - 4e7).abs() < 5.0 * 2000.0 * 20_000f64.sqrt(), "{last}, seed 4");
        }
    }
}
