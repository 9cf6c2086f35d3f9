//! A second crash, in recovery: what it leaves is recovered to the same.

use std::cell::RefCell;
use std::collections::BTreeSet;

use space::sim::Schedule;
use space::{Image, Scratch, Space};
use strandline::check::{self, Check};
use strandline::crash::Platform;
use vnvm::{Flaw, recover};

use crate::desk::{Scene, judge, record, recovered};
use crate::host::{FILE_BYTES, FILES, Machine, file_at};

/// What is in the files.
fn files(image: &Scratch) -> Vec<u8> {
    let mut bytes = vec![0; (FILES * FILE_BYTES) as usize];
    image.load(file_at(0), &mut bytes);
    bytes
}

/// Crashes in recovery, of some images of a scene; the first that is recovered to something else.
fn differs(scene: &Scene, flaw: Option<Flaw>, images_most: usize) -> Option<String> {
    let (run, journal) = record(scene);
    let images = RefCell::new(BTreeSet::new());
    let mut check = Check::new(&run);
    check.checker.bounds.per_cut = 3;
    check.run(|image, crash| {
        images.borrow_mut().insert(image.to_bytes());
        judge(scene, &journal, image, crash)
    });
    let images: Vec<_> = images.into_inner().into_iter().collect();
    let step = images.len().div_ceil(images_most);
    images.iter().step_by(step).find_map(|bytes| {
        let whole = Scratch::from_bytes(bytes);
        recovered(&whole, None).expect("it was judged");
        let before = files(&whole);
        let again = check::record_on(Image::from_bytes(bytes), Platform::ADR, &Schedule::walk(1), |env| {
            let machine = Machine::new(env);
            recover(&machine.process(63), flaw).expect("it was judged");
        });
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        let mut check = Check::new(&again);
        check.checker.bounds.per_cut = 24;
        check.checker.bounds.findings = 1;
        let outcome = check.run(|image, _| {
            recovered(image, flaw)?;
            (files(image) == before).then_some(()).ok_or_else(|| "the files differ".to_owned())
        });
        (!outcome.findings.is_empty()).then(|| check.story(&outcome))
    })
}

#[test]
fn a_crash_in_recovery_is_repeated() {
    for shared in [false, true] {
        let scene = Scene { shared, seed: 5, ..Scene::PLAIN };
        if let Some(story) = differs(&scene, None, 25) {
            panic!("{scene:?}\n{story}");
        }
    }
}

/// A fault of recovery is found.
pub fn caught_in_recovery(flaw: Flaw) {
    let found = (1..=6).any(|seed| differs(&Scene { seed, ..Scene::PLAIN }, Some(flaw), 25).is_some());
    assert!(found, "{flaw:?} was not found");
}
