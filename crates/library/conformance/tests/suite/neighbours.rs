//! Regions that are under way at the same time and write words of the same lines, or bits of the same words,
//! as the threads of a program may: each word and each bit is what its own region wrote.

use region::{Atomicity, Geometry, MicroBuffer, Options, Pool, Redo, Shadow, Ssp, Undo, Untyped};
use space::sim::{self, Accesses, Schedule};
use space::{Env, Image, Sim};

type Words<'e, A> = Pool<&'e Sim<Image>, Untyped, A>;

/// Words of the root object: two lines, the first one of which is written to in part.
const WORDS: u64 = 16;

/// One region writes the words in `mask`, and another one meanwhile those that are not; what is there then.
fn written<A: Atomicity>(pool: &Words<'_, A>, mask: u64, value: u64) -> Vec<u64> {
    let (root, _) = pool.root_reference();
    let [mut one, mut other] = [(), ()].map(|()| pool.begin().expect("it is open to write"));
    // Both have seen the lines as they were before either is there.
    for at in 0..WORDS {
        let tx = if mask >> at & 1 == 1 { &mut one } else { &mut other };
        tx.store_bytes(root + 8 * at, &(value + at).to_le_bytes()).expect("there is room");
    }
    let (first, second) = if value.is_multiple_of(2) { (one, other) } else { (other, one) };
    first.commit().expect("it is durable");
    second.commit().expect("it is durable");
    let mut bytes = vec![0; 8 * WORDS as usize];
    pool.load_bytes(root, &mut bytes).expect("it is there");
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn keep_to_their_words<A: Atomicity>(prepare: impl Fn(&Words<'_, A>)) {
    let geometry = Some(Geometry { logs: 2, log_bytes: 1024, chunk_bytes: 4096 });
    let run = sim::run(Image::new(1 << 17), &Schedule::walk(1), |env| {
        let options = Options { geometry, bytes: None };
        let pool = Words::<A>::create_named(env, &options, "words", 8 * WORDS).expect("it fits");
        prepare(&pool);
        let masks = (0..256).map(|low| low << 4 | 1).chain((0..256).map(|low| low << 8 | 0x7F));
        for (mask, value) in masks.zip((100..).step_by(101)) {
            let expected: Vec<u64> = (value..).take(WORDS as usize).collect();
            assert_eq!(written(&pool, mask, value), expected, "{}: {mask:#x}", A::NAME);
        }
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn regions_keep_to_their_words() {
    keep_to_their_words::<Redo>(|_| {});
    keep_to_their_words::<Undo>(|_| {});
    keep_to_their_words::<Shadow>(|_| {});
    keep_to_their_words::<Ssp>(|_| {});
}

/// Lines that are written back whole must have been written whole.
#[test]
fn regions_that_write_back_past_the_cache_keep_to_their_words() {
    for threshold in [0, 65, u64::MAX] {
        keep_to_their_words::<MicroBuffer>(|pool| pool.engine().set_threshold(threshold));
    }
}

/// Threads free and take blocks of the only slab: the bits of its map are in one word.
fn keep_to_their_bits<A: Atomicity>(seed: u64) {
    const BLOCKS: usize = 12;
    let schedule = Schedule::walk(seed).at_accesses(Accesses::Every);
    let geometry = Some(Geometry { logs: 2, log_bytes: 1024, chunk_bytes: 4096 });
    let run = sim::run(Image::new(16384 + 2 * 4096), &schedule, |env| {
        let options = Options { geometry, bytes: None };
        let pool = Words::<A>::create_named(env, &options, "words", 16).expect("it fits");
        let mut tx = pool.begin().expect("it is open to write");
        let blocks: Vec<u64> = (0..BLOCKS).map(|_| tx.alloc_bytes(16).expect("there is room")).collect();
        tx.commit().expect("it is durable");
        env.threads(2, |thread| {
            for (number, &block) in blocks.iter().enumerate().skip(thread as usize).step_by(2) {
                let mut tx = pool.begin().expect("it is open to write");
                tx.free_block(block).expect("it is there");
                tx.commit().expect("it is durable");
                if number % 3 == 0 {
                    let mut tx = pool.begin().expect("it is open to write");
                    tx.alloc_bytes(16).expect("there is room");
                    tx.commit().expect("it is durable");
                }
            }
        });
        // Nothing is done again that would put it right.
        pool.checkpoint().expect("the memory works");
        let expected = 1 + BLOCKS / 3;
        assert_eq!(pool.blocks().len(), expected, "{}, seed {seed}", A::NAME);
        drop(pool);
        let pool = Words::<A>::open_named(env, "words").map(|(pool, _)| pool);
        let pool = pool.unwrap_or_else(|error| panic!("{}, seed {seed}: {error}", A::NAME));
        assert_eq!(pool.blocks().len(), expected, "{}, seed {seed}", A::NAME);
    });
    run.result.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn regions_keep_to_their_bits() {
    for seed in 0..8 {
        region::for_each_engine!(sound A => keep_to_their_bits::<A>(seed));
    }
}
