//! Expressions as components for hardware of a width: strings of up to W sets, what may precede each, and how
//! often it repeats.

use crate::byteset::ByteSet;
use crate::error::{Refusal, Why};
use crate::expression::Expression;
use crate::look::{Look, LookSet};
use crate::positions::{Conditional, Lowering, Positions};

/// What the hardware has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes a cycle.
    pub width: usize,
    /// Components and gates.
    pub slots: usize,
    /// Character classes.
    pub classes: usize,
    /// Predecessors of a component; more go through gates.
    pub precedence: usize,
    /// Slots with a bit vector.
    pub vectors: usize,
    /// Whether the reduction unit may feed back between components.
    pub feedback: bool,
}

impl Limits {
    /// As published: 64 components; predecessors up to four.
    pub fn published(width: usize) -> Limits {
        Limits { width, slots: 64, classes: 16, precedence: 4, vectors: 64, feedback: true }
    }

    /// No limit but the width and the precedence.
    pub fn unlimited(width: usize) -> Limits {
        let most = usize::MAX;
        Limits { width, slots: most, classes: most, precedence: 4, vectors: most, feedback: true }
    }
}

/// What may precede a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pred {
    /// Any boundary: a match may begin.
    Start,
    /// The end of this node.
    Node(usize),
}

/// Why one oldest and one youngest run decide a counter exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exact {
    /// Without an upper bound the oldest run decides.
    Unbounded,
    /// From one on the youngest run decides.
    FromOne,
    /// A run begins at every byte.
    Everywhere,
    /// No run begins while another goes on, since no predecessor ends in a byte of the class.
    Alone,
}

/// How often a component repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Once.
    Once,
    /// A min-max counter.
    Counter {
        /// The fewest bytes.
        min: u32,
        /// The most.
        max: Option<u32>,
        /// Why it is exact.
        exact: Exact,
    },
    /// A bit for each age of a run.
    Vector {
        /// The fewest bytes.
        min: u32,
        /// The most.
        max: u32,
    },
}

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a byte of each set, in order. A repeated one has one set.
    Component {
        /// The sets.
        sets: Vec<ByteSet>,
        /// How often.
        repeat: Repeat,
    },
    /// Takes nothing: passes its predecessors on where the conditions hold.
    Gate(LookSet),
}

/// A component or a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it does.
    pub kind: Kind,
    /// What may precede it: its precedence vector.
    pub preds: Vec<Pred>,
    /// The expression that it is part of.
    pub expression: usize,
}

impl Node {
    /// How many bytes it takes.
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Component { sets, .. } => sets.len(),
            Kind::Gate(_) => 0,
        }
    }

    /// Whether it takes none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Expressions as nodes, predecessors first except where a group repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Design {
    /// What it was made for.
    pub limits: Limits,
    /// Components and gates.
    pub nodes: Vec<Node>,
    /// Per expression the node at whose end it matches.
    pub accepts: Vec<usize>,
}

impl Design {
    /// The components of `expressions` within `limits`.
    pub fn of(expressions: &[Expression], limits: Limits) -> Result<Design, Refusal> {
        Design::lowered(expressions, limits, &Lowering::hardware(limits.width))
    }

    /// The same, with repetition lowered as `lowering` says.
    pub fn lowered(
        expressions: &[Expression],
        limits: Limits,
        lowering: &Lowering,
    ) -> Result<Design, Refusal> {
        let mut design = Design { limits, nodes: Vec::new(), accepts: Vec::new() };
        for (number, expression) in expressions.iter().enumerate() {
            let positions = expression.positions(lowering)?;
            if !positions.empty.is_empty() {
                return Err(expression.refused(Why::EmptyMatch));
            }
            let mut parts = Parts::of(&positions, limits, number);
            let accept = parts.accept(&positions);
            design.append(parts.nodes, accept);
            design.within_limits().map_err(|why| expression.refused(why))?;
        }
        Ok(design)
    }

