//! Batches of code blocks and events, and the traces made of them.

use std::sync::Arc;

use event::{
    AccessKind, AnySink, Batch, BlockAccess, BlockBatch, BlockShape, Capabilities, Consumed, EVENT, Event,
    HEAD, HeadTable, RawBlocks, RunSink, Sink, SiteId, ThreadId,
};
use proptest::prelude::*;
use trace::{Compression, Writer};

use crate::common::{Push, event, source};

pub const NO_VALUES: Capabilities = Capabilities::all().difference(Capabilities::VALUES);

/// One batch, of code blocks or not.
#[derive(Clone, Debug)]
pub struct Part {
    pub thread: u32,
    pub time_ns: u64,
    /// None: nothing but events.
    pub words: Option<(Vec<u64>, u32)>,
    pub events: Vec<Event>,
}

pub fn shapes() -> Vec<Arc<BlockShape>> {
    let access =
        |kind, len, instructions| BlockAccess { kind, len, site: SiteId(instructions), instructions };
    use AccessKind::{Load, Store, StoreNt};
    let shapes = [
        vec![access(Load, Some(8), 1)],
        vec![access(Load, Some(8), 3), access(Store, Some(4), 2), access(Load, Some(1), 1)],
        vec![access(StoreNt, None, 1)],
        vec![access(Store, None, 9), access(Load, Some(16), 2)],
        (0..32).map(|at| access(if at % 3 == 0 { Store } else { Load }, Some(8), at)).collect(),
    ];
    (0..).zip(shapes).map(|(after, accesses)| Arc::new(BlockShape { accesses, after })).collect()
}

/// What [`parts`] makes a part of: its thread, the time since the last one, shapes with an address each, how
/// often they are executed, events in between, carry, and by how many words the addresses move.
pub type Made = (u32, u16, Vec<(usize, u64)>, usize, Vec<Event>, u32, u64);

/// Batches that go the same ways again and again, as programs do, with addresses that move or jump.
pub fn parts() -> impl Strategy<Value = Vec<Part>> {
    let address = prop_oneof![
        4 => (0u64..64).prop_map(|at| 0x7f00_0000_1000 + 8 * at),
        2 => Just(0),
        1 => any::<u64>().prop_map(|address| address & !HEAD),
    ];
    let body = prop::collection::vec((0usize..6, address), 0..12);
    let plain = prop::collection::vec(event(u32::MAX), 1..4);
    let thread = 0u32..3;
    let carry = prop_oneof![3 => Just(0), 1 => 0u32..20];
    let part = (thread, any::<u16>(), body, 0usize..30, plain, carry, 0u64..3);
    prop::collection::vec(part, 0..20).prop_map(|parts| {
        let mut time_ns = 0;
        let make = |(thread, time, body, times, plain, carry, step): Made| {
            time_ns += u64::from(time);
            if times == 0 {
                return Part { thread, time_ns, words: None, events: plain };
            }
            let (mut words, mut events) = (Vec::new(), Vec::new());
            for turn in 0..times as u64 {
                for &(number, address) in &body {
                    let Some(shape) = shapes().get(number).cloned() else {
                        words.push(EVENT);
                        events.push(plain[turn as usize % plain.len()]);
                        continue;
                    };
                    let behind = if number % 2 == 0 { 0 } else { shape.words() - 1 };
                    words.push(BlockShape::sized_head(number as u32, behind));
                    for (slot, access) in (0u64..).zip(&shape.accesses) {
                        let moved = (address + 8 * (step * turn + slot)) & !HEAD;
                        words.push(if address == 0 && slot % 2 == 0 { 0 } else { moved });
                        if access.len.is_none() {
                            words.push(turn << 32 | 100 | ((slot + turn) % 3));
                        }
                    }
                }
            }
            Part { thread, time_ns, words: Some((words, carry)), events }
        };
        parts.into_iter().map(make).collect()
    })
}

/// The words of code blocks as the code would record them, and the table of their heads.
pub fn raw_words(words: &[u64], shapes: &[Arc<BlockShape>]) -> (Vec<u64>, HeadTable) {
    let mut heads = HeadTable::default();
    let name = |number: u64| HEAD | (0x1555_5555_0000 + 5 * number);
    for (number, shape) in (0..).zip(shapes) {
        assert!(heads.learn(name(number), number as u32, shape));
    }
    let mut raw = words.to_vec();
    let mut at = 0;
    while let Some(&head) = words.get(at) {
        if head == EVENT {
            at += 1;
            continue;
        }
        raw[at] = name(u64::from(head as u32));
        at += 1;
        for access in &shapes[head as u32 as usize].accesses {
            if access.kind == AccessKind::Store && access.len.is_some() && words[at] != 0 {
                raw[at] = !words[at];
            }
            at += access.words();
        }
    }
    (raw, heads)
}

