//! What several tests of the trace file share.

use std::collections::BTreeMap;
use std::io::Cursor;

use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Frame, NameId, Op, Order, Sink, SinkError,
    Site, SiteId, Source, StrandMark, ThreadId,
};
use proptest::prelude::*;
use trace::{Compression, Reader, TraceError, Writer};

/// A batch that owns its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    pub thread: u32,
    pub time_ns: u64,
    pub events: Vec<Event>,
    pub values: Vec<u8>,
}

impl Push {
    pub fn batch(&self) -> Batch<'_> {
        let Push { thread, time_ns, events, values } = self;
        Batch { thread: ThreadId(*thread), time_ns: *time_ns, events, values }
    }
}

/// Keeps all batches as they come.
#[derive(Default)]
pub struct Pushes(pub Vec<Push>);

impl Sink for Pushes {
    fn name(&self) -> &'static str {
        "pushes"
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let Batch { thread, time_ns, events, values } = batch;
        self.0.push(Push { thread: thread.0, time_ns, events: events.to_vec(), values: values.to_vec() });
        Ok(())
    }
}

/// Events and values per thread, without batches.
pub fn per_thread(pushes: &[Push]) -> BTreeMap<u32, (Vec<Event>, Vec<u8>)> {
    let mut threads: BTreeMap<u32, (Vec<Event>, Vec<u8>)> = BTreeMap::new();
    for push in pushes.iter().filter(|push| !push.events.is_empty()) {
        let thread = threads.entry(push.thread).or_default();
        thread.0.extend(&push.events);
        thread.1.extend(&push.values);
    }
    threads
}

pub fn source(capabilities: Capabilities) -> Source {
    Source { command: vec!["./app".to_owned(), "-x".to_owned()], capabilities, ..Source::synthetic("test 1") }
}

/// Writes a trace; `flush_every` pushes (0: never) all blocks are closed.
pub fn write(
    pushes: &[Push],
    capabilities: Capabilities,
    compression: Compression,
    flush_every: usize,
) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "memory").unwrap().compression(compression).unwrap();
    writer.begin(&source(capabilities)).unwrap();
    define(&mut writer).unwrap();
    for (number, push) in pushes.iter().enumerate() {
        writer.push(push.batch()).unwrap();
        if flush_every > 0 && number % flush_every == flush_every - 1 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    writer.into_inner()
}

pub fn site() -> Site {
    let frame = Frame { function: "f<\u{e9}>".to_owned(), file: "src/a b.c".to_owned(), line: u32::MAX };
    Site { frames: vec![frame.clone(), frame], module: "libx.so".to_owned(), address: u64::MAX }
}

fn define(writer: &mut impl Sink) -> Result<(), SinkError> {
    writer.define(Definition::Site(SiteId(7), &site()))?;
    writer.define(Definition::Site(SiteId(u32::MAX), &Site::default()))?;
    writer.define(Definition::Name(NameId(3), "/dev/shm/pool"))
}

pub fn read(bytes: &[u8]) -> Result<Vec<Push>, TraceError> {
    let mut pushes = Pushes::default();
    Reader::new(Cursor::new(bytes), "memory")?.replay(&mut pushes)?;
    Ok(pushes.0)
}

/// Numbers of all magnitudes, extremes often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift),
        2 => 0u64..32,
        1 => Just(u64::MAX),
        1 => (0u64..100).prop_map(|value| 0x7f00_0000_0000 + 8 * value),
    ]
}

fn short() -> impl Strategy<Value = u32> {
    prop_oneof![number().prop_map(|value| value as u32), Just(8), Just(0), Just(u32::MAX)]
}

fn order() -> impl Strategy<Value = Order> {
    prop::sample::select(vec![Order::Acquire, Order::Release, Order::AcqRel, Order::SeqCst])
}

fn access(most: u32) -> impl Strategy<Value = Op> {
    (number(), short(), 0..3).prop_map(move |(addr, len, kind)| {
        let len = len.min(most);
        match kind {
            0 => Op::Load { addr, len },
            1 => Op::Store { addr, len },
            _ => Op::StoreNt { addr, len },
        }
    })
}

fn persistency() -> impl Strategy<Value = Op> {
    use FenceKind::{Full, Locked, Store};
    use FlushKind::{Clflush, Clflushopt, Clwb};
    prop_oneof![
        (number(), prop::sample::select(vec![Clwb, Clflushopt, Clflush]))
            .prop_map(|(addr, kind)| Op::Flush { addr, kind }),
        number().prop_map(|addr| Op::Demote { addr }),
        prop::sample::select(vec![Store, Full, Locked]).prop_map(Op::Fence),
    ]
}