    /// Appends the nodes of one expression in order: a component where it stands in the text, a gate behind
    /// the last of its predecessors.
    fn append(&mut self, nodes: Vec<Node>, accept: usize) {
        let mut keys: Vec<(usize, usize)> = Vec::with_capacity(nodes.len());
        // A gate is made after the gates that it reads, so its number orders it behind them.
        let components = nodes.iter().filter(|node| !node.is_empty()).count();
        for (number, node) in nodes.iter().enumerate() {
            let before = node.preds.iter().filter_map(|pred| match pred {
                Pred::Node(pred) if *pred >= components => Some(keys[*pred].0),
                Pred::Node(pred) => Some(*pred + 1),
                Pred::Start => None,
            });
            keys.push(if node.is_empty() {
                (before.max().unwrap_or(0), number + 1)
            } else {
                (number + 1, 0)
            });
        }
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by_key(|&number| keys[number]);
        let base = self.nodes.len();
        let mut places = vec![0; nodes.len()];
        order.iter().enumerate().for_each(|(place, &number)| places[number] = base + place);
        let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
        for number in order {
            if let Some(mut node) = nodes[number].take() {
                for pred in &mut node.preds {
                    if let Pred::Node(pred) = pred {
                        *pred = places[*pred];
                    }
                }
                self.nodes.push(node);
            }
        }
        self.accepts.push(places[accept]);
    }

    fn within_limits(&self) -> Result<(), Why> {
        let Limits { slots, classes, vectors, feedback, .. } = self.limits;
        let needed = self.nodes.len();
        if needed > slots {
            return Err(Why::Slots { needed, slots });
        }
        let needed = self.classes().len();
        if needed > classes {
            return Err(Why::Classes { needed, classes });
        }
        let needed = self.vectors();
        if needed > vectors {
            return Err(Why::Vectors { needed, vectors });
        }
        if !feedback && self.feeds_back() {
            return Err(Why::Feedback);
        }
        Ok(())
    }

    /// The sets that need the class unit: those that are not the bytes with certain bits.
    pub fn classes(&self) -> Vec<ByteSet> {
        let mut classes = Vec::new();
        for node in &self.nodes {
            if let Kind::Component { sets, .. } = &node.kind {
                for set in sets {
                    if cube(set).is_none() && !classes.contains(set) {
                        classes.push(*set);
                    }
                }
            }
        }
        classes
    }

    /// How many bit vectors it needs.
    pub fn vectors(&self) -> usize {
        let vector =
            |node: &&Node| matches!(node.kind, Kind::Component { repeat: Repeat::Vector { .. }, .. });
        self.nodes.iter().filter(vector).count()
    }

    /// Whether a node precedes an earlier one.
    pub fn feeds_back(&self) -> bool {
        let back = |(at, node): (usize, &Node)| {
            node.preds.iter().any(|pred| matches!(pred, Pred::Node(pred) if *pred >= at))
        };
        self.nodes.iter().enumerate().any(back)
    }
}

/// The set as the bytes that agree with a value in the bits of a mask, if it is one: letters of either case
/// and `.` need no class.
pub fn cube(set: &ByteSet) -> Option<(u8, u8)> {
    let mut bytes = set.bytes();
    let value = bytes.next()?;
    let free = bytes.fold(0, |free, byte| free | (byte ^ value));
    (set.len() == 1 << free.count_ones()).then_some((!free, value & !free))
}

/// The nodes of one expression, components first, while they are made.
struct Parts {
    nodes: Vec<Node>,
    limits: Limits,
    expression: usize,
    /// The component that ends with a position.
    ends: Vec<usize>,
}

impl Parts {
    fn of(positions: &Positions, limits: Limits, expression: usize) -> Parts {
        let preds = preds_of(positions);
        let mut parts =
            Parts { nodes: Vec::new(), limits, expression, ends: vec![usize::MAX; positions.len()] };
        let mut heads = Vec::new();
        for position in 0..positions.len() {
            if let Some(before) = only_pred(positions, &preds, position) {
                let node = parts.ends[before];
                if let Kind::Component { sets, .. } = &mut parts.nodes[node].kind
                    && sets.len() < limits.width
                {
                    sets.push(positions.sets[position]);
                    parts.ends[position] = node;
                    continue;
                }
            }
            parts.ends[position] = parts.nodes.len();
            heads.push(position);
            let repeat = repeat_of(positions, &preds, position);
            let kind = Kind::Component { sets: vec![positions.sets[position]], repeat };
            parts.nodes.push(Node { kind, preds: Vec::new(), expression });
        }
        for (node, head) in heads.into_iter().enumerate() {
            let looped = is_loop(positions, head);
            let sources = preds[head]
                .iter()
                .filter(|(source, _)| !looped || *source != Some(head as u32))
                .map(|&(source, looks)| (parts.pred(source), looks))
                .collect();
            parts.nodes[node].preds = parts.gated(sources);
        }
        parts
    }

    fn pred(&self, source: Option<u32>) -> Pred {
        source.map_or(Pred::Start, |position| Pred::Node(self.ends[position as usize]))
    }

