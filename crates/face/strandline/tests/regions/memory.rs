//! Memory of a pool that is used again, under the crash checker: whatever logs still say of it must not come
//! back.

use std::cell::RefCell;
use std::collections::BTreeSet;

use region::{
    Atomicity, Error, Geometry, Header, Layout, MicroBuffer, Options, Pool, Ptr, Redo, Shadow, Ssp, Undo,
    flaw,
};
use space::sim::Schedule;
use space::{Env, Image};
use strandline::check::{self, Check, Run, Scene};
use strandline::crash::{Outcome, Platform};

struct Shelf;
region::persistent! { Shelf:
    struct Root { wide: [u64; WIDE], version: u64, book: Ptr<Book, Shelf> }
    struct Book { pages: [u64; PAGES] }
}
impl Layout for Shelf {
    const NAME: &'static str = "shelf";
    type Root = Root;
}

/// Two books fit into the pool, or one and a long record.
const BYTES: u64 = 16384 + 4 * 4096;
/// A log holds 56 words, or what takes seven of them back.
const OPTIONS: Options =
    Options { geometry: Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 }), bytes: None };
/// Words of a region that does not fit into a log.
const WIDE: usize = 60;
/// A book has a chunk of its own.
const PAGES: usize = 512;
/// What is added to a page on which something was noted.
const NOTE: u64 = 1 << 32;

type Shelves<'e, E, A> = Pool<&'e E, Shelf, A>;

/// Puts a new book in the place of the old one.
fn publish<E: Env, A: Atomicity>(pool: &Shelves<'_, E, A>, version: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let root = tx.root();
        let book = Root::book(root);
        let old = tx.get(book);
        let new = tx.alloc(Book { pages: [version; PAGES] })?;
        tx.set(book, new)?;
        tx.set(Root::version(root), version)?;
        if old.get().is_some() { tx.free(old) } else { Ok(()) }
    })
}

/// The same, with a book that is reserved and filled before the region.
fn publish_reserved<E: Env, A: Atomicity>(pool: &Shelves<'_, E, A>, version: u64) -> Result<(), Error> {
    let mut new = pool.reserve::<Book>()?;
    new.set(Book { pages: [version; PAGES] });
    pool.region(|tx| {
        let root = tx.root();
        let book = Root::book(root);
        let old = tx.get(book);
        tx.publish(new, book)?;
        tx.set(Root::version(root), version)?;
        if old.get().is_some() { tx.free(old) } else { Ok(()) }
    })
}

/// Writes to the first and the last page.
fn annotate<E: Env, A: Atomicity>(pool: &Shelves<'_, E, A>, version: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let book = tx.get(Root::book(tx.root()));
        let pages = Book::pages(book);
        tx.set(pages.element(0), version + NOTE)?;
        tx.set(pages.element(PAGES - 1), version + NOTE)
    })
}

/// Sets all the words of the wide array, from the last to the first so that no two are one run.
fn widen<E: Env, A: Atomicity>(pool: &Shelves<'_, E, A>, value: u64) -> Result<(), Error> {
    pool.region(|tx| {
        let wide = Root::wide(tx.root());
        (0..WIDE).rev().try_for_each(|at| tx.set(wide.element(at), value))
    })
}

