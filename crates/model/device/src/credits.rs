//! Writes (or reads) that may be under way to a device at once.
//!
//! A controller hands writes over one after the other. A device that is far away takes each at once as long
//! as it has a credit left, and gives the credit back when the write has been answered; so writes overlap on
//! the way.

use std::collections::VecDeque;

use crate::Time;

/// The credits of one device.
#[derive(Clone, Debug)]
pub struct Credits {
    count: usize,
    /// When those that are out come back, earliest first.
    back: VecDeque<Time>,
}

impl Credits {
    /// `count` is not 0.
    #[must_use]
    pub fn new(count: u32) -> Self {
        Credits { count: count as usize, back: VecDeque::with_capacity(count as usize) }
    }

    /// When a write that is offered at `at` has a credit.
    pub fn granted(&mut self, at: Time) -> Time {
        while self.back.front().is_some_and(|back| *back <= at) {
            self.back.pop_front();
        }
        match self.back.len().checked_sub(self.count) {
            None => at,
            Some(more) => self.back.get(more).map_or(at, |back| at.max(*back)),
        }
    }

    /// That write's credit comes back at `answered`.
    pub fn returns(&mut self, answered: Time) {
        let place = self.back.partition_point(|other| *other <= answered);
        self.back.insert(place, answered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_waits_for_a_credit_until_the_moment_that_one_comes_back() {
        let mut credits = Credits::new(2);
        for answered in [500, 300] {
            assert_eq!(credits.granted(Time(100)), Time(100));
            credits.returns(Time(answered));
        }
        assert_eq!(credits.granted(Time(299)), Time(300));
        credits.returns(Time(900));
        assert_eq!(credits.granted(Time(299)), Time(500), "the first that comes back is promised");
        assert_eq!(credits.granted(Time(500)), Time(500));
    }
}
