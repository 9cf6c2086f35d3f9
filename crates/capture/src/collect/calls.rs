//! The calls under way of functions in the headers of C++'s library, which a program's own code made.

use std::collections::VecDeque;

/// Calls that are remembered.
const MOST: usize = 256;

/// A thread's calls, the last one first.
#[derive(Debug, Default)]
pub struct Calls {
    /// Where each returns to, and an address in its frame.
    under_way: VecDeque<[u64; 2]>,
}

impl Calls {
    /// A function has begun that returns to `back`. Frames grow down, so those that are not above its own were left by a jump.
    pub fn begin(&mut self, back: u64, frame: u64) {
        while self.under_way.pop_front_if(|[_, other]| *other <= frame).is_some() {}
        self.under_way.truncate(MOST - 1);
        self.under_way.push_front([back, frame]);
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
        self.under_way.iter().map(|[back, _]| *back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_a_jump_left_are_forgotten() {
        let mut calls = Calls::default();
        calls.begin(1, 1000);
        calls.begin(2, 900);
        calls.begin(3, 800);
        assert!(calls.returns().eq([3, 2, 1]));
        calls.begin(4, 900);
        assert!(calls.returns().eq([4, 1]));
        calls.end();
        calls.end();
        calls.end();
        assert!(calls.is_empty());
        (0..1000).for_each(|call| calls.begin(call, 10_000 - call));
        assert_eq!(calls.returns().count(), MOST);
    }
}
