//! Persistency hardware: what each design orders, waits for and writes, against hand counts.

use crate::timed::{MFENCE, SFENCE, WAY, clwb, event, line, push, step, store, with};
use event::{NameId, Op, Sink, Source, StrandMark};
use machine::{Awaited, Config, Design, Persist, PersistencyFigures, Simulation, Time};

fn on(design: Design) -> Config {
    with(|config| config.cores.pipeline.ordering = design)
}

const PB: Op = Op::Strand(StrandMark::Barrier);
const NS: Op = Op::Strand(StrandMark::New);
const JS: Op = Op::Strand(StrandMark::Join);

/// Runs a thread whose lines are mapped, and returns what the design did and the way of each persist by line.
fn persists(config: &Config, ops: &[Op]) -> (PersistencyFigures, u64, Vec<Persist>) {
    let mut simulation = Simulation::new(config).expect("a valid description");
    simulation.keep_persists(0, 64);
    simulation.begin(&Source::synthetic("test")).expect("it has all marks");
    push(&mut simulation, 0, &[event(Op::Map { addr: 0, len: 1 << 30, name: NameId(0) })]);
    for &op in ops {
        push(&mut simulation, 0, &[event(op)]);
    }
    simulation.finish().expect("a sound stream");
    simulation.drain();
    simulation.audit().expect("books that balance");
    let figures = simulation.figures();
    (figures.persistency, figures.memories[1].total.controller_write_bytes / 64, figures.persists)
}

fn of(persists: &[Persist], line: u64) -> Persist {
    *persists.iter().find(|persist| persist.line == line).expect("the line was sent")
}

/// The worked example of the source (figure 5.3): CLWB A; PB; CLWB B; NS; CLWB C; JS; CLWB D.
#[test]
fn strands_go_beside_each_other_and_barriers_and_joins_wait() {
    let [a, b, c, d] = [0u64, 1, 2, 3];
    let flush = |line: u64| clwb(line * 64);
    let ops = [line(a), line(b), line(c), line(d), flush(a), PB, flush(b), NS, flush(c), JS, flush(d)];
    for design in [Design::Strand, Design::StrandNoQueue] {
        let (_, _, all) = persists(&on(design), &ops);
        let [a, b, c, d] = [a, b, c, d].map(|line| of(&all, line));
        assert!(b.left >= a.durable, "{design:?}: a barrier {a:?} {b:?}");
        assert!(c.left < a.durable, "{design:?}: another strand {a:?} {c:?}");
        assert!(d.left >= a.durable.max(b.durable).max(c.durable), "{design:?}: a join {d:?}");
    }
}

/// With one strand buffer, new strands order like nothing, and barriers order all.
#[test]
fn one_strand_buffer_orders_what_other_strands_would_not() {
    let one = with(|config| {
        (config.cores.pipeline.ordering, config.cores.pipeline.strand_buffers) = (Design::Strand, 1);
    });
    let ops = [line(0), line(1), line(2), clwb(0), NS, PB, clwb(64)];
    let (_, _, all) = persists(&one, &ops);
    assert!(of(&all, 1).left >= of(&all, 0).durable);
    let (_, _, all) = persists(&on(Design::Strand), &ops);
    assert!(of(&all, 1).left < of(&all, 0).durable);
}

#[test]
fn a_barrier_is_a_fence_on_x86_and_nothing_without_order() {
    let took = |design, marks: Vec<Op>| {
        let ops = [line(0), clwb(0)].into_iter().chain(marks).chain([line(1), clwb(64), MFENCE]);
        step(&on(design), ops.collect()).0
    };
    assert_eq!(took(Design::X86, vec![PB]), took(Design::Tso, vec![SFENCE]));
    assert_eq!(took(Design::X86, vec![JS]), took(Design::Tso, vec![SFENCE]));
    assert!(took(Design::NonAtomic, vec![PB]) < took(Design::X86, vec![PB]));
}

/// Three words on two lines of one page.
fn region() -> Vec<Op> {
    vec![Op::RegionBegin { region: 1 }, store(0), store(8), store(0), store(64), Op::RegionEnd { region: 1 }]
}

