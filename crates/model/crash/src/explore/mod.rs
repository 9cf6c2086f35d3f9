//! Which images are examined.

mod cut;
mod expected;
mod fate;
mod hangs;
mod merged;
mod not_made;
mod points;
mod search;
mod shrink;
mod walker;
mod why;
mod window;

use std::collections::HashMap;

use crate::{Change, Contents, Finding, History, Image, MarkKind, Oracle, Token, TokenError};

pub(crate) use cut::Cut;
use fate::Fate;
use points::Points;
use search::Search;
pub(crate) use walker::Walker;
pub(crate) use walker::mix;
pub(crate) use window::Window;

/// How images are chosen at a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// [`Strategy::Targeted`] if the oracle reports what recovery read; else all images where the bound allows, and random ones where not.
    #[default]
    Auto,
    /// All images, as far as the bound goes.
    Exhaustive,
    /// Those that differ from the complete image in one cell, one line or one moment, then random ones, until the bound.
    Random,
    /// One of each set of images that differ only in lines which recovery does not read.
    Targeted,
}

/// How much is examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Images per cut.
    pub per_cut: u64,
    /// Findings after which the search ends.
    pub findings: usize,
    /// With several threads: how many items the others may be ahead of the observed run.
    pub ahead: usize,
    /// Whether the search may be broken off, so that its order matters however few crash points there are.
    pub hurried: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { per_cut: 4096, findings: 16, ahead: 4096, hurried: false }
    }
}

/// Images of a cut in the first passes of a search that may be broken off.
const FEW: [u64; 2] = [2, 16];

/// What a point added to an outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    cuts: u64,
    cut_short: u64,
}

/// Points that have more images than the passes before tried; none in the first pass, which is of all points.
type Left = Option<HashMap<usize, Counted>>;

/// What a search did and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Moments of the run at which a crash is worth trying.
    pub points: u64,
    /// Those of them that were.
    pub points_done: u64,
    /// Those of them that the search came to with few images only, for it was broken off before it came back.
    pub unfinished: u64,
    /// Cuts through the threads at these moments; with one thread there is one at each.
    pub cuts: u64,
    /// Cuts at which the bound ended the search before all images (that recovery can distinguish) were examined.
    pub cut_short: u64,
    /// Images that an oracle examined, each once, also if several parts did; what shrinking a finding tries
    /// is not among them.
    pub images: u64,
    /// Images that were the same as one examined before.
    pub repeated: u64,
    /// Images that were not examined: recovery would hang as on many that were.
    pub expected: u64,
    /// Images in which the oracle found something wrong.
    pub failing: u64,
    /// What is wrong, each once.
    pub findings: Vec<Finding>,
    /// Of a part of a search: the images that it met, by what makes two the same.
    pub(crate) met: HashMap<u128, Fate>,
}

/// A search through the images of a history.
#[derive(Clone, Copy, Debug)]
pub struct Checker<'h> {
    pub(crate) history: &'h History,
    pub(crate) contents: &'h Contents,
    /// How much is examined.
    pub bounds: Bounds,
    /// How images are chosen.
    pub strategy: Strategy,
    /// For everything that is left to chance.
    pub seed: u64,
}

impl Outcome {
    /// Takes back what a point added, which has been examined again.
    fn take(&mut self, counted: Counted) {
        self.cuts -= counted.cuts;
        self.cut_short -= counted.cut_short;
    }
}

impl<'h> Checker<'h> {
    /// A search with default bounds. `contents` is what the files held when the run began.
    #[must_use]
    pub fn new(history: &'h History, contents: &'h Contents) -> Self {
        Checker { history, contents, bounds: Bounds::default(), strategy: Strategy::Auto, seed: 1 }
    }

    /// How many points there are at which a crash is tried.
    #[must_use]
    pub fn point_count(&self) -> usize {
        Points::of(self.history, self.bounds.hurried).len() + self.history.left_out as usize
    }

    /// Examines every image that strategy and bounds allow, in the order of the run.
    pub fn run(&self, oracle: &mut dyn Oracle) -> Outcome {
        let points = Points::of(self.history, self.bounds.hurried);
        let mut search = Search::new(self, oracle);
        search.outcome.points = points.len() as u64 + self.history.left_out;
        for (point, before) in points.all() {
            search.point(point, before);
            if search.stopped {
                break;
            }
            search.outcome.points_done += 1;
            if search.outcome.findings.len() >= self.bounds.findings {
                break;
            }
        }
        search.finish()
    }

