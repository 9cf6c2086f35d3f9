//! Each rule: the smallest program that breaks it, and a twin that does not.

use crate::common::{POOL, Program, scattered};
use advise::Rule;
use event::{FenceKind, NameId, Op};

const LINES: u64 = 1 << 15;

/// Persists `len` bytes at scattered multiples of `stride`.
fn scatter(len: u32, stride: u64) -> Program {
    let mut program = Program::persistent();
    for n in 0..LINES {
        let addr = POOL + scattered(n, LINES) * stride;
        program.store(1, addr, len);
        program.persist(2, addr, u64::from(len));
    }
    program
}

#[test]
fn small_scattered_stores() {
    let advice = scatter(24, 1024).advice();
    let finding = advice.expect(Rule::SmallRandomStores, 1, 0.95);
    assert!(finding.title.contains("24 B") && finding.title.contains("256 B"), "{finding:#?}");
    assert!(
        finding.evidence.contains("32,768 of 32,768") && finding.evidence.contains("EWR"),
        "{finding:#?}"
    );
    assert_eq!(advice.findings.len(), 1, "{:#?}", advice.findings);

    scatter(256, 1024).advice().silent_on(Rule::SmallRandomStores);
}

#[test]
fn a_log_of_small_durable_records_is_fine() {
    let mut program = Program::persistent();
    for n in 0..LINES {
        program.store(1, POOL + 24 * n, 24);
        program.persist(2, POOL + 24 * n, 24);
    }
    let advice = program.advice();
    advice.silent_on(Rule::SmallRandomStores);
    advice.silent_on(Rule::TemporalTransfer);
}

#[test]
fn small_stores_that_the_buffer_merges_are_fine() {
    let mut program = Program::persistent();
    // 8 KiB hot, well below one DIMM's 16 KiB: many stores, hardly a media write.
    for n in 0..8 * LINES {
        let addr = POOL + scattered(n, 128) * 64;
        program.store(1, addr, 8);
        program.persist(2, addr, 8);
    }
    program.advice().silent_on(Rule::SmallRandomStores);
}

#[test]
fn dram_has_no_unit_to_rewrite() {
    scatter(24, 1024).advice_on("dram").silent_on(Rule::SmallRandomStores);
}

/// Copies of 4 KiB to fresh pages, persisted one by one.
fn copies(nt: bool) -> Program {
    let mut program = Program::persistent();
    for page in 0..1024 {
        let addr = POOL + 4096 * page;
        if nt {
            program.store_nt(3, addr, 4096);
            program.fence(4, FenceKind::Store);
        } else {
            program.store(3, addr, 4096);
            program.persist(4, addr, 4096);
        }
    }
    program
}

#[test]
fn temporal_transfers() {
    let advice = copies(false).advice();
    let finding = advice.expect(Rule::TemporalTransfer, 3, 0.95);
    assert!(finding.title.contains("4 KiB") && finding.evidence.contains("1,024 of them"), "{finding:#?}");
    copies(true).advice().silent_on(Rule::TemporalTransfer);
}

#[test]
fn words_that_make_a_transfer_are_advised_to_gather() {
    let mut program = Program::persistent();
    for page in 0..256 {
        let addr = POOL + 8192 * page;
        (0..512).for_each(|word| program.store(3, addr + 8 * word, 8));
        program.persist(4, addr, 4096);
    }
    let finding = program.advice().expect(Rule::TemporalTransfer, 3, 0.95).clone();
    assert!(finding.remedy.contains("build the block in a buffer"), "{finding:#?}");
}

#[test]
fn a_matrix_that_is_summed_up_in_place_is_no_transfer() {
    let mut program = Program::persistent();
    // Rows larger than the caches' share, each stored over while it is open.
    for row in 0..64 {
        for _ in 0..16 {
            (0..1024).for_each(|word| program.store(3, POOL + 8192 * row + 8 * word, 8));
        }
        program.persist(4, POOL + 8192 * row, 8192);
    }
    program.advice().silent_on(Rule::TemporalTransfer);
}

#[test]
fn short_runs_are_no_transfers() {
    scatter(512, 4096).advice().silent_on(Rule::TemporalTransfer);
}

#[test]
fn a_buffer_that_caches_absorb_is_no_transfer() {
    let mut program = Program::persistent();
    // One page filled a thousand times, then a stream of others that reaches the media.
    for _ in 0..1000 {
        program.store(3, POOL, 4096);
        program.store(5, POOL + 8192, 8);
    }
    for page in 16..64 {
        program.store_nt(4, POOL + 4096 * page, 4096);
    }
    program.flush(4, POOL, 4096);
    program.advice().silent_on(Rule::TemporalTransfer);
}

