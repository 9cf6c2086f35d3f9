//! A hunt for programs on which axioms and machine disagree.

use super::{Design, Instruction, Litmus, Report, check};

/// Numbers by chance, the same from the same seed (splitmix64).
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % count as u64) as usize
    }
}

/// The program of that seed for a design.
#[must_use]
pub fn program(design: Design, seed: u64) -> Litmus {
    let mut dice = Dice(seed);
    let shapes: &[&[usize]] = &[&[5], &[7], &[2, 2], &[3, 2], &[3, 3]];
    let lengths = shapes[dice.below(shapes.len())];
    let locations = 2 + dice.below(2);
    let count = lengths.len();
    let threads = lengths.iter().enumerate().map(|(thread, &length)| {
        let mut program = Vec::new();
        let mut open = false;
        for _ in 0..length {
            program.push(instruction(design, &mut dice, locations, (thread, count), &mut open));
        }
        if open {
            program.push(Instruction::End);
        }
        program
    });
    Litmus {
        name: format!("random {seed}"),
        design,
        threads: threads.collect(),
        // One that nothing but an acknowledgement uses.
        locations: (0..=locations * count).map(|at| char::from(b'A' + at as u8).to_string()).collect(),
        locks: vec!["l".to_owned()],
        exactly: None,
        allowed: Vec::new(),
        forbidden: Vec::new(),
    }
}

fn instruction(
    design: Design,
    dice: &mut Dice,
    locations: usize,
    (thread, threads): (usize, usize),
    open: &mut bool,
) -> Instruction {
    // Regions and connections are not isolated from each other: each thread has locations of its own then.
    let apart = design.has_regions() || matches!(design, Design::Remote { .. });
    let at = dice.below(locations) + if apart { thread * locations } else { 0 };
    let value = 1 + dice.below(2) as u64;
    let kind = dice.below(20);
    let (barrier, new, join) = (Instruction::Barrier, Instruction::New, Instruction::Join);
    match design {
        Design::Remote { .. } => match kind {
            0..=8 => Instruction::Write(at, value),
            9..=11 => Instruction::Flush,
            12..=13 => Instruction::Read,
            14..=16 => Instruction::Wait,
            17 => Instruction::Break,
            // The last location is not the other side's.
            _ => Instruction::Ack(locations * threads, value),
        },
        _ if kind <= 8 => Instruction::Store(at, value),
        _ if kind == 9 => Instruction::Load(at),
        Design::Strands { .. } => match kind {
            10..=13 => barrier,
            14..=16 => new,
            _ => join,
        },
        Design::Epoch | Design::Speculative if kind <= 16 => Instruction::Sfence,
        Design::Epoch | Design::Speculative => Instruction::Mfence,
        Design::Undo | Design::Redo | Design::Ssp if kind <= 14 => {
            *open = !*open;
            if *open { Instruction::Begin } else { Instruction::End }
        }
        _ => match kind {
            10..=15 => Instruction::Clwb(at),
            16..=17 => Instruction::Sfence,
            18 => barrier,
            _ => join,
        },
    }
}

/// Tries the programs of `count` seeds from `first` on. Returns the first disagreement, with as few instructions as it takes.
#[must_use]
pub fn hunt(design: Design, first: u64, count: u64) -> Option<Report> {
    (first..first + count).map(|seed| check(&program(design, seed))).find(disagrees).map(shrink)
}

fn disagrees(report: &Report) -> bool {
    report.axioms != report.machine
}

/// Leaves out instructions as long as the two disagree.
fn shrink(mut report: Report) -> Report {
    'again: loop {
        for thread in 0..report.litmus.threads.len() {
            for at in 0..report.litmus.threads[thread].len() {
                let mut less = report.litmus.clone();
                less.threads[thread].remove(at);
                let less = check(&less);
                if disagrees(&less) {
                    report = less;
                    continue 'again;
                }
            }
        }
        return report;
    }
}
