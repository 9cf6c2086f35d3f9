//! Which misses overlap: the clusters that one core's window holds together, and of which structures each is.
//!
//! Misses cost time only as far as they do not overlap, and structures differ in this: a list is walked one miss after the other,
//! an array is read many lines at a time. A cluster begins with a miss and holds the misses of the window's instructions
//! from there on, as many as there are miss registers. All of it takes about as long as its slowest miss.

use std::collections::HashMap;

use super::locate::Structure;

/// Structures of a cluster that are kept apart; further ones count as the last of them.
pub(super) const MEMBERS: usize = 6;
/// Different clusters that are kept apart.
const KINDS_MAX: usize = 1 << 16;

/// Misses of a cluster by structure: the structure, its misses, and in how many pages they are one after the other (pages are placed
/// whole, so misses of one page are all slow or all fast). Sorted, without repetition, ends at the first count of 0.
pub type Members = [(Structure, u32, u32); MEMBERS];

/// How often each kind of cluster occurred.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    kinds: HashMap<Members, u64>,
}

/// The cluster that a thread is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    members: Members,
    /// The page of each member's last miss.
    pages: [u64; MEMBERS],
    misses: u32,
    /// Where its window ends.
    end: u64,
}

impl Clusters {
    /// Every kind, and how often it occurred.
    pub fn each(&self) -> impl Iterator<Item = (&Members, u64)> {
        self.kinds.iter().map(|(members, &count)| (members, count))
    }

    /// Clusters in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kinds.values().sum()
    }

    fn add(&mut self, mut members: Members) {
        members.sort_unstable_by_key(|&(structure, count, _)| (count == 0, structure));
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&members) {
            let most = members.iter().copied().max_by_key(|&(_, count, _)| count).unwrap_or_default();
            members = Members::default();
            members[0] = (most.0, 1, 1);
        }
        *self.kinds.entry(members).or_default() += 1;
    }
}

impl Open {
    /// A miss at instruction `now`, of a window that then ends at `now + window`, and holds at most so many misses.
    pub(super) fn miss(
        &mut self,
        (structure, page): (Structure, u64),
        now: u64,
        window: u64,
        most: u32,
        clusters: &mut Clusters,
    ) {
        if self.misses > 0 && (now >= self.end || self.misses >= most) {
            self.close(clusters);
        }
        if self.misses == 0 {
            self.end = now + window;
        }
        self.misses += 1;
        let free = self.members.iter().position(|(held, count, _)| *count == 0 || *held == structure);
        let at = free.unwrap_or(MEMBERS - 1);
        let (held, misses, pages) = self.members[at];
        let other = misses == 0 || self.pages[at] != page;
        self.pages[at] = page;
        let structure = if misses == 0 { structure } else { held };
        self.members[at] = (structure, misses + 1, pages + u32::from(other));
    }

    /// The cluster is over.
    pub(super) fn close(&mut self, clusters: &mut Clusters) {
        if self.misses > 0 {
            clusters.add(self.members);
            *self = Open::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_of_one_window_are_one_cluster() {
        let (mut clusters, mut open) = (Clusters::default(), Open::default());
        for (structure, now) in [(3, 0), (2, 50), (3, 199), (3, 200), (2, 1_000), (2, 1_001), (2, 1_002)] {
            open.miss((structure, now / 1_001), now, 200, 2_000, &mut clusters);
        }
        open.close(&mut clusters);
        let mut found: Vec<_> =
            clusters.each().map(|(members, count)| (members[0], members[1], count)).collect();
        found.sort_unstable();
        assert_eq!(found, [((2, 1, 1), (3, 2, 1), 1), ((2, 3, 2), (0, 0, 0), 1), ((3, 1, 1), (0, 0, 0), 1)]);
    }

    #[test]
    fn a_cluster_has_as_many_misses_as_there_are_registers() {
        let (mut clusters, mut open) = (Clusters::default(), Open::default());
        (0..10).for_each(|now| open.miss((1, now), now, 200, 4, &mut clusters));
        open.close(&mut clusters);
        assert_eq!(clusters.count(), 3);
    }
}
