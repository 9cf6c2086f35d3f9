//! Wear reduction: when pages go to DRAM and when they come back.
//!
//! The control loop of section 3.2.3.1 of Gogte's thesis, without clock or memory: it is given the rate of
//! writes at the end of each interval, and what each page took while it asked to be watched.
//!
//! ```text
//! off      rate above the limit         watch pages                              -> monitor
//! monitor  rate above the limit         the hottest tenth of the pages to DRAM   -> monitor
//!          rate below it                                                         -> off
//! off      five intervals below it      watch pages of DRAM                      -> ranking
//! ranking  after one interval           the coldest tenth comes home             -> off
//! ```

/// When the loop acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Writes per second and GiB that the memory stands for as long as it is to last.
    pub rate: f64,
    /// Share of the pages that is moved at a time: of those that were written to in the interval. The source
    /// leaves open of what it is a share.
    pub share: f64,
    /// Intervals below the limit after which pages come home.
    pub quiet: u32,
}

impl Limits {
    /// A tenth of the pages, five intervals, as the source has it.
    #[must_use]
    pub fn new(rate: f64) -> Self {
        Limits { rate, share: 0.1, quiet: 5 }
    }
}

/// What the loop waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// A rate above the limit, or enough intervals below it.
    #[default]
    Off,
    /// Knows which pages are hot at the end of the interval.
    Monitor,
    /// Knows which pages of DRAM are cold at the end of the interval.
    Ranking,
}

/// A page and its writes in an interval.
pub type Heat = (u32, u64);

/// What is to be done at the end of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Pages that go to DRAM.
    pub out: Vec<u32>,
    /// Pages that come back.
    pub home: Vec<u32>,
}

/// The control loop.
#[derive(Clone, Debug)]
pub struct Reduction {
    limits: Limits,
    phase: Phase,
    quiet: u32,
}

impl Reduction {
    /// A loop that is off.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Reduction { limits, phase: Phase::Off, quiet: 0 }
    }

    /// What it waits for.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether pages are to be watched in the next interval.
    #[must_use]
    pub fn watches(&self) -> bool {
        self.phase != Phase::Off
    }

    /// An interval is over, in which the memory took `rate` writes per second and GiB. `near` has the pages
    /// of the memory that wears with their writes in the interval, `far` those in DRAM; both may be empty if
    /// nobody was asked to watch.
    pub fn interval(&mut self, rate: f64, near: &[Heat], far: &[Heat]) -> Moves {
        let mut moves = Moves::default();
        let above = rate > self.limits.rate;
        match self.phase {
            Phase::Off if above => {
                (self.phase, self.quiet) = (Phase::Monitor, 0);
            }
            Phase::Off => {
                self.quiet += 1;
                if self.quiet >= self.limits.quiet.max(1) {
                    (self.phase, self.quiet) = (Phase::Ranking, 0);
                }
            }
            Phase::Monitor if above => moves.out = self.hottest(near),
            Phase::Monitor => self.phase = Phase::Off,
            Phase::Ranking => {
                if !above {
                    moves.home = self.coldest(far);
                }
                self.phase = if above { Phase::Monitor } else { Phase::Off };
            }
        }
        moves
    }

    fn hottest(&self, pages: &[Heat]) -> Vec<u32> {
        let mut hot: Vec<Heat> = pages.iter().copied().filter(|page| page.1 > 0).collect();
        hot.sort_unstable_by_key(|&(page, writes)| (std::cmp::Reverse(writes), page));
        hot.truncate(self.part(hot.len()));
        hot.into_iter().map(|page| page.0).collect()
    }

    fn coldest(&self, pages: &[Heat]) -> Vec<u32> {
        let mut cold = pages.to_vec();
        cold.sort_unstable_by_key(|&(page, writes)| (writes, page));
        cold.truncate(self.part(cold.len()));
        cold.into_iter().map(|page| page.0).collect()
    }

    /// A share, rounded up: of one page it is one.
    fn part(&self, pages: usize) -> usize {
        ((pages as f64 * self.limits.share).ceil() as usize).min(pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: u32) -> Vec<Heat> {
        (0..count).map(|page| (page, u64::from(page))).collect()
    }

    #[test]
    fn hot_pages_leave_while_the_rate_is_above() {
        let mut control = Reduction::new(Limits::new(100.0));
        assert_eq!(control.interval(50.0, &[], &[]), Moves::default());
        assert!(!control.watches());
        assert_eq!(control.interval(150.0, &[], &[]), Moves::default());
        assert_eq!(control.phase(), Phase::Monitor);
        // Page 0 was not written to: 49 pages were, of which a tenth, rounded up, is five.
        assert_eq!(control.interval(150.0, &pages(50), &[]).out, [49, 48, 47, 46, 45]);
        assert_eq!(control.interval(150.0, &pages(3), &[]).out, [2]);
        assert_eq!(control.interval(90.0, &pages(50), &[]), Moves::default());
        assert_eq!(control.phase(), Phase::Off);
    }

    #[test]
    fn cold_pages_come_home_after_five_quiet_intervals() {
        let mut control = Reduction::new(Limits::new(100.0));
        (0..4).for_each(|_| drop(control.interval(10.0, &[], &[])));
        assert_eq!(control.phase(), Phase::Off);
        control.interval(10.0, &[], &[]);
        assert_eq!(control.phase(), Phase::Ranking);
        assert_eq!(control.interval(10.0, &[], &pages(20)).home, [0, 1]);
        assert_eq!(control.phase(), Phase::Off);
        // A rate above the limit begins the count anew.
        (0..4).for_each(|_| drop(control.interval(10.0, &[], &[])));
        control.interval(200.0, &[], &[]);
        control.interval(10.0, &[], &[]);
        (0..4).for_each(|_| drop(control.interval(10.0, &[], &[])));
        assert_eq!(control.phase(), Phase::Off);
        control.interval(10.0, &[], &[]);
        assert_eq!(control.interval(200.0, &[], &pages(20)), Moves::default());
        assert_eq!(control.phase(), Phase::Monitor);
    }
}
