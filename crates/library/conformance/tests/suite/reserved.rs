//! Blocks that are reserved and filled without a region, and published with the pointer that leads to them.

use region::{Atomicity, Error, Geometry, Layout, Options, Pool, Ptr};
use space::sim::{self, Schedule};
use space::{Image, Sim};

struct Shelf;
type Book = [u64; 3];
/// Of whole chunks.
type Atlas = [u64; 1000];
region::persistent! { Shelf:
    struct Root { book: Ptr<Book, Shelf>, atlas: Ptr<Atlas, Shelf> }
}
impl Layout for Shelf {
    const NAME: &'static str = "shelf";
    type Root = Root;
}

fn is_reserved_filled_and_published<A: Atomicity>() {
    let geometry = Some(Geometry { logs: 2, log_bytes: 1024, chunk_bytes: 4096 });
    let run = sim::run(Image::new(1 << 17), &Schedule::walk(1), |env: &Sim<Image>| {
        let pool = Pool::<_, Shelf, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        let (blocks, usage) = (pool.blocks(), pool.usage());
        let slot = Root::book(pool.root());
        let large = Root::atlas(pool.root());
        drop(pool.reserve::<Book>().expect("there is room"));
        drop(pool.reserve::<Atlas>().expect("there is room"));
        assert_eq!(pool.blocks(), blocks, "{}: nobody has it", A::NAME);
        let mut reserved = pool.reserve::<Book>().expect("there is room");
        assert_eq!(reserved.get(), [0; 3]);
        reserved.set([1, 2, 3]);
        assert_eq!(reserved.get(), [1, 2, 3]);
        let other = pool.reserve::<Book>().expect("there is room");
        assert_ne!(reserved.ptr(), other.ptr(), "{}: it is in no other's hands", A::NAME);
        let at = reserved.publish(slot).expect("it is durable");
        assert_eq!((pool.get(slot), pool.get(at)), (at, [1, 2, 3]), "{}", A::NAME);
        let mut maps = pool.reserve::<Atlas>().expect("there is room");
        assert_eq!(maps.get(), [0; 1000]);
        maps.set([7; 1000]);
        // Two at once, given up, and two at once.
        let given_up: Result<(), Error> = pool.region(|tx| {
            tx.publish(maps, large)?;
            tx.publish(other, slot)?;
            Err(Error::Aborted("enough".to_owned()))
        });
        assert!(given_up.is_err());
        assert_eq!((pool.get(slot), pool.get(large)), (at, Ptr::NULL), "{}", A::NAME);
        let mut maps = pool.reserve::<Atlas>().expect("there is room");
        maps.set([8; 1000]);
        let other = pool.reserve::<Book>().expect("there is room");
        pool.region(|tx| {
            tx.free(at)?;
            tx.publish(maps, large)?;
            tx.publish(other, slot)
        })
        .expect("it is durable");
        assert_eq!(pool.get(pool.get(large)), [8; 1000]);
        assert_eq!(pool.blocks().len(), 3);
        pool.region(|tx| {
            tx.free(tx.get(slot))?;
            tx.free(tx.get(large))
        })
        .expect("they are there");
        pool.checkpoint().expect("the memory works");
        assert_eq!(pool.usage().taken, usage.taken, "{}: all is free again", A::NAME);
    });
    run.result.unwrap_or_else(|failure| panic!("{}: {failure}", A::NAME));
}

#[test]
fn blocks_are_reserved_filled_and_published() {
    region::for_each_engine!(A => is_reserved_filled_and_published::<A>());
}
