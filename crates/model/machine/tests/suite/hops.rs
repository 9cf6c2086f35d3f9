//! Epoch persistency after HOPS: what orders, what waits, and for exactly how long.

use crate::timed::{self, MFENCE, SFENCE, WAY, clwb, line, load, ns, run_threads, step, store, with};
use event::{Capabilities, FenceKind, NameId, Op, Sink, Source, StrandMark};
use machine::{Config, Design, Simulation};

fn hops(change: impl FnOnce(&mut Config)) -> Config {
    with(|config| {
        config.cores.pipeline.ordering = Design::Hops;
        config.cores.pipeline.store_queue = 64;
        change(config);
    })
}

#[test]
fn stores_of_one_epoch_drain_together() {
    for count in [1, 2, 8, 30] {
        let stores = (0..count).map(line).chain([MFENCE]).collect();
        let (took, _) = step(&hops(|_| {}), stores);
        assert_eq!(took, count as f64 + WAY, "the last store's copy leaves when it commits");
    }
}

#[test]
fn epochs_drain_one_after_the_other() {
    for epochs in [1, 2, 8] {
        let stores = (0..epochs).flat_map(|at| [line(at), SFENCE]).chain([MFENCE]).collect();
        let (took, _) = step(&hops(|_| {}), stores);
        assert_eq!(took, 1.0 + epochs as f64 * WAY);
    }
    // Of two stores each: the second copy of an epoch leaves with the first, but for the first epoch.
    let stores = (0..4).flat_map(|at| [line(2 * at), line(2 * at + 1), SFENCE]).chain([MFENCE]);
    assert_eq!(step(&hops(|_| {}), stores.collect()).0, 2.0 + 4.0 * WAY);
}

#[test]
fn an_ordering_fence_and_a_flush_cost_an_instruction_each() {
    let stores = (0..8).flat_map(|at| [line(at), clwb(at * 64), SFENCE]).collect();
    assert_eq!(step(&hops(|_| {}), stores).0, 24.0);
    assert_eq!(step(&hops(|_| {}), vec![MFENCE]).0, 1.0, "nothing is there to wait for");
}

#[test]
fn a_full_buffer_stalls_until_its_first_copy_is_accepted() {
    let two = hops(|config| config.cores.pipeline.persist_buffer = 2);
    // Copies leave at 1 and 2 and are accepted at 38 and 39; the third store waits for 38, the fourth enters then.
    assert_eq!(step(&two, (0..2).map(line).collect()).0, 2.0, "two fit");
    assert_eq!(step(&two, (0..3).map(line).chain([MFENCE]).collect()).0, 1.0 + 2.0 * WAY);
    assert_eq!(step(&two, (0..4).map(line).chain([MFENCE]).collect()).0, 2.0 + 2.0 * WAY);
}

#[test]
fn stores_to_a_line_that_waits_coalesce_within_an_epoch() {
    let after = |ops: Vec<Op>| step(&hops(|_| {}), ops).1;
    let second = |same: Op| vec![line(0), SFENCE, line(1), same, MFENCE];
    assert_eq!(after(second(store(64 + 8))), 2 * 64, "the copy waits behind the first epoch");
    assert_eq!(after(vec![line(0), SFENCE, line(1), SFENCE, line(1), MFENCE]), 3 * 64, "an epoch later");
    let left = [line(0)].into_iter().chain((8..16).map(|at| load(at * 64))).chain([line(0), MFENCE]);
    assert_eq!(after(left.collect()), 2 * 64, "the copy has left");
}

