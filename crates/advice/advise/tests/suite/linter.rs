//! The linter as a whole: clean programs, sources that see little, determinism, bounds.

use crate::common::{POOL, Program, sites};
use advise::Rule;
use advise::guidelines::{Linter, Options};
use event::{Batch, Capabilities, Event, FenceKind, FlushKind, Op, Sampling, Sink, SiteId, Source, ThreadId};
use machine::{Figures, SiteFigures, SiteMemory};
use proptest::prelude::*;

#[test]
fn a_clean_program_is_left_alone() {
    let mut program = Program::persistent();
    for block in 0..8192 {
        program.store_nt(1, POOL + 256 * block, 256);
        program.fence(2, FenceKind::Store);
    }
    let advice = program.advice();
    assert_eq!(advice.findings, []);
    let withheld = advice.linter.withheld();
    let reason = "the machine that counts bytes does not tell near memory from far memory";
    assert_eq!(withheld, [(Rule::RemoteReadModifyWrite, reason.to_owned())]);
}

#[test]
fn an_empty_run_has_no_findings() {
    let linter = Linter::default();
    assert_eq!(linter.findings(&Figures::default(), &sites()), []);
    assert_eq!(linter.withheld().len(), 8, "all rules, as no stream was begun");
}

#[test]
fn findings_come_largest_first_and_small_ones_not_at_all() {
    let mut program = Program::persistent();
    for n in 0..20_000 {
        let addr = POOL + 1024 * n;
        program.store(1, addr, 8);
        program.flush(2, addr, 8);
        if n % 4 == 0 {
            program.flush(3, addr, 8);
        }
        program.fence(2, FenceKind::Store);
        if n % 100 == 0 {
            program.fence(4, FenceKind::Store);
        }
    }
    let advice = program.advice();
    let rules: Vec<Rule> = advice.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, [Rule::SmallRandomStores, Rule::RedundantFlush]);
    let strict = Linter::with_options(Options { share_min: 0.001, ..Options::default() });
    let mut strict = strict;
    program.feed(&mut strict, &Source::synthetic("test"));
    let findings = strict.findings(&advice.figures, &sites());
    assert!(findings.iter().any(|finding| finding.rule == Rule::UselessFence), "{findings:#?}");
}

/// Events of scattered words and of a buffer that is filled over and over, in batches as a collector makes
/// them.
fn long_program(sink: &mut dyn Sink, events: u64) {
    sink.begin(&Source::synthetic("test")).expect("every source is accepted");
    let batch: u64 = 1000;
    for first in (0..events).step_by(batch as usize) {
        let events: Vec<Event> = (first..first + batch)
            .map(|n| {
                let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36 << 8;
                let (op, site) = match n % 4 {
                    0 => (Op::Store { addr: (1 << 40) + scattered, len: 8 }, 1),
                    1 => (Op::Store { addr: (1 << 41) + n / 4 * 8 % (64 << 20), len: 8 }, 2),
                    _ => (Op::Load { addr: scattered, len: 8 }, 3),
                };
                Event { op, site: SiteId(site), instructions: 1 }
            })
            .collect();
        let batch = Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] };
        sink.push(batch).expect("every batch is accepted");
    }
    sink.finish().expect("it ends");
}

#[test]
fn of_a_long_program_without_persistent_memory_a_sample_is_looked_at_and_said() {
    let events = 24 << 20;
    let mut linter = Linter::default();
    long_program(&mut linter, events);
    assert!((0.3..0.5).contains(&linter.watched()), "{}", linter.watched());
    let small = linter.write_sizes().all.temporal.below(256).total_writes();
    assert!(small.abs_diff(events / 4) < events / 100, "{small} scattered words of {events} events");
    let memory = SiteMemory {
        media_write_bytes: 1 << 30,
        controller_write_bytes: 1 << 28,
        partial_media_bytes: 1 << 30,
        ..SiteMemory::default()
    };
    let mut figures = Figures { unit_bytes: 256, ..Figures::default() };
    figures.sites = vec![SiteFigures::default(); 4];
    figures.sites[1].volatile = memory;
    figures.volatile.total.media_write_bytes = 1 << 30;
    let findings = linter.findings(&figures, &sites());
    let finding = findings.iter().find(|finding| finding.rule == Rule::SmallRandomStores);
    let finding = finding.expect("scattered stores are found in a sample, too");
    assert!(finding.evidence.contains("estimates from 4"), "{}", finding.evidence);
    assert!(finding.share > 0.99, "{}", finding.share);
}

