//! Small pools of each engine, as programs and crashes leave them; and what must hold of any bytes. For tests
//! and for the fuzz target `pool`.

use region::{Atomicity, Geometry, Inspection, Layout, Options, Pool, Untyped, inspect};
use space::sim::Schedule;
use space::{Env, Image, Sim, Space};

/// Bytes of each pool.
pub const BYTES: usize = 64 << 10;
/// Words of the root object: far more than a log holds, if no two follow each other.
const WORDS: u64 = 256;

struct Words;
impl Layout for Words {
    const NAME: &'static str = "words";
    type Root = [u64; WORDS as usize];
}

/// Runs `work` in a simulated environment of one thread around bytes; and what they are then.
pub fn on<R>(bytes: &[u8], work: impl FnOnce(&Sim<Image>) -> R) -> (R, Vec<u8>) {
    let run = space::sim::run(Image::from_bytes(bytes), &Schedule::walk(0), work);
    (run.result.unwrap_or_else(|failure| panic!("{failure}")), run.space.to_bytes())
}

fn options() -> Options {
    Options { geometry: Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 }), bytes: None }
}

/// After many short regions.
fn short<A: Atomicity>() -> Vec<u8> {
    let work = |env: &Sim<Image>| {
        let pool = Pool::<_, Words, A>::create(env, &options()).expect("it fits");
        for n in 0..30u64 {
            let set = |at| (pool.root().element(at), n);
            let done = pool.region(|tx| {
                tx.alloc([n; 3])?;
                [0, 1, 9].map(set).into_iter().try_for_each(|(place, n)| tx.set(place, n))
            });
            done.expect("there is room");
        }
    };
    on(&[0; BYTES], work).1
}

/// After two regions that are longer than a log, or in the middle of the second one.
fn long<A: Atomicity>(ended: bool) -> Vec<u8> {
    let work = |env: &Sim<Image>| {
        let pool = Pool::<_, Untyped, A>::create_named(env, &options(), "words", 8 * WORDS).expect("it fits");
        let (root, _) = pool.root_reference();
        let mut left = vec![0; BYTES];
        for value in 1..=2u64 {
            let mut tx = pool.begin().expect("it is open to write");
            for at in (0..WORDS).rev() {
                tx.store_bytes(root + 8 * at, &value.to_le_bytes()).expect("it fits");
            }
            if value == 2 {
                env.space().load(0, &mut left);
            }
            tx.commit().expect("it is durable");
        }
        left
    };
    let (left, after) = on(&[0; BYTES], work);
    if ended { after } else { left }
}

/// Three pools of each sound engine: by its short regions, by long ones, and in the middle of one.
pub fn whole() -> Vec<Vec<u8>> {
    fn of<A: Atomicity>() -> [Vec<u8>; 3] {
        [short::<A>(), long::<A>(true), long::<A>(false)]
    }
    region::for_each_engine!(sound [A => of::<A>()]).concat()
}

/// Taken for a pool, the bytes are an error, or a pool that can be recovered again and is the same: what was
/// found then.
pub fn recovers(bytes: &[u8]) -> Result<Inspection, region::Error> {
    let (first, after) = on(bytes, inspect);
    let first = first?;
    let again = on(&after, inspect).0.expect("what was recovered is whole");
    assert!(again.recovered.was_clean(), "{:?}", again.recovered);
    assert_eq!(first.blocks, again.blocks);
    Ok(first)
}
