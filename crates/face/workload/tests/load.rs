//! The driver on a simulated environment, where the clock counts events.

use std::collections::BTreeMap;

use space::sim::{Schedule, run};
use space::{Env, Image, Sim};
use workload::load::{
    Distribution, Kind, Mix, Pace, Planner, Slice, Tally, Target, TargetError, drive, value_is_of, value_word,
};

/// Events of the clock that a slow operation takes.
const STALL: u32 = 2000;

/// A map under a lock of the environment, on which each operation takes some events of the clock.
struct Map<'a> {
    env: &'a Sim<Image>,
    pairs: <Sim<Image> as Env>::Mutex<BTreeMap<u64, u64>>,
    /// An operation on this id takes a long while.
    slow: Option<u64>,
    /// Forgets this id.
    forgets: Option<u64>,
}

impl<'a> Map<'a> {
    fn new(env: &'a Sim<Image>) -> Self {
        Map { env, pairs: env.mutex(BTreeMap::new()), slow: None, forgets: None }
    }
}

impl Target for Map<'_> {
    fn insert(&self, id: u64, version: u64) -> Result<(), TargetError> {
        if self.forgets != Some(id) {
            self.env.lock(&self.pairs).insert(id, value_word(id, version));
        }
        Ok(())
    }
    fn get(&self, id: u64) -> Result<bool, TargetError> {
        let found = self.env.lock(&self.pairs).get(&id).copied();
        if self.slow == Some(id) {
            (0..STALL).for_each(|_| _ = self.env.now_ns());
        }
        assert!(found.is_none_or(|word| value_is_of(word, id)));
        Ok(found.is_some())
    }
    fn scan(&self, id: u64, count: u32) -> Result<u64, TargetError> {
        Ok(self.env.lock(&self.pairs).range(id..).take(count as usize).count() as u64)
    }
    fn delete(&self, id: u64) -> Result<bool, TargetError> {
        Ok(self.env.lock(&self.pairs).remove(&id).is_some())
    }
}

fn phase(planner: &mut Planner, name: &str, operations: u64, rate: Option<f64>) -> Vec<Slice> {
    let mix = Mix::find(name).expect("it is known");
    let mut phase = planner.phase(&mix, None, operations, rate);
    std::iter::from_fn(|| planner.next(&mut phase, 1000)).collect()
}

fn simulated(seed: u64, scenario: impl Fn(&Sim<Image>)) {
    let run = run(Image::new(64), &Schedule::walk(seed), scenario);
    assert!(run.result.is_ok(), "{}: {:?}", run.token, run.result);
}

#[test]
fn every_mix_runs_on_any_number_of_threads() {
    for threads in [1, 3] {
        simulated(1, |env| {
            let map = Map::new(env);
            let mut planner = Planner::new(1, threads);
            let names =
                ["fill", "a", "b", "c", "d", "e", "f", "kv-e", "range", "mixed", "read-many", "put-80"];
            for name in names.into_iter().chain(["delete"]) {
                let mut tally = Tally::default();
                for slice in phase(&mut planner, name, 500, None) {
                    drive(env, &map, &slice, &Pace::default(), &mut tally).expect("nothing is lost");
                }
                assert_eq!(tally.operations, 500, "{name}");
                let reads = Mix::find(name).expect("known").shares.read > 0;
                assert!(!reads || tally.found > 0, "{name}");
                assert!(tally.latencies.values().map(|h| h.len()).sum::<u64>() >= 500 / 17, "{name}");
                assert_eq!(env.lock(&map.pairs).len() as u64, planner.live(), "{name}");
            }
        });
    }
}

#[test]
fn what_is_lost_is_noticed() {
    simulated(2, |env| {
        let mut planner = Planner::new(2, 1);
        let fill = phase(&mut planner, "fill", 50, None);
        let map = Map { forgets: Some(fill[0].threads[0][7].id), ..Map::new(env) };
        let mut tally = Tally::default();
        drive(env, &map, &fill[0], &Pace::default(), &mut tally).expect("inserts");
        let reads = phase(&mut planner, "read", 1000, None);
        let error = drive(env, &map, &reads[0], &Pace::default(), &mut tally).expect_err("one is lost");
        assert!(error.to_string().contains("is not there"), "{error}");
    });
}

/// Latencies of reads, the longest and a middle one, with a rate or without, where one read stalls.
fn stalled(rate: Option<f64>) -> (u64, u64) {
    let found = std::sync::Mutex::new((0, 0));
    simulated(3, |env| {
        let mut planner = Planner::new(3, 1);
        let fill = phase(&mut planner, "fill", 1000, None);
        let reads = phase(&mut planner, "read", 500, rate);
        let slow = reads[0].threads[0][16].id;
        let map = Map { slow: Some(slow), ..Map::new(env) };
        let mut tally = Tally::default();
        drive(env, &map, &fill[0], &Pace::default(), &mut tally).expect("inserts");
        let pace = Pace { time_one_of: 1, ..Pace::default() };
        drive(env, &map, &reads[0], &pace, &mut tally).expect("reads");
        let histogram = &tally.latencies[&Kind::Read];
        assert_eq!(histogram.len(), 500);
        *found.lock().expect("alone") = (histogram.max(), histogram.value_at_quantile(0.5));
    });
    found.into_inner().expect("alone")
}

#[test]
fn an_open_loop_does_not_hide_a_stall() {
    let stall = u64::from(STALL) * Sim::<Image>::EVENT_NS;
    let (longest, middle) = stalled(None);
    assert!(longest >= stall, "{longest}");
    assert!(middle < stall / 100, "the stall is one operation's: {middle}");
    // Most others arrive while the one stalls.
    let every = stall / 500;
    let (longest, middle) = stalled(Some(1e9 / every as f64));
    assert!(longest >= stall, "{longest}");
    assert!(middle > stall / 10, "the others wait as well: {middle}");
    // At a rate that leaves time, the stall passes.
    let (_, middle) = stalled(Some(1e9 / (stall / 10) as f64));
    assert!(middle < stall / 20, "{middle}");
}

#[test]
fn operations_start_when_they_are_due() {
    simulated(4, |env| {
        let map = Map::new(env);
        let mut planner = Planner::new(4, 2);
        let slices = phase(&mut planner, "fill", 200, Some(1e5));
        let last = slices[0].due_ns.iter().flatten().max().copied().expect("there are some");
        let begin = env.now_ns();
        drive(env, &map, &slices[0], &Pace::default(), &mut Tally::default()).expect("inserts");
        assert!(env.now_ns() - begin >= last);
    });
}

#[test]
fn a_distribution_can_be_chosen() {
    let hot = |distribution| {
        let mut planner = Planner::new(5, 1);
        phase(&mut planner, "fill", 1000, None);
        let mix = Mix::find("read").expect("known");
        let mut reads = planner.phase(&mix, Some(distribution), 10_000, None);
        let mut counts = BTreeMap::new();
        while let Some(slice) = planner.next(&mut reads, 1000) {
            slice.threads[0].iter().for_each(|op| *counts.entry(op.id).or_insert(0) += 1);
        }
        counts.into_values().max().expect("there are some")
    };
    let [uniform, zipfian, latest] = Distribution::ALL.map(hot);
    assert!(uniform < 40 && zipfian > 500 && latest > 500, "{uniform} {zipfian} {latest}");
}
