//! Pools with anything in them: an error, or a pool that is recovered once and for all. The fuzz target
//! `sfr_pool` does the same for longer.

use pmem::Os;
use sfr::{Design, Options, Pool};
use space::{Env, Image, Space};

/// Bytes of a pool.
pub const BYTES: usize = 256 << 10;

fn options() -> Options {
    Options { root: 256, ..Options::new(Design::Decoupled) }
}

/// A pool in which the last regions of two threads are not committed: their logs are to be undone.
pub fn whole() -> Result<Vec<u8>, sfr::Error> {
    let env = Os::new(Image::new(BYTES as u64));
    let pool = Pool::create(&env, &options())?;
    let (mut one, mut other) = (pool.thread()?, pool.thread()?);
    let root = pool.root();
    for number in 0..6 {
        one.store_u64(root + number * 8, number + 1);
        one.release(1);
        other.acquire(1);
        other.store(root + 128 + number, &[7; 40]);
        other.boundary();
        if number == 2 {
            pool.prune();
        }
    }
    let block = one.alloc(40)?;
    one.store_u64(root + 120, block);
    let mut bytes = vec![0; BYTES];
    env.space().load(0, &mut bytes);
    Ok(bytes)
}

/// Opens a pool of these bytes. A second opening has nothing to undo, and changes nothing.
///
/// # Panics
/// If it does.
pub fn recovers(bytes: &[u8]) -> Result<u64, sfr::Error> {
    let env = Os::new(Image::new(BYTES as u64));
    env.space().store(0, bytes);
    let undone = Pool::open(&env, &options())?.1.undone;
    let all = || {
        let mut bytes = vec![0; BYTES];
        env.space().load(0, &mut bytes);
        bytes
    };
    let before = all();
    match Pool::open(&env, &options()) {
        Ok((_, again)) => assert_eq!(again.undone, 0, "recovered twice"),
        // What was undone can be where the pool keeps its own: damage that carries a valid checksum.
        Err(error) => panic!("it was opened once: {error}"),
    }
    assert!(all() == before, "a second recovery changed something");
    Ok(undone)
}
