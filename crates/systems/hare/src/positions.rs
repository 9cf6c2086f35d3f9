//! An expression as positions: each takes one byte of a set, some of them counted, and knows what may follow
//! (Glushkov's construction). What hardware and software share.

use crate::byteset::ByteSet;
use crate::error::Why;
use crate::look::LookSet;
use crate::tree::Tree;

/// How repetition is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lowering {
    /// Unroll `x{n}` of one set up to this bound, and leave longer ones to a counter.
    pub unroll_exact: u32,
    /// The same for `x{m,n}`.
    pub unroll_range: u32,
    /// Leave out what a match need not begin with (see [`Tree::trimmed`]).
    pub trim: bool,
    /// The most positions.
    pub positions: usize,
    /// The largest bound of a counter.
    pub bound: u32,
    /// Counters in a row for larger bounds, up to this one.
    pub bound_of_rows: u32,
}

impl Lowering {
    /// For software: short repetitions are positions, which cost one bit each.
    pub const SOFTWARE: Lowering = Lowering {
        unroll_exact: 16,
        unroll_range: 16,
        trim: true,
        positions: 4096,
        bound: 65_535,
        bound_of_rows: 65_535,
    };

    /// As published: each quantifier's operand is a component of its own.
    pub const PUBLISHED: Lowering = Lowering {
        unroll_exact: 0,
        unroll_range: 0,
        trim: false,
        positions: 4096,
        bound: 256,
        bound_of_rows: 256,
    };

    /// For hardware of a width: what fits in a component is unrolled.
    pub fn hardware(width: usize) -> Lowering {
        let unroll_exact = u32::try_from(width).unwrap_or(u32::MAX).max(2);
        Lowering {
            unroll_exact,
            unroll_range: 2,
            trim: true,
            positions: 4096,
            bound: 256,
            bound_of_rows: 4096,
        }
    }
}

/// The bounds of a counted position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The fewest bytes, at least 1.
    pub min: u32,
    /// The most.
    pub max: Option<u32>,
}

/// A position by its number, under a condition on the boundary.
pub type Conditional = (u32, LookSet);

/// An expression as positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// What each position takes.
    pub sets: Vec<ByteSet>,
    /// How often, if not once.
    pub counts: Vec<Option<Count>>,
    /// Where a match may begin.
    pub first: Vec<Conditional>,
    /// What may follow each position.
    pub follow: Vec<Vec<Conditional>>,
    /// Where a match may end.
    pub last: Vec<Conditional>,
    /// Under which conditions the empty string matches.
    pub empty: Vec<LookSet>,
}

/// The positions of a part of the expression.
struct Part {
    first: Vec<Conditional>,
    last: Vec<Conditional>,
    empty: Vec<LookSet>,
}

