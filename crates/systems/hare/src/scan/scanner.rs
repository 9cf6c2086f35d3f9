//! Text through all expressions: a literal that every match has near its start begins the run of an
//! expression; expressions without one run over all of the text, together.

use std::sync::Arc;

use super::dfa::{Dfa, Member};
use super::factor::Factor;
use super::filter::Filter;
use super::nfa::{Nfa, State};
use crate::error::Refusal;
use crate::expression::Expression;
use crate::positions::{Lowering, Positions};
use crate::tree::Tree;

/// An end of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The offset behind its last byte.
    pub end: u64,
    /// The number of the expression.
    pub expression: u32,
}

/// How an expression is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Where one of its literals occurs.
    Literals(Factor),
    /// Over all of the text, in an automaton with others.
    Automaton,
    /// Over all of the text with counters.
    Counters,
}

/// Expressions, ready to scan.
pub struct Scanner {
    expressions: Vec<Compiled>,
    /// Filters of long and of short literals.
    filters: Vec<Filter>,
    /// How far behind the text that was filtered the expressions may have to begin.
    behind: usize,
}

struct Compiled {
    way: Way,
    positions: Positions,
    nfa: Arc<Nfa>,
}

/// Literals shorter than this have a filter of their own.
const LONG: usize = 6;

impl Scanner {
    /// Compiles `expressions`.
    pub fn new(expressions: &[Expression]) -> Result<Scanner, Refusal> {
        let mut compiled = Vec::with_capacity(expressions.len());
        for expression in expressions {
            compiled.push(Compiled::of(expression)?);
        }
        let (mut long, mut short) = (Vec::new(), Vec::new());
        let mut behind = 0;
        for (number, expression) in compiled.iter().enumerate() {
            if let Way::Literals(factor) = &expression.way {
                let list = if factor.shortest() >= LONG { &mut long } else { &mut short };
                list.extend(factor.literals.iter().map(|literal| (literal.clone(), number as u32)));
                let longest = factor.literals.iter().map(Vec::len).max().unwrap_or(0);
                behind = behind.max(longest + factor.before);
            }
        }
        let filters = [long, short].into_iter().filter_map(Filter::new).collect();
        Ok(Scanner { expressions: compiled, filters, behind })
    }

    /// How each expression is run.
    pub fn ways(&self) -> impl Iterator<Item = &Way> {
        self.expressions.iter().map(|expression| &expression.way)
    }

    /// A text from its start.
    pub fn stream(&self) -> Stream<'_> {
        let always = self.expressions.iter().enumerate();
        let together: Vec<Member> = always
            .clone()
            .filter(|(_, expression)| expression.way == Way::Automaton)
            .map(|(number, expression)| (number as u32, Arc::clone(&expression.nfa)))
            .collect();
        let mut engines = Vec::new();
        if !together.is_empty() {
            engines.push(Engine::Dfa(Box::new(self.dfa(together))));
        }
        for (number, expression) in always.filter(|(_, expression)| expression.way == Way::Counters) {
            engines.push(Engine::of(number as u32, &expression.nfa));
        }
        let waiting = |expression: &Compiled| Waiting {
            state: expression.nfa.start(),
            alive: false,
            starts: Vec::new(),
            next: 0,
        };
        Stream {
            scanner: self,
            engines,
            waiting: self.expressions.iter().map(waiting).collect(),
            kept: Vec::new(),
            base: 0,
            done: 0,
            filtered: 0,
            found: Vec::new(),
        }
    }

    /// All matches in `text`, by their ends.
    pub fn scan(&self, text: &[u8]) -> Vec<Match> {
        let mut found = Vec::new();
        let mut stream = self.stream();
        stream.feed(text, |end| found.push(end));
        stream.finish(|end| found.push(end));
        found
    }

    fn dfa(&self, members: Vec<Member>) -> Dfa {
        let of = |number: u32| &self.expressions[number as usize].positions;
        let numbers: Vec<u32> = members.iter().map(|(number, _)| *number).collect();
        let looks = numbers.iter().any(|&number| of(number).looks());
        Dfa::new(members, looks, numbers.iter().flat_map(|&number| &of(number).sets))
    }

    /// An automaton with too many states as two, or as bits.
    fn split(&self, dfa: &Dfa, before: Option<u8>) -> Vec<Engine> {
        let (members, states) = (dfa.members(), dfa.split_state());
        if let [(expression, nfa)] = members {
            let state = states.into_iter().next().unwrap_or_else(|| nfa.start());
            return vec![Engine::Nfa { expression: *expression, nfa: Arc::clone(nfa), state }];
        }
        let half = members.len() / 2;
        let parts = [0..half, half..members.len()].into_iter().map(|range| {
            let mut dfa = self.dfa(members[range.clone()].to_vec());
            dfa.resume(&states[range], before);
            Engine::Dfa(Box::new(dfa))
        });
        parts.collect()
    }
}

