//! A program in events, and what it is advised.

use advise::prestores::{Advice, Choice, Options, PlaceAdvice, Target, Watcher};
use event::{Batch, Definition, Event, FenceKind, Frame, Op, Order, Sink, Site, SiteId, Source, ThreadId};

/// A program of one thread; site `n` is line `n` of a function that `function_of` names.
pub struct Run {
    pub watcher: Watcher,
    seq: u64,
}

/// Sites 10 to 19 are the function `f1`, and so on.
pub fn function_of(site: u32) -> String {
    format!("f{}", site / 10)
}

impl Run {
    pub fn new() -> Self {
        Run::with_options(Options::default())
    }

    pub fn with_options(options: Options) -> Self {
        let mut watcher = Watcher::with_options(options);
        watcher.begin(&Source::synthetic("test")).expect("the watcher takes every event");
        for site in 1..100 {
            let frame = Frame { function: function_of(site), file: "code.c".to_owned(), line: site };
            let site_of = Site { frames: vec![frame], ..Site::default() };
            watcher.define(Definition::Site(SiteId(site), &site_of)).expect("the watcher takes every event");
        }
        Run { watcher, seq: 0 }
    }

    pub fn on(&mut self, thread: u32, site: u32, instructions: u32, op: Op) {
        let events = [Event { op, site: SiteId(site), instructions }];
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &events, values: &[] };
        self.watcher.push(batch).expect("the watcher takes every event");
    }

    pub fn store(&mut self, site: u32, addr: u64, len: u32) {
        self.on(0, site, 2, Op::Store { addr, len });
    }

    pub fn load(&mut self, site: u32, addr: u64, len: u32) {
        self.on(0, site, 2, Op::Load { addr, len });
    }

    pub fn fence(&mut self) {
        self.on(0, 99, 1, Op::Fence(FenceKind::Locked));
    }

    /// Work without memory.
    pub fn compute(&mut self, instructions: u32) {
        self.seq += 1;
        let op = Op::Acquire { var: 8, order: Order::Acquire, seq: self.seq };
        self.on(0, 98, instructions, op);
    }

    pub fn advice(self, target: Option<Target>) -> Advice {
        let mut watcher = self.watcher;
        watcher.finish().expect("the watcher takes every event");
        watcher.advice(target)
    }

    pub fn choice(self, site: u32) -> Choice {
        place(&self.advice(None), site).choice
    }
}

pub fn place(advice: &Advice, site: u32) -> &PlaceAdvice {
    let found = advice.places().find(|place| place.line == site);
    found.unwrap_or_else(|| panic!("nothing about line {site}:\n{advice}"))
}

pub const MATRIX: u64 = 8 << 20;

/// Writes a matrix element by element, with a neighbouring input read beside each.
pub fn sweep(run: &mut Run, site: u32, out: u64, input: u64) {
    for at in (0..MATRIX).step_by(8) {
        run.load(site, input + at, 8);
        run.store(site, out + at, 8);
    }
}
