//! The search itself: cuts, choices, and what was seen before.

use std::collections::HashSet;
use std::rc::Rc;

use event::SiteId;

use super::cut::{self, Cut};
use super::expected::{Expected, Hang};
use super::fate::Fate;
use super::walker::Walker;
use super::window::Window;
use super::{Checker, Counted, Outcome, Strategy};
use crate::finding::Finding;
use crate::{Image, Oracle, Patience, Read, Token, TokenError};
use event::map::Map;

/// What became of an image.
#[derive(Clone, Debug)]
enum Seen {
    /// It is right; the lines that recovery read, if the oracle reports them.
    Right(Option<Rc<[Read]>>),
    /// It is wrong, and counted with this finding, if it is with one.
    Wrong(Option<usize>),
    /// It was not examined.
    Expected,
}

/// How many images are remembered.
const MEMORY: usize = 1 << 20;
/// Images with one cause after which it is known well enough.
const BLAMED_AFTER: u64 = 16;
/// Random images of a cut with more images than the bound allows, besides those that differ in what was stored or flushed last.
const RANDOM: u64 = 32;
/// How many failing images of a cut are shrunk: those of one cut mostly have one cause.
const SHRUNK: u32 = 4;

pub(super) struct Search<'c, 'h, 'o> {
    pub checker: &'c Checker<'h>,
    pub walker: Walker<'h>,
    pub oracle: &'o mut dyn Oracle,
    seen: Map<u128, Seen>,
    pub outcome: Outcome,
    /// Code whose stores alone made enough images fail: from then on they are kept, so that what else is wrong comes to light.
    blamed: HashSet<SiteId>,
    /// Known ways in which recovery hangs.
    pub hangs: Vec<Hang>,
    /// How long the next image is worth waiting for.
    pub patience: Patience,
    /// The run's point before this one.
    before: usize,
    /// Images of a cut in this pass.
    pub per_cut: u64,
    /// Failing images that are still to be shrunk at this cut.
    left_here: u32,
    /// Whether the oracle ended the search, so that images of this point are missing.
    pub stopped: bool,
    rng: u64,
}

impl<'c, 'h, 'o> Search<'c, 'h, 'o> {
    pub fn new(checker: &'c Checker<'h>, oracle: &'o mut dyn Oracle) -> Self {
        Search {
            checker,
            walker: Walker::new(checker.history, checker.contents),
            oracle,
            seen: Map::default(),
            outcome: Outcome::default(),
            blamed: HashSet::new(),
            hangs: Vec::new(),
            patience: Patience::Full,
            before: 0,
            per_cut: checker.bounds.per_cut,
            left_here: 0,
            stopped: false,
            rng: checker.seed,
        }
    }

    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    pub fn finish(self) -> Outcome {
        self.outcome
    }

    /// As [`Search::finish`] of a search that is one of several, which may have met the same images.
    pub fn finish_part(self) -> Outcome {
        let fate = |seen| match seen {
            Seen::Right(_) => Fate::Right,
            Seen::Wrong(finding) => Fate::Wrong(finding),
            Seen::Expected => Fate::Expected,
        };
        let met = self.seen.into_iter().map(|(key, seen)| (key, fate(seen))).collect();
        Outcome { met, ..self.outcome }
    }

    /// Goes back to the start of the run.
    pub fn restart(&mut self) {
        let mut walker = Walker::new(self.checker.history, self.checker.contents);
        walker.changes = std::mem::take(&mut self.walker.changes);
        walker.changes.extend(self.walker.current.difference(&walker.current));
        self.walker = walker;
    }