impl Compiled {
    fn of(expression: &Expression) -> Result<Compiled, Refusal> {
        let positions = expression.positions(&Lowering::SOFTWARE)?;
        let nfa = Arc::new(Nfa::of(&positions));
        let tree: Tree = expression.tree().clone().trimmed();
        let factor = if positions.empty.is_empty() { Factor::of(&tree) } else { None };
        let way = match factor {
            Some(factor) => Way::Literals(factor),
            None if nfa.is_finite() => Way::Automaton,
            None => Way::Counters,
        };
        Ok(Compiled { way, positions, nfa })
    }
}

/// What runs over all of the text.
enum Engine {
    Dfa(Box<Dfa>),
    Nfa { expression: u32, nfa: Arc<Nfa>, state: State },
}

impl Engine {
    fn of(expression: u32, nfa: &Arc<Nfa>) -> Engine {
        Engine::Nfa { expression, nfa: Arc::clone(nfa), state: nfa.start() }
    }
}

/// An expression that waits for its literals.
struct Waiting {
    state: State,
    alive: bool,
    /// Offsets of its literals, those from `next` on not yet run.
    starts: Vec<u64>,
    next: usize,
}

/// A text that is scanned piece by piece.
pub struct Stream<'s> {
    scanner: &'s Scanner,
    engines: Vec<Engine>,
    waiting: Vec<Waiting>,
    /// The text from `base` on.
    kept: Vec<u8>,
    base: u64,
    /// The first boundary that has not been run, and the first byte that has not been filtered.
    done: u64,
    filtered: u64,
    found: Vec<Match>,
}

