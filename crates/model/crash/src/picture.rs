//! The steps around a failing crash: what waited for what, where the crash fell, what was lost.

use std::collections::{HashMap, HashSet};

use event::{SiteId, ThreadId};

use crate::explore::Walker;
use crate::explore::Window;
use crate::files::{LENGTHS, NAMES};
use crate::history::Item;
use crate::{Checker, Finding, History, MarkKind, Place, TokenError, Witness};

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes were stored.
    Store {
        /// The first of them.
        place: Place,
        /// How many.
        bytes: u64,
        /// Non-temporal.
        non_temporal: bool,
    },
    /// A line was flushed.
    Flush {
        /// Its first byte.
        line: Place,
    },
    /// A fence, or what else makes later stores wait.
    Fence,
    /// The program said something.
    Mark(MarkKind),
}

/// What the crash made of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A store that had to survive.
    Durable,
    /// A store that survived by chance: its line was written back early.
    Survived,
    /// A store that was lost.
    Lost,
    /// A flush, fence or mark before the crash.
    Done,
    /// The crash came before it.
    NotReached,
}

/// A row of the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose.
    pub thread: ThreadId,
    /// The code; [`SiteId::UNKNOWN`] for marks.
    pub site: SiteId,
    /// What it did.
    pub what: What,
    /// What became of it.
    pub fate: Fate,
    /// Steps of other lines between the step before and this one, which are not shown.
    pub left_out: u64,
}

/// Steps in the order of the run, and which waits for which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// Rows.
    pub steps: Vec<Step>,
    /// The crash fell behind so many of them.
    pub crash: usize,
    /// The second step of a pair carries the first one on its way: a flush a store, a fence a flush.
    pub waits: Vec<(usize, usize)>,
    /// A store that was lost, and one that survived although nothing made it wait for the first.
    pub unordered: Vec<(usize, usize)>,
}

impl History {
    /// What people call a place: file and offset, without the folders; for what a file system keeps besides contents, in words.
    #[must_use]
    pub fn place_name(&self, place: Place) -> String {
        let title = |file: u64| {
            let name =
                usize::try_from(file).ok().and_then(|file| self.files.get(file)).map_or("?", String::as_str);
            name.rsplit('/').next().unwrap_or(name)
        };
        match place.file() {
            NAMES if self.platform.is_files() => {
                let path = self.entries.get((place.offset() / 8) as usize).map_or("?", String::as_str);
                format!("name {}", path.rsplit('/').next().unwrap_or(path))
            }
            LENGTHS if self.platform.is_files() => format!("length of {}", title(place.offset() / 8)),
            file => format!("{}+{:#x}", title(u64::from(file)), place.offset()),
        }
    }
}

/// Most rows; what is farthest from the crash goes first.
const ROWS: usize = 48;
/// How far behind the crash flushes and fences are looked for.
const BEHIND: usize = 2000;

impl Picture {
    /// The picture of a finding.
    ///
    /// # Errors
    /// When the finding is not of the checker's history.
    pub fn of(checker: &Checker<'_>, finding: &Finding) -> Result<Picture, TokenError> {
        let mut walker = Walker::new(checker.history, checker.contents);
        let (window, choices) = Window::of_token(&mut walker, &finding.token)?;
        let lost: HashSet<u32> = window.lost(&choices).collect();
        Ok(Painter::new(checker.history, finding, lost).paint())
    }
}

struct Painter<'h> {
    history: &'h History,
    finding: &'h Finding,
    lost: HashSet<u32>,
    /// Items from the cut's point on that happened before the crash: what their threads did, others may have waited.
    ahead: HashSet<usize>,
    /// Lines that the story is about.
    lines: HashSet<Place>,
    picture: Picture,
    /// Atoms of each store step.
    atoms: HashMap<usize, Vec<u32>>,
    store: Option<u32>,
    left_out: u64,
}

