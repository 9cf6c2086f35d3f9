//! Any bytes, taken for a pool: an error, or a pool that can be recovered again and is the same. What is given is written over a small pool that is whole:
//! a byte that chooses the engine, then places and a byte for each.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use region::{Atomicity, Geometry, Layout, MicroBuffer, Options, Pool, Redo, Shadow, Ssp, Undo, inspect};
use space::sim::Schedule;
use space::{Image, Sim};

struct Words;
impl Layout for Words {
    const NAME: &'static str = "words";
    type Root = [u64; 4];
}

fn on<R>(bytes: &[u8], work: impl FnOnce(&Sim<Image>) -> R) -> (R, Vec<u8>) {
    let run = space::sim::run(Image::from_bytes(bytes), &Schedule::walk(0), work);
    (run.result.unwrap_or_else(|failure| panic!("{failure}")), run.space.to_bytes())
}

fn made<A: Atomicity>() -> Vec<u8> {
    let geometry = Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 });
    let work = |env: &Sim<Image>| {
        let pool = Pool::<_, Words, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        for n in 0..30u64 {
            pool.region(|tx| tx.alloc([n; 3]).and_then(|_| tx.set(tx.root(), [n; 4])))
                .expect("there is room");
        }
    };
    on(&[0; 48 << 10], work).1
}

/// A whole pool of each engine.
fn whole() -> &'static [Vec<u8>] {
    static WHOLE: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    WHOLE.get_or_init(|| {
        vec![made::<Redo>(), made::<Undo>(), made::<MicroBuffer>(), made::<Shadow>(), made::<Ssp>()]
    })
}

fuzz_target!(|damage: &[u8]| {
    let Some((&engine, damage)) = damage.split_first() else { return };
    let mut bytes = whole()[usize::from(engine) % whole().len()].clone();
    for change in damage.as_chunks::<3>().0 {
        bytes[usize::from(u16::from_le_bytes([change[0], change[1]])) % (48 << 10)] = change[2];
    }
    let (first, after) = on(&bytes, |env| inspect(env));
    if let Ok(first) = first {
        let again = on(&after, |env| inspect(env)).0.expect("what was recovered is whole");
        assert!(again.recovered.was_clean());
        assert_eq!(first.blocks, again.blocks);
    }
});
