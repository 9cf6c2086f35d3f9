//! Runs written down by hand, and an oracle that is a closure over words.

use std::collections::BTreeMap;

use crash::{Change, History, Image, Oracle, Place, Platform, Recorder};
use event::{
    Batch, Capabilities, Definition, Event, FenceKind, FlushKind, Frame, InstructionCounts, NameId, Op,
    Order, Sink, Site, SiteId, Source, ThreadId,
};

/// Where the file is mapped.
pub const BASE: u64 = 0x10_0000;

/// A run, one call per instruction. Each call is its own line of code: the site has the number of the call, from 1.
pub struct Run {
    recorder: Recorder,
    calls: u32,
    seq: u64,
}

impl Run {
    pub fn new(platform: Platform) -> Self {
        let mut recorder = Recorder::new(platform);
        recorder
            .begin(&Source {
                producer: "test".into(),
                command: Vec::new(),
                capabilities: Capabilities::all(),
                instructions: InstructionCounts::Unknown,
                sampling: None,
            })
            .expect("the recorder takes it");
        recorder.define(Definition::Name(NameId(1), "pool")).expect("the recorder takes it");
        let mut run = Run { recorder, calls: 0, seq: 0 };
        run.push(0, Op::Map { addr: BASE, len: 1 << 16, name: NameId(1) }, &[]);
        run.calls = 0;
        run
    }

    fn push(&mut self, thread: u32, op: Op, values: &[u8]) -> SiteId {
        self.calls += 1;
        let site = SiteId(self.calls);
        let frame = Frame { function: "main".into(), file: "test.c".into(), line: self.calls };
        let described = Site { frames: vec![frame], module: String::new(), address: 0 };
        self.recorder.define(Definition::Site(site, &described)).expect("the recorder takes it");
        let events = [Event { op, site, instructions: 0 }];
        self.recorder
            .push(Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values })
            .expect("the recorder takes it");
        site
    }

    /// The next call is this line of code.
    pub fn at(&mut self, line: u32) -> &mut Self {
        self.calls = line - 1;
        self
    }

    pub fn store(&mut self, thread: u32, offset: u64, value: u64) -> SiteId {
        self.push(thread, Op::Store { addr: BASE + offset, len: 8 }, &value.to_le_bytes())
    }

    pub fn bytes(&mut self, thread: u32, offset: u64, bytes: &[u8]) -> SiteId {
        self.push(thread, Op::Store { addr: BASE + offset, len: bytes.len() as u32 }, bytes)
    }

    pub fn nt(&mut self, thread: u32, offset: u64, bytes: &[u8]) -> SiteId {
        self.push(thread, Op::StoreNt { addr: BASE + offset, len: bytes.len() as u32 }, bytes)
    }

    pub fn load(&mut self, thread: u32, offset: u64) -> SiteId {
        self.push(thread, Op::Load { addr: BASE + offset, len: 8 }, &[])
    }

    pub fn clwb(&mut self, thread: u32, offset: u64) -> SiteId {
        self.push(thread, Op::Flush { addr: BASE + offset, kind: FlushKind::Clwb }, &[])
    }

    pub fn clflush(&mut self, thread: u32, offset: u64) -> SiteId {
        self.push(thread, Op::Flush { addr: BASE + offset, kind: FlushKind::Clflush }, &[])
    }

    pub fn fence(&mut self, thread: u32) -> SiteId {
        self.push(thread, Op::Fence(FenceKind::Store), &[])
    }

    pub fn persist(&mut self, thread: u32, offset: u64) {
        self.clwb(thread, offset);
        self.fence(thread);
    }

    pub fn release(&mut self, thread: u32, var: u64) {
        self.seq += 1;
        self.push(thread, Op::Release { var, order: Order::Release, seq: self.seq }, &[]);
    }

    pub fn acquire(&mut self, thread: u32, var: u64) {
        self.seq += 1;
        self.push(thread, Op::Acquire { var, order: Order::Acquire, seq: self.seq }, &[]);
    }

    pub fn truncate(&mut self, thread: u32, len: u64) {
        self.push(thread, Op::FileTruncate { file: NameId(1), len }, &[]);
    }

    pub fn begin(&mut self, thread: u32, region: u64) {
        self.push(thread, Op::RegionBegin { region }, &[]);
    }

    pub fn end(&mut self, thread: u32, region: u64) {
        self.push(thread, Op::RegionEnd { region }, &[]);
    }

    pub fn history(self) -> History {
        self.recorder.into_history()
    }
}

/// An oracle that keeps the words and gives them to a closure.
pub struct Words<F> {
    words: BTreeMap<Place, u64>,
    judge: F,
}

impl<F: FnMut(&dyn Fn(u64) -> u64, &Image<'_>) -> Result<(), String>> Words<F> {
    pub fn new(judge: F) -> Self {
        Words { words: BTreeMap::new(), judge }
    }
}

impl<F: FnMut(&dyn Fn(u64) -> u64, &Image<'_>) -> Result<(), String>> Oracle for Words<F> {
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String> {
        for &Change { place, word } in image.changes {
            self.words.insert(place, word);
        }
        let words = &self.words;
        (self.judge)(&|offset| words.get(&Place::new(0, offset)).copied().unwrap_or(0), image)
    }
}