    /// Searches the cuts at a point; from one restart to the next, points come in ascending order. `before` is the run's point before it.
    /// What it added to the outcome.
    pub fn point(&mut self, point: usize, before: usize) -> Counted {
        let had = (self.outcome.cuts, self.outcome.cut_short);
        self.walker.advance(point);
        self.before = before;
        let mut reached = Vec::new();
        let Checker { history, bounds, strategy, .. } = *self.checker;
        let (cuts, complete) = cut::cuts(history, point, bounds, strategy);
        self.outcome.cut_short += u64::from(!complete);
        let several = cuts.len() > 1;
        for cut in cuts {
            if self.stopped {
                break;
            }
            let mut window = Window::open(&mut self.walker, &cut);
            let state = several.then(|| (self.walker.hash, window.begun, window.ended, window.shape()));
            if cut.ahead == 0 || window.reaches_ahead() && !reached.contains(&state) {
                reached.push(state);
                self.rng = self.checker.seed ^ (point as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                self.outcome.cuts += 1;
                self.left_here = SHRUNK;
                self.window(&cut, &mut window);
            }
            window.close(&mut self.walker);
        }
        Counted { cuts: self.outcome.cuts - had.0, cut_short: self.outcome.cut_short - had.1 }
    }

    fn window(&mut self, cut: &Cut, window: &mut Window) {
        let bound = self.per_cut;
        for site in &self.blamed {
            window.keep(self.checker.history, *site);
        }
        let all: Vec<usize> = window.open_cells().collect();
        let images = |window: &Window| window.images(&all);
        let complete = match self.checker.strategy {
            Strategy::Exhaustive => self.every(cut, window, &all, bound),
            Strategy::Random => {
                images(window) <= bound && self.every(cut, window, &all, bound)
                    || self.random(cut, window, bound)
            }
            Strategy::Targeted => self.targeted(cut, window, bound),
            Strategy::Auto => {
                let complete = vec![0; window.cells.len()];
                let _ = self.try_image(cut, window, &complete);
                if self.oracle.read().is_some() {
                    self.targeted(cut, window, bound)
                        || images(window) <= bound && self.every(cut, window, &all, bound)
                } else if images(window) <= bound {
                    self.every(cut, window, &all, bound)
                } else {
                    // What was stored or demanded since the last point has not been tried in any combination yet.
                    let fresh: Vec<usize> = window.fresh_cells(&self.walker, self.before).collect();
                    self.every(cut, window, &fresh, bound);
                    // A page that was written is eight cells of a file, far more than bounds allow in all combinations:
                    // each is at least lost and kept alone.
                    // So is each file.
                    let each = match self.checker.history.platform().is_files() {
                        true => 2 * (all.len() + window.open_files().len()) as u64,
                        false => 0,
                    };
                    self.random(cut, window, (RANDOM + each).min(bound));
                    false
                }
            }
        };
        self.outcome.cut_short += u64::from(!complete);
    }

    /// All images that differ from the complete one in these cells, in turn. Whether the bound allowed that.
    fn every(&mut self, cut: &Cut, window: &mut Window, cells: &[usize], bound: u64) -> bool {
        let mut choices = vec![0; window.cells.len()];
        for _ in 0..bound {
            if self.try_image(cut, window, &choices).is_none() {
                return true;
            }
            // The next one, as an odometer goes.
            let wheel = cells.iter().find(|&&at| {
                choices[at] = window.next_choice(at, choices[at]);
                choices[at] != 0
            });
            if wheel.is_none() {
                return true;
            }
        }
        false
    }

    /// Images that differ little from the complete and from the poorest one, then random ones. Never all.
    fn random(&mut self, cut: &Cut, window: &mut Window, bound: u64) -> bool {
        let most = vec![0; window.cells.len()];
        let least: Vec<u32> = (0..most.len()).map(|at| window.least_choice(at)).collect();
        let mut left = bound;
        let mut attempt = |search: &mut Self, window: &mut Window, choices: &[u32]| {
            left = left.saturating_sub(1);
            search.try_image(cut, window, choices);
            left > 0
        };
        let go = attempt(self, window, &most) && attempt(self, window, &least);
        if !go {
            return false;
        }
        // One file differs: what orders its bytes among themselves says nothing of other files. So many cells
        // are lost at once by chance hardly ever.
        let files = match self.checker.history.platform().is_files() {
            true => window.open_files(),
            false => Vec::new(),
        };
        let several = files.len() > 1;
        for cells in files.iter().filter(|_| several).take(bound as usize / 4) {
            let (mut choices, mut others) = (most.clone(), least.clone());
            for &at in cells {
                (choices[at], others[at]) = (least[at], 0);
            }
            if !attempt(self, window, &choices) || !attempt(self, window, &others) {
                return false;
            }
        }
        // One cell differs, in the order of the latest stores first.
        let mut order: Vec<usize> = (0..most.len()).filter(|&at| least[at] > 0).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(window.cells[at].atoms.last().copied()));
        for &at in &order {
            let mut choices = most.clone();
            choices[at] = least[at];
            let mut others = least.clone();
            others[at] = 0;
            if !attempt(self, window, &choices) || !attempt(self, window, &others) {
                return false;
            }
        }
        loop {
            let density = self.chance() % 8 + 1;
            let mut choices = most.clone();
            for (at, choice) in choices.iter_mut().enumerate() {
                if self.chance() % 8 < density {
                    let any = (self.chance() % u64::from(window.cells[at].choices())) as u32;
                    *choice = if window.allows(at, any) { any } else { 0 };
                }
            }
            if !attempt(self, window, &choices) {
                return false;
            }
        }
    }

