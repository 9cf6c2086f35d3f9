//! A thread's first-level cache: which lines it holds, least recently used first out.

/// Tags in sets, the most recent of a set first.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    tags: Vec<u64>,
    ways: usize,
    mask: u64,
    hashed: bool,
}

const EMPTY: u64 = u64::MAX;

impl Cache {
    /// Of so many bytes; sets are rounded to a power of two.
    pub(crate) fn new(bytes: u64, ways: usize) -> Self {
        let sets = (bytes / 64 / ways.max(1) as u64).max(1).next_power_of_two();
        Cache {
            tags: vec![EMPTY; sets as usize * ways.max(1)],
            ways: ways.max(1),
            mask: sets - 1,
            hashed: false,
        }
    }

    /// One whose sets are chosen by a hash, so that no addresses meet in few of them by their distance.
    pub(crate) fn hashed(bytes: u64, ways: usize) -> Self {
        Cache { hashed: true, ..Cache::new(bytes, ways) }
    }

    /// Whether a line is not there; it is afterwards.
    #[inline]
    pub(crate) fn misses(&mut self, line: u64) -> bool {
        let index = if self.hashed { line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40 } else { line };
        let start = (index & self.mask) as usize * self.ways;
        let set = &mut self.tags[start..start + self.ways];
        if set[0] == line {
            return false;
        }
        match set.iter().position(|&tag| tag == line) {
            Some(at) => {
                set[..=at].rotate_right(1);
                false
            }
            None => {
                set.rotate_right(1);
                set[0] = line;
                true
            }
        }
    }
}