/// 96 MiB in a row, with a flush behind each line, behind everything, or never.
fn long_write(flush_each: bool, flush_at_end: bool) -> Program {
    let mut program = Program::persistent();
    let bytes = 96 << 20;
    for addr in (POOL..POOL + bytes).step_by(64) {
        program.store(5, addr, 64);
        if flush_each {
            program.flush(6, addr, 64);
        }
    }
    if flush_at_end {
        program.flush(6, POOL, bytes);
    }
    program.fence(6, FenceKind::Store);
    program
}

#[test]
fn lines_never_flushed() {
    let advice = long_write(false, false).advice();
    let finding = advice.expect(Rule::LateFlush, 5, 0.9);
    assert!(finding.title.contains("left to eviction"), "{finding:#?}");
    assert!(finding.evidence.contains("flushed none"), "{finding:#?}");
    advice.silent_on(Rule::SmallRandomStores);
}

#[test]
fn pages_that_are_changed_at_once_are_not_written_around_the_cache() {
    // Copies of 4 KiB, in which other code then changes so many lines.
    let copies = |changes: u64| {
        let mut program = Program::persistent();
        for page in 0..24 << 10 {
            let addr = POOL + 4096 * page;
            program.store(5, addr, 4096);
            (0..changes).for_each(|line| program.store(6, addr + 256 * line, 8));
        }
        program.advice().expect(Rule::LateFlush, 5, 0.5).remedy.clone()
    };
    for changes in [0, 1] {
        let remedy = copies(changes);
        assert!(remedy.contains("or write the run with non-temporal stores"), "{changes}: {remedy}");
    }
    let remedy = copies(4);
    assert!(remedy.contains("changes 6 % of it"), "{remedy}");
    assert!(remedy.contains("don't use non-temporal stores"), "{remedy}");
}

#[test]
fn lines_flushed_late() {
    let advice = long_write(false, true).advice();
    let finding = advice.expect(Rule::LateFlush, 5, 0.3);
    assert!(finding.title.contains("too late"), "{finding:#?}");
    advice.silent_on(Rule::CleanFlush);
}

#[test]
fn lines_flushed_in_time() {
    long_write(true, false).advice().silent_on(Rule::LateFlush);
}

#[test]
fn nobody_is_advised_to_flush_memory_that_need_not_persist() {
    let mut program = long_write(false, false);
    program.events.remove(0);
    let advice = program.advice();
    advice.silent_on(Rule::LateFlush);
    assert!(advice.linter.withheld().iter().any(|(rule, _)| *rule == Rule::LateFlush));
    let transfer = advice.expect(Rule::TemporalTransfer, 5, 0.9);
    assert!(transfer.evidence.contains("mapped no persistent memory"), "{transfer:#?}");
}

/// `threads` threads that stream into regions of their own, a line each in turn.
fn writers(threads: u32) -> Program {
    let mut program = Program::persistent();
    for line in 0..LINES / u64::from(threads) {
        for thread in 0..threads {
            let addr = POOL + (u64::from(thread) << 24) + 64 * line;
            program.op(thread, 7, Op::StoreNt { addr, len: 64 });
            program.op(thread, 7, Op::Fence(FenceKind::Store));
        }
    }
    program
}

#[test]
fn crowded_dimms() {
    let advice = writers(12).advice();
    let finding = advice.of(Rule::CrowdedDimm).unwrap_or_else(|| panic!("{:#?}", advice.figures.persistent));
    assert!(finding.title.contains("12 threads") && finding.share > 0.5, "{finding:#?}");
    writers(3).advice().silent_on(Rule::CrowdedDimm);
}

#[test]
fn many_threads_that_take_long_turns_do_not_crowd() {
    let mut program = Program::persistent();
    for thread in 0..12u32 {
        for line in 0..LINES / 4 {
            program.op(
                thread,
                7,
                Op::StoreNt { addr: POOL + (u64::from(thread) << 24) + 64 * line, len: 64 },
            );
        }
    }
    program.advice().silent_on(Rule::CrowdedDimm);
}

/// Two fields of a line, flushed each by itself or once, `times` times.
fn flushes(between: bool) -> Program {
    let mut program = Program::persistent();
    for n in 0..1000 {
        program.store(1, POOL + 256 * n, 256);
        program.flush(2, POOL + 256 * n, 256);
        if between {
            program.store(1, POOL + 256 * n, 256);
        }
        program.flush(3, POOL + 256 * n, 256);
        program.fence(3, FenceKind::Store);
    }
    program
}

