//! The images of one cut.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use super::cut::Cut;
use super::walker::Walker;
use crate::files::owner;
use crate::history::Item;
use event::SiteId;
use event::map::Map;

use crate::{History, MarkKind, Place, Platform, Read, Token, TokenError};

/// What of a cell survives: the first `kept` of its atoms and the atoms `from..to`, which are the upper end of the store behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    kept: u32,
    from: u32,
    to: u32,
}

/// Up to here it is faster to go through a cell's atoms for each of its words.
const FEW_WORDS: usize = 8;

/// A cell with its pending atoms.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub atoms: Vec<u32>,
    /// The first one keeps all; then fewer and fewer.
    choices: Vec<Choice>,
    /// The cell's words.
    words: Vec<Place>,
}

impl Cell {
    pub fn choices(&self) -> u32 {
        self.choices.len() as u32
    }

    /// The atoms that `choice` loses.
    pub fn missing(&self, choice: u32) -> impl Iterator<Item = u32> {
        let Choice { kept, from, to } = self.choices[choice as usize];
        let lost = move |at: u32| at >= kept && !(from..to).contains(&at);
        self.atoms.iter().enumerate().filter(move |&(at, _)| lost(at as u32)).map(|(_, &atom)| atom)
    }
}

/// A cut's cells and what is now shown of them to the oracle.
pub(crate) struct Window {
    pub cells: Vec<Cell>,
    /// Choice per cell.
    shown: Vec<u32>,
    /// Per cell the atoms that no image is to lack.
    kept_always: Vec<Vec<u32>>,
    by_line: Map<Place, Vec<u32>>,
    /// Words that two cells have atoms of.
    shared: Map<Place, Vec<u32>>,
    /// Words that the items ahead wrote.
    ahead: Vec<Place>,
    pub more_marks: Vec<u32>,
    pub begun: u64,
    pub ended: u64,
}

impl Window {
    /// The window at the walker's place; the walker stands at the cut's point. The oracle is shown everything.
    pub fn open(walker: &mut Walker<'_>, cut: &Cut) -> Self {
        let mut cells: BTreeMap<u64, (Vec<u32>, usize)> =
            walker.pending.iter().map(|(&cell, atoms)| (cell, (atoms.clone(), 0))).collect();
        let mut window = Window {
            cells: Vec::new(),
            shown: Vec::new(),
            kept_always: Vec::new(),
            by_line: Map::default(),
            shared: Map::default(),
            ahead: Vec::new(),
            more_marks: Vec::new(),
            begun: walker.begun,
            ended: walker.ended,
        };
        window.look_ahead(walker, cut, &mut cells);
        // Only under ADR are there cells of both kinds; a file's bytes may be in its length's or in the journal's cell, too.
        let platform = walker.history.platform();
        let mixed =
            platform == Platform::ADR && cells.keys().any(|cell| cell & 1 == 1) || platform.is_files();
        window.cells =
            cells.into_values().map(|(atoms, mandatory)| Cell::new(walker, atoms, mandatory)).collect();
        window.shown = vec![0; window.cells.len()];
        window.kept_always = vec![Vec::new(); window.cells.len()];
        if mixed {
            for (at, cell) in window.cells.iter().enumerate() {
                for &word in &cell.words {
                    window.shared.entry(word).or_default().push(at as u32);
                }
            }
            window.shared.retain(|_, cells| cells.len() > 1);
        }
        window
    }

    /// The window of a token's cut with the token's image, and its choices.
    pub fn of_token(walker: &mut Walker<'_>, token: &Token) -> Result<(Self, Vec<u32>), TokenError> {
        token.fits(walker.history)?;
        walker.advance(token.cut.point);
        let mut window = Window::open(walker, &token.cut);
        let mut choices = vec![0; window.cells.len()];
        for &(cell, choice) in &token.choices {
            let part = || format!("{cell}.{choice}");
            let Some((slot, of_cell)) = choices.get_mut(cell as usize).zip(window.cells.get(cell as usize))
            else {
                let cells = window.cells.len();
                let limit =
                    format!("what may be lost at this crash falls into {cells} parts, which count from 0");
                return Err(TokenError::out_of_range('c', part(), limit));
            };
            if choice >= of_cell.choices() {
                let limit = format!("part {cell} has {} images, which count from 0", of_cell.choices());
                return Err(TokenError::out_of_range('c', part(), limit));
            }
            *slot = choice;
        }
        window.set(walker, &choices);
        Ok((window, choices))
    }

