//! From how many bytes on non-temporal write-back is cheaper than stores and flushes, on this machine.

use std::ops::Deref;

use space::{Env, LINE, Space};

use super::buffers::Buffers;
use super::write_back::write_back;
use super::{Atomicity, Engine, Flaw, MicroBuffer, WriteBackThreshold};
use crate::{Error, Layout, Pool};

/// Objects of these sizes are tried, in bytes.
const SIZES: std::ops::RangeInclusive<u32> = 6..=13;
/// Bytes that are written to, at most and at least.
const ROOM: [u64; 3] = [4 << 20, 1 << 20, 256 << 10];
/// Turns of each size and way; the fastest counts.
const TURNS: u32 = 15;
/// Objects that are written back in a turn.
const OBJECTS: u64 = 64;

impl<H, L, F> Pool<H, L, MicroBuffer<F>>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    F: Flaw,
{
    /// What makes the regions, to set how they write back.
    pub fn engine(&self) -> &super::MicroBufferEngine<H::Target, F> {
        &self.engine
    }
}

impl<H, L, A> Pool<H, L, A>
where
    H: Deref<Target: Env + Sized>,
    L: Layout,
    A: Atomicity,
{
    /// Measures on the environment's clock from how many bytes on non-temporal write-back is cheaper, and
    /// sets that ([`MicroBufferEngine::set_threshold`](super::MicroBufferEngine::set_threshold)). Returns
    /// what it set: a power of two, or `u64::MAX` if it never was cheaper. Takes some milliseconds, and free
    /// memory of the pool for as long. What is measured is this thread's memory, so it is for the moment
    /// after opening. Where a fence waits for a disk, that is all that would be measured: leave it.
    ///
    /// # Errors
    /// If the pool's engine has no threshold, as all but [`MicroBuffer`], it was opened to look only, or has
    /// no 256 KiB free in one piece. The threshold is what it was then.
    #[track_caller]
    pub fn measure_threshold(&self) -> Result<u64, Error> {
        let sets = self.engine.write_back_threshold().ok_or(Error::NoThreshold { engine: A::NAME })?;
        self.check_writable()?;
        let mut measured = None;
        for bytes in ROOM {
            // The region is given up, so that the memory is free again and nothing of it was ever anybody's.
            let given_up: Result<(), Error> = self.region(|tx| {
                let at = tx.alloc_zeroed(bytes)?;
                measured = Some(crossing(self.env(), at, bytes));
                Err(Error::Aborted("measured".to_owned()))
            });
            if !matches!(given_up, Err(Error::Full { .. } | Error::TooLarge { .. })) {
                break;
            }
        }
        let threshold = measured.ok_or(Error::Full { wanted: ROOM[2] })?;
        sets.set_threshold(threshold);
        Ok(threshold)
    }
}

/// The smallest size from which on all sizes are written back faster by non-temporal stores.
fn crossing<E: Env>(env: &E, at: u64, bytes: u64) -> u64 {
    let mut threshold = u64::MAX;
    for power in SIZES.rev() {
        let size = 1u64 << power;
        let [mut through, mut past] = [u64::MAX; 2];
        for turn in 0..u64::from(TURNS) {
            through = through.min(time(env, at, bytes, size, 2 * turn, u64::MAX));
            past = past.min(time(env, at, bytes, size, 2 * turn + 1, 0));
        }
        if past >= through {
            break;
        }
        threshold = size;
    }
    threshold
}

/// Nanoseconds of a turn: objects all over the memory are copied, written and written back.
fn time<E: Env>(env: &E, at: u64, bytes: u64, size: u64, turn: u64, threshold: u64) -> u64 {
    let space = env.space();
    let objects = bytes / size;
    let mut took = 0;
    for object in 0..OBJECTS {
        // Some odd step, so that neighbours in time are none in memory.
        let number = (turn * OBJECTS + object).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let place = at + number % objects * size;
        let mut buffers = Buffers::take();
        (place..place + size).step_by(8).for_each(|word| buffers.set(space, word, number));
        debug_assert_eq!(buffers.lines().len() as u64 * LINE, size);
        let begin = env.now_ns();
        write_back(space, buffers.lines(), threshold, true);
        space.fence();
        took += env.now_ns() - begin;
        buffers.put_back();
    }
    took
}
