//! A thread of a litmus test, interpreted. CPU threads run this function, too.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::load;

/// Words before the variables: a line for the progress of each of four threads.
pub const HEADER_WORDS: usize = 64;
/// Words of an instruction: operation, variable, value, register.
pub const INSTRUCTION_WORDS: usize = 4;
/// Words from a variable to the next: a line.
pub const VARIABLE_WORDS: usize = 16;

/// Operations of a thread.
pub mod operation {
    /// Stores the value.
    pub const STORE: u32 = 1;
    /// Loads into the register.
    pub const LOAD: u32 = 2;
    /// Adds the value in one step; the former value goes to the register.
    pub const ADD: u32 = 3;
    /// Stores the value in one step; the former value goes to the register.
    pub const EXCHANGE: u32 = 4;
    /// A fence.
    pub const FENCE: u32 = 5;
    /// Lamport's bakery lock of two threads, of which the value is this one's number; the register has
    /// whether it came in before the bound of spinning.
    pub const LOCK: u32 = 6;
    /// Leaves it.
    pub const UNLOCK: u32 = 7;
    /// Loads, then stores the value's sum: an increment that is not atomic.
    pub const INCREMENT: u32 = 8;
}

struct Thread<'a> {
    memory: &'a [AtomicU32],
    base: usize,
    spin: u32,
}

impl Thread<'_> {
    fn at(&self, variable: u32) -> &AtomicU32 {
        &self.memory[self.base + variable as usize * VARIABLE_WORDS]
    }

    fn wait(&self, until: impl Fn() -> bool) -> bool {
        for _ in 0..self.spin {
            if until() {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Variables: choosing of both, numbers of both.
    fn lock(&self, first: u32, me: u32) -> bool {
        let (choosing, numbers) = (|who: u32| self.at(first + who), |who: u32| self.at(first + 2 + who));
        let other = 1 - me;
        choosing(me).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mine = numbers(other).load(Ordering::Relaxed).wrapping_add(1);
        numbers(me).store(mine, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        choosing(me).store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut came = self.wait(|| choosing(other).load(Ordering::Relaxed) == 0);
        came &= self.wait(|| {
            let theirs = numbers(other).load(Ordering::Relaxed);
            theirs == 0 || (mine, me) < (theirs, other)
        });
        fence(Ordering::SeqCst);
        came
    }

    fn step(&self, [operation, variable, value]: [u32; 3]) -> Option<u32> {
        match operation {
            operation::STORE => {
                self.at(variable).store(value, Ordering::Relaxed);
                None
            }
            operation::LOAD => Some(self.at(variable).load(Ordering::Relaxed)),
            operation::ADD => Some(self.at(variable).fetch_add(value, Ordering::Relaxed)),
            operation::EXCHANGE => Some(self.at(variable).swap(value, Ordering::Relaxed)),
            operation::FENCE => {
                fence(Ordering::SeqCst);
                None
            }
            operation::LOCK => Some(u32::from(self.lock(variable, value))),
            operation::UNLOCK => {
                fence(Ordering::SeqCst);
                self.at(variable + 2 + value).store(0, Ordering::Relaxed);
                None
            }
            operation::INCREMENT => {
                let sum = self.at(variable).load(Ordering::Relaxed).wrapping_add(value);
                self.at(variable).store(sum, Ordering::Relaxed);
                None
            }
            _ => None,
        }
    }
}

/// The kernel `litmus`. Parameters: instances, words of an instance, instructions, registers, bound of
/// spinning, repetitions, the number of the first thread, threads, steps of loops after which a device
/// starts no further instance.
pub fn interpret(id: u32, p: &[u32; 12], program: &[AtomicU32], memory: &[AtomicU32], results: &[AtomicU32]) {
    let [instances, words, instructions, registers, spin, repeats, first, threads, ..] = *p;
    let me = first + id;
    for instance in 0..instances {
        // Threads meet before each instance, as far as they see each other.
        memory[me as usize * 16].store(instance + 1, Ordering::Relaxed);
        let base = HEADER_WORDS + (instance * words) as usize;
        let thread = Thread { memory, base, spin };
        thread.wait(|| {
            (0..threads).all(|other| memory[other as usize * 16].load(Ordering::Relaxed) > instance)
        });
        for _ in 0..repeats {
            for number in 0..instructions {
                let at = (id * instructions + number) as usize * INSTRUCTION_WORDS;
                let [operation, variable, value, register] =
                    [0, 1, 2, 3].map(|word| load(program, at + word));
                if let Some(seen) = thread.step([operation, variable, value]) {
                    let cell = (id * instances + instance) * registers + register;
                    results[cell as usize].store(seen, Ordering::Relaxed);
                }
            }
        }
        // The last register says that the instance is whole.
        results[((id * instances + instance) * registers + 7) as usize].store(1, Ordering::Relaxed);
    }
}