    /// Examines the part `part` of `parts`, so that several oracles can work at the same time; [`Outcome::merge`] puts the parts together.
    ///
    /// With little time each point gets a few images first, then more, then all that bounds allow: one point with many images
    /// would take the time of all others. A long run is gone through several times: first to where it did what it seldom does, then to places all over it, so that a search that is
    /// broken off has seen something of everything. `progress` gets the outcome so far after each point, and returns whether to go on.
    pub fn part(
        &self,
        part: usize,
        parts: usize,
        oracle: &mut dyn Oracle,
        progress: &mut dyn FnMut(&Outcome) -> bool,
    ) -> Outcome {
        let points = Points::of(self.history, self.bounds.hurried);
        let mut search = Search::new(self, oracle);
        search.outcome.points = points.len_of(part, parts) as u64;
        if part == 0 {
            search.outcome.points += self.history.left_out;
        }
        let unfinished = |left: &Left, more: &HashMap<usize, Counted>| {
            (more.len() + left.as_ref().map_or(0, HashMap::len)) as u64
        };
        let few = FEW.into_iter().filter(|few| self.bounds.hurried && *few < self.bounds.per_cut);
        // The points that have more images than were tried so far, with what they added to the outcome.
        let mut left: Left = None;
        'search: for bound in few.chain([self.bounds.per_cut]) {
            search.per_cut = bound;
            let mut more = HashMap::new();
            for round in 0..points.rounds() {
                if round > 0 || left.is_some() {
                    search.restart();
                }
                for (point, before) in points.round(round, part, parts) {
                    let again = match &left {
                        Some(left) if !left.contains_key(&point) => continue,
                        Some(left) => left[&point],
                        None => Counted::default(),
                    };
                    let counted = search.point(point, before);
                    if search.stopped {
                        if left.is_some() {
                            search.outcome.take(counted);
                        }
                        search.outcome.unfinished = unfinished(&left, &more);
                        progress(search.outcome());
                        break 'search;
                    }
                    search.outcome.take(again);
                    if let Some(left) = &mut left {
                        left.remove(&point);
                    } else {
                        search.outcome.points_done += 1;
                    }
                    if counted.cut_short > 0 && bound < self.bounds.per_cut {
                        more.insert(point, counted);
                    }
                    let enough = search.outcome.findings.len() >= self.bounds.findings;
                    if !progress(search.outcome()) || enough {
                        search.outcome.unfinished = unfinished(&left, &more);
                        break 'search;
                    }
                }
            }
            left = Some(more);
        }
        if parts > 1 { search.finish_part() } else { search.finish() }
    }

    /// Examines the complete, undisturbed image: all that the program did is done, and nothing of it is
    /// lost. `changes` are those of [`crate::Left::changes`]. The oracle has shown nothing before.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn undisturbed(&self, changes: &[Change], oracle: &mut dyn Oracle) -> Result<(), String> {
        let marks = &self.history.marks;
        let count = |is: fn(&MarkKind) -> bool| marks.iter().filter(|mark| is(&mark.kind)).count() as u64;
        oracle.examine(&Image {
            patience: crate::Patience::Full,
            history: self.history,
            changes,
            begun: count(|kind| matches!(kind, MarkKind::Begin(_))),
            ended: count(|kind| matches!(kind, MarkKind::End(_))),
            marks: marks.len(),
            more_marks: &[],
        })
    }

    /// Examines one image.
    ///
    /// # Errors
    /// When the token is not of this history.
    pub fn replay(&self, token: &Token, oracle: &mut dyn Oracle) -> Result<Option<Finding>, TokenError> {
        let mut search = Search::new(self, oracle);
        search.replay(token)
    }

    /// Whether one image fails, and no more of it. The oracle has shown nothing before.
    ///
    /// # Errors
    /// When the token is not of this history.
    pub fn fails(&self, token: &Token, oracle: &mut dyn Oracle) -> Result<bool, TokenError> {
        Search::new(self, oracle).fails(token)
    }

    /// What differs in the image of a token from what the files held when the run began.
    ///
    /// # Errors
    /// When the token is not of this history.
    pub fn image(&self, token: &Token) -> Result<Vec<Change>, TokenError> {
        let mut walker = Walker::new(self.history, self.contents);
        let before = walker.current.clone();
        Window::of_token(&mut walker, token)?;
        Ok(before.difference(&walker.current))
    }
}