fn synchronisation() -> impl Strategy<Value = Op> {
    prop_oneof![
        (number(), order(), number()).prop_map(|(var, order, seq)| Op::Acquire { var, order, seq }),
        (number(), order(), number()).prop_map(|(var, order, seq)| Op::Release { var, order, seq }),
        (number(), any::<bool>(), number()).prop_map(|(lock, shared, seq)| Op::Lock { lock, shared, seq }),
        (number(), number()).prop_map(|(lock, seq)| Op::Unlock { lock, seq }),
        (short(), number()).prop_map(|(child, seq)| Op::Spawn { child: ThreadId(child), seq }),
        number().prop_map(|seq| Op::ThreadStart { seq }),
        number().prop_map(|seq| Op::ThreadEnd { seq }),
        (short(), number()).prop_map(|(thread, seq)| Op::Join { thread: ThreadId(thread), seq }),
    ]
}

fn life() -> impl Strategy<Value = Op> {
    prop_oneof![
        (number(), number()).prop_map(|(addr, len)| Op::Alloc { addr, len }),
        number().prop_map(|addr| Op::Free { addr }),
        (number(), number(), short()).prop_map(|(addr, len, name)| Op::Map { addr, len, name: NameId(name) }),
        (number(), number()).prop_map(|(addr, len)| Op::Unmap { addr, len }),
        number().prop_map(|region| Op::RegionBegin { region }),
        number().prop_map(|region| Op::RegionEnd { region }),
        short().prop_map(|name| Op::Phase { name: NameId(name) }),
    ]
}

fn name() -> impl Strategy<Value = NameId> {
    short().prop_map(NameId)
}

fn names() -> impl Strategy<Value = Op> {
    prop_oneof![
        (name(), name()).prop_map(|(from, to)| Op::Rename { from, to }),
        (name(), name()).prop_map(|(from, to)| Op::Exchange { from, to }),
        (name(), name()).prop_map(|(from, to)| Op::Link { from, to }),
        (name(), name()).prop_map(|(file, target)| Op::Symlink { file, target }),
        name().prop_map(|file| Op::Unlink { file }),
    ]
}

fn file(most: u32) -> impl Strategy<Value = Op> {
    use StrandMark::{Barrier, Join, New};
    prop_oneof![
        (name(), number(), short()).prop_map(move |(file, offset, len)| Op::FileWrite {
            file,
            offset,
            len: len.min(most)
        }),
        (name(), any::<bool>()).prop_map(|(file, data_only)| Op::FileSync { file, data_only }),
        (name(), number(), short(), any::<bool>()).prop_map(|(file, offset, len, data_only)| {
            Op::FileRangeSync { file, offset, len, data_only }
        }),
        (number(), number()).prop_map(|(addr, len)| Op::MapSync { addr, len }),
        (number(), number()).prop_map(|(addr, offset)| Op::MapOffset { addr, offset }),
        (name(), number()).prop_map(|(file, len)| Op::FileTruncate { file, len }),
        (name(), any::<bool>()).prop_map(|(file, folder)| Op::FileCreate { file, folder }),
        names(),
        name().prop_map(|file| Op::FilesSync { file }),
        (name(), number(), number()).prop_map(|(file, offset, len)| Op::FileCollapse { file, offset, len }),
        (name(), number(), number()).prop_map(|(file, offset, len)| Op::FileInsert { file, offset, len }),
        short().prop_map(|process| Op::Process { process }),
        prop::sample::select(vec![Barrier, New, Join]).prop_map(Op::Strand),
    ]
}

/// Any event; stores and writes of at most `most` bytes.
pub fn event(most: u32) -> impl Strategy<Value = Event> {
    let op = prop_oneof![6 => access(most), 2 => persistency(), 1 => synchronisation(), 1 => life(), 1 => file(most)];
    let site = prop_oneof![4 => 0u32..6, 1 => any::<u32>(), 1 => Just(u32::MAX)];
    (op, site, short()).prop_map(|(op, site, instructions)| Event { op, site: SiteId(site), instructions })
}

/// Any batches of up to five threads, with values that fit if `values`.
pub fn pushes(values: bool) -> impl Strategy<Value = Vec<Push>> {
    let events = prop::collection::vec(event(if values { 200 } else { u32::MAX }), 0..40);
    let thread = prop_oneof![0u32..4, Just(u32::MAX)];
    prop::collection::vec((thread, number(), events), 0..20).prop_map(move |parts| {
        let push = |(thread, time_ns, events): (u32, u64, Vec<Event>)| {
            let stored = |event: &Event| event.op.value_len().map_or(0, |len| len as usize);
            let bytes = if values { events.iter().map(stored).sum() } else { 0 };
            let values = (0..bytes).map(|byte| (byte * 31 + events.len()) as u8).collect();
            Push { thread, time_ns, events, values }
        };
        parts.into_iter().map(push).collect()
    })
}
