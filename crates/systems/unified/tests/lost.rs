//! A device that is lost in the middle of a batch: the CPU's result, or nothing changed.

mod common;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use common::seed;
use unified::{
    Accelerator, Batch, BatchOptions, Error, Info, Job, Kernel, Mix, Pending, Region, Shape, Store,
};

/// A device that is lost in one of its launches, having done half of it, with memory that is then garbage.
struct Failing {
    inner: Batch,
    left: AtomicU32,
    gone: AtomicBool,
}

/// What a launch on a lost device gives.
struct Never;

fn lost() -> Error {
    Error::Lost { device: "a device that fails".to_owned(), reason: "unplugged".to_owned() }
}

impl Failing {
    /// Lost in launch number `after`, from 0.
    fn new(after: u32) -> Failing {
        let inner = Batch::new(BatchOptions { threads: 2, ..BatchOptions::default() });
        Failing { inner, left: AtomicU32::new(after), gone: AtomicBool::new(false) }
    }
}

impl Pending for Never {
    fn done(&mut self) -> Result<bool, Error> {
        Err(lost())
    }

    fn wait(&mut self) -> Result<(), Error> {
        Err(lost())
    }
}

impl Accelerator for Failing {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    fn allocate(&self, words: usize) -> Result<Arc<dyn Region>, Error> {
        if self.gone.load(Ordering::Relaxed) { Err(lost()) } else { self.inner.allocate(words) }
    }

    fn submit(&self, job: Job<'_>) -> Result<Box<dyn Pending>, Error> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(lost());
        }
        if self.left.load(Ordering::Relaxed) > 0 {
            self.left.fetch_sub(1, Ordering::Relaxed);
            return self.inner.submit(job);
        }
        self.gone.store(true, Ordering::Relaxed);
        self.inner.run(Job { invocations: job.invocations / 2, ..job })?;
        if job.kernel == Kernel::Change {
            let words = job.regions[0].words();
            job.regions[0].write(0, &vec![0xdead_beef; words / 2])?;
        }
        Ok(Box::new(Never))
    }
}

#[test]
fn a_store_whose_device_is_lost_goes_on_with_every_key() {
    let first = seed("lost", 40);
    for after in 0..60 {
        let mut random = Mix::seeded(first + u64::from(after));
        // Signatures of eight bits collide, and the table overflows.
        let shape = Shape { buckets: 64, block: 16, signature_bits: 8 };
        let mut store = Store::new(Arc::new(Failing::new(after)), shape, 900).expect("room");
        let mut model = HashMap::new();
        for round in 0..40u64 {
            let pairs: Vec<_> =
                (0..random.below(60)).map(|_| (random.below(800), random.next_u64())).collect();
            store.put_many(&pairs).expect("the CPU goes on");
            model.extend(pairs);
            let gone = random.below(800);
            assert_eq!(store.delete(gone).expect("the CPU goes on"), model.remove(&gone), "round {round}");
            let keys: Vec<u64> = (0..800).collect();
            let found = store.get_many(&keys).expect("the CPU goes on");
            for (key, value) in keys.iter().zip(found) {
                assert_eq!(value, model.get(key).copied(), "key {key}, lost after {after}, round {round}");
            }
        }
        assert!(store.lost().expect("it was lost").contains("unplugged"));
        // The room of what was displaced is not lost with the device.
        let all: Vec<_> = (0..900).map(|key| (key, key)).collect();
        store.put_many(&all).expect("room for as many keys as it was made for");
    }
}

#[test]
fn a_batch_beyond_a_stores_room_changes_nothing() {
    let device = Arc::new(Batch::new(BatchOptions::default()));
    let mut store = Store::new(device, Shape::for_keys(100).expect("small"), 10).expect("room");
    store.put_many(&[]).expect("nothing to do");
    store.put_many(&[(1, 1), (2, 2)]).expect("room");
    let many: Vec<_> = (0..11).map(|key| (key, 100)).collect();
    assert!(store.put_many(&many).is_err());
    assert_eq!(store.get_many(&[0, 1, 2, 3]).expect("works"), [None, Some(1), Some(2), None]);
    assert_eq!(store.lost(), None);
}

#[test]
fn keys_that_a_lost_device_was_to_sort_are_as_they_were() {
    for after in 0..12 {
        let keys: Vec<u32> = (0..4000u32).map(|key| key.wrapping_mul(2_654_435_761)).collect();
        let mut sorted = keys.clone();
        match unified::sort::sort(&Failing::new(after), &mut sorted, 4000) {
            Ok(()) => assert!(sorted.is_sorted() && after > 3, "a device that was lost sorted"),
            Err(error) => {
                assert!(error.to_string().contains("unplugged"), "{error}");
                assert_eq!(sorted, keys);
            }
        }
    }
}