impl<'h> Painter<'h> {
    fn new(history: &'h History, finding: &'h Finding, lost: HashSet<u32>) -> Self {
        let mut lines: HashSet<Place> =
            lost.iter().map(|&at| history.atoms[at as usize].place.line()).collect();
        lines.extend(finding.missing.iter().map(|missing| missing.place.line()));
        if let Some(Witness::Store { atom, place, .. }) = finding.witness {
            lines.extend([place.line(), history.atoms[atom as usize].place.line()]);
        }
        let ahead = finding.token.cut.items_ahead(history).into_iter().map(|(at, _)| at).collect();
        Painter {
            history,
            finding,
            lost,
            ahead,
            lines,
            picture: Picture::default(),
            atoms: HashMap::new(),
            store: None,
            left_out: 0,
        }
    }

    fn paint(mut self) -> Picture {
        let items = &self.history.items;
        let crash = self.finding.crash.min(items.len());
        let first = items
            .iter()
            .take(crash)
            .position(|item| matches!(item, Item::Atom(at) if self.lost.contains(at)));
        let start = first.unwrap_or(crash.saturating_sub(ROWS)).min(crash);
        // Behind the crash: as far as what was lost would have become durable.
        let mut waiting = self.lost.clone();
        let mut end = (crash + 1).min(items.len());
        for (at, item) in items.iter().enumerate().skip(end).take(BEHIND) {
            if waiting.is_empty() {
                break;
            }
            if let Item::Barrier(barrier) = item {
                for &demand in &*self.history.barriers[*barrier as usize].demands {
                    let cell = self.history.atoms[demand as usize].cell;
                    waiting.retain(|&lost| lost > demand || self.history.atoms[lost as usize].cell != cell);
                }
                end = at + 1;
            }
        }
        let next = items.iter().enumerate().skip(crash + 1).take(BEHIND);
        let next = next
            .filter(|(_, item)| matches!(item, Item::Atom(_) | Item::Barrier(_)))
            .map(|(at, _)| at + 1)
            .next();
        let all = start..end.max(next.unwrap_or(0));
        for at in all.clone().filter(|&at| self.is_reached(at)).collect::<Vec<_>>() {
            self.step(at, false);
        }
        for at in all.filter(|&at| !self.is_reached(at)).collect::<Vec<_>>() {
            self.step(at, true);
        }
        self.connect();
        self.picture
    }

    /// Whether the item came before the crash. In the stream it may stand before what made the image fail and yet not have happened.
    fn is_reached(&self, at: usize) -> bool {
        at <= self.finding.crash && (at < self.finding.token.cut.point || self.ahead.contains(&at))
    }

    fn step(&mut self, at: usize, behind: bool) {
        let history = self.history;
        let done = if behind { Fate::NotReached } else { Fate::Done };
        let (thread, site, what, fate) = match history.items[at] {
            Item::Atom(atom) => {
                let stored = &history.atoms[atom as usize];
                if !self.lines.contains(&stored.place.line()) {
                    self.left_out += u64::from(self.store != Some(stored.store));
                    self.store = Some(stored.store);
                    return;
                }
                let fate = match () {
                    () if behind => Fate::NotReached,
                    () if self.lost.contains(&atom) => Fate::Lost,
                    () if self.is_durable(atom, at) => Fate::Durable,
                    () => Fate::Survived,
                };
                let bytes = u64::from(stored.mask.count_ones());
                let last = self.picture.steps.len().wrapping_sub(1);
                if self.store == Some(stored.store)
                    && let Some(Step { what: What::Store { bytes: sum, .. }, fate: same, .. }) =
                        self.picture.steps.last_mut()
                    && *same == fate
                {
                    *sum += bytes;
                    self.atoms.entry(last).or_default().push(atom);
                    return;
                }
                self.store = Some(stored.store);
                self.atoms.insert(last.wrapping_add(1), vec![atom]);
                let place = Place(stored.place.0 + u64::from(stored.mask.trailing_zeros()));
                (
                    stored.thread,
                    stored.site,
                    What::Store { place, bytes, non_temporal: stored.non_temporal },
                    fate,
                )
            }
            Item::Bulk(_) => return,
            Item::Flush(flush) => {
                let flush = &history.flushes[flush as usize];
                if !self.lines.contains(&flush.line) {
                    self.left_out += 1;
                    return;
                }
                (flush.thread, flush.site, What::Flush { line: flush.line }, done)
            }
            Item::Barrier(barrier) => {
                let barrier = &history.barriers[barrier as usize];
                (barrier.thread, barrier.site, What::Fence, done)
            }
            Item::Mark(mark) => {
                let mark = &history.marks[mark as usize];
                (mark.thread, SiteId::UNKNOWN, What::Mark(mark.kind), done)
            }
        };
        self.picture.steps.push(Step {
            thread,
            site,
            what,
            fate,
            left_out: std::mem::take(&mut self.left_out),
        });
        if !behind {
            self.picture.crash = self.picture.steps.len();
        }
    }