impl Positions {
    /// The positions of `tree`.
    pub fn of(tree: &Tree, lowering: &Lowering) -> Result<Positions, Why> {
        let mut all = Positions::default();
        let tree = if lowering.trim { tree.clone().trimmed() } else { tree.clone() };
        let part = all.lower(&tree, lowering)?;
        (all.first, all.last, all.empty) = (part.first, part.last, part.empty);
        Ok(all)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are none: only the empty string matches, or nothing.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Whether any condition on a boundary matters.
    pub fn looks(&self) -> bool {
        let conditional = |list: &[Conditional]| list.iter().any(|(_, looks)| !looks.is_none());
        conditional(&self.first)
            || conditional(&self.last)
            || self.follow.iter().any(|follow| conditional(follow))
            || self.empty.iter().any(|looks| !looks.is_none())
    }

    fn lower(&mut self, tree: &Tree, lowering: &Lowering) -> Result<Part, Why> {
        match tree {
            Tree::Empty => Ok(Part::of_looks(LookSet::NONE)),
            Tree::Look(looks) => Ok(Part::of_looks(*looks)),
            Tree::Set(set) if set.is_empty() => Ok(Part { first: vec![], last: vec![], empty: vec![] }),
            Tree::Set(set) => self.position(*set, None, lowering),
            Tree::Cat(parts) => {
                let mut whole = Part::of_looks(LookSet::NONE);
                for part in parts {
                    let next = self.lower(part, lowering)?;
                    whole = self.joined(whole, next);
                }
                Ok(whole)
            }
            Tree::Any(parts) => {
                let mut whole = Part { first: vec![], last: vec![], empty: vec![] };
                for part in parts {
                    let next = self.lower(part, lowering)?;
                    whole.first.extend(next.first);
                    whole.last.extend(next.last);
                    next.empty.into_iter().for_each(|looks| add_looks(&mut whole.empty, looks));
                }
                Ok(whole)
            }
            Tree::Repeat { inner, min, max } => self.repeat(inner, *min, *max, lowering),
        }
    }

    fn repeat(&mut self, inner: &Tree, min: u32, max: Option<u32>, lowering: &Lowering) -> Result<Part, Why> {
        let loops = max.is_none() && min <= 1;
        if let (Tree::Set(set), false) = (inner, loops)
            && !set.is_empty()
            && !unrolled(min, max, lowering)
        {
            return self.counted(*set, min, max, lowering);
        }
        // A last copy that loops stands for all further ones; optional copies are nested, each within the
        // one before, by joining to the right.
        let Some(max) = max else {
            let mut whole = Part::of_looks(LookSet::NONE);
            for _ in 1..min {
                let next = self.lower(inner, lowering)?;
                whole = self.joined(whole, next);
            }
            let mut looped = self.lower(inner, lowering)?;
            self.connect(&looped.last, &looped.first);
            if min == 0 {
                add_looks(&mut looped.empty, LookSet::NONE);
            }
            return Ok(self.joined(whole, looped));
        };
        let mut whole = Part::of_looks(LookSet::NONE);
        for copy in 0..max {
            let mut next = self.lower(inner, lowering)?;
            if copy >= min {
                add_looks(&mut next.empty, LookSet::NONE);
            }
            whole = self.joined(whole, next);
            // Edges grow with the square of optional copies.
            if whole.last.len() > lowering.positions / 4 {
                return Err(Why::TooManyPositions { limit: lowering.positions });
            }
        }
        Ok(whole)
    }

    /// Counters in a row whose bounds add up to those of the repetition.
    fn counted(
        &mut self,
        set: ByteSet,
        min: u32,
        max: Option<u32>,
        lowering: &Lowering,
    ) -> Result<Part, Why> {
        let bound = max.unwrap_or(min);
        if bound > lowering.bound_of_rows {
            return Err(Why::Bound { bound, limit: lowering.bound_of_rows });
        }
        let mut whole = Part::of_looks(LookSet::NONE);
        let (mut left_min, mut left_max) = (min, max);
        loop {
            let rest = left_max.unwrap_or(left_min);
            let last = rest <= lowering.bound;
            let piece = if last {
                (left_min, left_max)
            } else {
                (left_min.min(lowering.bound), Some(lowering.bound))
            };
            let count = Count { min: piece.0.max(1), max: piece.1 };
            let mut part = self.position(set, Some(count), lowering)?;
            if piece.0 == 0 {
                add_looks(&mut part.empty, LookSet::NONE);
            }
            whole = self.joined(whole, part);
            if last {
                return Ok(whole);
            }
            left_min -= piece.0;
            left_max = left_max.map(|max| max - lowering.bound);
        }
    }

    fn position(&mut self, set: ByteSet, count: Option<Count>, lowering: &Lowering) -> Result<Part, Why> {
        if self.sets.len() >= lowering.positions {
            return Err(Why::TooManyPositions { limit: lowering.positions });
        }
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        self.sets.push(set);
        self.counts.push(count);
        self.follow.push(Vec::new());
        let at = vec![(number, LookSet::NONE)];
        Ok(Part { first: at.clone(), last: at, empty: vec![] })
    }

    /// `left`, then `right`.
    fn joined(&mut self, left: Part, right: Part) -> Part {
        self.connect(&left.last, &right.first);
        let mut first = left.first;
        for &before in &left.empty {
            add_all(&mut first, &right.first, before);
        }
        let mut last = right.last;
        for &after in &right.empty {
            add_all(&mut last, &left.last, after);
        }
        let mut empty = Vec::new();
        for one in &left.empty {
            right.empty.iter().for_each(|other| add_looks(&mut empty, one.and(*other)));
        }
        Part { first, last, empty }
    }

    fn connect(&mut self, from: &[Conditional], to: &[Conditional]) {
        for &(position, looks) in from {
            let follow = &mut self.follow[position as usize];
            add_all(follow, to, looks);
        }
    }
}

impl Part {
    fn of_looks(looks: LookSet) -> Part {
        Part { first: vec![], last: vec![], empty: vec![looks] }
    }
}

fn unrolled(min: u32, max: Option<u32>, lowering: &Lowering) -> bool {
    match max {
        Some(1) => true,
        Some(max) if max == min => max <= lowering.unroll_exact,
        Some(max) => max <= lowering.unroll_range,
        None => min <= lowering.unroll_exact,
    }
}

/// Adds `more` under a further condition, without what a weaker condition has already.
fn add_all(list: &mut Vec<Conditional>, more: &[Conditional], looks: LookSet) {
    if list.is_empty() {
        list.extend(more.iter().map(|&(position, own)| (position, own.and(looks))));
        return;
    }
    for &(position, own) in more {
        let all = own.and(looks);
        if !list.iter().any(|&(known, weaker)| known == position && all.includes(weaker)) {
            list.retain(|&(known, stronger)| known != position || !stronger.includes(all));
            list.push((position, all));
        }
    }
}

fn add_looks(list: &mut Vec<LookSet>, looks: LookSet) {
    if !list.iter().any(|weaker| looks.includes(*weaker)) {
        list.retain(|stronger| !stronger.includes(looks));
        list.push(looks);
    }
}
