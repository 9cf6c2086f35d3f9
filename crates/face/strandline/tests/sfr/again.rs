//! Crashes in recovery: what it leaves is recovered to the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use pmem::Os;
use sfr::{Design, Flaw, Pool};
use space::sim::Schedule;
use space::{Image, Scratch, Space};
use strandline::check::{self, Check};
use strandline::crash::Platform;

use crate::desk::{judge, options, record};
use crate::scene::{self, SECTIONS, STEPS, Scene};

/// What a program finds in a recovered pool.
fn found(scene: &Scene, flaw: Option<Flaw>, image: &Scratch) -> Result<Vec<u8>, String> {
    let env = Os::new(image);
    let (pool, _) = Pool::open(&env, &options(scene.design, flaw)).map_err(|error| error.to_string())?;
    let mut bytes = vec![0; scene::ROOT as usize];
    image.load(pool.root(), &mut bytes);
    Ok(bytes)
}

/// Whether a second crash, in recovery or after it, changes what a program finds.
fn repeats(scene: &Scene, flaw: Option<Flaw>) -> bool {
    let (run, journal) = record(scene, None);
    let images = RefCell::new(BTreeSet::new());
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 3;
    check.run(|image, crash| {
        images.borrow_mut().insert(image.to_bytes());
        judge(scene, &journal, None, image, crash)
    });
    let images: Vec<_> = images.into_inner().into_iter().collect();
    let step = images.len().div_ceil(24);
    images.iter().step_by(step).all(|bytes| {
        let before = found(scene, None, &Scratch::from_bytes(bytes)).expect("it was judged");
        let schedule = Schedule::walk(scene.seed);
        let again = check::record_on(Image::from_bytes(bytes), Platform::ADR, &schedule, |env| {
            drop(Pool::open(env, &options(scene.design, flaw)).expect("it was judged"));
        });
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        let mut check = Check::new(&again);
        check.checker.bounds.per_cut = 40;
        let outcome = check.run(|image, _| {
            let now = found(scene, flaw, image)?;
            (now == before).then_some(()).ok_or_else(|| "what is found has changed".to_owned())
        });
        outcome.findings.is_empty()
    })
}

fn scene(design: Design) -> Scene {
    let kinds = if design == Design::Atlas { SECTIONS } else { STEPS };
    Scene { design, threads: 3, steps: 5, kinds, prunings: 3, priorities: false, seed: 7 }
}

#[test]
fn a_crash_in_recovery_is_repeated() {
    for design in [Design::Coupled, Design::Decoupled, Design::Strand, Design::Atlas] {
        assert!(repeats(&scene(design), None), "{design}");
    }
}

#[test]
fn heads_that_move_before_recovery_has_written_are_caught() {
    assert!(!repeats(&scene(Design::Decoupled), Some(Flaw::HeadsBeforeUndo)));
}
