//! Pools without types: regions, blocks and references.

use std::ops::Deref;

use space::sim::{self, Schedule};
use space::{Env, Image};

use region::{Atomicity, Error, Options, Pool, Untyped};

/// The bits of a reference that are an offset.
const OFFSETS: u64 = (1 << 48) - 1;

/// What a pool does with any engine, also with one that protects nothing.
///
/// # Panics
/// If it does not.
pub fn pools<A: Atomicity>() {
    let run = sim::run(Image::new(1 << 20), &Schedule::walk(1), |env| {
        let pool: Pool<_, Untyped, A> =
            Pool::create_named(env, &Options::default(), "numbers", 24).expect("there is room");
        what_ended_is_there(&pool);
        what_was_given_up_is_not(&pool);
        wrong_references_are_refused(&pool);
        let (root, _) = pool.root_reference();
        drop(pool);
        let (pool, _) = Pool::<_, Untyped, A>::open_named(env, "numbers").expect("it is whole");
        assert_eq!(pool.root_reference().0, root);
        assert_eq!(word(&pool, root + 8), 7);
        let other = Pool::<_, Untyped, A>::open_named(env, "letters").map(|_| ());
        assert!(matches!(other, Err(Error::Layout { .. })), "{other:?}");
    });
    run.result.expect("it ran");
}

fn word<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>, at: u64) -> u64 {
    let mut bytes = [0xFF; 8];
    pool.load_bytes(at, &mut bytes).expect("it is in the pool");
    u64::from_le_bytes(bytes)
}

fn what_ended_is_there<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
    let (root, bytes) = pool.root_reference();
    assert!(bytes >= 24);
    assert_eq!(word(pool, root + 16), 0);
    let mut tx = pool.begin().expect("it is open to write");
    tx.store_bytes(root + 8, &7u64.to_le_bytes()).expect("it fits");
    let block = tx.alloc_bytes(100).expect("there is room");
    tx.store_bytes(block + 3, b"text").expect("it fits");
    let mut text = [0; 4];
    tx.load_bytes(block + 3, &mut text).expect("it is there");
    assert_eq!(&text, b"text");
    tx.commit().expect("it is durable");
    assert_eq!(word(pool, root + 8), 7);
    assert!(pool.block_bytes(block).expect("it is allocated") >= 100);
    assert_eq!(pool.block_references().len(), 2);
    let mut tx = pool.begin().expect("it is open to write");
    tx.free_block(block).expect("it is allocated");
    let twice = tx.free_block(block);
    assert!(matches!(twice, Err(Error::NotAllocated { .. })), "{twice:?}");
    tx.commit().expect("it is durable");
    let later = pool.begin().expect("it is open to write").free_block(block);
    assert!(matches!(later, Err(Error::NotAllocated { .. })), "{later:?}");
}

fn what_was_given_up_is_not<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
    let (root, _) = pool.root_reference();
    let mut tx = pool.begin().expect("it is open to write");
    tx.store_bytes(root + 8, &[9; 8]).expect("it fits");
    let block = tx.alloc_bytes(40).expect("there is room");
    tx.store_bytes(block, &[9; 40]).expect("it fits");
    drop(tx);
    assert_eq!(word(pool, root + 8), 7);
    assert_eq!(pool.block_references().len(), 1);
    // Taken and given back in one region, small and large.
    for bytes in [40, 100_000] {
        let mut tx = pool.begin().expect("it is open to write");
        let block = tx.alloc_bytes(bytes).expect("there is room");
        tx.store_bytes(block, &[1; 40]).expect("it fits");
        tx.free_block(block).expect("it was taken");
        tx.commit().expect("it is durable");
        assert_eq!(pool.block_references().len(), 1);
        assert_eq!(pool.usage().blocks, 1);
    }
    let full = pool.begin().expect("it is open to write").alloc_bytes(u64::MAX);
    let wanted = u64::MAX;
    assert_eq!(full, Err(Error::TooLarge { wanted, most: 511 * 4096, chunk: 4096 }));
}

fn wrong_references_are_refused<H: Deref<Target: Env + Sized>, A: Atomicity>(pool: &Pool<H, Untyped, A>) {
    let (root, _) = pool.root_reference();
    let header = pool.header();
    let end = header.bytes - (header.bytes - header.heap()) % u64::from(header.geometry.chunk_bytes);
    let tag = root & !OFFSETS;
    for (reference, bytes) in [
        (0, 8),
        (root ^ 1 << 60, 8),
        (tag | 64, 8),
        (tag | 8192, 8),
        (tag | (end - 7), 8),
        (tag | end, 1),
        (tag | OFFSETS, 8),
    ] {
        let mut place = vec![0; bytes];
        for found in [
            pool.load_bytes(reference, &mut place),
            pool.begin().expect("it is open to write").load_bytes(reference, &mut place),
            pool.begin().expect("it is open to write").store_bytes(reference, &place),
        ] {
            assert!(matches!(found, Err(Error::Reference { .. })), "{reference:#x}: {found:?}");
        }
        assert!(pool.begin().expect("it is open to write").free_block(reference).is_err(), "{reference:#x}");
    }
    assert!(pool.begin().expect("it is open to write").free_block(root).is_err());
    assert!(pool.begin().expect("it is open to write").free_block(root + 8).is_err());
}
