//! The policies by name, with settings that make them comparable.

use serde::{Deserialize, Serialize};

use super::{
    AgeBased, Levelled, Leveller, RowShift, SecurityRefresh, Shuffle, StartGap, Temporary, Unlevelled,
    Writes, run,
};
use crate::WORN_SHARE;

/// A levelling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Nothing moves.
    None,
    /// Kevlar's shuffle.
    Kevlar,
    /// A wandering gap.
    StartGap,
    /// Random keys, replaced step by step.
    SecurityRefresh,
    /// Shifts within rows, swaps of rows.
    RowShift,
    /// Hot pages to unworn frames, with full knowledge.
    AgeBased,
}

/// What cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy has that name.
    #[error("no levelling policy is called {name}; there are {}", Policy::names())]
    NoPolicy {
        /// The name.
        name: String,
    },
    /// Sizes that do not fit each other.
    #[error("{units} units in pages of {per_page}: use powers of two, from two pages to 2^31 units")]
    Sizes {
        /// Units.
        units: u64,
        /// Units of a page.
        per_page: u64,
    },
}

/// Settings of all policies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Logical units, a power of two.
    pub units: u64,
    /// Units of a page, a power of two.
    pub per_page: u64,
    /// Writes of a unit's worth of levelling: Start-Gap and Security Refresh move a unit after so many
    /// writes.
    pub interval: u32,
    /// Writes per page between two shuffles of it. The source's 8192 shuffles in the life of a memory that
    /// survives 10^7 writes are one every 1220.
    pub shuffle_every: u64,
    /// Parts of a shuffle operation. The source's are 300 s of 4.2 h.
    pub intervals: u32,
    /// Where contents wait.
    pub temporary: Temporary,
    /// Regions of Start-Gap and Security Refresh, a power of two.
    pub regions: u64,
    /// Writes that a unit survives in the simulation.
    pub endurance: u32,
    /// Share of the units whose death ends the memory's life.
    pub share: f64,
    /// Of random choices.
    pub seed: u64,
}

impl Settings {
    /// So many units in pages of `per_page`; the rest as in the sources.
    #[must_use]
    pub fn new(units: u64, per_page: u64) -> Self {
        Settings {
            units,
            per_page,
            interval: 100,
            shuffle_every: 1220,
            intervals: 50,
            temporary: Temporary::Spare,
            regions: (units >> 14).max(1),
            endurance: u32::MAX,
            share: WORN_SHARE,
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), PolicyError> {
        let Settings { units, per_page, regions, .. } = *self;
        let powers = [units, per_page, regions].iter().all(|number| number.is_power_of_two());
        if !powers || units > 1 << 31 || units < 2 * per_page || regions > units / 2 {
            return Err(PolicyError::Sizes { units, per_page });
        }
        Ok(())
    }
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] = [
        Policy::None,
        Policy::Kevlar,
        Policy::StartGap,
        Policy::SecurityRefresh,
        Policy::RowShift,
        Policy::AgeBased,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Policy::None => "none",
            Policy::Kevlar => "kevlar",
            Policy::StartGap => "start-gap",
            Policy::SecurityRefresh => "security-refresh",
            Policy::RowShift => "row-shift",
            Policy::AgeBased => "age-based",
        }
    }

    /// All names, with commas.
    #[must_use]
    pub fn names() -> String {
        Policy::ALL.map(Policy::name).join(", ")
    }

    /// The policy of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Policy, PolicyError> {
        let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| PolicyError::NoPolicy { name: name.to_owned() })
    }

    /// The policy with these settings.
    ///
    /// # Errors
    /// If the sizes do not fit.
    pub fn build(self, settings: &Settings) -> Result<Box<dyn Leveller>, PolicyError> {
        settings.check()?;
        Ok(match self {
            Policy::None => Box::new(Unlevelled::new(settings.units)),
            Policy::Kevlar => Box::new(shuffle(settings)),
            Policy::StartGap => Box::new(start_gap(settings)),
            Policy::SecurityRefresh => Box::new(refresh(settings)),
            Policy::RowShift => Box::new(rows(settings)),
            Policy::AgeBased => Box::new(age(settings)),
        })
    }

    /// Runs the policy under a stream of writes. The policy's code is compiled into the loop.
    ///
    /// # Panics
    /// If the settings are not such as [`Policy::build`] takes.
    #[must_use]
    pub fn run(self, settings: &Settings, source: &mut Writes<'_>, writes: u64) -> Levelled {
        fn of<L: Leveller>(mut policy: L, with: &Settings, source: &mut Writes<'_>, writes: u64) -> Levelled {
            run(&mut policy, source, writes, with.endurance, with.share)
        }
        assert_eq!(settings.check(), Ok(()), "settings that fit");
        match self {
            Policy::None => of(Unlevelled::new(settings.units), settings, source, writes),
            Policy::Kevlar => of(shuffle(settings), settings, source, writes),
            Policy::StartGap => of(start_gap(settings), settings, source, writes),
            Policy::SecurityRefresh => of(refresh(settings), settings, source, writes),
            Policy::RowShift => of(rows(settings), settings, source, writes),
            Policy::AgeBased => of(age(settings), settings, source, writes),
        }
    }
}

fn shuffle(settings: &Settings) -> Shuffle {
    let pages = settings.units / settings.per_page;
    let interval = (settings.shuffle_every * pages / u64::from(settings.intervals.max(1))).max(1);
    let Settings { units, per_page, intervals, temporary, seed, .. } = *settings;
    Shuffle::new(units, per_page, interval, intervals.max(1), temporary, seed)
}

fn start_gap(settings: &Settings) -> StartGap {
    StartGap::new(settings.units, settings.regions, settings.interval, Some(settings.seed))
}

fn refresh(settings: &Settings) -> SecurityRefresh {
    SecurityRefresh::new(settings.units, settings.regions, settings.interval, settings.seed)
}

fn rows(settings: &Settings) -> RowShift {
    // Shifting writes the whole row, so it comes as rarely as a shuffle of the page.
    let shifts = settings.shuffle_every.min(u64::from(u32::MAX)) as u32;
    RowShift::new(settings.units, settings.per_page, shifts, shifts.saturating_mul(4))
}

fn age(settings: &Settings) -> AgeBased {
    let pages = settings.units / settings.per_page;
    AgeBased::new(settings.units, settings.per_page, (settings.shuffle_every * pages / 8).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes_are_checked() {
        assert_eq!(Policy::find("start-gap"), Ok(Policy::StartGap));
        let error = Policy::find("gap").expect_err("no such policy");
        assert!(error.to_string().contains("security-refresh"), "{error}");
        for (units, per_page) in [(1000, 64), (64, 64), (1 << 32, 64), (1 << 10, 48)] {
            assert!(Policy::None.build(&Settings::new(units, per_page)).is_err(), "{units} {per_page}");
        }
    }
}
