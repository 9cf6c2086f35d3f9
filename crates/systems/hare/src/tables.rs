//! What is loaded into the hardware: class vectors and bit-split automata, and how many bits each takes.
//!
//! A component that is padded to every alignment spans at most two windows, so the automaton of one bit of
//! one lane knows all it needs from that bit in this window and in the previous one: four states. Each has a
//! vector with a bit per slot and end position, set where the bit does not contradict the component. What the
//! vectors of all automata have in common is what matches.

use crate::byteset::ByteSet;
use crate::design::{Design, Kind, Repeat, cube};

/// The tables of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    width: usize,
    slots: usize,
    classes: Vec<ByteSet>,
    members: Vec<Vec<bool>>,
    /// Per lane, automaton and state a vector.
    vectors: Vec<Vec<u64>>,
    stages: u64,
}

/// Bits of storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    /// Class vectors, a copy per lane.
    pub classes: u64,
    /// Automata: the next state and the vector of each state.
    pub automata: u64,
    /// The reduction unit: precedence, bounds, counters, bit vectors, two windows of match vectors.
    pub reduction: u64,
}

impl Bits {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.classes + self.automata + self.reduction
    }
}

impl Tables {
    /// The tables of `design`.
    pub fn of(design: &Design) -> Tables {
        let width = design.limits.width;
        let slots = design.nodes.len();
        let classes = design.classes();
        let members = (0..=255).map(|byte| classes.iter().map(|class| class.has(byte)).collect()).collect();
        let per_lane = 8 + classes.len();
        let mut tables = Tables {
            width,
            slots,
            classes,
            members,
            vectors: vec![vec![u64::MAX; (slots * width).div_ceil(64)]; width * per_lane * 4],
            stages: latency(slots, design.vectors()),
        };
        for (slot, node) in design.nodes.iter().enumerate() {
            if let Kind::Component { sets, .. } = &node.kind {
                (0..width).for_each(|end| tables.constrain(slot, end, sets));
            }
        }
        tables
    }

    /// Takes the bits of a component that ends at `end` out of the vectors of all states that contradict it.
    fn constrain(&mut self, slot: usize, end: usize, sets: &[ByteSet]) {
        for (back, set) in sets.iter().rev().enumerate() {
            let in_previous = back > end;
            let lane = if in_previous { self.width + end - back } else { end - back };
            let mut clear = |automaton: usize, wanted: bool| {
                for state in 0..4 {
                    let seen = if in_previous { state & 2 != 0 } else { state & 1 != 0 };
                    if seen != wanted {
                        let index = (lane * (8 + self.classes.len()) + automaton) * 4 + state;
                        let at = slot * self.width + end;
                        self.vectors[index][at / 64] &= !(1 << (at % 64));
                    }
                }
            };
            match cube(set) {
                Some((mask, value)) => {
                    (0..8)
                        .filter(|bit| mask >> bit & 1 == 1)
                        .for_each(|bit| clear(bit, value >> bit & 1 == 1));
                }
                None => {
                    let class = self.classes.iter().position(|class| class == set);
                    class.into_iter().for_each(|class| clear(8 + class, true));
                }
            }
        }
    }

    /// The vector of an automaton's state.
    pub fn partial(&self, lane: usize, automaton: usize, previous: bool, now: bool) -> &[u64] {
        let state = usize::from(previous) << 1 | usize::from(now);
        &self.vectors[(lane * self.automata_per_lane() + automaton) * 4 + state]
    }

    /// Whether the intersected vectors say that the component of `slot` ends at `position`.
    pub fn end(&self, vector: &[u64], slot: usize, position: usize) -> bool {
        let at = slot * self.width + position;
        vector[at / 64] >> (at % 64) & 1 == 1
    }

    /// To which classes a byte belongs.
    pub fn classes_of(&self, byte: u8) -> &[bool] {
        &self.members[usize::from(byte)]
    }

    /// The classes.
    pub fn classes(&self) -> &[ByteSet] {
        &self.classes
    }

    /// Automata of a lane.
    pub fn automata_per_lane(&self) -> usize {
        8 + self.classes.len()
    }

    /// All automata.
    pub fn automata(&self) -> usize {
        self.width * self.automata_per_lane()
    }

    /// Words of a vector.
    pub fn words(&self) -> usize {
        (self.slots * self.width).div_ceil(64)
    }

    /// Cycles from a window to its report.
    pub fn stages(&self) -> u64 {
        self.stages
    }
}

/// Cycles from a window to its report in a pipeline of `slots` slots, `vectors` of them with bit vectors: a
/// window waits for the next one, leaves the boundary unit, gets its classes in two cycles, passes automata,
/// their intersection and the gates; then three per slot, and one more for each that has a bit vector.
pub fn latency(slots: usize, vectors: usize) -> u64 {
    (7 + 3 * slots + vectors) as u64
}

/// The bits that hardware of the limits needs for `slots` slots and `classes` classes, `vector_bits` of them
/// in bit vectors.
pub fn bits(design: &Design) -> Bits {
    let count = |number: usize| number as u64;
    let (width, slots) = (count(design.limits.width), count(design.nodes.len()));
    let classes = count(design.classes().len());
    let vectors: u64 = design
        .nodes
        .iter()
        .map(|node| match node.kind {
            Kind::Component { repeat: Repeat::Vector { max, .. }, .. } => u64::from(max),
            _ => 0,
        })
        .sum();
    // Two next states of two bits each, and the vector.
    let state = 2 * 2 + slots * width;
    let name = u64::from(64 - slots.leading_zeros());
    Bits {
        classes: 256 * classes * width,
        automata: (8 + classes) * width * 4 * state,
        // Four names, length, two bounds and two counters of nine bits each; conditions of a gate.
        reduction: slots * (4 * name + 6 + 4 * 9 + 12) + vectors + 2 * width * (slots + 1),
    }
}