/// Pushes a part as raw blocks, about so many words together; returns it as events.
pub fn push_raw(part: &Part, shapes: &[Arc<BlockShape>], together: usize, sink: &mut dyn Sink) -> Push {
    let Part { thread, time_ns, words: Some((words, carry)), events } = part else {
        return push(part, shapes, sink);
    };
    let (thread, time_ns, mut carry, mut events) = (ThreadId(*thread), *time_ns, *carry, &events[..]);
    let (raw, mut heads) = raw_words(words, shapes);
    let mut expected = Push { thread: thread.0, time_ns, events: Vec::new(), values: Vec::new() };
    let mut at = 0;
    while at < words.len() {
        if words[at] == EVENT {
            let (event, later) = events.split_first().unwrap();
            sink.push(Batch { thread, time_ns, events: &[*event], values: &[] }).unwrap();
            expected.events.push(*event);
            (at, events, carry) = (at + 1, later, 0);
            continue;
        }
        let mut end = at;
        while end < words.len() && words[end] != EVENT && end - at <= together {
            end += shapes[words[end] as u32 as usize].words();
        }
        let (before, all) = (expected.events.len(), &raw[at..end]);
        let batch =
            BlockBatch { thread, time_ns, shapes, words: &words[at..end], events: &[], count: 0, carry };
        for item in batch.items() {
            let event::BlockItem::Block(_, shape, words) = item else { continue };
            shape.accesses(words, &mut carry, |access, addr, len, instructions| {
                expected.events.push(Event { op: access.op(addr, len), site: access.site, instructions });
            });
        }
        let raw = RawBlocks { thread, time_ns, shapes, heads: &mut heads, words: &all, carry: batch.carry };
        let taken = Consumed { words: all.len(), events: expected.events.len() - before, carry };
        assert_eq!(AnySink(sink).push_raw(raw).unwrap(), taken);
        at = end;
    }
    expected
}

/// Pushes a part; returns it as events.
pub fn push(part: &Part, shapes: &[Arc<BlockShape>], sink: &mut dyn Sink) -> Push {
    let Part { thread, time_ns, words, events } = part;
    let mut as_events =
        Push { thread: *thread, time_ns: *time_ns, events: events.clone(), values: Vec::new() };
    let Some((words, carry)) = words else {
        sink.push(as_events.batch()).unwrap();
        return as_events;
    };
    let mut batch = BlockBatch {
        thread: ThreadId(*thread),
        time_ns: *time_ns,
        shapes,
        words,
        events,
        count: 0,
        carry: *carry,
    };
    as_events.events.clear();
    for item in batch.items() {
        batch.count += match item {
            event::BlockItem::Event(_) => 1,
            event::BlockItem::Block(_, shape, words) => {
                let mut executed = 0;
                shape.accesses(words, &mut 0, |_, _, _, _| executed += 1);
                executed
            }
        };
    }
    batch.expand(&mut as_events.events);
    AnySink(sink).push_blocks(batch).unwrap();
    as_events
}

/// The trace of some parts, and their events.
pub fn write(parts: &[Part], compression: Compression, flush_every: usize) -> (Vec<u8>, Vec<Push>) {
    let mut writer = Writer::new(Vec::new(), "memory").unwrap().compression(compression).unwrap();
    writer.begin(&source(NO_VALUES)).unwrap();
    let shapes = shapes();
    let mut expected = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        // The table grows.
        let known = if number < 5 && part.words.is_none() { &shapes[..number] } else { &shapes[..] };
        expected.push(push(part, known, &mut writer));
        if flush_every > 0 && number % flush_every == flush_every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    (writer.into_inner(), expected)
}

/// The trace of some parts pushed as raw blocks, about so many words together, and their events.
pub fn write_raw(parts: &[Part], together: usize, flush_every: usize) -> (Vec<u8>, Vec<Push>) {
    let mut writer = Writer::new(Vec::new(), "memory").unwrap();
    writer.begin(&source(NO_VALUES)).unwrap();
    let mut expected = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        expected.push(push_raw(part, &shapes(), together, &mut writer));
        if flush_every > 0 && number % flush_every == flush_every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    (writer.into_inner(), expected)
}

/// A loop over one array: 100,000 turns.
pub fn array_loop() -> Vec<Part> {
    let turn = |at: u64| [BlockShape::head(1), 0x7ffe_0000_0000, 0x5000_0000 + 4 * at, 0x6000_0000 + at];
    (0..100)
        .map(|part| Part {
            thread: 0,
            time_ns: part * 20_000,
            words: Some(((1000 * part..1000 * (part + 1)).flat_map(turn).collect(), 1)),
            events: Vec::new(),
        })
        .collect()
}
