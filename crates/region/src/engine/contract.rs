//! What every engine promises of words that are written past regions: what a region wrote there before is not done again.

use space::sim::{self, Schedule};
use space::{Env, Image, Sim, Space};

use super::state::State;
use super::{Atomicity, Engine, Logs, MicroBuffer, Recovered, Redo, Shadow, Ssp, Undo};

const LOGS: Logs = Logs { base: 4096, count: 2, bytes: 1024, state: 64, end: 1 << 16 };
/// A word of the pool.
const WORD: u64 = 1 << 15;

/// What the memory has after these steps, each with what the word is then.
fn left<A: Atomicity>() -> Vec<(Image, u64)> {
    let mut left = Vec::new();
    let run = sim::run(Image::new(LOGS.end), &Schedule::walk(1), |env: &Sim<Image>| {
        let space = env.space();
        State { below: 0, void: false }.write(space, LOGS.state);
        let engine = A::Engine::<Sim<Image>>::new(env, LOGS, &Recovered::default());
        let region = |value| {
            let mut region = engine.begin(env);
            engine.store(env, &mut region, WORD, value).expect("there is room");
            engine.commit(env, region).expect("the memory works");
        };
        let mut keep = |value| left.push((Image::from_bytes(&space.inner().to_bytes()), value));
        for value in (0..40).step_by(4) {
            region(value);
            engine.set_alone(env, WORD, value + 1).expect("the memory works");
            keep(value + 1);
            region(value + 2);
            engine.settle(env).expect("the memory works");
            space.store_u64(WORD, value + 3);
            space.persist(WORD, 8);
            keep(value + 3);
        }
    });
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    left
}

fn keeps_what_is_written_past_regions<A: Atomicity>() {
    for (image, value) in left::<A>() {
        let run = sim::run(image, &Schedule::walk(1), |env: &Sim<Image>| {
            A::Engine::<Sim<Image>>::recover(env.space(), &LOGS).map(|_| env.space().load_u64(WORD))
        });
        let found = run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
        assert_eq!(found, Ok(value), "{}", A::NAME);
    }
}

#[test]
fn what_is_written_past_regions_stays() {
    keeps_what_is_written_past_regions::<Redo>();
    keeps_what_is_written_past_regions::<Undo>();
    keeps_what_is_written_past_regions::<MicroBuffer>();
    keeps_what_is_written_past_regions::<Shadow>();
    keeps_what_is_written_past_regions::<Ssp>();
}