impl Stream<'_> {
    /// Takes the next piece of the text. Reports matches by their ends, as far as nothing that follows can
    /// add one before.
    pub fn feed(&mut self, piece: &[u8], report: impl FnMut(Match)) {
        for piece in piece.chunks(1 << 16) {
            self.kept.extend_from_slice(piece);
            let end = self.base + self.kept.len() as u64;
            self.filter(end);
            self.run(end.saturating_sub(self.scanner.behind as u64));
            // A filter looks back by a literal, a step by a byte.
            let keep = self.done.saturating_sub(1 + self.scanner.behind as u64).max(self.base);
            self.kept.drain(..(keep - self.base) as usize);
            self.base = keep;
        }
        self.report(report);
    }

    /// Up to which offset all matches were reported: those that end before it.
    pub fn reported(&self) -> u64 {
        self.done
    }

    /// The end of the text.
    pub fn finish(mut self, report: impl FnMut(Match)) {
        let end = self.base + self.kept.len() as u64;
        self.run(end);
        self.run_at_end(end);
        self.report(report);
    }

    fn report(&mut self, report: impl FnMut(Match)) {
        self.found.sort_unstable();
        self.found.drain(..).for_each(report);
    }

    /// Finds the literals that end in the text up to `end` and not before `filtered`.
    fn filter(&mut self, end: u64) {
        for filter in &self.scanner.filters {
            let from = self.filtered.saturating_sub(filter.longest() as u64 - 1).max(self.base);
            let text = &self.kept[(from - self.base) as usize..];
            let (waiting, filtered) = (&mut self.waiting, self.filtered);
            filter.find(text, |number, at| {
                // Those within the text before were found with it.
                if from + at.end as u64 > filtered {
                    waiting[number as usize].starts.push(from + at.start as u64);
                }
            });
        }
        self.filtered = end;
    }

    /// Runs all boundaries before `limit`, of each of which the next byte is known.
    fn run(&mut self, limit: u64) {
        if limit <= self.done {
            return;
        }
        self.run_engines(limit);
        self.run_waiting(limit);
        self.done = limit;
    }

    /// Runs what runs over all of the text; an automaton that has too many states goes on as two.
    fn run_engines(&mut self, limit: u64) {
        let text = Text { bytes: &self.kept, base: self.base };
        let mut engines: Vec<(Engine, u64)> =
            self.engines.drain(..).map(|engine| (engine, self.done)).collect();
        while let Some((mut engine, mut at)) = engines.pop() {
            let found = &mut self.found;
            match &mut engine {
                Engine::Nfa { expression, nfa, state } => {
                    for boundary in at..limit {
                        let (before, after) = text.around(boundary);
                        if nfa.step(state, boundary, before, after, true) {
                            found.push(Match { end: boundary, expression: *expression });
                        }
                    }
                    at = limit;
                }
                Engine::Dfa(dfa) => {
                    let piece = &text.bytes[(at - self.base) as usize..(limit - self.base) as usize];
                    let report = |expression, end| found.push(Match { end, expression });
                    at += dfa.run(piece, at, report) as u64;
                }
            }
            match engine {
                Engine::Dfa(dfa) if at < limit => {
                    let parts = self.scanner.split(&dfa, text.before(at));
                    engines.extend(parts.into_iter().map(|part| (part, at)));
                }
                engine => self.engines.push(engine),
            }
        }
    }

    /// Runs expressions from where their literals begin them.
    fn run_waiting(&mut self, limit: u64) {
        let text = Text { bytes: &self.kept, base: self.base };
        for (number, (waiting, compiled)) in
            self.waiting.iter_mut().zip(&self.scanner.expressions).enumerate()
        {
            let Way::Literals(factor) = &compiled.way else { continue };
            if waiting.next == waiting.starts.len() && !waiting.alive {
                continue;
            }
            waiting.starts[waiting.next..].sort_unstable();
            let expression = number as u32;
            let mut at = self.done;
            while at < limit {
                while waiting.starts.get(waiting.next).is_some_and(|&start| start < at) {
                    waiting.next += 1;
                }
                let begin = waiting.starts.get(waiting.next).map(|&s| s.saturating_sub(factor.before as u64));
                if !waiting.alive {
                    match begin {
                        Some(begin) if begin.max(at) < limit => at = begin.max(at),
                        _ => break,
                    }
                }
                let begins = begin.is_some_and(|begin| begin <= at);
                let (before, after) = text.around(at);
                if compiled.nfa.step(&mut waiting.state, at, before, after, begins) {
                    self.found.push(Match { end: at, expression });
                }
                waiting.alive = !waiting.state.is_dead();
                at += 1;
            }
            waiting.starts.drain(..waiting.next);
            waiting.next = 0;
        }
    }

    /// The boundary behind the last byte.
    fn run_at_end(&mut self, end: u64) {
        let before = Text { bytes: &self.kept, base: self.base }.before(end);
        let found = &mut self.found;
        for engine in &mut self.engines {
            match engine {
                Engine::Dfa(dfa) => dfa.finish(end, |expression, end| found.push(Match { end, expression })),
                Engine::Nfa { expression, nfa, state } => {
                    if nfa.step(state, end, before, None, true) {
                        found.push(Match { end, expression: *expression });
                    }
                }
            }
        }
        for (number, (waiting, compiled)) in
            self.waiting.iter_mut().zip(&self.scanner.expressions).enumerate()
        {
            if waiting.alive && compiled.nfa.step(&mut waiting.state, end, before, None, false) {
                found.push(Match { end, expression: number as u32 });
            }
        }
    }
}

/// The text that is kept.
struct Text<'t> {
    bytes: &'t [u8],
    base: u64,
}

impl Text<'_> {
    /// The byte before a boundary.
    fn before(&self, boundary: u64) -> Option<u8> {
        let before = boundary.checked_sub(1)?.checked_sub(self.base)?;
        self.bytes.get(before as usize).copied()
    }

    /// The bytes on both sides of a boundary.
    fn around(&self, boundary: u64) -> (Option<u8>, Option<u8>) {
        (self.before(boundary), self.bytes.get((boundary - self.base) as usize).copied())
    }
}