    /// One image of each set that recovery cannot distinguish. Returns whether the bound allowed that.
    ///
    /// A run of recovery depends only on the words that it read. So it decides all images that agree with its own in these; the
    /// others are divided by the first cell in which they differ there.
    fn targeted(&mut self, cut: &Cut, window: &mut Window, bound: u64) -> bool {
        let whole: Vec<Rc<[u32]>> = (0..window.cells.len()).map(|at| window.allowed(at)).collect();
        // For each cell the choices that are open; the image has the first of each.
        let mut sets = vec![whole];
        let mut left = bound;
        while let Some(mut set) = sets.pop() {
            if left == 0 {
                return false;
            }
            left -= 1;
            let choices: Vec<u32> = set.iter().map(|open| open[0]).collect();
            let Some(read) = self.try_image(cut, window, &choices) else { return true };
            let Some(read) = read else { return false };
            for at in window.cells_read(&read) {
                if set[at].len() == 1 {
                    continue;
                }
                let mut same = Vec::new();
                let mut others: Vec<(Vec<u64>, Vec<u32>)> = Vec::new();
                let own = window.values(&self.walker, at, set[at][0], &read);
                for &choice in &*set[at] {
                    let values = window.values(&self.walker, at, choice, &read);
                    if values == own {
                        same.push(choice);
                    } else if let Some((_, class)) = others.iter_mut().find(|(other, _)| *other == values) {
                        class.push(choice);
                    } else {
                        others.push((values, vec![choice]));
                    }
                }
                set[at] = same.into();
                for (_, class) in others {
                    let mut other = set.clone();
                    other[at] = class.into();
                    sets.push(other);
                }
            }
        }
        true
    }

