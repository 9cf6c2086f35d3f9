//! Ranges of a file's bytes.

use std::collections::BTreeMap;

/// Disjoint ranges that do not touch.
#[derive(Clone, Debug, Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Puts in what lies from `from` to before `to`.
    pub fn insert(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let (mut from, mut to) = (from, to);
        while let Some((&start, &end)) = self.0.range(..=to).next_back()
            && end >= from
        {
            self.0.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.0.insert(from, to);
    }

    /// Takes out what lies from `from` to before `to`.
    pub fn remove(&mut self, from: u64, to: u64) {
        let hit: Vec<(u64, u64)> = self
            .0
            .range(..to)
            .rev()
            .map(|(&start, &end)| (start, end))
            .take_while(|range| range.1 > from)
            .collect();
        for (start, end) in hit {
            self.0.remove(&start);
            if start < from {
                self.0.insert(start, from);
            }
            if end > to {
                self.0.insert(to, end);
            }
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&from, &to)| (from, to))
    }

    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|(from, to)| to - from).sum()
    }

    /// How many blocks of this size have a byte.
    pub fn blocks(&self, size: u64) -> u64 {
        let mut next = 0;
        let mut count = 0;
        for (from, to) in self.iter() {
            let (first, behind) = ((from / size).max(next), (to - 1) / size + 1);
            count += behind.saturating_sub(first);
            next = behind.max(next);
        }
        count
    }

    /// Nothing is left; what was there.
    pub fn take(&mut self) -> Ranges {
        std::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    /// Against a plain set of bytes, on random ranges.
    #[test]
    fn ranges_are_sets_of_bytes() {
        let seed = 0x5EED_0044_u64;
        println!("seed {seed:#x}");
        let mut state = seed;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..300 {
            let (mut ranges, mut plain) = (Ranges::default(), std::collections::BTreeSet::new());
            for _ in 0..next(20) {
                let (from, len) = (next(100), next(30));
                if next(3) == 0 {
                    ranges.remove(from, from + len);
                    plain.retain(|byte| !(from..from + len).contains(byte));
                } else {
                    ranges.insert(from, from + len);
                    plain.extend(from..from + len);
                }
                let bytes: Vec<u64> = ranges.iter().flat_map(|(from, to)| from..to).collect();
                assert!(bytes.iter().eq(plain.iter()), "{ranges:?} {plain:?}");
                for size in [1, 4, 7] {
                    let blocks: std::collections::BTreeSet<u64> =
                        plain.iter().map(|byte| byte / size).collect();
                    assert_eq!(ranges.blocks(size), blocks.len() as u64);
                }
            }
        }
    }
}