#[test]
fn where_lines_are_flushed_every_store_is_looked_at() {
    let mut program = Program::persistent();
    program.store(1, POOL, 8);
    let mut linter = Linter::default();
    program.feed(&mut linter, &Source::synthetic("test"));
    long_program(&mut linter, 24 << 20);
    assert!((linter.watched() - 1.0).abs() < f64::EPSILON, "{}", linter.watched());
}

/// A program that breaks most rules.
fn sloppy() -> Program {
    let mut program = Program::persistent();
    for n in 0..2000 {
        program.store(1, POOL + 1024 * n, 8);
        program.flush(2, POOL + 1024 * n, 8);
        program.flush(3, POOL + 1024 * n, 128);
        program.fence(4, FenceKind::Store);
        program.fence(4, FenceKind::Store);
    }
    program
}

#[test]
fn what_a_source_does_not_see_is_withheld_and_said() {
    let advice = sloppy().advice();
    let rules = [Rule::SmallRandomStores, Rule::RedundantFlush, Rule::CleanFlush, Rule::UselessFence];
    for rule in rules {
        assert!(advice.of(rule).is_some(), "{}", rule.name());
    }
    let given_by = |change: &dyn Fn(&mut Source)| {
        let mut source = Source::synthetic("lackey");
        change(&mut source);
        let mut linter = Linter::default();
        sloppy().feed(&mut linter, &source);
        let findings = linter.findings(&advice.figures, &sites());
        let given: Vec<Rule> = findings.iter().map(|finding| finding.rule).collect();
        for (rule, reason) in linter.withheld() {
            assert!(!given.contains(&rule), "{} is given and withheld: {reason}", rule.name());
        }
        (given, linter.withheld())
    };
    let (given, withheld) = given_by(&|source| {
        source.capabilities = Capabilities::LOADS | Capabilities::STORES;
    });
    assert_eq!(given, [Rule::SmallRandomStores]);
    assert!(
        withheld.iter().any(|(rule, reason)| *rule == Rule::UselessFence
            && reason.contains("lackey")
            && reason.contains("FENCES")),
        "{withheld:#?}"
    );
    let (given, _) = given_by(&|source| source.sampling = Some(Sampling { recorded: 1, period: 10 }));
    assert_eq!(given, [Rule::SmallRandomStores]);
}

#[test]
fn the_machine_must_agree_that_a_flush_was_clean() {
    let advice = sloppy().advice();
    assert!(advice.of(Rule::CleanFlush).is_some());
    let mut figures = advice.figures.clone();
    figures.sites.iter_mut().for_each(|site| site.clean_flushes = 0);
    let findings = advice.linter.findings(&figures, &sites());
    assert!(findings.iter().all(|finding| finding.rule != Rule::CleanFlush), "{findings:#?}");
}