#[test]
fn redundant_flushes() {
    let advice = flushes(false).advice();
    let finding = advice.expect(Rule::RedundantFlush, 3, 0.49);
    assert!(finding.evidence.contains("4,000 of 8,000"), "{finding:#?}");
    assert!(finding.evidence.contains("code2 (code.c:2) has flushed"), "{finding:#?}");
    advice.silent_on(Rule::CleanFlush);
    flushes(true).advice().silent_on(Rule::RedundantFlush);
}

#[test]
fn another_threads_flush_excuses() {
    let mut program = flushes(false);
    for (thread, event) in &mut program.events {
        if event.site.0 == 3 {
            thread.0 = 1;
        }
    }
    program.advice().silent_on(Rule::RedundantFlush);
}

#[test]
fn redundant_flushes_of_unmapped_memory_are_seen_too() {
    let mut program = flushes(false);
    program.events.remove(0);
    program.advice().expect(Rule::RedundantFlush, 3, 0.49);
}

#[test]
fn flushes_outside_persistent_memory_do_not_count_when_there_is_some() {
    let mut program = flushes(false);
    let Op::Map { addr, .. } = &mut program.events[0].1.op else { panic!("the first event maps") };
    *addr = 1 << 50;
    program.advice().silent_on(Rule::RedundantFlush);
}

/// Stores one line of each object of 1 KiB and flushes `flushed` bytes of it.
fn objects(flushed: u64, nt: bool) -> Program {
    let mut program = Program::persistent();
    for n in 0..1000 {
        let addr = POOL + 1024 * n;
        if nt {
            program.store_nt(1, addr, 64)
        } else {
            program.store(1, addr, 64)
        }
        program.persist(2, addr, flushed);
    }
    program
}

#[test]
fn clean_flushes() {
    let finding = objects(1024, false).advice().expect(Rule::CleanFlush, 2, 0.93).clone();
    assert!(finding.evidence.contains("15,000 of 16,000"), "{finding:#?}");
    objects(64, false).advice().silent_on(Rule::CleanFlush);
}

#[test]
fn flushes_behind_non_temporal_stores_are_clean() {
    objects(64, true).advice().expect(Rule::CleanFlush, 2, 0.99);
}

#[test]
fn useless_store_fences() {
    let fenced = |work: bool| {
        let mut program = Program::persistent();
        for n in 0..500 {
            program.store(1, POOL + 256 * n, 256);
            program.persist(2, POOL + 256 * n, 256);
            program.load(POOL, 8);
            if work {
                program.store(1, 4096, 8);
            }
            program.fence(4, FenceKind::Store);
        }
        program.advice()
    };
    let advice = fenced(false);
    let finding = advice.expect(Rule::UselessFence, 4, 0.49);
    assert!(finding.evidence.contains("500 of 1,000"), "{finding:#?}");
    fenced(true).silent_on(Rule::UselessFence);
}

#[test]
fn full_fences_are_useless_only_behind_each_other() {
    let fenced = |first, second, load: bool| {
        let mut program = Program::persistent();
        for n in 0..500 {
            program.store(1, POOL + 256 * n, 256);
            program.flush(2, POOL + 256 * n, 256);
            program.fence(3, first);
            if load {
                program.load(POOL, 8);
            }
            program.fence(4, second);
        }
        program.advice()
    };
    fenced(FenceKind::Full, FenceKind::Full, false).expect(Rule::UselessFence, 4, 0.49);
    fenced(FenceKind::Full, FenceKind::Full, true).silent_on(Rule::UselessFence);
    fenced(FenceKind::Store, FenceKind::Full, false).silent_on(Rule::UselessFence);
    fenced(FenceKind::Store, FenceKind::Locked, false).silent_on(Rule::UselessFence);
    fenced(FenceKind::Locked, FenceKind::Store, false).silent_on(Rule::UselessFence);
}

#[test]
fn a_fence_behind_a_lock_or_a_mapping_may_have_work() {
    let mut program = Program::persistent();
    for seq in 1..500 {
        program.fence(4, FenceKind::Store);
        program.op(0, 5, Op::Unlock { lock: 64, seq });
        program.fence(4, FenceKind::Store);
        program.op(0, 5, Op::Map { addr: POOL, len: 1 << 30, name: NameId(1) });
    }
    program.advice().silent_on(Rule::UselessFence);
}
