//! How far from its stores a thread's next fence is.

use super::places::Places;

/// Instructions between a store and its fence that leave something to gain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// Fewer are what the pre-store itself takes.
    pub(super) least: u64,
    /// After more the store is visible anyway.
    pub(super) most: u64,
}

/// Bytes that a loop gathers before a pre-store inside it is worth it, a unit of 3D XPoint; so its last ones
/// wait for the loop's end.
pub const GATHERED: u64 = 256;
/// Places that a thread can have stored from since its last fence; more than a function or two has.
const PENDING_MAX: usize = 1 << u8::BITS;
/// Entries of [`Unfenced::at`] at most; of places whose numbers differ by a multiple of them, the one that
/// stored last is found.
const PLACES: usize = 1 << 14;

/// What one place stored since the last fence. Bytes are kept by windows of the distance that counts, so that
/// what was stored long before the fence can be distinguished from what was stored just before it.
#[derive(Clone, Copy, Debug)]
struct Pending {
    place: u32,
    last: u64,
    window: u64,
    bytes: u64,
    bytes_before: u64,
    /// Of the last store: a copy of any length is one.
    last_bytes: u64,
}

/// One thread's stores since its last fence.
#[derive(Clone, Debug, Default)]
pub(super) struct Unfenced {
    pending: Vec<Pending>,
    /// By place, modulo [`PLACES`]: where in `pending` it is, if it is there.
    at: Vec<u8>,
    /// The instruction of the last fence.
    last: Option<u64>,
}

impl Unfenced {
    /// `place` stores at instruction `now`; not more than `distance` counts as near.
    #[inline]
    pub(super) fn store(&mut self, place: u32, bytes: u64, now: u64, distance: u64) {
        let number = place as usize % PLACES;
        let at = self.at.get(number).map(|&at| usize::from(at));
        let at = match at.filter(|&at| self.pending.get(at).is_some_and(|pending| pending.place == place)) {
            Some(at) => at,
            None if self.pending.len() < PENDING_MAX => {
                self.pending.push(Pending {
                    place,
                    last: now,
                    window: now,
                    bytes: 0,
                    bytes_before: 0,
                    last_bytes: 0,
                });
                if self.at.len() <= number {
                    self.at.resize(number + 1, 0);
                }
                self.at[number] = (self.pending.len() - 1) as u8;
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
        (pending.last, pending.last_bytes) = (now, bytes);
    }

    /// Whether there was a fence behind what was stored at instruction `then`.
    #[inline]
    pub(super) fn fenced_since(&self, then: u64) -> bool {
        self.last.is_some_and(|last| last >= then)
    }

    /// A fence at instruction `now`.
    ///
    /// What was stored just before it has nowhere to go meanwhile, and waits for the demotion as it would
    /// have for the store.
    pub(super) fn fence(&mut self, now: u64, reach: Reach, places: &mut Places) {
        self.last = Some(now);
        for pending in self.pending.drain(..) {
            let place = places.get(pending.place);
            let away = now - pending.last;
            place.fence_distance = Some(place.fence_distance.map_or(away, |least| least.min(away)));
            if away <= reach.most {
                let before = if now - pending.window <= reach.most { pending.bytes_before } else { 0 };
                let late = if away < reach.least { pending.last_bytes.max(GATHERED) } else { 0 };
                let all = pending.bytes + before;
                place.fenced_bytes += all.saturating_sub(late);
                place.hurried_bytes += late.min(all);
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
        let reach = Reach { least: 8, most: 100 };
        unfenced.fence(10_010, reach, &mut places);
        assert!(unfenced.fenced_since(10_010) && !unfenced.fenced_since(10_011));
        let place = places.get(1);
        assert_eq!(place.fence_distance, Some(11));
        assert!(place.fenced_bytes <= 8 * 202, "{}", place.fenced_bytes);
        unfenced.store(1, 8, 20_000, 100);
        unfenced.fence(20_101, reach, &mut places);
        assert_eq!(places.get(1).fence_distance, Some(11));
        assert!(places.get(1).fenced_bytes <= 8 * 202, "too far");
    }

    #[test]
    fn a_fence_that_comes_at_once_leaves_nothing_to_gain() {
        let reach = Reach { least: 8, most: 100 };
        let fenced = |stores: u64, bytes: u64, away: u64| {
            let (mut unfenced, mut places) = (Unfenced::default(), Places::default());
            (0..stores).for_each(|now| unfenced.store(1, bytes, now, reach.most));
            unfenced.fence(stores - 1 + away, reach, &mut places);
            places.get(1).fenced_bytes
        };
        assert_eq!([fenced(16, 8, 7), fenced(16, 8, 8)], [0, 128], "a message");
        assert_eq!(
            [fenced(1, 4096, 1), fenced(1, 4096, 8)],
            [0, 4096],
            "a copy, which nothing can be put into"
        );
        assert_eq!(
            fenced(64, 16, 1),
            1024 - GATHERED,
            "a loop whose first lines can go while the others are written"
        );
    }
}
