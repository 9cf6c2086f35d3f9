//! How far from its stores a thread's next fence is.

use super::places::Places;

/// Places that a thread can have stored from since its last fence; more than a function or two has.
const PENDING_MAX: usize = 256;

/// What one place stored since the last fence. Bytes are kept by windows of the distance that counts, so that
/// what was stored long before the fence can be told from what was stored just before it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    place: u32,
    last: u64,
    window: u64,
    bytes: u64,
    bytes_before: u64,
}

/// One thread's stores since its last fence.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfenced {
    pending: Vec<Pending>,
    /// The instruction of the last fence.
    last: Option<u64>,
}

impl Unfenced {
    /// `place` stores at instruction `now`; `distance` counts as near.
    #[inline]
    pub(super) fn store(&mut self, place: u32, bytes: u64, now: u64, distance: u64) {
        let at = match self.pending.iter().rposition(|pending| pending.place == place) {
            Some(at) => at,
            None if self.pending.len() < PENDING_MAX => {
                self.pending.push(Pending { place, last: now, window: now, bytes: 0, bytes_before: 0 });
                self.pending.len() - 1
            }
            None => return,
        };
        let pending = &mut self.pending[at];
        if now - pending.window > distance {
            let adjacent = now - pending.window <= 2 * distance;
            pending.bytes_before = if adjacent { pending.bytes } else { 0 };
            (pending.window, pending.bytes) = (now, 0);
        }
        pending.bytes += bytes;
        pending.last = now;
    }

    /// Whether there was a fence behind what was stored at instruction `then`.
    #[inline]
    pub(super) fn fenced_since(&self, then: u64) -> bool {
        self.last.is_some_and(|last| last >= then)
    }

    /// A fence at instruction `now`.
    pub(super) fn fence(&mut self, now: u64, distance: u64, places: &mut Places) {
        self.last = Some(now);
        for pending in self.pending.drain(..) {
            let place = places.get(pending.place);
            let away = now - pending.last;
            place.fence_distance = Some(place.fence_distance.map_or(away, |least| least.min(away)));
            if away <= distance {
                let before = if now - pending.window <= distance { pending.bytes_before } else { 0 };
                place.fenced_bytes += pending.bytes + before;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_stored_near_the_fence_counts_as_before_it() {
        let (mut unfenced, mut places) = (Unfenced::default(), Places::default());
        for now in 0..10_000 {
            unfenced.store(1, 8, now, 100);
        }
        assert!(!unfenced.fenced_since(0));
        unfenced.fence(10_010, 100, &mut places);
        assert!(unfenced.fenced_since(10_010) && !unfenced.fenced_since(10_011));
        let place = places.get(1);
        assert_eq!(place.fence_distance, Some(11));
        assert!(place.fenced_bytes <= 8 * 202, "{}", place.fenced_bytes);
        unfenced.store(1, 8, 20_000, 100);
        unfenced.fence(20_101, 100, &mut places);
        assert_eq!(places.get(1).fence_distance, Some(11));
        assert!(places.get(1).fenced_bytes <= 8 * 202, "too far");
    }
}
