//! A policy under a stream of writes.

use serde::Serialize;

use super::{Cost, Leveller, Media, Writes};

/// Nanoseconds that a unit's write takes while it delays others (an assumption, the same for all policies).
const WRITE_NS: f64 = 100.0;

/// What a policy made of a stream of writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Levelled {
    /// Writes by the program.
    pub writes: u64,
    /// Writes by moves.
    pub moved: u64,
    /// All writes by those of the program.
    pub amplification: f64,
    /// Physical units.
    pub physical: u64,
    /// Whether the share of units that ends the memory's life died during the run.
    pub died: bool,
    /// Writes of the least worn among the most worn hundredth of the units.
    pub hottest: f64,
    /// Writes of the most worn unit.
    pub worst: f64,
    /// Lifetime in writes by that of a memory whose units wear alike and for which nothing moves: 1 is ideal.
    /// If the memory did not die, as if its wear went on in the same way.
    pub lifetime: f64,
    /// The same until the first unit dies, which is what an attack is after.
    pub first: f64,
    /// Nanoseconds that the policy adds to a write as a mean.
    pub added_ns: f64,
    /// The longest that a write may have to wait for a move, in nanoseconds.
    pub longest_ns: f64,
    /// What it needs besides.
    pub cost: Cost,
}

/// Gives a policy `writes` writes, or fewer if so large a `share` of the units reaches `endurance` before.
pub fn run<L: Leveller + ?Sized>(
    leveller: &mut L,
    source: &mut Writes<'_>,
    writes: u64,
    endurance: u32,
    share: f64,
) -> Levelled {
    const BATCH: u64 = 4096;
    let physical = leveller.physical();
    let mut media = Media::new(physical, endurance);
    let doomed = ((physical as f64 * share).ceil() as u64).max(1);
    let mut done = 0;
    while done < writes && media.dead() < doomed {
        let batch = BATCH.min(writes - done);
        for _ in 0..batch {
            let unit = source.next_unit();
            let at = leveller.remap(unit);
            media.write(at);
            leveller.tick(unit, at, &mut media);
        }
        done += batch;
    }
    let died = media.dead() >= doomed;
    let hottest = media.rates().hottest(share);
    let most = media.rates().hottest(0.0);
    let ends = if died { f64::from(endurance) } else { hottest };
    // A hundredth that was never written outlives an evenly worn memory without end.
    let lifetime = |worn: f64| (done as f64 / (worn * physical as f64)).min(1.0);
    let cost = leveller.cost();
    let moved_share = media.moved() as f64 / done.max(1) as f64;
    Levelled {
        writes: done,
        moved: media.moved(),
        amplification: 1.0 + moved_share,
        physical,
        died,
        hottest,
        worst: most,
        lifetime: lifetime(ends),
        first: lifetime(most),
        added_ns: cost.lookup_ns + moved_share * WRITE_NS,
        longest_ns: cost.moved_at_once as f64 * WRITE_NS,
        cost,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attack, Policy, Settings};
    use super::*;

    const UNITS: u64 = 1 << 14;

    fn outcome(policy: Policy, source: &mut Writes<'_>, writes: u64) -> Levelled {
        let settings = Settings::new(UNITS, 64);
        policy.run(&settings, source, writes)
    }

    /// Where the contents of each logical unit are, followed move by move, is where the policy says they are.
    #[test]
    fn no_two_units_share_a_place() {
        let settings = Settings { units: 1 << 10, interval: 3, ..Settings::new(1 << 10, 8) };
        for policy in Policy::ALL {
            let mut leveller = policy.build(&settings).expect("settings that fit");
            let mut media = Media::new(leveller.physical(), u32::MAX);
            let mut writes = Writes::attack(Attack::Birthday, settings.units, 5);
            for round in 0..30_000 {
                let unit = writes.next_unit();
                let at = leveller.remap(unit);
                media.write(at);
                leveller.tick(unit, at, &mut media);
                if round % 97 == 0 {
                    let mut places: Vec<u64> = (0..settings.units).map(|unit| leveller.remap(unit)).collect();
                    places.sort_unstable();
                    places.dedup();
                    assert_eq!(places.len() as u64, settings.units, "{}", policy.name());
                    assert!(places.last().is_some_and(|last| *last < leveller.physical()));
                }
            }
            let sum: u64 = media.worn().iter().map(|worn| u64::from(*worn)).sum();
            assert_eq!(sum, 30_000 + media.moved(), "{}", policy.name());
            assert_eq!(media.moved() > 0, policy != Policy::None, "{}", policy.name());
        }
    }

    #[test]
    fn a_hammered_unit_wears_less_under_every_policy() {
        let hammered = |policy| outcome(policy, &mut Writes::attack(Attack::Hammer, UNITS, 3), 8 << 20);
        let bare = hammered(Policy::None);
        assert!(bare.first < 1e-3, "{bare:?}");
        for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::None) {
            let levelled = hammered(policy);
            assert!(levelled.first > 3.0 * bare.first, "{}: {levelled:?}", policy.name());
        }
    }

    #[test]
    fn uniform_writes_gain_nothing_and_pay_the_moves() {
        for policy in Policy::ALL {
            let mut source = Writes::attack(Attack::Uniform, UNITS, 3);
            let levelled = outcome(policy, &mut source, 8 << 20);
            assert!(levelled.lifetime > 0.6, "{}: {levelled:?}", policy.name());
            assert!(levelled.amplification < 1.25, "{}: {levelled:?}", policy.name());
        }
    }

    #[test]
    fn hot_pages_among_many_live_longer_under_every_policy() {
        // Two thirds of the writes go to four pages, more than the hundredth whose death counts.
        let trace: Vec<u32> = (0..3 * 4096u32)
            .map(|write| if write % 3 == 0 { write * 5 % UNITS as u32 } else { 640 + write % 256 })
            .collect();
        let bare = outcome(Policy::None, &mut Writes::of(&trace), 16 << 20);
        for policy in Policy::ALL.into_iter().filter(|policy| *policy != Policy::None) {
            let levelled = outcome(policy, &mut Writes::of(&trace), 16 << 20);
            assert!(levelled.lifetime > 2.0 * bare.lifetime, "{}: {levelled:?}, {bare:?}", policy.name());
        }
    }

    #[test]
    fn a_memory_dies_when_its_share_has() {
        let settings = Settings { endurance: 100, ..Settings::new(UNITS, 64) };
        let mut source = Writes::attack(Attack::Sequential, UNITS, 3);
        let levelled = Policy::None.run(&settings, &mut source, u64::MAX);
        assert!(levelled.died && (levelled.lifetime - 1.0).abs() < 0.02, "{levelled:?}");
    }
}
