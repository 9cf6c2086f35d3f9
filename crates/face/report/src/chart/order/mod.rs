//! The steps around a failing crash: a lane per thread, a row per step, and what waits for what.
//!
//! A step's fate shows in its shape, its colour and a word, so that no reader depends on one of them.

mod draw;

use std::fmt::Write;

use crash::{Fate, History, MarkKind, Picture, Platform, What};
use event::ThreadId;

pub use draw::order;

use crate::human::plural;

/// What kind of thing a step is; decides its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Bytes were stored.
    Store,
    /// A line was sent towards memory.
    Flush,
    /// Later stores wait here.
    Fence,
    /// The program said something.
    Mark,
}

/// A row of an [`Order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderStep {
    /// Index of its thread in [`Order::lanes`].
    pub lane: usize,
    /// Its shape.
    pub kind: StepKind,
    /// What the crash made of it.
    pub fate: Fate,
    /// What was done: `store 8 B`.
    pub what: String,
    /// Where: `pool+0x40`; empty if nowhere.
    pub place: String,
    /// By which code: `put (shapes.c:82)`; empty if by none.
    pub code: String,
    /// Steps before it that are not shown.
    pub left_out: u64,
}

/// The steps around a crash, in the order of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// What it shows, in a line.
    pub title: String,
    /// Names of the threads.
    pub lanes: Vec<String>,
    /// The rows.
    pub steps: Vec<OrderStep>,
    /// The crash fell behind so many of them.
    pub crash: usize,
    /// The second step of a pair carries the first one on its way.
    pub carried: Vec<(usize, usize)>,
    /// A step that was lost, and one that survived although nothing made it wait for the first.
    pub unordered: Vec<(usize, usize)>,
}

impl Order {
    /// The picture of a finding with names instead of numbers.
    #[must_use]
    pub fn of(picture: &Picture, history: &History) -> Order {
        let shown = shown(picture);
        let mut threads: Vec<ThreadId> = shown.iter().map(|&(at, _)| picture.steps[at].thread).collect();
        threads.sort_unstable();
        threads.dedup();
        let number = |at: usize| shown.iter().position(|&(shown, _)| shown == at);
        let pairs = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
            pairs.iter().filter_map(|&(from, to)| Some((number(from)?, number(to)?))).collect()
        };
        let step = |&(at, left_out): &(usize, u64)| OrderStep::of(picture, at, left_out, &threads, history);
        Order {
            title: "The steps around the crash".to_owned(),
            lanes: threads.iter().map(|thread| format!("thread {}", thread.0)).collect(),
            steps: shown.iter().map(step).collect(),
            crash: shown.iter().filter(|&&(at, _)| at < picture.crash).count(),
            carried: pairs(&picture.waits),
            unordered: pairs(&picture.unordered),
        }
    }

    /// Pairs of steps that are there.
    fn known<'a>(
        &self,
        pairs: &'a [(usize, usize)],
    ) -> impl DoubleEndedIterator<Item = (usize, usize)> + use<'a> {
        let count = self.steps.len();
        pairs.iter().copied().filter(move |&(from, to)| from < count && to < count)
    }

    /// The steps that a surviving one should have waited for, by its row: both from 1, as the picture numbers
    /// them.
    fn missing(&self) -> Vec<(usize, Vec<usize>)> {
        let mut missing: Vec<(usize, Vec<usize>)> = Vec::new();
        for (lost, survivor) in self.known(&self.unordered) {
            match missing.iter_mut().find(|(row, _)| *row == survivor + 1) {
                Some((_, lost_rows)) => lost_rows.push(lost + 1),
                None => missing.push((survivor + 1, vec![lost + 1])),
            }
        }
        missing
    }

    /// The picture in words, for those who can't see it.
    fn description(&self) -> String {
        let mut text = String::new();
        for (at, step) in self.steps.iter().enumerate() {
            if at == self.crash {
                text.push_str("The crash. ");
            }
            if step.left_out > 0 {
                let _ = write!(text, "{}. ", not_shown(step.left_out));
            }
            let _ = write!(text, "{}. ", self.sentence(at));
        }
        if self.crash >= self.steps.len() {
            text.push_str("The crash. ");
        }
        for (survivor, lost) in self.missing() {
            let _ = write!(text, "{}. ", no_order(survivor, &lost));
        }
        text.trim_end().to_owned()
    }

    /// A step in words.
    fn sentence(&self, at: usize) -> String {
        let step = &self.steps[at];
        let mut text = format!("{}: {}", at + 1, step.what);
        for (before, part) in [(" at ", &step.place), (", ", &step.code)] {
            if !part.is_empty() {
                let _ = write!(text, "{before}{part}");
            }
        }
        if let Some(lane) = self.lanes.get(step.lane) {
            let _ = write!(text, ", {lane}");
        }
        if !word(step.fate).is_empty() {
            let _ = write!(text, ": {}", word(step.fate));
        }
        text
    }
}

