//! The watcher at a price that a profile can pay.
//!
//! Following every line that a program writes costs several times what counting it does. What a program does
//! to its data it does over and over, though, so a profile looks at it in *bursts*: for [`WATCHED`] events
//! all is watched, for as many more only what becomes of the data written in the first part, and then nothing
//! until so much has gone by that bursts are a small part of the whole ([`APART`]). Phases are followed all
//! the time, and a new one begins with a burst.
//!
//! What a burst can't see is a use that comes later than its second part is long. So it can't tell data that
//! nobody uses from data that somebody uses late, and whoever shows the advice must not say *skip* (see
//! [`Bursts::advice`]).

use event::{
    Batch, BlockBatch, Capabilities, Definition, Event, NameId, Op, RunSink, Sink, SinkError, Source,
};

use super::advice::{Advice, Choice, Target};
use super::watcher::Watcher;

/// Events of a part of a burst.
const WATCHED: u64 = 1 << 20;
/// Events for each event of a burst, at least, before another begins.
const APART: u64 = 48;
/// Phases that begin with a burst.
const PHASES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Writes are watched, and what becomes of the data.
    Watching,
    /// Only what becomes of the data.
    Following,
    Idle,
}

/// A [`Watcher`] that looks now and then.
#[derive(Debug)]
pub struct Bursts {
    watcher: Watcher,
    part: Part,
    /// Events of the part that lasts, until it ends.
    left: u64,
    /// Events of all parts but the idle ones, and all events.
    watched: u64,
    all: u64,
    /// Whether it ever looked away.
    gaps: bool,
    /// Phases that began, up to [`PHASES`].
    begun: Vec<NameId>,
}

impl Default for Bursts {
    fn default() -> Self {
        let watcher = Watcher::default();
        Bursts {
            watcher,
            part: Part::Watching,
            left: WATCHED,
            watched: 0,
            all: 0,
            gaps: false,
            begun: Vec::new(),
        }
    }
}

impl Bursts {
    /// Events that were watched, as a part of all.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn watched(&self) -> f64 {
        if self.all == 0 { 1.0 } else { self.watched as f64 / self.all as f64 }
    }

    /// What to do. If not all events were watched, data that may skip the cache are to be cleaned: it is
    /// right for them as well, and does no harm where a use was missed.
    #[must_use]
    pub fn advice(&self, target: Option<Target>) -> Advice {
        let mut advice = self.watcher.advice(target);
        let places = advice.phases.iter_mut().flat_map(|phase| &mut phase.places);
        for place in places.filter(|place| self.gaps && place.choice == Choice::Skip) {
            place.choice = Choice::Clean;
            "most of it is not used again, as far as was watched".clone_into(&mut place.reason);
        }
        advice
    }

    /// So many events come. Returns whether they are to be watched.
    fn count(&mut self, events: usize) -> bool {
        let events = events as u64;
        self.all += events;
        self.left = self.left.saturating_sub(events);
        let looks = self.part != Part::Idle;
        if looks {
            self.watched += events;
        }
        looks
    }

    /// The part ends if it lasted long enough. Batches stay whole.
    fn go_on(&mut self) {
        if self.left > 0 {
            return;
        }
        (self.part, self.left) = match self.part {
            Part::Watching => {
                self.watcher.follow();
                (Part::Following, WATCHED)
            }
            Part::Following => {
                self.gaps = true;
                (Part::Idle, (self.watched * APART).saturating_sub(self.all).max(1))
            }
            Part::Idle => {
                self.watcher.restart();
                (Part::Watching, WATCHED)
            }
        };
    }

    /// Phases, while nothing else matters.
    fn phases<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        for event in events {
            if let Op::Phase { name } = event.op {
                self.watcher.enter(name);
                if self.begun.len() < PHASES && !self.begun.contains(&name) {
                    self.begun.push(name);
                    self.left = 0;
                }
            }
        }
    }
}

