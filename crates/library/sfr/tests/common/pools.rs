//! Small pools with logs that are not committed, and what becomes of them when bytes of them are damaged.

use pmem::Os;
use sfr::{Design, Error, Options, Pool};
use space::{Env, Image, Scratch};

/// Bytes of a pool.
pub const BYTES: usize = 256 << 10;

fn options(design: Design) -> Options {
    Options { root: 64, ..Options::new(design) }
}

/// Pools in the middle of regions, one for each design that recovers.
pub fn whole() -> Vec<Vec<u8>> {
    let of = |design| {
        let env = Os::new(Image::new(BYTES as u64));
        let pool = Pool::create(&env, &options(design)).expect("room");
        let (root, lock, held) = (pool.root(), pool.lock(), pool.lock());
        for number in 0..20 {
            let mut thread = pool.thread().expect("a log");
            let mut section = thread.enter(&lock);
            let block = section.alloc(if number % 6 == 5 { 9000 } else { 20 << (number % 4) }).expect("room");
            let last = section.load_u64(root);
            section.store_u64(block, last);
            section.store_u64(root, block);
        }
        let mut thread = pool.thread().expect("a log");
        let mut section = thread.enter(&held);
        (0..90).for_each(|number| section.store_u64(root + 8 + number % 7 * 8, number));
        let bytes = env.space().to_bytes();
        drop(section);
        bytes
    };
    [Design::Coupled, Design::Decoupled, Design::Strand, Design::Atlas].map(of).into()
}

/// An opening is an error, or leaves a pool that opens again with nothing to undo, works, and is the same.
///
/// # Errors
/// The error.
pub fn recovers(bytes: &[u8]) -> Result<(), Error> {
    let env = Os::new(Scratch::from_bytes(bytes));
    let (pool, _) = Pool::open(&env, &options(Design::Coupled))?;
    drop(pool);
    let after = env.space().to_bytes();
    let (pool, again) = Pool::open(&env, &options(Design::Coupled)).expect("it was opened before");
    assert_eq!((again.undone, &env.space().to_bytes()), (0, &after), "a second opening changes nothing");
    let lock = pool.lock();
    let Ok(mut thread) = pool.thread() else { return Ok(()) };
    let mut section = thread.enter(&lock);
    let Ok(block) = section.alloc(100) else { return Ok(()) };
    section.store(block, &[7; 100]);
    section.free(block).expect("it was allocated");
    Ok(())
}
