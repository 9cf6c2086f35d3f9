//! Memory that fails within a commit: the region panics, others go on or panic, nobody waits for ever, and what had ended is there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use event::FlushKind;
use region::{Atomicity, Geometry, Layout, MicroBuffer, Options, Pool, Redo, Shadow};
use space::sim::{Schedule, run};
use space::{Image, Prestore, Space, Word};

/// An image one of whose fences panics.
struct Failing {
    image: Image,
    /// Fences until then.
    left: Arc<AtomicU64>,
}

impl Space for Failing {
    type Observer = ();

    fn observer(&self) -> &() {
        &()
    }
    fn len(&self) -> u64 {
        self.image.len()
    }
    fn flush_kind(&self) -> FlushKind {
        self.image.flush_kind()
    }
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.image.load_word(offset)
    }
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.image.store_word(offset, value);
    }
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.image.cas_u64(offset, old, new)
    }
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.image.store_nt(offset, bytes);
    }
    fn flush(&self, offset: u64, len: u64) {
        self.image.flush(offset, len);
    }
    fn fence(&self) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.wrapping_sub(1), Ordering::Relaxed);
        assert!(left != 0, "the memory fails");
    }
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.image.prestore(offset, len, hint);
    }
}

struct Four;
impl Layout for Four {
    const NAME: &'static str = "four";
    type Root = [u64; 4];
}

/// Regions one after the other, of which one meets the fence that fails; then what is there.
fn fails<A: Atomicity>(fence: u64) {
    let geometry = Some(Geometry { logs: 2, log_bytes: 512, chunk_bytes: 4096 });
    let left = Arc::new(AtomicU64::new(u64::MAX));
    let space = Failing { image: Image::new(32 << 10), left: Arc::clone(&left) };
    let worked = run(space, &Schedule::walk(0), |env| {
        let pool = Pool::<_, Four, A>::create(env, &Options { geometry, bytes: None }).expect("it fits");
        left.store(fence, Ordering::Relaxed);
        let (mut ended, mut panics) = (0, 0);
        for value in 1..=30 {
            let region = || pool.region(|tx| tx.set(tx.root(), [value; 4])).expect("it fits");
            match catch_unwind(AssertUnwindSafe(region)) {
                Ok(()) => ended = value,
                Err(_) => panics += 1,
            }
        }
        assert!(panics > 0 && ended > 0, "fence {fence}: {panics} panics, {ended} the last that ended");
        ended
    });
    let ended = worked.result.unwrap_or_else(|failure| panic!("{}, fence {fence}: {failure}", A::NAME));
    let opened = run(worked.space.image, &Schedule::walk(0), |env| {
        let (pool, _) = Pool::<_, Four, A>::open(env).expect("it is whole");
        pool.get(pool.root())
    });
    let found = opened.result.unwrap_or_else(|failure| panic!("{failure}"));
    let whole = found.iter().all(|word| *word == found[0]);
    assert!(whole && found[0] >= ended, "{}, fence {fence}: {found:?} after {ended}", A::NAME);
}

#[test]
fn nobody_waits_for_a_region_that_failed() {
    for fence in 2..20 {
        fails::<MicroBuffer>(fence);
        fails::<Shadow>(fence);
        fails::<Redo>(fence);
    }
}
