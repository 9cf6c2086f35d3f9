//! How long recovery may take: a multiple of what it takes on images that it brings into order.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crash::Patience;

/// What recoveries took that succeeded, of all jobs of a check.
#[derive(Debug)]
pub struct Pace {
    /// The user's limit, which none exceeds.
    most: Duration,
    taken: Mutex<Taken>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    count: u32,
    whole: Duration,
    longest: Duration,
    /// Whether one took longer than the user's limit before any had succeeded.
    late: bool,
}

/// When no recovery has succeeded and one has not ended.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Limits: at least this, so many times the mean, so many times the longest.
type Multiple = (Duration, u32, u32);
const LITTLE: Multiple = (Duration::from_millis(10), 4, 1);
const USUAL: Multiple = (Duration::from_millis(50), 10, 2);
const FULL: Multiple = (Duration::from_millis(300), 50, 10);
/// When a finding is confirmed.
const SURE: Multiple = (Duration::from_secs(1), 100, 20);

impl Pace {
    /// Nothing is known but the user's limit.
    pub fn new(most: Duration) -> Self {
        Pace { most, taken: Mutex::default() }
    }

    /// How long a recovery may take; `sure` if a finding hangs on it.
    pub fn limit(&self, patience: Patience, sure: bool) -> Duration {
        let taken = *self.taken();
        if taken.count == 0 {
            return if taken.late { UNKNOWN.min(self.most) } else { self.most };
        }
        let (least, of_mean, of_longest) = match patience {
            Patience::Full if sure => SURE,
            Patience::Full => FULL,
            Patience::Usual => USUAL,
            Patience::Little => LITTLE,
        };
        let mean = taken.whole / taken.count;
        least.max(mean * of_mean).max(taken.longest * of_longest).min(self.most)
    }

    /// A recovery succeeded.
    pub fn succeeded(&self, after: Duration) {
        let mut taken = self.taken();
        taken.count = taken.count.saturating_add(1);
        taken.whole += after;
        taken.longest = taken.longest.max(after);
    }

    /// A recovery took too long.
    pub fn was_late(&self) {
        self.taken().late = true;
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_good_images_and_stay_below_the_users() {
        let pace = Pace::new(Duration::from_secs(10));
        assert_eq!(pace.limit(Patience::Full, false), Duration::from_secs(10));
        pace.was_late();
        assert_eq!(pace.limit(Patience::Full, false), UNKNOWN);
        pace.succeeded(Duration::from_millis(1));
        assert_eq!(pace.limit(Patience::Little, false), Duration::from_millis(10));
        assert_eq!(pace.limit(Patience::Full, true), Duration::from_secs(1));
        pace.succeeded(Duration::from_millis(199));
        assert_eq!(pace.limit(Patience::Little, false), Duration::from_millis(400));
        assert_eq!(pace.limit(Patience::Usual, false), Duration::from_secs(1));
        assert_eq!(pace.limit(Patience::Full, false), Duration::from_secs(5));
        assert_eq!(pace.limit(Patience::Full, true), Duration::from_secs(10));
    }
}
