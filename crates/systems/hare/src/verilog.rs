//! The hardware as Verilog, and the tables that make it scan for certain expressions.
//!
//! The Verilog does not depend on the expressions: what is loaded does. Slots stand in a row, each a stage of
//! the pipeline, so a component may only follow components of earlier slots.

use std::fmt::Write as _;

use crate::design::{Design, Kind, Limits, Pred, Repeat};
use crate::error::{Refusal, Why};
use crate::expression::Expression;
use crate::tables::{Tables, latency};

/// The modules, by file.
pub const MODULES: [(&str, &str); 7] = [
    ("hare.v", include_str!("../rtl/hare.v")),
    ("hare_boundary.v", include_str!("../rtl/hare_boundary.v")),
    ("hare_classes.v", include_str!("../rtl/hare_classes.v")),
    ("hare_automata.v", include_str!("../rtl/hare_automata.v")),
    ("hare_gate.v", include_str!("../rtl/hare_gate.v")),
    ("hare_slot.v", include_str!("../rtl/hare_slot.v")),
    ("hare_bench.v", include_str!("../rtl/hare_bench.v")),
];

/// The parameters of the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// Bytes a cycle.
    pub width: usize,
    /// Slots.
    pub slots: usize,
    /// Character classes, at most 32.
    pub classes: usize,
    /// Every so many slots one has a bit vector.
    pub vector_every: usize,
}

/// What is loaded for a set of expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The hardware that it is for.
    pub hardware: Hardware,
    /// The components.
    pub design: Design,
    /// Addresses and words.
    pub words: Vec<(u32, u32)>,
    /// Per expression the slot whose matches are its own.
    pub accepts: Vec<usize>,
}

impl Hardware {
    /// As published: 64 slots; 16 classes.
    pub fn published(width: usize) -> Hardware {
        Hardware { width, slots: 64, classes: 16, vector_every: 16 }
    }

    /// Cycles from a window to its report, if the next window follows at once.
    pub fn latency(&self) -> u64 {
        latency(self.slots, self.slots / self.vector_every)
    }

    /// The parameters as Verilog has them.
    pub fn parameters(&self) -> [(&'static str, usize); 5] {
        let bits_of_width = (self.width + 1).next_power_of_two().trailing_zeros() as usize;
        [
            ("W", self.width),
            ("S", self.slots),
            ("C", self.classes),
            ("V", self.vector_every),
            ("K", bits_of_width),
        ]
    }

    /// The module with its parameters set.
    pub fn top(&self) -> String {
        let list: Vec<String> =
            self.parameters().iter().map(|(name, value)| format!(".{name}({value})")).collect();
        include_str!("../rtl/scan.v.in")
            .replace("@PARAMETERS@", &list.join(", "))
            .replace("@TEXT@", &(8 * self.width - 1).to_string())
            .replace("@COUNT@", &(self.parameters()[4].1 - 1).to_string())
            .replace("@MATCH@", &(self.slots * self.width - 1).to_string())
    }

    fn limits(&self) -> Limits {
        Limits {
            width: self.width,
            slots: self.slots,
            classes: self.classes,
            precedence: 4,
            vectors: self.slots / self.vector_every,
            feedback: false,
        }
    }
}

impl Image {
    /// What is to be loaded for `expressions`.
    pub fn of(expressions: &[Expression], hardware: Hardware) -> Result<Image, Refusal> {
        let design = Design::of(expressions, hardware.limits())?;
        let Some(places) = places(&design, hardware) else {
            // The last expression that needs a vector finds none behind what it follows.
            let why =
                Why::Vectors { needed: design.vectors(), vectors: hardware.slots / hardware.vector_every };
            return Err(expressions[expressions.len() - 1].refused(why));
        };
        let accepts = design.accepts.iter().map(|&node| places[node]).collect();
        let mut image = Image { hardware, design, words: Vec::new(), accepts };
        image.load_classes();
        image.load_automata(&places);
        image.load_slots(&places);
        Ok(image)
    }

