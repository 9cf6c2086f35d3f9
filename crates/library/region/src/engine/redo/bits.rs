//! Bits of words that regions of several threads change at the same time.
//!
//! An atomic read-modify-write would wait for the fence that has just begun, and each of its kind again. So a
//! word is changed under one of many latches, which a thread that uses its words alone takes with plain
//! stores.

use space::{Env, LINE, Space};

use crate::heap::Apart;
use crate::{Change, Write};

/// How many words can be changed at the same time, at most: a power of two.
const LATCHES: usize = 32;

/// Who changes bits.
pub(super) struct Bits<E: Env>(Vec<Apart<E::Latch<()>>>);

impl<E: Env> Bits<E> {
    pub(super) fn new(env: &E) -> Self {
        Bits((0..LATCHES).map(|_| Apart(env.latch(()))).collect())
    }

    /// Gives a word its new value.
    #[inline(always)]
    #[track_caller]
    pub(super) fn apply(&self, env: &E, write: &Write) {
        match write.change() {
            Change::Set(value) => env.space().store_u64(write.offset(), value),
            Change::Take(mask) => self.change(env, write.offset(), mask, 0),
            Change::Give(mask) => self.change(env, write.offset(), 0, mask),
        }
    }

    /// Sets the bits in the word that are `taken`, clears those that are `free`, and does the opposite in its
    /// complement.
    #[inline(never)]
    #[track_caller]
    fn change(&self, env: &E, word: u64, taken: u64, free: u64) {
        let space = env.space();
        // Maps of slabs are far apart, by powers of two.
        let latch = (word / LINE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - LATCHES.ilog2());
        let held = env.hold(&self.0[latch as usize].0);
        for (at, set, cleared) in [(word, taken, free), (word + 8, free, taken)] {
            space.store_u64(at, space.load_u64(at) & !cleared | set);
        }
        drop(held);
    }
}