    fn look_ahead(
        &mut self,
        walker: &mut Walker<'_>,
        cut: &Cut,
        cells: &mut BTreeMap<u64, (Vec<u32>, usize)>,
    ) {
        let history = walker.history;
        for (_, item) in cut.items_ahead(history) {
            match item {
                Item::Atom(at) => {
                    let atom = &history.atoms[at as usize];
                    cells.entry(atom.cell).or_default().0.push(at);
                    let word = crate::words::merge(walker.current.get(atom.place), atom.value, atom.mask);
                    walker.show(atom.place, word);
                    self.ahead.push(atom.place);
                }
                Item::Barrier(at) => {
                    for &demand in &*history.barriers[at as usize].demands {
                        if let Some((atoms, mandatory)) = cells.get_mut(&history.atoms[demand as usize].cell)
                        {
                            *mandatory = atoms.partition_point(|&at| at <= demand).max(*mandatory);
                        }
                    }
                }
                Item::Mark(at) => {
                    self.more_marks.push(at);
                    match history.marks[at as usize].kind {
                        MarkKind::Begin(_) => self.begun += 1,
                        MarkKind::End(_) => self.ended += 1,
                        MarkKind::Phase(_) => {}
                    }
                }
                Item::Flush(_) | Item::Bulk(_) => {}
            }
        }
        self.ahead.sort_unstable();
        self.ahead.dedup();
    }

    /// Whether the items ahead added anything.
    pub fn reaches_ahead(&self) -> bool {
        !self.ahead.is_empty() || !self.more_marks.is_empty()
    }