fn searched<S, A>(work: impl Fn(&Shelves<'_, Scene, S>)) -> (Run, Outcome)
where
    S: Atomicity,
    A: Atomicity,
{
    let run = check::record(BYTES, Platform::ADR, &Schedule::walk(1), |env| {
        let pool = Shelves::<Scene, S>::create(env, &OPTIONS).expect("a pool can be made");
        work(&pool);
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        let env = pmem::Os::new(image);
        let pool = match Pool::<_, Shelf, A>::open(&env) {
            Ok((pool, _)) => pool,
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let root = pool.get(pool.root());
        if root.wide.iter().any(|word| *word != root.wide[0]) {
            return Err(format!("half of a wide region: {:?}", root.wide));
        }
        if let Some(book) = root.book.get() {
            let pages = pool.get(book).pages;
            let expected = |at: usize| {
                let noted = (at == 0 || at == PAGES - 1) && pages[0] > NOTE;
                root.version + if noted { NOTE } else { 0 }
            };
            if let Some(at) = (0..PAGES).find(|&at| pages[at] != expected(at)) {
                return Err(format!("page {at} of book {} is {:#x}", root.version, pages[at]));
            }
        }
        Ok(())
    });
    (run, outcome)
}

fn books<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    searched::<S, A>(|pool| {
        // An engine with a mistake may notice it.
        _ = (1..5).try_for_each(|version| publish(pool, version).and_then(|()| annotate(pool, version)));
    })
}

fn reserved_books<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    searched::<S, A>(|pool| {
        // An engine with a mistake may notice it.
        _ = (1..5)
            .try_for_each(|version| publish_reserved(pool, version).and_then(|()| annotate(pool, version)));
    })
}

fn long_regions<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    searched::<S, A>(|pool| {
        // The chunk that is lent was a book.
        (1..3).for_each(|version| publish(pool, version).expect("there is room"));
        // An engine with a mistake may notice it.
        _ = (1..5).try_for_each(|value| widen(pool, value));
    })
}

/// A chunk of small blocks that is empty, and serves for a long record or a book then, and the other way
/// round.
fn emptied<S: Atomicity, A: Atomicity>() -> (Run, Outcome) {
    searched::<S, A>(|pool| {
        let small = |version: u64| {
            pool.region(|tx| tx.alloc([version; 4])).and_then(|leaf| pool.region(|tx| tx.free(leaf)))
        };
        // An engine with a mistake may notice it.
        _ = (1..5).try_for_each(|version| {
            small(version)?;
            widen(pool, version)?;
            small(version)?;
            publish(pool, version)?;
            annotate(pool, version)
        });
    })
}

fn clean((run, outcome): &(Run, Outcome)) {
    assert!(outcome.findings.is_empty(), "{}", Check::new(run).story(outcome));
    assert!(outcome.images > 100, "{outcome:?}");
}

fn caught(name: &str, (_, outcome): &(Run, Outcome)) {
    assert!(!outcome.findings.is_empty(), "{name} was not found in {} images", outcome.images);
}

#[test]
fn old_records_do_not_write_to_new_blocks() {
    region::for_each_engine!(sound A => clean(&books::<A, A>()));
    caught("a chunk that logs name", &books::<Redo<flaw::NotCheckpointed>, Redo>());
}

#[test]
fn reserved_books_are_whole() {
    region::for_each_engine!(sound A => clean(&reserved_books::<A, A>()));
    caught("a block that is not durable", &reserved_books::<Redo<flaw::FreshNotFenced>, Redo>());
}

#[test]
fn regions_that_are_longer_than_a_log_are_whole() {
    region::for_each_engine!(sound A => clean(&long_regions::<A, A>()));
    caught("a record that is not durable", &long_regions::<Redo<flaw::ExtentNotFenced>, Redo>());
    caught(
        "a record that is not durable",
        &long_regions::<MicroBuffer<flaw::ExtentNotFenced>, MicroBuffer>(),
    );
    caught("a record that is not durable", &long_regions::<Shadow<flaw::ExtentNotFenced>, Shadow>());
    caught("words that are not durable", &long_regions::<Ssp<flaw::ExtentNotFenced>, Ssp>());
    caught("a piece of a log that is not empty", &long_regions::<Undo<flaw::ExtentNotFenced>, Undo>());
    caught("a line that is not durable", &long_regions::<Undo<flaw::LogNotFenced>, Undo>());
    caught("a record that is written over", &long_regions::<Redo<flaw::NotCheckpointed>, Redo>());
}

#[test]
fn chunks_that_are_emptied_serve_for_something_else() {
    region::for_each_engine!(sound A => clean(&emptied::<A, A>()));
    caught("a chunk that logs name", &emptied::<Redo<flaw::NotCheckpointed>, Redo>());
}

#[test]
fn two_books_fit() {
    let env = pmem::Os::new(space::Image::new(BYTES));
    let pool = Shelves::<_, Redo>::create(&env, &OPTIONS).expect("a pool can be made");
    for version in 1..50 {
        publish(&pool, version).expect("there is room for two");
        annotate(&pool, version).expect("two words fit");
    }
}