#[test]
fn regions_write_what_a_hand_counts() {
    for (design, log, written) in [
        // An entry per word and one that ends; the lines.
        (Design::Undo, 3 + 1, 4 + 2),
        // Two entries of 72 bytes and 8 that commit, in lines; the lines.
        (Design::Redo, 3, 3 + 2),
        // A record for the page; the lines.
        (Design::Ssp, 1, 1 + 2),
    ] {
        let (own, lines, _) = persists(&on(design), &region());
        assert_eq!((own.logging_bytes / 64, lines), (log, written), "{design:?}");
        assert_eq!((own.regions, own.region_lines, own.region_pages), (1, 2, 1), "{design:?}");
        let (own, lines, _) =
            persists(&on(design), &[Op::RegionBegin { region: 1 }, Op::RegionEnd { region: 1 }]);
        assert_eq!((own.logging_bytes, lines), (0, 0), "{design:?}: an empty region");
    }
}

#[test]
fn shadow_pages_are_brought_together_when_no_tlb_has_them() {
    let config = with(|config| {
        (config.cores.pipeline.ordering, config.cores.pipeline.tlb_entries) = (Design::Ssp, 2);
    });
    let mut ops = region();
    // Two other pages: the first leaves the TLB. Its two lines are copied, which takes a record of its own.
    ops.extend([Op::Load { addr: 4096, len: 8 }, Op::Load { addr: 8192, len: 8 }]);
    let (own, _, _) = persists(&config, &ops);
    assert_eq!((own.consolidation_bytes / 64, own.tlb_misses, own.flips), (2, 3, 2));
    let config = with(|config| {
        let pipeline = &mut config.cores.pipeline;
        (pipeline.ordering, pipeline.tlb_entries, pipeline.ssp_eager) = (Design::Ssp, 2, false);
    });
    assert_eq!(persists(&config, &ops).0.consolidation_bytes, 0, "lazily, not yet");
}

/// Each version of a line goes to the place in which the one before is not, each page to a second page of its own.
#[test]
fn versions_of_a_line_take_turns_between_two_pages() {
    let region =
        |addr| [Op::RegionBegin { region: 1 }, store(addr), store(addr + 8), Op::RegionEnd { region: 1 }];
    let ops = [region(64), region(4096 + 64), region(64), region(64)].concat();
    let (own, written, all) = persists(&on(Design::Ssp), &ops);
    // A line and a line of the journal per region.
    assert_eq!((own.flips, own.logging_bytes / 64, written), (4, 4, 8));
    let data: Vec<u64> = all.iter().map(|persist| persist.line).filter(|line| line & 1 << 44 == 0).collect();
    let [first, other, second, third] = data[..] else { panic!("{data:?}") };
    assert_eq!(second, 1, "the page itself");
    assert!(first == third && first != 1 && first & 63 == 1, "{data:?}");
    assert!(other & 63 == 1 && other >> 6 != first >> 6, "{data:?}");
}

/// Consolidation reads where lines are and writes them to the page that has more of them.
#[test]
fn consolidation_moves_the_fewer_lines() {
    let config = with(|config| {
        (config.cores.pipeline.ordering, config.cores.pipeline.tlb_entries) = (Design::Ssp, 2);
    });
    for (stored, moved) in [(2u64, 2), (32, 32), (40, 24), (63, 1), (64, 0)] {
        let stores = (0..stored).map(|at| store(at * 64));
        let region = [Op::RegionBegin { region: 1 }].into_iter().chain(stores);
        let end =
            [Op::RegionEnd { region: 1 }, Op::Load { addr: 4096, len: 8 }, Op::Load { addr: 8192, len: 8 }];
        let (own, written, _) = persists(&config, &region.chain(end).collect::<Vec<Op>>());
        assert_eq!(own.consolidation_bytes / 64, moved, "{stored} lines in the second page");
        // The lines, a line of the journal; the lines that move. The record of that waits for its line to be full.
        assert_eq!(written, stored + 1 + moved, "{stored}");
    }
}

#[test]
fn a_region_of_too_many_pages_goes_to_the_handler() {
    let pages = |count: u64| {
        let stores = (0..count).map(|page| store(page * 4096));
        let begin = Op::RegionBegin { region: 1 };
        [begin].into_iter().chain(stores).chain([Op::RegionEnd { region: 1 }]).collect::<Vec<Op>>()
    };
    assert_eq!(persists(&on(Design::Ssp), &pages(64)).0.overflows, 0);
    assert_eq!(persists(&on(Design::Ssp), &pages(66)).0.overflows, 1);
}

