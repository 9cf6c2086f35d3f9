//! A program as a list of events, run through the linter and a modelled machine.
#![allow(dead_code)] // each test file uses its part

use advise::guidelines::Linter;
use advise::{Finding, Rule};
use event::{
    Batch, Definition, Event, FenceKind, FlushKind, Frame, NameId, Op, Sink, Site, SiteId, SiteTable, Source,
    Tee, ThreadId,
};
use machine::{Config, Figures, Machine};

/// Where the persistent range of the programs starts.
pub const POOL: u64 = 1 << 40;

/// Events of threads, in batches that end at fences.
#[derive(Clone, Default)]
pub struct Program {
    pub events: Vec<(ThreadId, Event)>,
}

impl Program {
    /// A program that maps 1 GiB at [`POOL`].
    pub fn persistent() -> Self {
        let mut program = Program::default();
        program.op(0, 0, Op::Map { addr: POOL, len: 1 << 30, name: NameId(1) });
        program
    }

    pub fn op(&mut self, thread: u32, site: u32, op: Op) {
        self.events.push((ThreadId(thread), Event { op, site: SiteId(site), instructions: 1 }));
    }

    pub fn load(&mut self, addr: u64, len: u32) {
        self.op(0, 9, Op::Load { addr, len });
    }

    pub fn store(&mut self, site: u32, addr: u64, len: u32) {
        self.op(0, site, Op::Store { addr, len });
    }

    pub fn store_nt(&mut self, site: u32, addr: u64, len: u32) {
        self.op(0, site, Op::StoreNt { addr, len });
    }

    /// Flushes every line of the bytes.
    pub fn flush(&mut self, site: u32, addr: u64, len: u64) {
        for line in addr / 64..=(addr + len - 1) / 64 {
            self.op(0, site, Op::Flush { addr: line * 64, kind: FlushKind::Clwb });
        }
    }

    pub fn fence(&mut self, site: u32, kind: FenceKind) {
        self.op(0, site, Op::Fence(kind));
    }

    /// Flushes the bytes and fences.
    pub fn persist(&mut self, site: u32, addr: u64, len: u64) {
        self.flush(site, addr, len);
        self.fence(site, FenceKind::Store);
    }

    /// Pushes everything.
    pub fn feed(&self, sink: &mut impl Sink, source: &Source) {
        sink.begin(source).expect("accepted");
        sink.define(Definition::Name(NameId(1), "/mnt/pmem/pool")).expect("accepted");
        for (id, site) in sites().sites() {
            sink.define(Definition::Site(id, site)).expect("accepted");
        }
        for (thread, events) in self.batches() {
            sink.push(Batch { thread, time_ns: 0, events: &events, values: &[] }).expect("accepted");
        }
        sink.finish().expect("accepted");
    }

    /// Consecutive events of one thread, ended by fences.
    fn batches(&self) -> Vec<(ThreadId, Vec<Event>)> {
        let mut batches: Vec<(ThreadId, Vec<Event>)> = Vec::new();
        let mut open = None;
        for &(thread, event) in &self.events {
            match batches.last_mut() {
                Some((_, events)) if open == Some(thread) => events.push(event),
                _ => batches.push((thread, vec![event])),
            }
            open = (!matches!(event.op, Op::Fence(_))).then_some(thread);
        }
        batches
    }

    /// Runs the program on a preset and asks the linter.
    pub fn advice_on(&self, preset: &str) -> Advice {
        let mut linter = Linter::default();
        let mut machine = Machine::new(&Config::preset(preset).expect("a preset")).expect("a machine");
        self.feed(&mut Tee(&mut linter, &mut machine), &Source::synthetic("test"));
        let figures = machine.into_figures();
        let findings = linter.findings(&figures, &sites());
        Advice { linter, figures, findings }
    }

    /// The same on 3D XPoint.
    pub fn advice(&self) -> Advice {
        self.advice_on("xpoint")
    }
}

/// What came out.
pub struct Advice {
    pub linter: Linter,
    pub figures: Figures,
    pub findings: Vec<Finding>,
}

impl Advice {
    /// The rule's finding, if it was given.
    pub fn of(&self, rule: Rule) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.rule == rule)
    }

    /// The rule's finding, which must be there, about the site and with at least the share.
    #[track_caller]
    pub fn expect(&self, rule: Rule, site: u32, share: f64) -> &Finding {
        let Some(finding) = self.of(rule) else { panic!("no {}: {:#?}", rule.name(), self.findings) };
        assert_eq!(finding.sites.first().map(|first| first.site), Some(SiteId(site)), "{finding:#?}");
        assert!(finding.share >= share && finding.share <= 1.0, "{finding:#?}");
        assert!(finding.remedy.contains(&format!("code{site} (code.c:{site})")), "{finding:#?}");
        finding
    }

    #[track_caller]
    pub fn silent_on(&self, rule: Rule) {
        assert_eq!(self.of(rule), None, "{:#?}", self.figures.focus().total);
    }
}

/// `code1 (code.c:1)` to `code9 (code.c:9)`.
pub fn sites() -> SiteTable {
    let mut table = SiteTable::default();
    for line in 1..10 {
        let frame = Frame { function: format!("code{line}"), file: "src/code.c".to_owned(), line };
        table.define_site(SiteId(line), Site { frames: vec![frame], ..Site::default() });
    }
    table
}

/// `n` in an order that visits each of `0..count` once; `count` is a power of two.
pub fn scattered(n: u64, count: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15 | 1) % count
}
