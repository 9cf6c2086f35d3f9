//! A scenario run two times, to find what it takes from elsewhere than its environment.

use event::{Collected, Event, Op, SinkError, ThreadId};

use super::env::Sim;
use super::run::{Run, run};
use super::schedule::Schedule;
use crate::{Image, Recorded, Recording};

/// Where two runs of one schedule part.
#[derive(Debug, thiserror::Error)]
pub enum Difference {
    /// An event.
    #[error("event {number} of two runs of {schedule} differs: first {first}, then {second}")]
    Event {
        /// Its number, from 0.
        number: usize,
        /// What happened in the first run.
        first: String,
        /// What happened in the second.
        second: String,
        /// The schedule of both.
        schedule: String,
    },
    /// The events are the same, but what was decided is not: something that makes no event, as a look at the
    /// clock.
    #[error(
        "two runs of one schedule have the same events but other decisions: first {first}, then {second}"
    )]
    Decisions {
        /// The first run's token.
        first: String,
        /// The second's.
        second: String,
    },
    /// Both had the same events and decisions, but did not fail alike.
    #[error("two runs with the same events ended differently: first {first}, then {second}")]
    Ends {
        /// How the first ended.
        first: String,
        /// How the second did.
        second: String,
    },
    /// The events could not be kept.
    #[error(transparent)]
    Sink(#[from] SinkError),
}

/// Runs `scenario` two times on fresh images of `len` bytes and compares the events with their stored values
/// and their places in the source, and the decisions. What the first run gave comes back if there is no
/// difference, also if both failed.
///
/// # Errors
/// The first event that differs, or what else does.
pub fn twice<R>(
    len: u64,
    schedule: &Schedule,
    scenario: impl Fn(&Sim<Recorded<Image, Collected>>) -> R,
) -> Result<Run<R, Image>, Difference> {
    let (first, events) = recorded(len, schedule, &scenario)?;
    let (second, events_again) = recorded(len, schedule, &scenario)?;
    if let Some((number, first, second)) = first_difference(&events, &events_again) {
        return Err(Difference::Event { number, first, second, schedule: schedule.to_string() });
    }
    if first.token != second.token {
        return Err(Difference::Decisions {
            first: first.token.to_string(),
            second: second.token.to_string(),
        });
    }
    let end = |run: &Run<R, Image>| run.result.as_ref().err().map(ToString::to_string);
    let (end, other) = (end(&first), end(&second));
    if end != other {
        let name = |end: Option<String>| end.unwrap_or_else(|| "well".to_owned());
        return Err(Difference::Ends { first: name(end), second: name(other) });
    }
    Ok(first)
}

fn recorded<R>(
    len: u64,
    schedule: &Schedule,
    scenario: impl Fn(&Sim<Recorded<Image, Collected>>) -> R,
) -> Result<(Run<R, Image>, Collected), SinkError> {
    let recording = Recording { values: true, ..Recording::persistent("strandline, run twice", "space") };
    let space = Recorded::new(Image::new(len), Collected::default(), &recording)?;
    let Run { result, token, explicit, space } = run(space, schedule, scenario);
    let (space, collected) = space.finish()?;
    Ok((Run { result, token, explicit, space }, collected))
}

/// The first event that differs, as it was in both.
fn first_difference(first: &Collected, second: &Collected) -> Option<(usize, String, String)> {
    let (mut one, mut other) = (Events::new(first), Events::new(second));
    (0..).find_map(|number| match (one.next(), other.next()) {
        (None, None) => Some(None),
        (a, b) if a == b => None,
        (a, b) => Some(Some((number, describe(a), describe(b)))),
    })?
}

/// The events of a stream, each with what it says.
struct Events<'a> {
    collected: &'a Collected,
    events: std::slice::Iter<'a, (ThreadId, Event)>,
    values: &'a [u8],
}

/// An event as both runs must have it: sites and names by what they stand for.
#[derive(PartialEq)]
struct Step<'a> {
    thread: ThreadId,
    op: Op,
    values: &'a [u8],
    name: Option<&'a str>,
    place: Option<(&'a str, u32)>,
}

impl<'a> Events<'a> {
    fn new(collected: &'a Collected) -> Self {
        Events { collected, events: collected.events.iter(), values: &collected.values }
    }

    fn next(&mut self) -> Option<Step<'a>> {
        let &(thread, Event { op, site, .. }) = self.events.next()?;
        let len = op.stored().map_or(0, |(_, len)| len as usize);
        let (values, rest) = self.values.split_at(len.min(self.values.len()));
        self.values = rest;
        let table = &self.collected.table;
        let name = match op {
            Op::Phase { name } | Op::Map { name, .. } => table.name(name),
            _ => None,
        };
        let frame = table.site(site).and_then(|site| site.frame());
        let place = frame.map(|frame| (frame.file.as_str(), frame.line));
        Some(Step { thread, op, values, name, place })
    }
}

fn describe(step: Option<Step<'_>>) -> String {
    let Some(Step { thread, op, values, name, place }) = step else {
        return "nothing, the run had ended".to_owned();
    };
    let mut text = format!("{op:x?} of thread {}", thread.0);
    if !values.is_empty() {
        text += &format!(" storing {:02x?}", &values[..values.len().min(16)]);
    }
    if let Some(name) = name {
        text += &format!(" named {name}");
    }
    if let Some((file, line)) = place {
        text += &format!(" at {file}:{line}");
    }
    text
}