#[test]
fn shares_are_the_machines() {
    // Two sites of equal runs; the machine says that one wrote 80 % of the media, and half of that in part.
    let mut linter = Linter::default();
    let mut program = Program::persistent();
    for n in 0..1000 {
        program.store(1 + n as u32 % 2, POOL + 4096 * n, 8);
    }
    program.feed(&mut linter, &Source::synthetic("test"));
    let site = |media: u64, partial: u64| SiteFigures {
        persistent: SiteMemory {
            controller_write_bytes: media / 4,
            media_write_bytes: media,
            partial_media_bytes: partial,
            ..SiteMemory::default()
        },
        ..SiteFigures::default()
    };
    let mut figures = Figures {
        machine: "hand-made".to_owned(),
        unit_bytes: 256,
        mapped_persistent: true,
        sites: vec![SiteFigures::default(), site(800_000, 400_000), site(200_000, 100_000)],
        ..Figures::default()
    };
    figures.persistent.total.media_write_bytes = 1_000_000;
    figures.persistent.total.controller_write_bytes = 250_000;
    let findings = linter.findings(&figures, &sites());
    let finding = findings.first().expect("a finding");
    assert_eq!(finding.rule, Rule::SmallRandomStores);
    assert!((finding.share - 0.5).abs() < 1e-9, "{finding:#?}");
    let shares: Vec<(SiteId, f64)> = finding.sites.iter().map(|part| (part.site, part.share)).collect();
    assert_eq!(shares, [(SiteId(1), 0.8), (SiteId(2), 0.2)]);
    assert!(finding.evidence.contains("(EWR) of 0.25"), "{finding:#?}");
}

#[test]
fn write_sizes_are_of_runs() {
    let mut program = Program::persistent();
    (0..128).for_each(|word| program.store(1, POOL + 8 * word, 8));
    program.store_nt(1, POOL + 65536, 64);
    program.store(1, 4096, 8);
    let sizes = program.advice().linter.write_sizes();
    assert_eq!((sizes.persistent.temporal.writes[10], sizes.persistent.temporal.total_writes()), (1, 1));
    assert_eq!(sizes.persistent.non_temporal.writes[6], 1);
    assert_eq!((sizes.all.temporal.writes[3], sizes.all.temporal.total_bytes()), (1, 1024 + 8));
}

fn any_op() -> impl Strategy<Value = Op> {
    let addr = prop_oneof![0u64..1 << 14, Just(u64::MAX - 3), any::<u64>()];
    let len = prop_oneof![0u32..512, 0u32..100_000];
    (0u8..12, addr, len, 1u64..1000).prop_map(|(kind, addr, len, seq)| match kind {
        0 => Op::Load { addr, len },
        1 | 2 => Op::Store { addr, len },
        3 => Op::StoreNt { addr, len },
        4 | 5 => Op::Flush { addr, kind: FlushKind::Clwb },
        6 => Op::Fence(FenceKind::Store),
        7 => Op::Fence(FenceKind::Full),
        8 => Op::Fence(FenceKind::Locked),
        9 => Op::Map { addr, len: u64::from(len), name: event::NameId(0) },
        10 => Op::Unmap { addr, len: u64::from(len) },
        _ => Op::ThreadEnd { seq },
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing that a damaged stream says makes the linter panic, and it says the same twice, also if batches
    /// are cut elsewhere.
    #[test]
    fn any_stream_gives_the_same_findings_twice(
        events in prop::collection::vec((any_op(), any::<u32>(), 0u32..3), 1..300),
        cut in 1usize..50,
    ) {
        let events: Vec<(ThreadId, Event)> = events
            .into_iter()
            .map(|(op, site, thread)| (ThreadId(thread), Event { op, site: SiteId(site), instructions: 0 }))
            .collect();
        let run = |cut: usize| {
            let mut linter = Linter::with_options(Options { count_min: 1, media_bytes_min: 1, ..Options::default() });
            linter.begin(&Source::synthetic("test")).unwrap();
            for chunk in events.chunks(cut) {
                for same in chunk.chunk_by(|a, b| a.0 == b.0) {
                    let events: Vec<Event> = same.iter().map(|&(_, event)| event).collect();
                    linter.push(Batch { thread: same[0].0, time_ns: 0, events: &events, values: &[] }).unwrap();
                }
            }
            linter.finish().unwrap();
            (linter.findings(&Figures::default(), &sites()), linter.write_sizes())
        };
        prop_assert_eq!(run(cut), run(cut));
        // A thread's end forgets its fences only where it ends a batch, so streams with one may differ there.
        if !events.iter().any(|(_, event)| matches!(event.op, Op::ThreadEnd { .. })) {
            prop_assert_eq!(run(cut), run(events.len()));
        }
    }
}
