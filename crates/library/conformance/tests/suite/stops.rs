//! A process that stops, wherever it is between two regions: the next one finds what the regions wrote, by
//! all engines and with logs in which there is hardly room.

use crate::field::{BYTES, Fields, Step, Story, any_step, held, take};
use proptest::prelude::*;
use region::{Atomicity, Geometry, Options};
use space::sim::{self, Schedule};
use space::{Env, Image, Sim};

fn is_found<A: Atomicity>(logs: u32, log_bytes: u32, steps: &[Step]) -> Result<(), TestCaseError> {
    let geometry = Some(Geometry { logs, log_bytes, chunk_bytes: 4096 });
    let mut left = Vec::new();
    let run = sim::run(Image::new(BYTES), &Schedule::walk(1), |env| {
        let options = Options { geometry, bytes: None };
        let mut pool = Fields::<Sim<Image>, A>::create(env, &options).expect("it fits");
        let mut story = Story::default();
        for (value, step) in (1..).zip(steps) {
            take(&pool, step, value, &mut story);
            assert_eq!(held(&pool).as_ref(), Ok(&story.now), "{}: while it is open", A::NAME);
            if let Step::Open = step {
                drop(pool);
                pool = Fields::open(env).expect("it is whole").0;
            }
            left.push((env.space().inner().to_bytes(), story.now.clone()));
        }
    });
    run.result.unwrap_or_else(|failure| panic!("{}, {log_bytes} B: {failure}", A::NAME));
    for (at, (bytes, expected)) in left.into_iter().enumerate() {
        let next = sim::run(Image::from_bytes(&bytes), &Schedule::walk(1), |env| {
            let (pool, _) = Fields::<Sim<Image>, A>::open(env).map_err(|error| error.to_string())?;
            held(&pool)
        });
        let found = next.result.unwrap_or_else(|failure| Err(failure.to_string()));
        prop_assert_eq!(found.as_ref(), Ok(&expected), "{}, {} B, step {}", A::NAME, log_bytes, at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_ended_is_found_by_the_next_process(
        geometry in prop::sample::select(vec![(1, 256), (2, 512), (1, 640), (1, 1536), (2, 2048)]),
        steps in prop::collection::vec(any_step(), 1..40),
    ) {
        let (logs, bytes) = geometry;
        region::for_each_engine!(sound A => is_found::<A>(logs, bytes, &steps)?);
    }
}
