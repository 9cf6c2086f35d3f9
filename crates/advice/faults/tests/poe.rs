//! Every interleaving of small scenes of the offload engine, sound and with each mistake.

use faults::poe::{Flaw, Over, System, at_rest, finish, scene::SCENES};
use space::sim::{Accesses, Schedule, run};
use space::{Env, Image, Space};

const MOST: u64 = 20_000_000;

#[test]
fn no_interleaving_breaks_an_invariant() {
    for scene in SCENES {
        let found = scene.explore(None, MOST);
        println!("{}: {} states, {} runs", scene.name, found.states, found.runs);
        assert_eq!(found.failure, None, "{}", scene.name);
        assert!(found.complete && found.states > 100, "{}: {} states", scene.name, found.states);
    }
}

#[test]
fn each_mistake_is_found() {
    let mut missed = Vec::new();
    for flaw in Flaw::ALL {
        // Most show early in some scene; only then is every scene explored whole.
        let within = |most| {
            SCENES.iter().find_map(|scene| Some((scene.name, scene.explore(Some(flaw), most).failure?)))
        };
        let found = within(20_000).or_else(|| within(MOST));
        match found {
            Some((scene, broken)) => println!("{flaw:?}: {scene}: {} {:?}", broken.what, broken.schedule),
            None => missed.push(flaw),
        }
    }
    assert_eq!(missed, []);
}

/// The same actors on simulated threads, with seeded schedules: what the explorer runs is ordinary code on
/// an `Env`.
#[test]
fn they_run_on_an_environment() {
    for scene in SCENES {
        for seed in 0..8 {
            let schedule = Schedule::walk(seed).at_accesses(Accesses::Every);
            let words: Vec<u8> = scene.words().iter().flat_map(|word| word.to_le_bytes()).collect();
            let ran = run(Image::from_bytes(&words), &schedule, |env| {
                env.threads(scene.parts.len() as u32, |part| {
                    let system = System { memory: Over(env), scope: scene.scope, flaw: None };
                    finish(scene.perform(&system, scene.parts[part as usize]));
                });
                at_rest(&scene.scope, |at| env.space().inner().load_u64(8 * at))
            });
            assert_eq!(ran.result.expect("no part fails"), Ok(()), "{}, seed {seed}", scene.name);
        }
    }
}
