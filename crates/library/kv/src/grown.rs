//! An array that gets longer while others read it, in ordinary memory.

use std::sync::OnceLock;

/// Items of the first part. Each further part is as long as all before together.
const FIRST: usize = 64;
const PARTS: usize = 32;

/// Items that are there as soon as somebody asks for them, and stay where they are.
#[derive(Debug)]
pub(crate) struct Grown<T> {
    parts: [OnceLock<Box<[T]>>; PARTS],
}

impl<T: Default> Grown<T> {
    pub(crate) fn new() -> Self {
        Grown { parts: [const { OnceLock::new() }; PARTS] }
    }

    /// Item `at`.
    pub(crate) fn at(&self, at: usize) -> &T {
        let part = (at / FIRST + 1).ilog2() as usize;
        let (begin, len) = (FIRST * ((1 << part) - 1), FIRST << part);
        let items = self.parts[part].get_or_init(|| (0..len).map(|_| T::default()).collect());
        &items[at - begin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn each_item_is_one_of_its_own() {
        let all = Grown::<AtomicUsize>::new();
        (0..10_000).for_each(|at| all.at(at).store(at, Relaxed));
        assert!((0..10_000).all(|at| all.at(at).load(Relaxed) == at));
    }
}
