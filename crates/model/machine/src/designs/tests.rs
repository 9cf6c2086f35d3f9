//! What the machine calls a design for: a design that writes down what it is asked and behaves as total store order.

use std::sync::{Arc, Mutex};

use event::{Batch, Capabilities, Event, NameId, Op, Sink, SiteId, Source, StrandMark, ThreadId};

use super::as_tso::as_tso;
use super::persistency::{Notice, Persistency, RegionMark};
use super::skeleton::Name;
use super::tso::Tso;
use crate::simulation::{Later, Shared, TimedCore};
use crate::{Config, PERSISTENT, Simulation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Region(RegionMark),
    Strand(StrandMark),
    Notice(Notice),
}

struct Watching {
    tso: Tso,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Watching {
    fn note(&self, call: Call) {
        self.calls.lock().expect("no panic").push(call);
    }
}

impl Persistency for Watching {
    as_tso!(write_slots, leaves_hits_alone, store, flush, fence, publish);

    fn needs(&self) -> Capabilities {
        Capabilities::REGIONS
    }

    fn wants_notices(&self) -> bool {
        true
    }

    fn region(&mut self, _: &mut TimedCore, mark: RegionMark, _: u32, _: &mut Shared) -> Result<(), Later> {
        self.note(Call::Region(mark));
        Ok(())
    }

    fn strand(&mut self, _: &mut TimedCore, mark: StrandMark, _: u32, _: &mut Shared) -> Result<(), Later> {
        self.note(Call::Strand(mark));
        Ok(())
    }

    fn notice(&mut self, _: &mut TimedCore, notice: Notice, _: &mut Shared) {
        self.note(Call::Notice(notice));
    }
}

/// Of small caches.
fn config() -> Config {
    let small = [("l2.size", "64KiB"), ("llc.size", "704KiB")];
    Config::preset("xpoint").and_then(|config| config.with_overrides(&small)).expect("a valid description")
}

/// What the design was called for, as threads of those numbers did this.
fn calls(ops: impl IntoIterator<Item = (u32, Op)>) -> Vec<Call> {
    let config = config();
    let calls = Arc::default();
    let watching = Watching { tso: Tso::new(&config), calls: Arc::clone(&calls) };
    let mut simulation = Simulation::with_design(&config, Box::new(watching)).expect("a valid description");
    simulation.begin(&Source::synthetic("test")).expect("it has all marks");
    for (thread, op) in ops {
        let event = Event { op, site: SiteId(0), instructions: 1_000_000 };
        let batch = Batch { thread: ThreadId(thread), time_ns: 0, events: &[event], values: &[] };
        simulation.push(batch).expect("a sound batch");
    }
    simulation.finish().expect("a sound stream");
    let calls = calls.lock().expect("no panic");
    calls.clone()
}

#[test]
fn every_mark_reaches_the_design() {
    let marks = [StrandMark::Barrier, StrandMark::New, StrandMark::Join];
    let ops = marks.map(|mark| (0, Op::Strand(mark)));
    assert_eq!(calls(ops), marks.map(Call::Strand));
    let region = [(0, Op::RegionBegin { region: 3 }), (0, Op::RegionEnd { region: 3 })];
    assert_eq!(calls(region), [RegionMark::Begin(3), RegionMark::End(3)].map(Call::Region));
}

#[test]
fn a_design_sees_requests_of_other_cores_and_no_hits() {
    let [store, load] = [Op::Store { addr: 64, len: 8 }, Op::Load { addr: 64, len: 8 }];
    let snooped = |by, own| Call::Notice(Notice::Snooped { line: 1, by, own });
    let seen = calls([(0, store), (0, store), (0, load), (1, load), (1, load), (1, store)]);
    let snoops: Vec<Call> = seen
        .into_iter()
        .filter(|call| matches!(call, Call::Notice(Notice::Snooped { line: 1, .. })))
        .collect();
    assert_eq!(snoops, [snooped(0, true), snooped(1, false), snooped(1, true)]);
}

#[test]
fn a_design_sees_what_leaves_its_caches() {
    let config = config();
    let lines = 2 * (config.l2.size.0 + config.llc.size.0) / 64;
    let map = (0, Op::Map { addr: 0, len: lines * 64, name: NameId(0) });
    let stores = (0..lines).map(|line| (0, Op::Store { addr: line * 64, len: 64 }));
    let seen = calls([map].into_iter().chain(stores));
    let first = PERSISTENT;
    let left_core = Call::Notice(Notice::LeftCore { line: first, thread: 0, dirty: true });
    assert!(seen.contains(&left_core), "the first line makes room for others");
    let left_caches = |call: &Call| matches!(call, Call::Notice(Notice::LeftCaches { line, thread: 0, .. }) if line & PERSISTENT != 0);
    assert!(seen.iter().filter(|call| left_caches(call)).count() as u64 > lines / 3);
}

/// The skeleton of `docs/new-design.md` is a design: strict persistency, in which each store waits for the one before.
#[test]
fn the_skeleton_of_the_docs_works() {
    let page = include_str!("../../../../../docs/new-design.md");
    assert!(
        page.contains(include_str!("skeleton.rs")),
        "the page has another skeleton than designs/skeleton.rs"
    );
    let config = Config::preset("table-5.1").expect("a preset");
    let mut simulation =
        Simulation::with_design(&config, Box::new(Name::new(&config))).expect("a valid description");
    simulation.keep_persists(0, 16);
    simulation.begin(&Source::synthetic("test")).expect("it has all marks");
    let map = Op::Map { addr: 0, len: 1 << 20, name: NameId(0) };
    let stores = (0..8).map(|line| Op::Store { addr: line * 64, len: 8 });
    let events = [map].into_iter().chain(stores).map(|op| Event { op, site: SiteId(0), instructions: 1 });
    let events: Vec<Event> = events.collect();
    simulation.push(Batch { thread: ThreadId(0), time_ns: 0, events: &events, values: &[] }).expect("sound");
    simulation.finish().expect("a sound stream");
    simulation.audit().expect("books that balance");
    let persists = simulation.figures().persists;
    assert_eq!(persists.len(), 8);
    assert!(persists.windows(2).all(|pair| pair[1].left >= pair[0].durable), "{persists:?}");
}
