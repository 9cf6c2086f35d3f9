//! The calls under way of functions that report where they begin and end: those in the headers of C++'s
//! library, and small ones of the program's that store, flush or fence for their callers.

use std::collections::VecDeque;

/// Calls that are remembered.
const MOST: usize = 256;

/// A thread's calls, the last one first.
#[derive(Debug, Default)]
pub struct Calls {
    /// An address in each function's code, where it returns to, and an address in its frame.
    under_way: VecDeque<[u64; 3]>,
}

impl Calls {
    /// A function with code at `pc` has begun that returns to `back`. Frames grow down, so those that are not
    /// above its own
    /// were left by a jump.
    pub fn begin(&mut self, pc: u64, back: u64, frame: u64) {
        while self.under_way.pop_front_if(|[_, _, other]| *other <= frame).is_some() {}
        self.under_way.truncate(MOST - 1);
        self.under_way.push_front([pc, back, frame]);
    }

    /// The last one ends.
    pub fn end(&mut self) {
        self.under_way.pop_front();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Where they return to, the last one first.
    pub fn returns(&self) -> impl Iterator<Item = u64> {
        self.under_way.iter().map(|[_, back, _]| *back)
    }

    /// An address in the code of each and where it returns to, the last one first.
    pub fn all(&self) -> impl Iterator<Item = (u64, u64)> {
        self.under_way.iter().map(|[pc, back, _]| (*pc, *back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_a_jump_left_are_forgotten() {
        let mut calls = Calls::default();
        calls.begin(9, 1, 1000);
        calls.begin(9, 2, 900);
        calls.begin(9, 3, 800);
        assert!(calls.returns().eq([3, 2, 1]));
        calls.begin(9, 4, 900);
        assert!(calls.returns().eq([4, 1]));
        calls.end();
        calls.end();
        calls.end();
        assert!(calls.is_empty());
        (0..1000).for_each(|call| calls.begin(9, call, 10_000 - call));
        assert_eq!(calls.returns().count(), MOST);
    }
}
