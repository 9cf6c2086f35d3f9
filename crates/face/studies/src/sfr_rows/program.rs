//! What the benchmarks have in common: operations under locks, generic over the environment.

use sfr::{Error, Thread};
use space::Env;

use crate::pattern::Draw;

/// A benchmark whose data is in a pool. Offsets and fields are as in the C programs of `examples/c/sfr`.
pub(super) trait Program<E: Env>: Sync + Sized {
    /// Makes the data with one thread; returns where it is.
    fn setup(thread: &mut Thread<'_, '_, E>, stores: u64) -> Result<u64, Error>;

    /// What is in ordinary memory, for data at `root`.
    fn start(env: &E, root: u64, stores: u64) -> Self;

    /// One operation.
    fn operate(&self, env: &E, thread: &mut Thread<'_, '_, E>, draw: &mut Draw) -> Result<(), Error>;
}

/// Locks in ordinary memory. Unlike the guards of `sfr` they can be given up in any order, as hand-over-hand
/// locking needs it.
pub(super) struct Locks<E: Env> {
    mutexes: Vec<E::Mutex<()>>,
}

/// Where locks seem to lie, a line each.
const FIRST: u64 = 1 << 32;

impl<E: Env> Locks<E> {
    pub fn new(env: &E, count: u64) -> Self {
        Locks { mutexes: (0..count).map(|_| env.mutex(())).collect() }
    }

    /// Waits for a lock and takes it.
    pub fn take<'a>(&'a self, env: &'a E, thread: &mut Thread<'_, '_, E>, number: u64) -> Held<'a, E> {
        let guard = env.lock(&self.mutexes[number as usize]);
        thread.lock(FIRST + number * 64);
        Held { number, _guard: guard }
    }
}

/// A lock that is held. It has to be given up by [`Held::give`].
pub(super) struct Held<'a, E: Env + 'a> {
    number: u64,
    _guard: E::MutexGuard<'a, ()>,
}

impl<E: Env> Held<'_, E> {
    /// Ends the SFR, and gives the lock up.
    pub fn give(self, thread: &mut Thread<'_, '_, E>) {
        thread.unlock(FIRST + self.number * 64);
    }
}

/// Stores the words of a payload, one by one.
pub(super) fn payload<E: Env>(thread: &mut Thread<'_, '_, E>, at: u64, words: u64, key: u64, version: u64) {
    for word in 0..words {
        let value = if word == 0 { version } else { (version << 20) + (key << 6) + word };
        thread.store_u64(at + word * 8, value);
    }
}

/// A number that looks random and always is the same one (SplitMix64).
pub(super) fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
