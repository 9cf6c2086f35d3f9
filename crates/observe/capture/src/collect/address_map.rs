//! A hash table from code addresses to numbers, for the collector's hot paths.

/// Addresses to numbers; address 0 can't be entered.
#[derive(Clone, Debug)]
pub struct AddressMap {
    /// Open addressing, at most half full; address 0 is an empty slot.
    slots: Vec<(u64, u32)>,
    entries: usize,
}

impl Default for AddressMap {
    fn default() -> Self {
        AddressMap { slots: vec![(0, 0); 256], entries: 0 }
    }
}

impl AddressMap {
    /// The number of `address`, if it was entered.
    #[must_use]
    #[inline]
    pub fn get(&self, address: u64) -> Option<u32> {
        let mut at = self.slot(address);
        loop {
            match self.slots[at] {
                (found, number) if found == address => return Some(number),
                (0, _) => return None,
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Enters `address`, which is not in the table.
    pub fn insert(&mut self, address: u64, number: u32) {
        debug_assert!(address != 0 && self.get(address).is_none());
        self.entries += 1;
        if 2 * self.entries > self.slots.len() {
            let doubled = vec![(0, 0); 2 * self.slots.len()];
            for (address, number) in std::mem::replace(&mut self.slots, doubled) {
                if address != 0 {
                    self.place(address, number);
                }
            }
        }
        self.place(address, number);
    }

    fn place(&mut self, address: u64, number: u32) {
        let mut at = self.slot(address);
        while self.slots[at].0 != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = (address, number);
    }

    #[inline]
    fn slot(&self, address: u64) -> usize {
        // Fibonacci hashing: the product's upper half is well mixed.
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_and_nothing_else() {
        let mut map = AddressMap::default();
        for at in 1..=5000_u64 {
            map.insert(at * 4, at as u32);
        }
        assert!((1..=5000).all(|at| map.get(at * 4) == Some(at as u32)));
        assert!((1..=5000).all(|at| map.get(at * 4 + 2).is_none()));
    }
}