    /// Whether a barrier between the store and the crash demands the atom.
    fn is_durable(&self, atom: u32, stored: usize) -> bool {
        let cell = self.history.atoms[atom as usize].cell;
        let demands = |item: &Item| match *item {
            Item::Barrier(at) => self.history.barriers[at as usize]
                .demands
                .iter()
                .any(|&demand| demand >= atom && self.history.atoms[demand as usize].cell == cell),
            _ => false,
        };
        let crash = self.finding.crash.min(self.history.items.len());
        (stored..crash).any(|at| self.is_reached(at) && demands(&self.history.items[at]))
    }

    fn connect(&mut self) {
        let steps = &self.picture.steps;
        let mut waits = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            let later = |test: &dyn Fn(&Step) -> bool| {
                steps.iter().skip(at + 1).position(test).map(|found| at + 1 + found)
            };
            let carried = match step.what {
                What::Store { non_temporal: true, .. } => {
                    later(&|other| other.what == What::Fence && other.thread == step.thread)
                }
                What::Store { place, .. } => {
                    later(&|other| matches!(other.what, What::Flush { line } if line == place.line()))
                }
                What::Flush { .. } => {
                    later(&|other| other.what == What::Fence && other.thread == step.thread)
                }
                What::Fence | What::Mark(_) => None,
            };
            waits.extend(carried.map(|by| (at, by)));
        }
        let survivor = self.picture.crash.checked_sub(1);
        if let Some(survivor) =
            survivor.filter(|&at| matches!(steps[at].what, What::Store { .. } | What::Mark(_)))
        {
            let lost = steps.iter().enumerate().filter(|(_, step)| step.fate == Fate::Lost);
            self.picture.unordered = lost.map(|(at, _)| (at, survivor)).collect();
        }
        self.picture.waits = waits;
        self.shorten();
    }

    /// Leaves out what is far from the crash.
    fn shorten(&mut self) {
        let count = self.picture.steps.len();
        if count <= ROWS {
            return;
        }
        let crash = self.picture.crash;
        let wanted = |at: usize, step: &Step| {
            step.fate == Fate::Lost || at + ROWS / 3 >= crash && at < crash + ROWS / 3
        };
        let mut number = vec![None; count];
        let mut steps: Vec<Step> = Vec::new();
        let mut left_out = 0;
        for (at, step) in self.picture.steps.iter().enumerate() {
            if wanted(at, step) && steps.len() < 2 * ROWS {
                number[at] = Some(steps.len());
                steps.push(Step { left_out: step.left_out + std::mem::take(&mut left_out), ..*step });
            } else {
                left_out += 1 + step.left_out;
            }
        }
        let pairs = |pairs: &[(usize, usize)]| -> Vec<(usize, usize)> {
            pairs.iter().filter_map(|&(from, to)| Some((number[from]?, number[to]?))).collect()
        };
        self.picture.waits = pairs(&self.picture.waits);
        self.picture.unordered = pairs(&self.picture.unordered);
        self.picture.crash = number[..crash].iter().flatten().count();
        self.picture.steps = steps;
    }
}
