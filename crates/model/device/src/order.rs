//! The order in which the ways of a set were used, as one word.
//!
//! True LRU needs the order and nothing else. A word has room for sixteen numbers of four bits, so what a use
//! costs is to find the way among sixteen at once and to shift those that were used after it, and the oldest
//! is read at its place: no search, and a tenth of the computer's cache that time stamps take.

/// A number of four bits in each place.
const ONES: u64 = 0x1111_1111_1111_1111;
/// Bits of a place.
const BITS: u32 = 4;

/// The ways of a set from the one that was used last, in the lowest place, to the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order(u64);

impl Order {
    /// Ways that fit.
    pub(crate) const WAYS: usize = (u64::BITS / BITS) as usize;

    /// Of a set that nobody has used: way 0 makes room first.
    pub(crate) fn unused(ways: usize) -> Order {
        let place = |order, place: usize| {
            // Places beyond the last way hold the numbers that no way has, so that each number has one place.
            let way = if place < ways { ways - 1 - place } else { place };
            order | (way as u64) << (BITS as usize * place)
        };
        Order((0..Order::WAYS).fold(0, place))
    }

    /// `way` was used: it moves to the front.
    #[inline(always)]
    pub(crate) fn touch(&mut self, way: usize) {
        let Order(order) = *self;
        let difference = order ^ (way as u64 * ONES);
        // The top bit of each place that is 0; above a true one there may be false ones, so the lowest
        // counts.
        let found = difference.wrapping_sub(ONES) & !difference & (ONES << (BITS - 1));
        let younger = (1u64 << (found.trailing_zeros() & (u64::BITS - BITS))) - 1;
        let moved = younger << BITS | ((1 << BITS) - 1);
        *self = Order(order & !moved | (order & younger) << BITS | way as u64);
    }

    fn at(self, place: usize) -> usize {
        (self.0 >> (BITS as usize * place)) as usize & ((1 << BITS) - 1)
    }

    /// The way that was not used for the longest time.
    #[inline(always)]
    pub(crate) fn oldest(self, ways: usize) -> usize {
        self.at(ways - 1)
    }

    /// All of them, from that one on.
    pub(crate) fn oldest_first(self, ways: usize) -> impl Iterator<Item = usize> {
        (0..ways).rev().map(move |place| self.at(place))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_a_list(
            ways in 1..=Order::WAYS,
            uses in proptest::collection::vec(0..Order::WAYS, 0..200),
        ) {
            let mut list: Vec<usize> = (0..ways).collect();
            let mut order = Order::unused(ways);
            for way in uses.into_iter().map(|number| number % ways) {
                prop_assert_eq!(order.oldest(ways), list[0]);
                list.retain(|&other| other != way);
                list.push(way);
                order.touch(way);
                prop_assert_eq!(&order.oldest_first(ways).collect::<Vec<_>>(), &list);
            }
        }
    }
}
