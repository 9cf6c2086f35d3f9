//! The hardware, cycle by cycle: class unit, bit-split automata, intermediate match unit, reduction unit.

use crate::design::{Design, Kind, Pred, Repeat};
use crate::tables::Tables;

/// How the reduction unit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Min-max counters where they are exact, bit vectors elsewhere.
    Exact,
    /// The published algorithm with line 15 as its text explains it.
    Corrected,
    /// The published algorithm as printed.
    Printed,
}

/// The state of the hardware.
#[derive(Clone, Debug)]
pub struct Machine<'a> {
    design: &'a Design,
    tables: &'a Tables,
    counting: Counting,
    /// Per lane and automaton the bit of the previous window.
    previous: Vec<bool>,
    pmv: Vec<u64>,
    /// Columns of the match vectors, one per byte; a node reads `len` columns back. The last bit is the
    /// start.
    columns: Vec<Vec<u64>>,
    at: usize,
    counters: Vec<Counter>,
    before: Option<u8>,
    started: bool,
    cycles: u64,
}

#[derive(Clone, Debug, Default)]
struct Counter {
    /// Ages of the oldest and of the youngest run; 0 is none.
    oldest: u32,
    youngest: u32,
    vector: Vec<u64>,
}

impl<'a> Machine<'a> {
    /// The hardware before the first byte.
    pub fn new(design: &'a Design, tables: &'a Tables, counting: Counting) -> Machine<'a> {
        let words = (design.nodes.len() + 1).div_ceil(64);
        let depth = design.limits.width + 1;
        let counters = design
            .nodes
            .iter()
            .map(|node| match node.kind {
                Kind::Component { repeat: Repeat::Vector { max, .. }, .. } => {
                    Counter { vector: vec![0; (max as usize).div_ceil(64)], ..Counter::default() }
                }
                _ => Counter::default(),
            })
            .collect();
        Machine {
            design,
            tables,
            counting,
            previous: vec![false; tables.automata()],
            pmv: Vec::new(),
            columns: vec![vec![0; words]; depth],
            at: 0,
            counters,
            before: None,
            started: false,
            cycles: 0,
        }
    }

    /// Back to before the first byte.
    pub fn restart(&mut self) {
        let cycles = self.cycles;
        *self = Machine::new(self.design, self.tables, self.counting);
        self.cycles = cycles;
    }

    /// Cycles so far, those that fill the pipeline included.
    pub fn cycles(&self) -> u64 {
        self.cycles + self.tables.stages()
    }

    /// Takes a window of up to W bytes, the first of the next window beside it. Reports (position in the
    /// window, expression) for each match, the position being that of its last byte.
    pub fn window(&mut self, bytes: &[u8], next: Option<u8>, mut report: impl FnMut(usize, usize)) {
        if !self.started {
            self.started = true;
            self.column(None, bytes.first().copied().or(next));
        }
        if bytes.is_empty() {
            return;
        }
        self.cycles += 1;
        self.partial_matches(bytes);
        for (position, &byte) in bytes.iter().enumerate() {
            let after = bytes.get(position + 1).copied().or(next);
            self.at = (self.at + 1) % self.columns.len();
            self.before = Some(byte);
            self.column(Some(position), after);
            let column = &self.columns[self.at];
            for (expression, &accept) in self.design.accepts.iter().enumerate() {
                if bit(column, accept) {
                    report(position, expression);
                }
            }
        }
    }

    /// The class unit and the automata; leaves their vectors, all of them and-ed, in `pmv`.
    fn partial_matches(&mut self, bytes: &[u8]) {
        self.pmv.clear();
        self.pmv.resize(self.tables.words(), u64::MAX);
        for lane in 0..self.design.limits.width {
            let byte = bytes.get(lane).copied().unwrap_or(0);
            let classes = self.tables.classes_of(byte);
            for automaton in 0..self.tables.automata_per_lane() {
                let now = if automaton < 8 { byte >> automaton & 1 == 1 } else { classes[automaton - 8] };
                let previous = &mut self.previous[lane * self.tables.automata_per_lane() + automaton];
                let vector = self.tables.partial(lane, automaton, *previous, now);
                self.pmv.iter_mut().zip(vector).for_each(|(all, one)| *all &= one);
                *previous = now;
            }
        }
    }

    /// The reduction unit for one byte, or for the boundary before the first.
    fn column(&mut self, position: Option<usize>, after: Option<u8>) {
        let (design, depth) = (self.design, self.columns.len());
        let start = design.nodes.len();
        self.columns[self.at].fill(0);
        put(&mut self.columns[self.at], start, true);
        for (number, node) in design.nodes.iter().enumerate() {
            let back = |columns: &[Vec<u64>], distance: usize| {
                let column = &columns[(self.at + depth - distance) % depth];
                node.preds.iter().any(|pred| match *pred {
                    Pred::Start => bit(column, start),
                    Pred::Node(pred) => bit(column, pred),
                })
            };
            let matches = match (&node.kind, position) {
                (Kind::Gate(looks), _) => back(&self.columns, 0) && looks.hold(self.before, after),
                (Kind::Component { .. }, None) => false,
                (Kind::Component { sets, repeat }, Some(position)) => {
                    let imv = self.tables.end(&self.pmv, number, position);
                    let (en, cur) = (back(&self.columns, sets.len()), back(&self.columns, sets.len() - 1));
                    let counter = &mut self.counters[number];
                    match self.counting {
                        Counting::Exact => counter.exact(*repeat, imv, en),
                        _ if sets.len() > 1 => imv && en,
                        counting => counter.published(*repeat, imv, en, cur, counting),
                    }
                }
            };
            put(&mut self.columns[self.at], number, matches);
        }
    }
}

