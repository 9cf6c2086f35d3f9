//! Order between threads: Lamport clocks, and counters of releases.

use space::Env;

/// Buckets that synchronisation objects hash to. Two objects in one bucket are ordered as one would be: never
/// wrong, at times more than is needed.
pub const BUCKETS: usize = 1024;

/// What a bucket knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bucket {
    /// The highest clock of those who released.
    pub clock: u64,
    /// Releases so far.
    pub released: u64,
}

/// How the end of an SFR is ordered against other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By its thread alone.
    Own,
    /// What follows came after this many releases of the bucket.
    Acquire { bucket: usize, number: u64 },
    /// It is the bucket's release of this number.
    Release { bucket: usize, number: u64 },
}

/// The buckets of a pool.
pub struct Buckets<E: Env>(Box<[E::Latch<Bucket>]>);

impl<E: Env> Buckets<E> {
    pub fn new(env: &E, clock: u64) -> Self {
        Buckets((0..BUCKETS).map(|_| env.latch(Bucket { clock, released: 0 })).collect())
    }

    /// The latch of a bucket.
    pub fn latch(&self, bucket: usize) -> &E::Latch<Bucket> {
        &self.0[bucket]
    }

    /// The bucket of an object, and its latch.
    pub fn of(&self, object: u64) -> (usize, &E::Latch<Bucket>) {
        let bucket = (object.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as usize;
        (bucket, &self.0[bucket])
    }
}

const _: () = assert!(BUCKETS == 1 << 10, "10 bits of the product choose a bucket");