    /// Examines an image. `None` if enough was found at this cut; else the lines that recovery
    /// read, if the oracle reports them.
    fn try_image(&mut self, cut: &Cut, window: &mut Window, choices: &[u32]) -> Option<Option<Rc<[Read]>>> {
        window.set(&mut self.walker, choices);
        let key = self.walker.hash ^ u128::from(window.ended) << 64 ^ u128::from(window.begun) << 96;
        match self.seen.get(&key) {
            Some(Seen::Right(read)) => {
                self.outcome.repeated += 1;
                return Some(read.clone());
            }
            Some(Seen::Wrong(_) | Seen::Expected) => {
                self.outcome.repeated += 1;
                return Some(self.oracle.read().map(|_| Rc::default()));
            }
            None => {}
        }
        if self.oracle.stopped() {
            self.stopped = true;
            return None;
        }
        if self.seen.len() >= MEMORY {
            self.seen.clear();
        }
        let expected = self.expected();
        if let Expected::Skipped = expected {
            self.outcome.expected += 1;
            self.seen.insert(key, Seen::Expected);
            return Some(self.oracle.read().map(|_| Rc::default()));
        }
        self.outcome.images += 1;
        let (judged, hangs) = match expected {
            Expected::Examined(hang) => self.examine_expected(window, hang),
            _ => (self.examine(window), None),
        };
        match judged {
            Ok(()) => {
                let read: Option<Rc<[Read]>> = self.oracle.read().map(Rc::from);
                self.seen.insert(key, Seen::Right(read.clone()));
                Some(read)
            }
            Err(message) => {
                self.outcome.failing += 1;
                let read: Option<Rc<[Read]>> = self.oracle.read().map(Rc::from);
                let known = if hangs.is_some() { hangs } else { self.known(window, choices, &message) };
                if known.is_some() {
                    self.seen.insert(key, Seen::Wrong(known));
                    return Some(read);
                }
                let finding = self.shrink_failing(cut, window, choices, message);
                self.learn(&finding);
                let same = self.outcome.findings.iter().position(|known| known.is_same(&finding));
                let at = same.unwrap_or(self.outcome.findings.len());
                self.seen.insert(key, Seen::Wrong(Some(at)));
                match same {
                    Some(known) => self.outcome.findings[known].images += 1,
                    None => self.outcome.findings.push(finding),
                }
                self.left_here = self.left_here.saturating_sub(1);
                let enough =
                    self.left_here == 0 || self.outcome.findings.len() >= self.checker.bounds.findings;
                (!enough).then_some(read)
            }
        }
    }

    /// The finding that the image is counted with: it fails with its message and lacks stores of the same
    /// code.
    fn known(&mut self, window: &Window, choices: &[u32], message: &str) -> Option<usize> {
        let history = self.checker.history;
        let lost = |site| {
            choices
                .iter()
                .zip(&window.cells)
                .any(|(&choice, cell)| cell.missing(choice).any(|at| history.atoms[at as usize].site == site))
        };
        let at = self.outcome.findings.iter().position(|known| {
            known.has_message_like(message) && known.missing.iter().all(|missing| lost(missing.site))
        })?;
        let known = &mut self.outcome.findings[at];
        known.images += 1;
        if known.images >= BLAMED_AFTER
            && let [missing] = &*known.missing
        {
            self.blamed.insert(missing.site);
        }
        Some(at)
    }

    /// Lets the oracle examine what the window shows.
    pub fn examine(&mut self, window: &Window) -> Result<(), String> {
        let (marks, begun, ended) = (self.walker.marks, window.begun, window.ended);
        self.examine_with(marks, &window.more_marks, begun, ended)
    }

    pub fn examine_with(
        &mut self,
        marks: usize,
        more_marks: &[u32],
        begun: u64,
        ended: u64,
    ) -> Result<(), String> {
        let image = Image {
            history: self.checker.history,
            changes: &self.walker.changes,
            begun,
            ended,
            patience: self.patience,
            marks,
            more_marks,
        };
        let result = self.oracle.examine(&image);
        self.walker.changes.clear();
        result
    }

    /// Xorshift64*: enough for choosing images.
    fn chance(&mut self) -> u64 {
        self.rng ^= self.rng >> 12;
        self.rng ^= self.rng << 25;
        self.rng ^= self.rng >> 27;
        self.rng.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Whether the image of a token fails.
    pub fn fails(&mut self, token: &Token) -> Result<bool, TokenError> {
        let (window, _) = Window::of_token(&mut self.walker, token)?;
        Ok(self.examine(&window).is_err())
    }

    /// Examines the image of a token.
    pub fn replay(&mut self, token: &Token) -> Result<Option<Finding>, TokenError> {
        let (mut window, choices) = Window::of_token(&mut self.walker, token)?;
        let finding = match self.examine(&window) {
            Ok(()) => None,
            Err(message) => Some(self.describe(&token.cut, &mut window, &choices, message)),
        };
        window.close(&mut self.walker);
        Ok(finding)
    }
}