    /// The node at whose end the expression matches.
    fn accept(&mut self, positions: &Positions) -> usize {
        let sources = positions.last.iter().map(|&(last, looks)| (self.pred(Some(last)), looks)).collect();
        let preds = self.gated(sources);
        match *preds {
            [Pred::Node(node)] => node,
            _ => self.gate(LookSet::NONE, preds),
        }
    }

    /// The sources, those under conditions through gates, as many as a precedence vector has room for.
    fn gated(&mut self, sources: Vec<(Pred, LookSet)>) -> Vec<Pred> {
        let mut preds = Vec::new();
        let mut groups: Vec<(LookSet, Vec<Pred>)> = Vec::new();
        for (pred, looks) in sources {
            if looks.is_none() {
                preds.push(pred);
            } else if let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == looks) {
                group.push(pred);
            } else {
                groups.push((looks, vec![pred]));
            }
        }
        for (looks, group) in groups {
            let group = self.narrowed(group);
            let gate = self.gate(looks, group);
            preds.push(Pred::Node(gate));
        }
        self.narrowed(preds)
    }

    /// At most as many as a precedence vector has room for: the others are gathered by gates.
    fn narrowed(&mut self, mut preds: Vec<Pred>) -> Vec<Pred> {
        while preds.len() > self.limits.precedence {
            let groups: Vec<Vec<Pred>> = preds.chunks(self.limits.precedence).map(<[Pred]>::to_vec).collect();
            preds = groups
                .into_iter()
                .map(|group| match *group {
                    [one] => one,
                    _ => Pred::Node(self.gate(LookSet::NONE, group)),
                })
                .collect();
        }
        preds
    }

    fn gate(&mut self, looks: LookSet, preds: Vec<Pred>) -> usize {
        let gate = Node { kind: Kind::Gate(looks), preds, expression: self.expression };
        match self.nodes.iter().position(|node| *node == gate) {
            Some(known) => known,
            None => {
                self.nodes.push(gate);
                self.nodes.len() - 1
            }
        }
    }
}

/// What precedes each position: another one, or the start of a match.
type Preds = Vec<Vec<(Option<u32>, LookSet)>>;

fn preds_of(positions: &Positions) -> Preds {
    let mut preds: Preds = vec![Vec::new(); positions.len()];
    let add = |preds: &mut Preds, source, list: &[Conditional]| {
        for &(target, looks) in list {
            preds[target as usize].push((source, looks));
        }
    };
    add(&mut preds, None, &positions.first);
    for (source, follow) in positions.follow.iter().enumerate() {
        add(&mut preds, Some(source as u32), follow);
    }
    preds
}

/// The position that a position extends, if nothing else touches the joint.
fn only_pred(positions: &Positions, preds: &Preds, position: usize) -> Option<usize> {
    let [(Some(before), looks)] = *preds[position] else { return None };
    let before = before as usize;
    let free = looks.is_none()
        && before < position
        && positions.follow[before].len() == 1
        && positions.counts[before].is_none()
        && positions.counts[position].is_none()
        && !positions.last.iter().any(|&(last, _)| last as usize == before);
    free.then_some(before)
}

/// Whether the position alone repeats.
fn is_loop(positions: &Positions, position: usize) -> bool {
    positions.counts[position].is_none()
        && positions.follow[position].contains(&(position as u32, LookSet::NONE))
}

fn repeat_of(positions: &Positions, preds: &Preds, position: usize) -> Repeat {
    let Some(count) = positions.counts[position] else {
        return if is_loop(positions, position) {
            Repeat::Counter { min: 1, max: None, exact: Exact::Unbounded }
        } else {
            Repeat::Once
        };
    };
    let set = &positions.sets[position];
    let min = count.min;
    let Some(most) = count.max else {
        return Repeat::Counter { min, max: None, exact: Exact::Unbounded };
    };
    let alone = |&(source, looks): &(Option<u32>, LookSet)| match source {
        Some(before) => positions.sets[before as usize].is_disjoint(set),
        None => looks.has(Look::Start) || looks.has(Look::StartLine) && !set.has(b'\n'),
    };
    let exact = if min <= 1 {
        Exact::FromOne
    } else if preds[position].contains(&(None, LookSet::NONE)) {
        Exact::Everywhere
    } else if preds[position].iter().all(alone) {
        Exact::Alone
    } else {
        return Repeat::Vector { min, max: most };
    };
    Repeat::Counter { min, max: Some(most), exact }
}