impl OrderStep {
    fn of(picture: &Picture, at: usize, left_out: u64, threads: &[ThreadId], history: &History) -> OrderStep {
        let step = &picture.steps[at];
        OrderStep {
            lane: threads.iter().position(|&thread| thread == step.thread).unwrap_or(0),
            kind: match step.what {
                What::Store { .. } => StepKind::Store,
                What::Flush { .. } => StepKind::Flush,
                What::Fence => StepKind::Fence,
                What::Mark(_) => StepKind::Mark,
            },
            fate: step.fate,
            what: what(picture, at, history),
            place: match step.what {
                What::Store { place, .. } | What::Flush { line: place } => history.place_name(place),
                What::Fence | What::Mark(_) => String::new(),
            },
            code: history.table().site(step.site).map(ToString::to_string).unwrap_or_default(),
            left_out,
        }
    }
}

/// The steps that are shown, each with the number of those left out before it. Behind the crash that is the
/// next step, and what would have taken stores before the crash to memory.
fn shown(picture: &Picture) -> Vec<(usize, u64)> {
    let count = picture.steps.len();
    let mut wanted: Vec<bool> = (0..count).map(|at| at <= picture.crash).collect();
    // Pairs go forward, so one that carries a carrier comes later.
    for &(from, to) in &picture.waits {
        wanted[to] |= wanted[from] && from != picture.crash;
    }
    let mut left_out = 0;
    let mut shown = Vec::new();
    for (at, step) in picture.steps.iter().enumerate() {
        left_out += step.left_out;
        if wanted[at] {
            shown.push((at, std::mem::take(&mut left_out)));
        } else {
            left_out += 1;
        }
    }
    shown
}

/// What a step did, in few words.
fn what(picture: &Picture, at: usize, history: &History) -> String {
    let platform = history.platform();
    let step = &picture.steps[at];
    match step.what {
        What::Store { bytes, .. } if platform.is_files() => format!("write {bytes} B"),
        What::Store { bytes, non_temporal: true, .. } => format!("nt store {bytes} B"),
        What::Store { bytes, .. } => format!("store {bytes} B"),
        What::Flush { .. } => "flush".to_owned(),
        What::Fence if platform.is_files() => "sync".to_owned(),
        What::Fence if platform == Platform::STRAND => "persist barrier".to_owned(),
        // With eADR a cached store is durable at once, as if a fence of its own came behind it.
        What::Fence => {
            let before = at.checked_sub(1).map(|before| &picture.steps[before]);
            let own = |before: &&crash::Step| {
                matches!(before.what, What::Store { .. })
                    && before.site == step.site
                    && before.thread == step.thread
            };
            let at_once = platform == Platform::EADR && before.filter(own).is_some();
            if at_once { "durable at once" } else { "fence" }.to_owned()
        }
        What::Mark(MarkKind::Begin(region)) => format!("region {region} begins"),
        What::Mark(MarkKind::End(region)) => format!("region {region} ends"),
        What::Mark(MarkKind::Phase(name)) => {
            format!("phase {}", history.table().name(name).unwrap_or("without a name"))
        }
    }
}

/// The word for a fate; none for what needs none.
fn word(fate: Fate) -> &'static str {
    match fate {
        Fate::Durable => "durable",
        Fate::Survived => "survived",
        Fate::Lost => "lost",
        Fate::Done => "",
        Fate::NotReached => "not reached",
    }
}

fn not_shown(steps: u64) -> String {
    format!("{} elsewhere not shown", plural(usize::try_from(steps).unwrap_or(usize::MAX), "step"))
}

/// Rows of lost steps that are named; the others are counted.
const NAMED_MAX: usize = 4;

fn no_order(survivor: usize, lost: &[usize]) -> String {
    let named: Vec<String> = lost.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = lost.len().saturating_sub(NAMED_MAX);
    let and = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("nothing makes {survivor} wait for {}{and}", named.join(", "))
}
