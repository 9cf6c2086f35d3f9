//! Words that are written without a region: recovery leaves what a region wrote there before.

use space::sim::{self, Schedule};
use space::{Env, Image, Sim, Space};

use region::{Atomicity, Engine, Logs, Recovered};

const LOGS: Logs = Logs { base: 4096, count: 2, bytes: 1024, state: 64, end: 1 << 16 };
/// A word of the pool.
const WORD: u64 = 1 << 15;

/// The memory after each step, and the value of the word then.
fn left<A: Atomicity>() -> Vec<(Image, u64)> {
    let mut left = Vec::new();
    let run = sim::run(Image::new(LOGS.end), &Schedule::walk(1), |env: &Sim<Image>| {
        let space = env.space();
        space.store_u64(LOGS.state, region::guarded::seal(LOGS.state, 0));
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
            engine.checkpoint(env).expect("the memory works");
            space.store_u64(WORD, value + 3);
            space.persist(WORD, 8);
            keep(value + 3);
        }
    });
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
    left
}

/// [`Engine::set_alone`], and words that are written after [`Engine::checkpoint`], survive recovery.
///
/// # Panics
/// If they do not.
pub fn words<A: Atomicity>() {
    for (image, value) in left::<A>() {
        let run = sim::run(image, &Schedule::walk(1), |env: &Sim<Image>| {
            A::Engine::<Sim<Image>>::recover(env.space(), &LOGS).map(|_| env.space().load_u64(WORD))
        });
        let found = run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
        assert_eq!(found, Ok(value), "{}", A::NAME);
    }
}
