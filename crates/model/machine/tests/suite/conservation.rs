//! Whatever several cores do, every byte is accounted for, and the same stream gives the same figures.

use crate::common::Run;
use event::{Batch, Event, FenceKind, FlushKind, NameId, Op, Sink, SiteId, ThreadId};
use machine::{Buffer, Config, Figures, Machine, Replacement, Size, WriteOut};
use proptest::prelude::*;

/// Lines of the addresses that streams use: three times the LLC of the tiny machine.
const LINES: u64 = 48;

fn any_op() -> impl Strategy<Value = Op> {
    let addr = 0..LINES * 64;
    let len = prop_oneof![4 => 1..=16u32, 2 => Just(64), 1 => 0..400u32];
    let kind = prop_oneof![Just(FlushKind::Clwb), Just(FlushKind::Clflushopt), Just(FlushKind::Clflush)];
    let range = || (addr.clone(), 0..1000u64);
    prop_oneof![
        8 => (addr.clone(), len.clone()).prop_map(|(addr, len)| Op::Load { addr, len }),
        8 => (addr.clone(), len.clone()).prop_map(|(addr, len)| Op::Store { addr, len }),
        4 => (addr.clone(), len).prop_map(|(addr, len)| Op::StoreNt { addr, len }),
        3 => (addr.clone(), kind).prop_map(|(addr, kind)| Op::Flush { addr, kind }),
        1 => addr.clone().prop_map(|addr| Op::Demote { addr }),
        2 => Just(Op::Fence(FenceKind::Store)),
        1 => range().prop_map(|(addr, len)| Op::Map { addr, len, name: NameId(0) }),
        1 => range().prop_map(|(addr, len)| Op::Unmap { addr, len }),
    ]
}

fn any_config() -> impl Strategy<Value = Config> {
    let replacement =
        || prop_oneof![Just(Replacement::Lru), Just(Replacement::TreePlru), Just(Replacement::Random)];
    let write_out = prop_oneof![Just(WriteOut::OnCompletion), Just(WriteOut::OnEviction)];
    let buffer = (prop_oneof![Just(1u32), Just(4)], replacement(), write_out)
        .prop_map(|(lines, replacement, write_out)| Buffer { lines, replacement, write_out });
    let device = (prop_oneof![Just(64u64), Just(256)], prop::option::of(buffer), 1..4u32);
    (replacement(), replacement(), device).prop_map(|(private, shared, (unit, buffer, dimms))| {
        let mut config = crate::common::tiny();
        (config.l1.replacement, config.l2.replacement, config.llc.replacement) = (private, private, shared);
        (config.device.unit, config.device.buffer) = (Size(unit), buffer);
        (config.memory.dimms, config.memory.interleave) = (dimms, Size(512));
        config
    })
}

/// Events with the thread of each.
fn any_stream() -> impl Strategy<Value = Vec<(u32, Event)>> {
    let event = (any_op(), 0..6u32).prop_map(|(op, site)| Event { op, site: SiteId(site), instructions: 1 });
    prop::collection::vec((0..5u32, event), 1..400)
}

fn push(machine: &mut Machine, thread: u32, events: &[Event]) {
    machine.push(Batch { thread: ThreadId(thread), time_ns: 0, events, values: &[] }).expect("a sound batch");
}

fn run_singly(config: &Config, stream: &[(u32, Event)], audit: bool) -> Machine {
    let mut machine = Machine::new(config).expect("a valid description");
    for (at, (thread, event)) in stream.iter().enumerate() {
        push(&mut machine, *thread, std::slice::from_ref(event));
        if audit {
            machine.audit().unwrap_or_else(|error| panic!("after event {at}, {event:?}: {error}"));
        }
    }
    machine
}

fn sum_of_dimms(figures: &Figures) -> (u64, u64) {
    let dimms = figures.persistent.per_dimm.iter().chain(&figures.volatile.per_dimm);
    dimms.fold((0, 0), |(read, written), dimm| {
        (read + dimm.media_read_bytes, written + dimm.media_write_bytes)
    })
}

proptest! {
    #[test]
    fn every_byte_is_accounted_for(config in any_config(), stream in any_stream()) {
        let mut machine = run_singly(&config, &stream, true);
        machine.finish().unwrap();
        machine.drain();
        machine.audit().unwrap();
        let figures = machine.into_figures();
        prop_assert_eq!(figures.caches.iter().map(|cache| cache.held_dirty_bytes).sum::<u64>(), 0);
        prop_assert_eq!(figures.held_nt_bytes, 0);
        prop_assert_eq!(figures.persistent.held_dirty_bytes + figures.volatile.held_dirty_bytes, 0);
        let totals = (
            figures.persistent.total.media_read_bytes + figures.volatile.total.media_read_bytes,
            figures.persistent.total.media_write_bytes + figures.volatile.total.media_write_bytes,
        );
        prop_assert_eq!(sum_of_dimms(&figures), totals);
    }

    #[test]
    fn the_same_stream_gives_the_same_figures_however_it_is_cut(config in any_config(), stream in any_stream()) {
        let singly = run_singly(&config, &stream, false).into_figures();
        let mut machine = Machine::new(&config).unwrap();
        for run in stream.chunk_by(|one, next| one.0 == next.0) {
            let events: Vec<Event> = run.iter().map(|(_, event)| *event).collect();
            push(&mut machine, run[0].0, &events);
        }
        prop_assert_eq!(machine.into_figures(), singly);
    }

    #[test]
    fn one_level_of_lru_agrees_with_a_list(accesses in prop::collection::vec((0..24u64, any::<bool>()), 1..300)) {
        // Two sets of two ways, each a list with the most recent line first.
        let mut sets: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
        let mut hits = 0;
        let mut config = crate::common::tiny();
        // An L2 that nothing leaves, so that inclusion takes no line away.
        config.l2.size = Size(64 << 10);
        let mut run = Run::new(&config);
        for (line, store) in accesses {
            if store { run.store(line * 64) } else { run.load(line * 64) };
            let set = &mut sets[(line % 2) as usize];
            let found = set.iter().position(|&held| held == line);
            hits += u64::from(found.is_some());
            found.map(|at| set.remove(at));
            set.insert(0, line);
            set.truncate(2);
        }
        prop_assert_eq!(run.caches()[0].0, hits);
    }
}

#[test]
fn a_long_run_of_many_threads_balances_on_the_real_shapes() {
    for preset in Config::presets() {
        let mut run = Run::new(&Config::preset(preset).unwrap());
        let mut random = crate::common::Random(0xfeed);
        run.map(1 << 30, 64 << 20);
        for _ in 0..400_000 {
            let addr = [1 << 30, 0][random.below(2) as usize] + random.below(64 << 20);
            run.thread(random.below(8) as u32).site(1 + random.below(20) as u32);
            match random.below(10) {
                0..4 => run.load(addr),
                4..7 => run.store(addr),
                7 => run.store_nt(addr, 64),
                8 => run.clwb(addr),
                _ => run.fence(),
            };
        }
        let figures = run.figures();
        assert!(figures.mapped_persistent && figures.threads == 8, "{preset}");
        assert!(
            figures.persistent.total.media_write_bytes > 0 && figures.volatile.total.media_write_bytes > 0
        );
        let events: Vec<u64> = figures.timeline.iter().map(|slice| slice.events).collect();
        assert!(events.is_sorted() && events.len() <= 512 && events.last() == Some(&400_001), "{preset}");
        let in_slices: u64 = figures.timeline.iter().map(|slice| slice.persistent.media_write_bytes).sum();
        assert_eq!(in_slices, figures.persistent.total.media_write_bytes, "{preset}");
    }
}