    /// A number that windows with other atoms, or other atoms that must survive, do not have.
    pub fn shape(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for cell in &self.cells {
            (&cell.atoms, cell.choices()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Cells with atoms in the line.
    pub fn cells_of(&mut self, line: Place) -> &[u32] {
        if self.by_line.is_empty() {
            for (at, cell) in self.cells.iter().enumerate() {
                for word in &cell.words {
                    let cells = self.by_line.entry(word.line()).or_default();
                    if cells.last() != Some(&(at as u32)) {
                        cells.push(at as u32);
                    }
                }
            }
        }
        self.by_line.get(&line).map_or(&[], Vec::as_slice)
    }

    /// The atoms that an image with these choices lacks.
    pub fn lost(&self, choices: &[u32]) -> impl Iterator<Item = u32> {
        choices.iter().zip(&self.cells).flat_map(|(&choice, cell)| cell.missing(choice))
    }

    /// How many images differ from the complete one in these cells at most; saturates.
    pub fn images(&self, cells: &[usize]) -> u64 {
        let choices = |at: usize| {
            (0..self.cells[at].choices()).filter(|&choice| self.allows(at, choice)).count() as u64
        };
        cells.iter().fold(1, |product: u64, &at| product.saturating_mul(choices(at)))
    }

    /// From here on, no image is to lack a store of this code.
    pub fn keep(&mut self, history: &History, site: SiteId) {
        for (cell, kept) in self.cells.iter().zip(&mut self.kept_always) {
            let of_site = |at: &u32| history.atoms()[*at as usize].site == site;
            kept.extend(cell.atoms.iter().copied().filter(of_site));
        }
    }

    /// Whether the choice loses nothing that is to be kept.
    pub fn allows(&self, cell: usize, choice: u32) -> bool {
        let kept = &self.kept_always[cell];
        kept.is_empty() || self.cells[cell].missing(choice).all(|at| !kept.contains(&at))
    }

    /// The choices that are allowed.
    pub fn allowed(&self, cell: usize) -> Rc<[u32]> {
        (0..self.cells[cell].choices()).filter(|&choice| self.allows(cell, choice)).collect()
    }

    /// Cells of which some word was read, in order.
    pub fn cells_read(&mut self, read: &[Read]) -> Vec<usize> {
        let mut cells: Vec<usize> = Vec::new();
        for read in read {
            let of_line: Vec<usize> = self.cells_of(read.line).iter().map(|&at| at as usize).collect();
            cells.extend(
                of_line
                    .into_iter()
                    .filter(|&at| self.cells[at].words.iter().any(|&word| read.includes(word))),
            );
        }
        cells.sort_unstable();
        cells.dedup();
        cells
    }

    /// What the words that were read would be with this choice of a cell.
    pub fn values(&self, walker: &Walker<'_>, cell: usize, choice: u32, read: &[Read]) -> Vec<u64> {
        let words =
            self.cells[cell].words.iter().filter(|word| read.iter().any(|read| read.includes(**word)));
        let index = choice;
        let choice = self.cells[cell].choices[index as usize];
        let value = |&place: &Place| {
            if self.shared.contains_key(&place) {
                // What the word is depends on another cell, too: no two choices are alike.
                return u64::from(index);
            }
            let mut word = walker.durable.get(place);
            for (at, &atom) in self.cells[cell].atoms.iter().enumerate() {
                let atom = &walker.history.atoms[atom as usize];
                if atom.place == place && choice.keeps(at as u32) {
                    word = crate::words::merge(word, atom.value, atom.mask);
                }
            }
            word
        };
        words.map(value).collect()
    }

    /// The next choice that is allowed; behind the last one comes the first.
    pub fn next_choice(&self, cell: usize, choice: u32) -> u32 {
        (choice + 1..self.cells[cell].choices()).find(|&choice| self.allows(cell, choice)).unwrap_or(0)
    }

    /// The choice that keeps least.
    pub fn least_choice(&self, cell: usize) -> u32 {
        (0..self.cells[cell].choices()).rev().find(|&choice| self.allows(cell, choice)).unwrap_or(0)
    }

    /// Cells of which something can be lost.
    pub fn open_cells(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|&at| self.next_choice(at, 0) != 0)
    }

    /// The same by file, that of the latest store first: with the contents of a file goes its length. All
    /// names are one more.
    pub fn open_files(&self) -> Vec<Vec<usize>> {
        let mut files: BTreeMap<u16, (Option<u32>, Vec<usize>)> = BTreeMap::new();
        for at in self.open_cells() {
            let Cell { atoms, words, .. } = &self.cells[at];
            let (latest, cells) = files.entry(words.first().map_or(0, |&word| owner(word))).or_default();
            *latest = atoms.last().copied().max(*latest);
            cells.push(at);
        }
        let mut files: Vec<(Option<u32>, Vec<usize>)> = files.into_values().collect();
        files.sort_by_key(|&(latest, _)| std::cmp::Reverse(latest));
        files.into_iter().map(|(_, cells)| cells).collect()
    }

    /// Those of them with atoms from behind the item `since`, or that the barrier at the cut demands.
    pub fn fresh_cells(&self, walker: &Walker<'_>, since: usize) -> impl Iterator<Item = usize> {
        let history = walker.history;
        let first = history.items[since..].iter().find_map(|item| match item {
            Item::Atom(at) => Some(*at),
            _ => None,
        });
        let demands: Vec<u32> = match history.items.get(walker.at) {
            Some(&Item::Barrier(at)) => history.barriers[at as usize].demands.to_vec(),
            _ => Vec::new(),
        };
        self.open_cells().filter(move |&at| {
            let atoms = &self.cells[at].atoms;
            atoms.last().zip(first).is_some_and(|(&last, first)| last >= first)
                || atoms.iter().any(|atom| demands.contains(atom))
        })
    }

    /// Shows the oracle the image with these choices.
    pub fn set(&mut self, walker: &mut Walker<'_>, choices: &[u32]) {
        for (at, &choice) in choices.iter().enumerate() {
            if self.shown[at] != choice {
                self.shown[at] = choice;
                self.show(walker, at);
            }
        }
    }

    fn show(&self, walker: &mut Walker<'_>, at: usize) {
        let cell = &self.cells[at];
        if cell.words.len() > FEW_WORDS {
            return self.show_many(walker, at);
        }
        for &place in &cell.words {
            let mut word = walker.durable.get(place);
            match self.shared.get(&place) {
                None => word = self.with_atoms(walker, at, place, word),
                // Lower numbers of cells are no order of stores: take the atoms of all by their numbers.
                Some(holders) => {
                    let mut atoms: Vec<u32> =
                        holders.iter().flat_map(|&holder| self.kept(holder as usize)).collect();
                    atoms.sort_unstable();
                    for at in atoms {
                        let atom = &walker.history.atoms[at as usize];
                        if atom.place == place {
                            word = crate::words::merge(word, atom.value, atom.mask);
                        }
                    }
                }
            }
            walker.show(place, word);
        }
    }

    /// As [`Window::show`], going through the atoms once and not once per word.
    fn show_many(&self, walker: &mut Walker<'_>, at: usize) {
        let cell = &self.cells[at];
        let mut words: Map<Place, u64> =
            cell.words.iter().map(|&place| (place, walker.durable.get(place))).collect();
        let mut holders: Vec<u32> =
            cell.words.iter().filter_map(|place| self.shared.get(place)).flatten().copied().collect();
        holders.push(at as u32);
        holders.sort_unstable();
        holders.dedup();
        let mut atoms: Vec<u32> = holders.into_iter().flat_map(|holder| self.kept(holder as usize)).collect();
        atoms.sort_unstable();
        for at in atoms {
            let atom = &walker.history.atoms[at as usize];
            if let Some(word) = words.get_mut(&atom.place) {
                *word = crate::words::merge(*word, atom.value, atom.mask);
            }
        }
        for &place in &cell.words {
            walker.show(place, words[&place]);
        }
    }

    fn kept(&self, cell: usize) -> impl Iterator<Item = u32> {
        let choice = self.cells[cell].choices[self.shown[cell] as usize];
        let atoms = self.cells[cell].atoms.iter().enumerate();
        atoms.filter(move |&(at, _)| choice.keeps(at as u32)).map(|(_, &atom)| atom)
    }

    fn with_atoms(&self, walker: &Walker<'_>, cell: usize, place: Place, mut word: u64) -> u64 {
        for at in self.kept(cell) {
            let atom = &walker.history.atoms[at as usize];
            if atom.place == place {
                word = crate::words::merge(word, atom.value, atom.mask);
            }
        }
        word
    }

    /// Shows the oracle what the walker has at its place, without what is ahead.
    pub fn close(mut self, walker: &mut Walker<'_>) {
        let all = vec![0; self.cells.len()];
        self.set(walker, &all);
        for place in std::mem::take(&mut self.ahead) {
            let mut atoms: Vec<u32> = Vec::new();
            for cell in self.cells_of(place.line()).to_vec() {
                atoms.extend(self.cells[cell as usize].atoms.iter().filter(|&&at| walker.has_passed(at)));
            }
            atoms.sort_unstable();
            let mut word = walker.durable.get(place);
            for at in atoms {
                let atom = &walker.history.atoms[at as usize];
                if atom.place == place {
                    word = crate::words::merge(word, atom.value, atom.mask);
                }
            }
            walker.show(place, word);
        }
    }
}

impl Choice {
    fn keeps(self, at: u32) -> bool {
        at < self.kept || (self.from..self.to).contains(&at)
    }
}

impl Cell {
    fn new(walker: &Walker<'_>, atoms: Vec<u32>, mandatory: usize) -> Self {
        let history = walker.history;
        let mut choices = Vec::with_capacity(atoms.len() + 1 - mandatory);
        let store = |at: usize| history.atoms[atoms[at] as usize].store;
        let torn = |at: usize| at > 0 && at < atoms.len() && store(at - 1) == store(at);
        let whole = |at: usize| torn(at) && history.atoms[atoms[at] as usize].whole;
        let mut kept = atoms.len();
        // The end of the store whose atoms are being taken away.
        let mut end = kept;
        loop {
            if !whole(kept) {
                choices.push(Choice { kept: kept as u32, from: 0, to: 0 });
            }
            if kept == mandatory {
                break;
            }
            if kept < atoms.len() && store(kept) != store(kept - 1) {
                end = kept;
            }
            kept -= 1;
            // From the other end: the lower atoms of the store that `kept` is in are lost, the upper ones stay. If its first is
            // lost, too, that is the choice `kept` with nothing more.
            let begins = kept == 0 || store(kept - 1) != store(kept);
            if begins && !history.atoms[atoms[kept] as usize].whole {
                for from in kept + 1..end {
                    choices.push(Choice { kept: kept as u32, from: from as u32, to: end as u32 });
                }
            }
        }
        let mut words: Vec<Place> = atoms.iter().map(|&at| history.atoms[at as usize].place).collect();
        words.sort_unstable();
        words.dedup();
        Cell { atoms, choices, words }
    }
}