impl Counter {
    /// One byte: whether the component may end here. `imv`: the byte is of its class, `en`: a run may begin.
    fn exact(&mut self, repeat: Repeat, imv: bool, en: bool) -> bool {
        match repeat {
            Repeat::Once => imv && en,
            Repeat::Counter { min, max, .. } => {
                let aged = |age: u32| if age > 0 { age.saturating_add(1) } else { u32::from(en) };
                self.oldest = if imv { aged(self.oldest) } else { 0 };
                self.youngest = match (imv, en) {
                    (true, true) => 1,
                    (true, false) => aged(self.youngest),
                    (false, _) => 0,
                };
                self.oldest >= min && max.is_none_or(|max| self.youngest <= max)
            }
            Repeat::Vector { min, max } => {
                if !imv {
                    self.vector.fill(0);
                    return false;
                }
                let mut carry = u64::from(en);
                for word in &mut self.vector {
                    let out = *word >> 63;
                    *word = *word << 1 | carry;
                    carry = out;
                }
                (min..=max).any(|age| bit(&self.vector, age as usize - 1))
            }
        }
    }

    /// The same by Algorithm 2, whose MAX and MIN stand in `oldest` and `youngest`. `cur`: a predecessor may
    /// end with this byte.
    fn published(&mut self, repeat: Repeat, imv: bool, en: bool, cur: bool, counting: Counting) -> bool {
        let (low, high) = match repeat {
            Repeat::Once => (1, Some(1)),
            Repeat::Counter { min, max, .. } => (min, max),
            Repeat::Vector { min, max } => (min, Some(max)),
        };
        let min_en = en || self.youngest > 0;
        let max_en = en || self.oldest > 0;
        let resets = cur == (counting == Counting::Corrected);
        self.youngest = if min_en && imv && !resets { self.youngest.saturating_add(1) } else { 0 };
        self.oldest = if max_en && imv { self.oldest.saturating_add(1) } else { 0 };
        self.oldest >= low && high.is_none_or(|high| self.youngest <= high)
    }
}

fn bit(bits: &[u64], at: usize) -> bool {
    bits[at / 64] >> (at % 64) & 1 == 1
}

fn put(bits: &mut [u64], at: usize, value: bool) {
    let word = &mut bits[at / 64];
    *word = *word & !(1 << (at % 64)) | u64::from(value) << (at % 64);
}