#[test]
fn the_end_of_a_region_waits_and_strand_marks_order() {
    let took = |ops| step(&hops(|_| {}), ops).0;
    let [begin, end] = [Op::RegionBegin { region: 1 }, Op::RegionEnd { region: 1 }];
    assert_eq!(took(vec![begin, line(0), end]), 2.0 + WAY);
    for (mark, drain) in
        [(StrandMark::Barrier, 2.0 * WAY), (StrandMark::Join, 2.0 * WAY), (StrandMark::New, 2.0 + WAY)]
    {
        assert_eq!(took(vec![line(0), Op::Strand(mark), line(1), MFENCE]), 1.0 + drain, "{mark:?}");
    }
    let locked = Op::Fence(FenceKind::Locked);
    assert_eq!(took(vec![line(0), locked, line(1), MFENCE]), 1.0 + 2.0 * WAY, "it ends an epoch");
    assert_eq!(took(vec![line(0), locked]), 2.0, "and waits for visibility only");
}

/// The first thread's epochs drain for 300 ns; the second looks at the last of their lines meanwhile, or does not.
#[test]
fn what_a_core_stores_after_seeing_a_waiting_line_comes_behind_it() {
    let after = |seen: u64| {
        let map = Op::Map { addr: 0, len: 1 << 20, name: NameId(0) };
        let epochs = (0..8).flat_map(|at| [line(at), SFENCE]).chain([MFENCE]).collect();
        let first = vec![vec![map], (0..8).map(|at| load(at * 64)).chain([MFENCE]).collect(), epochs];
        let waits = [100, 101, 102].map(|line| vec![load(line * 64), MFENCE]);
        let second = waits.into_iter().chain([vec![load(seen * 64), MFENCE], vec![line(100), MFENCE]]);
        let (asked, _) = run_threads(&hops(|_| {}), vec![first, second.collect()]);
        let [first, second] = [0, 1].map(|thread: usize| asked[thread].clone());
        (first[3], second[4], second[5])
    };
    let (drained, begun, done) = after(7);
    assert!(begun < drained, "{begun} {drained}");
    assert_eq!(done, drained + ns(37), "its copy leaves when the other's is accepted");
    let (drained, begun, done) = after(101);
    assert!(done < drained, "{done} {drained}");
    assert_eq!(done, begun + ns(38));
}

#[test]
fn other_memory_behaves_as_with_total_store_order() {
    let ops = (0..200u64).flat_map(|at| [store(at % 7 * 4096), load(at * 64), clwb(at % 5 * 4096)]);
    let stream_of = |config: &Config| {
        timed::stream(config, &ops.clone().map(|op| (0, timed::event(op))).collect::<Vec<_>>())
    };
    let tso = hops(|config| config.cores.pipeline.ordering = Design::Tso);
    let slots = hops(|config| config.cores.pipeline.persist_buffer = config.cores.pipeline.flush_slots);
    assert_eq!(stream_of(&slots), stream_of(&tso));
}

#[test]
fn a_source_without_the_marks_is_refused_by_name() {
    let mut source = Source::synthetic("importer");
    source.capabilities = Capabilities::LOADS | Capabilities::STORES;
    let mut tso = Simulation::new(&with(|_| {})).expect("a valid description");
    tso.begin(&source).expect("it needs no marks");
    let mut hops = Simulation::new(&hops(|_| {})).expect("a valid description");
    let error = hops.begin(&source).expect_err("it has no fences").to_string();
    assert_eq!(
        error,
        "simulation needs FENCES, MAPPINGS, REGIONS, which the source (importer) does not record"
    );
}

#[test]
fn it_is_chosen_by_name_and_not_with_durable_caches() {
    let chosen = Config::preset("xpoint").expect("it is there");
    let hops = chosen.with_overrides(&[("cores.pipeline.ordering", "hops")]).expect("a design");
    assert_eq!(hops.cores.pipeline.ordering, Design::Hops);
    let error = hops.with_overrides(&[("memory.persistence", "eadr")]).expect_err("no use").to_string();
    assert!(error.contains("use adr"), "{error}");
    let error = hops.with_overrides(&[("memory.persistence", "dax")]).expect_err("no such").to_string();
    assert!(error.contains("use adr or eadr"), "{error}");
    chosen.with_overrides(&[("cores.pipeline.ordering", "sc")]).expect_err("there is none");
}
