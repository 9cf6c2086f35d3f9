//! The protocol as it is, and its broken twins.

use strandline::check::Check;
use vnvm::Flaw;

use crate::desk::{Scene, explore};

/// Nothing is found in some seeds of a scene.
fn holds(scene: Scene, seeds: u64) {
    let mut images = 0;
    for seed in 1..=seeds {
        let scene = Scene { seed, ..scene };
        let (run, outcome) = explore(&scene, 16);
        assert!(outcome.findings.is_empty(), "{scene:?}\n{}", Check::new(&run).story(&outcome));
        images += outcome.images;
    }
    println!("{images} images of {scene:?}");
    assert!(images > 100 * seeds, "only {images} images");
}

/// A fault is found in some seed.
fn caught(scene: Scene, seeds: u64) {
    let mut images = 0;
    for seed in 1..=seeds {
        let (_, outcome) = explore(&Scene { seed, ..scene }, 60);
        images += outcome.images;
        if !outcome.findings.is_empty() {
            return;
        }
    }
    panic!("{:?} was not found in {images} images", scene.flaw);
}

#[test]
fn private_regions() {
    holds(Scene::PLAIN, 3);
    holds(Scene { durable_first: true, bypass: false, ..Scene::PLAIN }, 3);
}

#[test]
fn a_shared_region() {
    holds(Scene { shared: true, ..Scene::PLAIN }, 4);
}

#[test]
fn a_dead_process_is_adopted() {
    holds(Scene { adopted: true, ..Scene::PLAIN }, 3);
    holds(Scene { adopted: true, shared: true, ..Scene::PLAIN }, 2);
}

#[test]
fn broken_twins_of_the_log_are_caught() {
    for flaw in [Flaw::LinkBeforeContent, Flaw::DeleteBeforeRedo, Flaw::FreeBeforeDelete] {
        caught(Scene { flaw: Some(flaw), steps: 8, ..Scene::PLAIN }, 20);
    }
}

#[test]
fn broken_twins_of_the_cache_are_caught() {
    for flaw in [Flaw::TagBeforeContent, Flaw::CleanBeforeSync] {
        caught(Scene { flaw: Some(flaw), steps: 8, ..Scene::PLAIN }, 20);
    }
}

#[test]
fn broken_twins_of_recovery_are_caught() {
    for flaw in [Flaw::LogBeforeCache, Flaw::EraseBeforeSync] {
        crate::again::caught_in_recovery(flaw);
    }
}

#[test]
fn a_broken_adoption_is_caught() {
    caught(Scene { flaw: Some(Flaw::ListBeforeTags), adopted: true, ..Scene::PLAIN }, 20);
}
