//! Locks of several processes: a word says who has it, and whoever waits looks whether that one lives.
//!
//! | word | meaning |
//! |---|---|
//! | 0 | free |
//! | n | the process of slot n - 1 has it |
//! | all ones | the one who had it is dead and its slot is another's by now |
//!
//! A process that is killed within leaves its number there. The next one to come swaps it for its own, and
//! learns that it has to mend what the lock guards.

use std::time::Duration;

use pmem::Mapped;
use space::Space;

/// The holder is gone, and so is its number.
const ABANDONED: u64 = u64::MAX;
/// Looks before the processor is lent to others, then before the waiter sleeps.
const LOOKS: u32 = 100;
const LOANS: u32 = 200;

/// A lock word in memory that processes share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'m> {
    pub memory: &'m Mapped,
    pub at: u64,
}

impl Word<'_> {
    /// Takes the lock for `slot`; whether its last holder died within.
    pub(crate) fn take(self, slot: u32, is_dead: impl Fn(u32) -> bool) -> bool {
        let mine = u64::from(slot) + 1;
        let mut looks = 0_u32;
        loop {
            let found = match self.memory.cas_u64(self.at, 0, mine) {
                Ok(_) => return false,
                Err(found) => found,
            };
            let gone = found == ABANDONED || {
                looks += 1;
                // Asking costs a read of a file.
                looks > LOANS && looks.is_multiple_of(16) && found != mine && is_dead((found - 1) as u32)
            };
            if gone && self.memory.cas_u64(self.at, found, mine).is_ok() {
                return true;
            }
            if looks < LOOKS {
                std::hint::spin_loop();
            } else if looks < LOANS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Gives it back.
    pub(crate) fn give(self, slot: u32) {
        let given = self.memory.cas_u64(self.at, u64::from(slot) + 1, 0);
        debug_assert!(given.is_ok(), "who gives a lock back has it: {given:?}");
    }

    /// The process of `slot` is gone for good: if it has the lock, the next one to take it learns it without
    /// asking.
    pub(crate) fn abandon(self, slot: u32) {
        _ = self.memory.cas_u64(self.at, u64::from(slot) + 1, ABANDONED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_do_not_keep_a_lock() {
        let memory = Mapped::anonymous(4096).expect("memory");
        let word = Word { memory: &memory, at: 64 };
        assert!(!word.take(3, |_| false));
        assert!(word.take(5, |slot| slot == 3), "3 is dead");
        word.give(5);
        assert!(!word.take(6, |_| true), "it was given back");
        word.abandon(6);
        assert!(word.take(6, |_| false), "its own number is another process by now");
    }

    #[test]
    fn one_at_a_time() {
        let memory = Mapped::anonymous(4096).expect("memory");
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for _ in 0..5000 {
                        let word = Word { memory, at: 0 };
                        word.take(slot, |_| false);
                        memory.store_u64(8, memory.load_u64(8) + 1);
                        word.give(slot);
                    }
                });
            }
        });
        assert_eq!(memory.load_u64(8), 20_000);
    }
}