    /// The words as text, a line each.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (address, word) in &self.words {
            // Writing to a string does not fail.
            writeln!(text, "{address:08x} {word:08x}").ok();
        }
        text
    }

    fn put(&mut self, table: u32, a: usize, b: usize, c: usize, word: u32) {
        self.words.push((table << 28 | (a as u32) << 16 | (b as u32) << 4 | c as u32, word));
    }

    fn load_classes(&mut self) {
        let classes = self.design.classes();
        for byte in 0..=255u8 {
            let members = classes.iter().enumerate().filter(|(_, class)| class.has(byte));
            let word = members.fold(0, |word, (number, _)| word | 1 << number);
            self.put(1, usize::from(byte), 0, 0, word);
        }
    }

    fn load_automata(&mut self, places: &[usize]) {
        let Hardware { width, slots, classes, .. } = self.hardware;
        let tables = Tables::of(&self.design);
        for lane in 0..width {
            for automaton in 0..8 + classes {
                for state in 0..4 {
                    let mut words = vec![0u32; (slots * width).div_ceil(32)];
                    for (node, &slot) in places.iter().enumerate() {
                        for end in 0..width {
                            // Classes that are not used contradict nothing.
                            let fits = automaton >= tables.automata_per_lane() || {
                                let vector = tables.partial(lane, automaton, state & 2 != 0, state & 1 != 0);
                                tables.end(vector, node, end)
                            };
                            let at = slot * width + end;
                            words[at / 32] |= u32::from(fits) << (at % 32);
                        }
                    }
                    for (word, value) in words.into_iter().enumerate() {
                        self.put(2, lane * (8 + classes) + automaton, word, state, value);
                    }
                }
            }
        }
    }

    fn load_slots(&mut self, places: &[usize]) {
        for slot in 0..self.hardware.slots {
            let node = places.iter().position(|&place| place == slot);
            let Some(node) = node.map(|node| self.design.nodes[node].clone()) else {
                // A free slot: a component that follows nothing.
                (0..3).for_each(|field| self.put(3, slot, field, 0, u32::from(field == 0)));
                self.put_bits(slot, 16, &vec![false; self.hardware.slots]);
                self.put_vector(slot, 1..1);
                continue;
            };
            let (looks, repeat, length) = match &node.kind {
                Kind::Gate(looks) => (u32::from(looks.bits()), Repeat::Once, 0),
                Kind::Component { sets, repeat } => (0, *repeat, sets.len() as u32),
            };
            let (repeats, min, max, by_vector) = match repeat {
                Repeat::Once => (false, 1, 1, false),
                Repeat::Counter { min, max, .. } => (true, min, max.unwrap_or(1023), false),
                Repeat::Vector { min, max } => (true, min, max, true),
            };
            let begins = node.preds.contains(&Pred::Start);
            self.put(3, slot, 0, 0, looks << 16 | u32::from(repeats) << 8 | length);
            self.put(3, slot, 1, 0, max << 16 | min);
            self.put(3, slot, 2, 0, u32::from(by_vector) << 1 | u32::from(begins));
            let mut preds = vec![false; self.hardware.slots];
            for pred in &node.preds {
                if let Pred::Node(pred) = pred {
                    preds[places[*pred]] = true;
                }
            }
            self.put_bits(slot, 16, &preds);
            self.put_vector(slot, if by_vector { min..max + 1 } else { 1..1 });
        }
    }

    fn put_vector(&mut self, slot: usize, ages: std::ops::Range<u32>) {
        if has_vector(slot, self.hardware) {
            let bits: Vec<bool> = (1..=256).map(|age| ages.contains(&age)).collect();
            self.put_bits(slot, 64, &bits);
        }
    }

    fn put_bits(&mut self, slot: usize, field: usize, bits: &[bool]) {
        for (number, bits) in bits.chunks(32).enumerate() {
            let word = bits.iter().rev().fold(0, |word, &bit| word << 1 | u32::from(bit));
            self.put(3, slot, field + number, 0, word);
        }
    }
}

fn has_vector(slot: usize, hardware: Hardware) -> bool {
    slot % hardware.vector_every == hardware.vector_every - 1
}

/// The slot of each node: in order, with bit vectors where there are some.
fn places(design: &Design, hardware: Hardware) -> Option<Vec<usize>> {
    let mut next = 0;
    let mut places = Vec::with_capacity(design.nodes.len());
    for node in &design.nodes {
        if matches!(node.kind, Kind::Component { repeat: Repeat::Vector { .. }, .. }) {
            while !has_vector(next, hardware) {
                next += 1;
            }
        }
        places.push(next);
        next += 1;
    }
    (next <= hardware.slots).then_some(places)
}