/// Grows between regions, and a crash finds it as long as before or after.
#[test]
fn a_pool_that_grows_loses_nothing() {
    let run = check::record(BYTES + 8 * 4096, Platform::ADR, &Schedule::walk(1), |env| {
        let options = Options { bytes: Some(BYTES), ..OPTIONS };
        let pool = Shelves::<Scene, Redo>::create(env, &options).expect("a pool can be made");
        let full =
            pool.region(|tx| (0..3).try_for_each(|_| tx.alloc(Book { pages: [1; PAGES] }).map(|_| ())));
        assert!(matches!(full, Err(Error::Full { .. })));
        for version in 1..4 {
            pool.grow(BYTES + 4096 * version).expect("the space is longer");
            publish(&pool, version).expect("there is room");
            let more = pool.region(|tx| tx.alloc(Book { pages: [version; PAGES] }));
            more.expect("there is a chunk more each time");
        }
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    let outcome = Check::new(&run).run(|image, crash| {
        let env = pmem::Os::new(image);
        let pool = match Pool::<_, Shelf, Redo>::open(&env) {
            Ok((pool, _)) => pool,
            Err(Error::NotAPool { .. }) if crash.begun() == 0 => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let root = pool.get(pool.root());
        let grown = (pool.header().bytes - BYTES) / 4096;
        let ended = crash.ended_regions().count() as u64;
        if grown < root.version || root.version < ended / 2 {
            return Err(format!("version {}, {ended} regions, {grown} chunks more", root.version));
        }
        let expected = |at: &usize| pool.get(root.book).pages[*at] == root.version;
        if root.book.get().is_some() && !(0..PAGES).all(|at| expected(&at)) {
            return Err(format!("half of book {}", root.version));
        }
        Ok(())
    });
    clean(&(run, outcome));
}

/// A crash while it grows, and one while it grows again: the header of the first growth is there to the end,
/// since what is behind the first end is in use.
#[test]
fn a_pool_that_grows_after_a_crash_loses_nothing() {
    let space = BYTES + 8 * 4096;
    let run = check::record(space, Platform::ADR, &Schedule::walk(1), |env| {
        let options = Options { bytes: Some(BYTES), ..OPTIONS };
        let pool = Shelves::<Scene, Redo>::create(env, &options).expect("a pool can be made");
        publish(&pool, 1).expect("there is room");
        pool.region(|tx| tx.alloc(Book { pages: [1; PAGES] })).expect("there is room for two");
        pool.checkpoint().expect("the memory works");
        pool.grow(BYTES + 4096).expect("the space is longer");
    });
    let run = run.unwrap_or_else(|error| panic!("{error}"));
    // What a crash leaves in which the header's copies are not the same.
    let differing: RefCell<BTreeSet<Vec<u8>>> = RefCell::default();
    Check::new(&run).run(|image, crash| {
        let bytes = image.to_bytes();
        // The search varies what is read.
        Header::read(image)
            .map(|_| ())
            .map_err(|error| error.to_string())
            .or_else(|error| if crash.begun() == 0 { Ok(()) } else { Err(error) })?;
        if crash.ended_regions().count() == 2 && bytes[..128] != bytes[4096..4096 + 128] {
            differing.borrow_mut().insert(bytes);
        }
        Ok(())
    });
    let differing = differing.into_inner();
    assert!(differing.len() > 1, "{}", differing.len());
    for bytes in differing {
        let run = check::record_on(Image::from_bytes(&bytes), Platform::ADR, &Schedule::walk(1), |env| {
            let (pool, _) = Shelves::<Scene, Redo>::open(env).expect("it is whole");
            let grown = pool.header().bytes > BYTES;
            assert_eq!(publish(&pool, 2).is_ok(), grown);
            pool.grow(BYTES + 2 * 4096).expect("the space is longer");
            publish(&pool, 3).expect("there is room");
        });
        let run = run.unwrap_or_else(|error| panic!("{error}"));
        let outcome = Check::new(&run).run(|image, crash| {
            let env = pmem::Os::new(image);
            let (pool, _) = Shelves::<_, Redo>::open(&env).map_err(|error| error.to_string())?;
            let (root, ended) = (pool.get(pool.root()), crash.ended_regions().count() as u64);
            let whole = pool.get(root.book).pages == [root.version; PAGES];
            let text = || format!("book {}, {ended} regions had ended", root.version);
            (whole && root.version > ended).then_some(()).ok_or_else(text)
        });
        assert!(outcome.findings.is_empty(), "{}", Check::new(&run).story(&outcome));
    }
}

/// A device or a file has anything behind the pool's end, where tables come to be when the pool grows.
#[test]
fn what_lay_behind_a_pool_is_not_taken_for_a_table() {
    let longer = BYTES + (5 << 20);
    let mut bytes = vec![0xAB; longer as usize];
    bytes[..BYTES as usize].fill(0);
    let env = pmem::Os::new(Image::from_bytes(&bytes));
    let options = Options { bytes: Some(BYTES), ..OPTIONS };
    let pool = Shelves::<_, Redo>::create(&env, &options).expect("a pool can be made");
    publish(&pool, 1).expect("there is room");
    pool.grow(longer).expect("the space is longer");
    let free = pool.usage().free_chunks;
    drop(pool);
    let (pool, _) = Shelves::<_, Redo>::open(&env).expect("it is whole");
    assert_eq!((pool.usage().free_chunks, pool.blocks().len()), (free, 2));
}

/// As long as there is room in the pool, and otherwise nothing of the region is there.
#[test]
fn a_region_is_as_long_as_the_pool_has_room() {
    region::for_each_engine!(sound A => is_as_long_as_there_is_room::<A>());
}

fn is_as_long_as_there_is_room<A: Atomicity>() {
    let env = pmem::Os::new(space::Image::new(BYTES));
    let pool = Shelves::<_, A>::create(&env, &OPTIONS).expect("a pool can be made");
    publish(&pool, 1).expect("there is room");
    (1..20).for_each(|value| widen(&pool, value).expect("the chunk comes back"));
    let keep = pool.region(|tx| tx.alloc(Book { pages: [7; PAGES] })).expect("there is room for two");
    assert!(matches!(widen(&pool, 20), Err(Error::Full { .. })));
    assert_eq!(pool.get(pool.root()).wide, [19; WIDE]);
    pool.region(|tx| tx.free(keep)).expect("it is there");
    widen(&pool, 21).expect("there is room again");
    assert_eq!(pool.get(pool.root()).wide, [21; WIDE]);
}

/// Where the space can't grow by half, the pool grows by less, as long as that is enough.
#[test]
fn a_pool_grows_by_what_can_be_had() {
    const MOST: u64 = BYTES + 17 * 4096;
    let env = pmem::Os::new(space::Image::new(BYTES + 100 * 4096));
    let options = Options { bytes: Some(BYTES), ..OPTIONS };
    let pool = Shelves::<_, Redo>::create(&env, &options).expect("a pool can be made").growing(|_, bytes| {
        let refused = || Error::NoGrowth(format!("not {bytes}"));
        (bytes <= MOST).then_some(()).ok_or_else(refused)
    });
    let mut books = 0;
    let last = loop {
        match pool.region(|tx| tx.alloc(Book { pages: [1; PAGES] })) {
            Ok(_) => books += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(last, Error::NoGrowth(_)), "{last:?}");
    let bytes = pool.header().bytes;
    assert_eq!(bytes, MOST, "it asks for one chunk in the end");
    assert_eq!(books, (bytes - 16384) / 4096 - 2, "all chunks but a table and a slab");
    assert_eq!(pool.blocks().len() as u64, books + 1);
}

#[test]
fn the_root_object_is_not_freed() {
    let env = pmem::Os::new(space::Image::new(BYTES));
    let pool = Shelves::<_, Redo>::create(&env, &OPTIONS).expect("a pool can be made");
    let freed = pool.region(|tx| tx.free(tx.root()));
    assert!(matches!(&freed, Err(Error::Reference { why, .. }) if why.contains("root")), "{freed:?}");
    assert_eq!(pool.blocks().len(), 1);
}
