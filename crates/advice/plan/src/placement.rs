//! Which share of each structure lies on which tier.

use crate::profile::{PAGE, Profile, Structure};

/// Shares of every structure by tier, the fast tier first.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    tiers: usize,
    /// `shares[structure * tiers + tier]`
    shares: Vec<f64>,
}

impl Placement {
    /// All of so many structures on one of so many tiers.
    #[must_use]
    pub fn all_on(tier: usize, tiers: usize, structures: usize) -> Placement {
        let mut shares = vec![0.0; structures * tiers];
        shares.iter_mut().skip(tier).step_by(tiers).for_each(|share| *share = 1.0);
        Placement { tiers, shares }
    }

    /// Fills tiers coldest first, the slowest tier first, each with its part of the working set. The structure that does not fit whole
    /// is divided by pages (section 3.3 of the source, which leaves this case open).
    #[must_use]
    pub fn coldest_first(profile: &Profile, parts: &[f64]) -> Placement {
        let tiers = parts.len();
        let mut placement = Placement::all_on(0, tiers, profile.structures.len());
        let total = profile.bytes() as f64;
        let mut room: Vec<f64> = parts.iter().map(|part| part * total).collect();
        let mut tier = tiers - 1;
        for number in profile.coldest_first() {
            let bytes = profile.structures[number].bytes as f64;
            let mut left = bytes;
            placement.set(number, 0, 0.0);
            while left > 0.0 {
                while tier > 0 && room[tier] < PAGE as f64 / 2.0 {
                    tier -= 1;
                }
                let here = if tier == 0 { left } else { left.min(room[tier]) };
                room[tier] -= here;
                left -= here;
                let share = placement.share(number, tier) + here / bytes;
                placement.set(number, tier, share);
            }
        }
        placement
    }

    /// Puts all of a structure onto a tier.
    pub fn put(&mut self, structure: usize, tier: usize) {
        for other in 0..self.tiers {
            self.set(structure, other, f64::from(u8::from(other == tier)));
        }
    }

    /// Number of tiers.
    #[must_use]
    pub fn tiers(&self) -> usize {
        self.tiers
    }

    /// Share of a structure on a tier. What is not known lies on the fast one.
    #[must_use]
    pub fn share(&self, structure: usize, tier: usize) -> f64 {
        let unknown = f64::from(u8::from(tier == 0));
        self.shares.get(structure * self.tiers + tier).copied().unwrap_or(unknown)
    }

    /// Share of a structure that is not on the fast tier.
    #[must_use]
    pub fn slow(&self, structure: usize) -> f64 {
        1.0 - self.share(structure, 0)
    }

    /// Whether a page of a structure is off the fast tier: a fixed draw by the page's number.
    #[must_use]
    pub fn page_is_slow(&self, structure: Structure, page: u64) -> bool {
        let slow = self.slow(structure as usize);
        if slow <= 0.0 || slow >= 1.0 {
            return slow >= 0.5;
        }
        let draw = crate::curve::shards::hash(page) >> 11;
        (draw as f64) < slow * (1u64 << 53) as f64
    }

    fn set(&mut self, structure: usize, tier: usize, share: f64) {
        self.shares[structure * self.tiers + tier] = share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Owner, StructureProfile};

    fn profile(structures: &[(u64, u64)]) -> Profile {
        let one = |(site, &(bytes, misses)): (u32, &(u64, u64))| StructureProfile {
            owner: Owner::Site(site),
            bytes,
            beyond_l2: misses,
            misses: vec![misses],
            store_misses: vec![0],
            writes: vec![0],
            over_time: vec![0; Profile::SLICES],
        };
        Profile {
            ways: vec![1],
            structures: (0..).zip(structures).map(one).collect(),
            registers: 9,
            clusters: vec![crate::profile::Clusters::default()],
            monitor: vec![1.0],
            events: 1,
            accesses: 1,
            instructions: 1,
            threads: 1,
            curve: Vec::new(),
            sampled: false,
            saw_allocations: true,
        }
    }

    /// The source's example: of 2.5 GiB a fifth goes, `Hash` (384 MiB) and `List1` (128 MiB).
    #[test]
    fn the_coldest_structures_go_first_and_the_last_in_part() {
        let mib = 1 << 20;
        let profile = profile(&[(2048 * mib, 1_000_000), (384 * mib, 10), (128 * mib, 5)]);
        let fifth = Placement::coldest_first(&profile, &[0.8, 0.2]);
        let slow: Vec<f64> = (0..3).map(|structure| fifth.slow(structure)).collect();
        assert!(slow[0] < 1e-9 && slow[1] > 1.0 - 1e-9 && slow[2] > 1.0 - 1e-9, "{slow:?}");
        let half = Placement::coldest_first(&profile, &[0.5, 0.5]);
        assert!((half.slow(0) - (1280.0 - 512.0) / 2048.0).abs() < 1e-6);
        let pages = (0..10_000).filter(|&page| half.page_is_slow(0, page)).count();
        assert!((3_550..3_950).contains(&pages), "{pages}");
        let three = Placement::coldest_first(&profile, &[0.2, 0.4, 0.4]);
        let sum: f64 = (0..3).map(|tier| three.share(0, tier)).sum();
        assert!((sum - 1.0).abs() < 1e-6 && three.share(1, 2) > 0.99);
    }
}
