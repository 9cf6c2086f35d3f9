//! Groups of atomic words in ordinary memory, found by number: what nodes that threads read without a lock
//! are made of. A group stays where it is, and what is read of one that is not in use any more is stale,
//! never invalid, so readers need no epochs: they hold what they read against a version.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use zerocopy::FromZeros;

/// Groups of the first chunk, as a power of 2; each chunk has twice as many as the one before.
const FIRST: u32 = 6;
/// Chunks that all numbers of 32 bits need.
const CHUNKS: usize = (u32::BITS - FIRST + 1) as usize;
/// Words of a cache line.
const LINE: usize = 8;

/// Groups of `N` words each. All are there, with zeros; memory is taken when it is touched.
pub(crate) struct Arena<const N: usize> {
    chunks: [OnceLock<Chunk>; CHUNKS],
}

struct Chunk {
    words: Box<[AtomicU64]>,
    /// Words before the first group, so that groups begin with a cache line.
    skip: usize,
}

impl Chunk {
    #[cold]
    fn new(words: usize) -> Chunk {
        let Ok(words) = <[AtomicU64]>::new_box_zeroed_with_elems(words + LINE - 1) else {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<AtomicU64>())
        };
        let skip = (words.as_ptr().addr() / 8).wrapping_neg() % LINE;
        Chunk { words, skip }
    }
}

impl<const N: usize> Arena<N> {
    pub fn new() -> Self {
        Arena { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The group of that number.
    #[inline(always)]
    pub fn get(&self, number: u32) -> &[AtomicU64; N] {
        let shifted = u64::from(number) + (1 << FIRST);
        let chunk = shifted.ilog2() - FIRST;
        let at = (shifted - (1 << (chunk + FIRST))) as usize;
        let chunk = self.chunks[chunk as usize].get_or_init(|| Chunk::new(N << (chunk + FIRST)));
        let start = chunk.skip + at * N;
        match chunk.words[start..].first_chunk() {
            Some(group) => group,
            None => unreachable!("a chunk has all its groups"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn groups_are_apart_and_begin_with_a_line() {
        let arena = Arena::<16>::new();
        for number in 0..1000u32 {
            let group = arena.get(number);
            assert_eq!(group.as_ptr().addr() % 64, 0);
            for word in group {
                assert_eq!(word.swap(u64::from(number) + 1, Relaxed), 0);
            }
        }
        assert_eq!(arena.get(1 << 12)[15].load(Relaxed), 0);
        assert!(
            (0..1000)
                .all(|number| arena.get(number).iter().all(|w| w.load(Relaxed) == u64::from(number) + 1))
        );
    }
}
