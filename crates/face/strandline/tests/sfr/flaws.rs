//! Broken twins: each hazard of the specification, and each step of the protocol that one could leave out.

use sfr::{Design, Flaw};

use crate::desk::caught;
use crate::scene::{SECTIONS, STEPS, Scene, Step};

fn scene(design: Design, kinds: &'static [Step]) -> Scene {
    let prunings = if design.is_pruned() { 8 } else { 0 };
    Scene { design, threads: 3, steps: 6, kinds, prunings, priorities: true, seed: 0 }
}

#[test]
fn a_store_does_not_wait_for_its_entry() {
    for design in [Design::Coupled, Design::Decoupled, Design::Strand] {
        caught(Flaw::EntryNotFenced, &scene(design, STEPS), 100);
    }
}

#[test]
fn a_head_does_not_wait_for_the_data() {
    for design in [Design::Coupled, Design::Decoupled, Design::Strand] {
        caught(Flaw::NoFenceBeforeCommit, &scene(design, STEPS), 100);
    }
    caught(Flaw::NoFenceBeforeCommit, &scene(Design::Atlas, SECTIONS), 100);
}

#[test]
fn logs_are_undone_one_after_the_other() {
    caught(Flaw::UndoneByLog, &scene(Design::Decoupled, &[Step::One]), 100);
}

#[test]
fn the_oldest_entry_is_undone_first() {
    caught(Flaw::UndoneForward, &scene(Design::Coupled, &[Step::One]), 100);
}

#[test]
fn an_acquire_reads_the_count_before_its_operation() {
    caught(Flaw::CountedBefore, &scene(Design::Decoupled, &[Step::One, Step::One, Step::Sync]), 100);
}

#[test]
fn a_freed_block_is_given_out_at_once() {
    for design in [Design::Coupled, Design::Decoupled] {
        caught(Flaw::ReusedEarly, &scene(design, &[Step::Stack]), 100);
    }
}

#[test]
fn the_pruner_ignores_what_an_acquire_waits_for() {
    caught(Flaw::NotClosed, &scene(Design::Decoupled, &[Step::One, Step::Two]), 100);
}

#[test]
fn heads_move_one_by_one() {
    caught(Flaw::HeadsOneByOne, &scene(Design::Decoupled, &[Step::One, Step::Two]), 100);
}

#[test]
fn parts_of_a_section_are_committed_apart() {
    caught(Flaw::SectionsApart, &scene(Design::Atlas, &[Step::Two]), 100);
}

#[test]
fn a_racing_operation_is_logged_outside_its_latch() {
    caught(Flaw::RacingLogged, &scene(Design::Decoupled, &[Step::Swap]), 100);
}