#[test]
fn speculative_persists_leave_before_their_turn_and_read_what_they_overwrite() {
    let epochs: Vec<Op> = (0..4).flat_map(|at| [line(at), SFENCE]).chain([MFENCE]).collect();
    let (hops, _) = step(&on(Design::Hops), epochs.clone());
    let (asap, _) = step(&on(Design::Asap), epochs.clone());
    assert!(asap < hops, "{asap} {hops}");
    let (own, _, _) = persists(&on(Design::Asap), &epochs);
    assert_eq!(own.speculative, 3);
}

#[test]
fn battery_backed_buffers_coalesce_and_wait_for_nothing() {
    let stores = |count: u64| (0..count).map(|at| store(at % 2 * 64)).collect::<Vec<Op>>();
    assert_eq!(step(&on(Design::Bbb), stores(8)).0, 8.0);
    let (took, written) = step(&on(Design::Bbb), [stores(8), vec![clwb(0), SFENCE]].concat());
    assert!(took < WAY, "{took}");
    assert_eq!(written, 2 * 64);
}

#[test]
fn a_switch_makes_lines_durable_before_memory_has_them() {
    let near = with(|config| {
        let pipeline = &mut config.cores.pipeline;
        (pipeline.ordering, pipeline.switch_way) = (Design::Switch, Time::from_ns(1));
        config.memory.timing.as_mut().expect("timed").write_accept = Time::from_ns(500);
    });
    let mut far = near.clone();
    far.cores.pipeline.ordering = Design::X86;
    let ops = || vec![line(0), clwb(0), SFENCE, MFENCE];
    let (with_switch, without) = (step(&near, ops()).0, step(&far, ops()).0);
    assert!(with_switch + 400.0 < without, "{with_switch} {without}");
}

/// What the picture of persists shows: which line waited for which, and for what.
#[test]
fn a_persist_says_for_which_it_waited_and_why() {
    let ops = |mark| [line(0), line(1), clwb(0), mark, line(2), clwb(128)];
    let second = |design, mark| {
        let (_, _, all) = persists(&on(design), &ops(mark));
        assert_eq!((all[0].line, all[0].why, all[0].behind), (0, Awaited::Nothing, None), "{design:?}");
        let second = of(&all, 2);
        if let Some(before) = second.behind {
            let before = all[before as usize];
            assert!(before.line == 0 && before.durable <= second.left, "{design:?} {before:?} {second:?}");
        }
        (second.why, second.behind)
    };
    let first = Some(0);
    assert_eq!(second(Design::Tso, SFENCE), (Awaited::Fence, first));
    assert_eq!(second(Design::X86, PB), (Awaited::Fence, first));
    assert_eq!(second(Design::NonAtomic, PB).0, Awaited::Nothing);
    assert_eq!(second(Design::Strand, PB), (Awaited::Order, first));
    assert_eq!(second(Design::Strand, NS), (Awaited::Nothing, None));
    assert_eq!(second(Design::Strand, JS), (Awaited::Fence, first));
    // Epochs: the stores themselves persist, so the second line of the first epoch is the last of it.
    let (_, _, all) = persists(&on(Design::Hops), &[line(0), SFENCE, line(1)]);
    assert_eq!((all[1].why, all[1].behind), (Awaited::Order, first));
    // The journal of a region comes behind the region's line, the next region's line behind both.
    let region = |at| [Op::RegionBegin { region: 1 }, store(at), Op::RegionEnd { region: 1 }];
    let (_, _, all) = persists(&on(Design::Ssp), &[region(64), region(4096)].concat());
    let why: Vec<_> = all.iter().map(|persist| (persist.why, persist.behind)).collect();
    let step = |before| (Awaited::Step, Some(before));
    assert_eq!(why, [(Awaited::Nothing, None), step(0), (Awaited::Fence, Some(1)), step(2)]);
    // Redo's data follow the log.
    let (_, _, all) = persists(&on(Design::Redo), &region(64));
    assert_eq!(all.iter().map(|persist| persist.why).collect::<Vec<_>>()[2], Awaited::Step, "{all:?}");
}