impl Sink for Bursts {
    fn name(&self) -> &'static str {
        self.watcher.name()
    }

    fn needs(&self) -> Capabilities {
        self.watcher.needs()
    }

    fn begin(&mut self, source: &Source) -> Result<(), SinkError> {
        self.watcher.begin(source)
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.watcher.define(definition)
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        if self.count(batch.events.len()) {
            self.watcher.push(batch)?;
        } else if self.watcher.has_names() {
            self.phases(batch.events.iter());
        }
        self.go_on();
        Ok(())
    }

    fn as_runs(&mut self) -> Option<&mut dyn RunSink> {
        Some(self)
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.watcher.finish()
    }
}

impl RunSink for Bursts {
    fn push_blocks(&mut self, batch: BlockBatch<'_>) -> Result<(), SinkError> {
        if self.count(batch.count) {
            self.watcher.push_blocks(batch)?;
        } else {
            self.phases(batch.events.iter());
        }
        self.go_on();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use event::{SiteId, ThreadId};

    use super::*;

    fn push(bursts: &mut Bursts, ops: impl Iterator<Item = Op>) {
        let events: Vec<Event> = ops.map(|op| Event { op, site: SiteId(1), instructions: 2 }).collect();
        for events in events.chunks(512) {
            let batch = Batch { thread: ThreadId(0), time_ns: 0, events, values: &[] };
            bursts.push(batch).expect("the watcher takes every event");
        }
    }

    fn sweep(bursts: &mut Bursts, base: u64, lines: u64) {
        push(bursts, (0..lines * 8).map(|word| Op::Store { addr: base + word * 8, len: 8 }));
    }

    #[test]
    fn a_long_run_is_watched_in_parts() {
        let mut bursts = Bursts::default();
        for part in 0..24u64 {
            sweep(&mut bursts, (1 << 32) + (part << 28), 1 << 19);
        }
        bursts.finish().expect("it ends");
        assert!((0.02..0.06).contains(&bursts.watched()), "{}", bursts.watched());
        let advice = bursts.advice(None);
        let choices: Vec<Choice> = advice.places().map(|place| place.choice).collect();
        assert_eq!(choices, [Choice::Clean], "never skip on so little evidence: {advice}");
    }

    #[test]
    fn a_short_run_is_watched_whole() {
        let mut bursts = Bursts::default();
        sweep(&mut bursts, 1 << 32, 1 << 14);
        bursts.finish().expect("it ends");
        assert!((bursts.watched() - 1.0).abs() < f64::EPSILON);
        assert_eq!(bursts.advice(None).places().next().map(|place| place.choice), Some(Choice::Skip));
    }

    #[test]
    fn what_is_written_again_in_the_second_part_counts() {
        let mut bursts = Bursts::default();
        // The same quarter of a MiB over and over, through both parts and the time between.
        for _ in 0..300 {
            sweep(&mut bursts, 1 << 32, 1 << 12);
        }
        bursts.finish().expect("it ends");
        let advice = bursts.advice(None);
        assert_eq!(advice.places().next().map(|place| place.choice), Some(Choice::Nothing), "{advice}");
    }

    #[test]
    fn a_phase_that_begins_is_watched() {
        let mut bursts = Bursts::default();
        for (id, name) in [(NameId(1), "load"), (NameId(2), "run")] {
            bursts.define(Definition::Name(id, name)).expect("a name");
        }
        push(&mut bursts, std::iter::once(Op::Phase { name: NameId(1) }));
        sweep(&mut bursts, 1 << 32, 1 << 19);
        push(&mut bursts, std::iter::once(Op::Phase { name: NameId(2) }));
        sweep(&mut bursts, 2 << 32, 1 << 14);
        bursts.finish().expect("it ends");
        let judged: Vec<_> = bursts.advice(None).phases.into_iter().filter(|phase| phase.judged).collect();
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].phase.as_deref(), Some("run"));
        assert_eq!(judged[0].places.len(), 1);
    }
}
