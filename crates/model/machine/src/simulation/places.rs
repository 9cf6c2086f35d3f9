//! Pages that have two places in persistent memory, for a design that sends each version of a line to the other.
//!
//! Caches know a line by one number, whichever place it has: changing its tag costs nothing in them. Where it is read and written below the
//! caches depends on its bit here.

use std::collections::HashMap;

use crate::interleave::PERSISTENT;

/// Lines of a page of 4 KiB, as a shift.
const PAGE_SHIFT: u32 = 6;
/// Where the second places begin, far behind what programs map; one behind the other.
const SECOND: u64 = PERSISTENT | 1 << 43;

/// The second places of pages, and which lines are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(HashMap<u64, Second>);

#[derive(Clone, Copy, Debug)]
struct Second {
    page: u64,
    /// A bit per line: its last version is in the second place.
    lines: u64,
}

impl Places {
    /// Where `line` is below the caches.
    #[inline]
    pub(crate) fn of(&self, line: u64) -> u64 {
        if self.0.is_empty() {
            return line;
        }
        match self.0.get(&(line >> PAGE_SHIFT)) {
            Some(second) if second.lines >> (line & 63) & 1 != 0 => {
                SECOND | second.page << PAGE_SHIFT | line & 63
            }
            _ => line,
        }
    }

    /// From now on the last version of `line` is in its page's other place.
    pub(crate) fn flip(&mut self, line: u64) {
        let next = self.0.len() as u64;
        let second = self.0.entry(line >> PAGE_SHIFT).or_insert(Second { page: next, lines: 0 });
        second.lines ^= 1 << (line & 63);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_two_places_of_its_own() {
        let mut places = Places::default();
        let [a, b] = [PERSISTENT | 5, PERSISTENT | 69];
        places.flip(a);
        places.flip(b);
        assert!(places.of(a) != a && places.of(b) != b && places.of(a) != places.of(b));
        assert_eq!(places.of(a + 1), a + 1, "another line of the page");
        places.flip(a);
        assert_eq!(places.of(a), a);
    }
}
