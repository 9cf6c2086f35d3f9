//! The designs as they are.

use sfr::Design;

use crate::desk::holds;
use crate::scene::{LARGE, SECTIONS, STEPS, Scene};

fn all(design: Design, kinds: &'static [crate::scene::Step]) {
    for seed in 1..=6 {
        let prunings = if design.is_pruned() { 6 * (seed % 2) as u32 } else { 0 };
        holds(&Scene {
            design,
            threads: 1 + seed % 4,
            steps: 6,
            kinds,
            prunings,
            priorities: seed > 2,
            seed,
        });
    }
}

#[test]
fn coupled() {
    all(Design::Coupled, STEPS);
}

#[test]
fn decoupled() {
    all(Design::Decoupled, STEPS);
}

#[test]
fn strand() {
    all(Design::Strand, STEPS);
}

#[test]
fn atlas() {
    all(Design::Atlas, SECTIONS);
}

#[test]
fn long_regions_and_large_blocks() {
    for design in [Design::Coupled, Design::Decoupled, Design::Strand, Design::Atlas] {
        all(design, LARGE);
    }
}
