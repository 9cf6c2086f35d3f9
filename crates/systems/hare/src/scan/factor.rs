//! Literals of which every match has one, not far behind its start.

use crate::byteset::ByteSet;
use crate::tree::Tree;

/// Farthest from the start of a match to its literal.
const FAR: usize = 255;
/// Most literals of an expression.
const MOST: usize = 64;
/// Bytes of a literal that are looked at.
const LONG: usize = 24;
/// Bytes from which on a literal is not multiplied to be longer.
const ENOUGH: usize = 5;
/// Bytes that a literal must have.
pub const SHORT: usize = 3;

/// Literals of which every match has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// The literals.
    pub literals: Vec<Vec<u8>>,
    /// The most bytes of the match before the literal.
    pub before: usize,
}

impl Factor {
    /// The best literals of `tree`.
    pub fn of(tree: &Tree) -> Option<Factor> {
        let parts: &[Tree] = match tree {
            Tree::Any(branches) => {
                let mut whole = Factor { literals: Vec::new(), before: 0 };
                for branch in branches {
                    let factor = Factor::of(branch)?;
                    whole.literals.extend(factor.literals);
                    whole.before = whole.before.max(factor.before);
                }
                return (whole.literals.len() <= MOST).then_some(whole);
            }
            Tree::Cat(parts) => parts,
            one => std::slice::from_ref(one),
        };
        let mut best: Option<Factor> = None;
        let mut before = 0;
        for at in 0..parts.len() {
            let mut known = Prefixes::begin();
            known.take_all(&parts[at..]);
            let factor = Factor { literals: known.literals, before };
            if factor.shortest() >= SHORT && best.as_ref().is_none_or(|best| factor.score() > best.score()) {
                best = Some(factor);
            }
            match longest(&parts[at]) {
                Some(length) if before + length <= FAR => before += length,
                _ => break,
            }
        }
        best
    }

    /// The length of the shortest literal.
    pub fn shortest(&self) -> usize {
        self.literals.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// Longer is better, fewer is better.
    fn score(&self) -> usize {
        self.shortest().min(10) * 8 + 8 - self.literals.len().min(MOST).ilog2() as usize
    }
}

/// The strings with which a match goes on.
struct Prefixes {
    literals: Vec<Vec<u8>>,
    /// Whether more may be appended.
    open: bool,
}

impl Prefixes {
    fn begin() -> Prefixes {
        Prefixes { literals: vec![Vec::new()], open: true }
    }

    fn take_all(&mut self, parts: &[Tree]) {
        parts.iter().for_each(|part| self.take(part));
    }

    fn take(&mut self, part: &Tree) {
        if !self.open {
            return;
        }
        match part {
            Tree::Empty | Tree::Look(_) => {}
            Tree::Set(set) => self.append_set(set),
            Tree::Cat(parts) => self.take_all(parts),
            Tree::Any(branches) => {
                let mut all = Vec::new();
                let mut open = true;
                for branch in branches {
                    let mut one = Prefixes::begin();
                    one.take(branch);
                    open &= one.open;
                    all.extend(one.literals);
                }
                self.append(&all);
                self.open &= open;
            }
            Tree::Repeat { inner, min, max } => {
                for _ in 0..(*min).min(LONG as u32) {
                    self.take(inner);
                }
                self.open &= *max == Some(*min);
            }
        }
    }

    fn append_set(&mut self, set: &ByteSet) {
        // Where literals are long enough, more of them cost more than a longer one gains.
        let enough = set.len() > 2 && self.literals.iter().all(|literal| literal.len() >= ENOUGH);
        if enough || set.len() as usize * self.literals.len() > MOST {
            self.open = false;
            return;
        }
        let more: Vec<Vec<u8>> = set.bytes().map(|byte| vec![byte]).collect();
        self.append(&more);
    }

    fn append(&mut self, more: &[Vec<u8>]) {
        let long = self.literals.iter().any(|literal| literal.len() >= LONG);
        if long || more.len() * self.literals.len() > MOST {
            self.open = false;
            return;
        }
        let joined = |literal: &Vec<u8>| {
            let literal = literal.clone();
            more.iter().map(move |more| [&*literal, more].concat())
        };
        self.literals = self.literals.iter().flat_map(joined).collect();
    }
}

/// The most bytes that a match of `tree` has.
fn longest(tree: &Tree) -> Option<usize> {
    match tree {
        Tree::Empty | Tree::Look(_) => Some(0),
        Tree::Set(_) => Some(1),
        Tree::Cat(parts) => parts.iter().map(longest).sum(),
        Tree::Any(parts) => parts.iter().map(longest).try_fold(0, |most, length| Some(most.max(length?))),
        Tree::Repeat { inner, max, .. } => longest(inner)?.checked_mul((*max)? as usize),
    }
}
