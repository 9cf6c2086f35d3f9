//! A thread's first-level cache: which lines it holds, least recently used first out.

/// Tags in sets, the most recent of a set first.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    tags: Vec<u64>,
    ways: usize,
    mask: u64,
    /// Lines fetched so far.
    pub(crate) fetches: u32,
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
            fetches: 0,
        }
    }

    /// Lines that it holds.
    pub(crate) fn lines(&self) -> usize {
        self.tags.len()
    }

    /// Touches a line: `None` if it was there, else the line that made room, if any.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> Option<Option<u64>> {
        let start = (line & self.mask) as usize * self.ways;
        let set = &mut self.tags[start..start + self.ways];
        if set[0] == line {
            return None;
        }
        match set.iter().position(|&tag| tag == line) {
            Some(at) => {
                set[..=at].rotate_right(1);
                None
            }
            None => {
                self.fetches = self.fetches.wrapping_add(1);
                set.rotate_right(1);
                let out = std::mem::replace(&mut set[0], line);
                Some((out != EMPTY).then_some(out))
            }
        }
    }
}
