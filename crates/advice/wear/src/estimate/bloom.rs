//! A Bloom filter of block addresses.

/// A set that may claim to contain what it does not, and never the reverse.
#[derive(Clone, Debug)]
pub struct Bloom {
    bits: Vec<u64>,
    hashes: u32,
    inserted: u64,
}

impl Bloom {
    /// For `capacity` blocks with so many bits and hashes each. The source's 9.6 bits and 7 hashes give 1 %
    /// of false positives when it is full.
    #[must_use]
    pub fn new(capacity: u64, bits_each: f64, hashes: u32) -> Self {
        let bits = (capacity as f64 * bits_each).ceil().max(64.0) as u64;
        Bloom { bits: vec![0; bits.div_ceil(64) as usize], hashes: hashes.max(1), inserted: 0 }
    }

    /// Whether the block may be in the set.
    #[must_use]
    pub fn contains(&self, block: u64) -> bool {
        self.places(block).all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Adds the block. Whether it was new.
    pub fn insert(&mut self, block: u64) -> bool {
        let mut new = false;
        let (bits, hashes) = (self.bits.len() as u64 * 64, self.hashes);
        for (word, bit) in places(block, bits, hashes) {
            new |= self.bits[word] & bit == 0;
            self.bits[word] |= bit;
        }
        self.inserted += u64::from(new);
        new
    }

    /// Blocks added that were new.
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.bits.fill(0);
        self.inserted = 0;
    }

    fn places(&self, block: u64) -> impl Iterator<Item = (usize, u64)> {
        places(block, self.bits.len() as u64 * 64, self.hashes)
    }
}

/// Two hashes give all others, as Kirsch and Mitzenmacher showed.
fn places(block: u64, bits: u64, hashes: u32) -> impl Iterator<Item = (usize, u64)> {
    let mixed = (block ^ (block >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = ((first ^ (first >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb)) | 1;
    (0..u64::from(hashes)).map(move |hash| {
        let place = first.wrapping_add(hash.wrapping_mul(second));
        let at = ((u128::from(place) * u128::from(bits)) >> 64) as u64;
        ((at / 64) as usize, 1 << (at % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_filter_errs_in_a_hundredth_of_the_cases() {
        let mut bloom = Bloom::new(70_000, 9.6, 7);
        (0..70_000).for_each(|block| {
            bloom.insert(block * 3);
        });
        assert!((0..70_000).all(|block| bloom.contains(block * 3)));
        let wrong = (0..100_000).filter(|block| bloom.contains(block * 3 + 1)).count();
        assert!((500..1500).contains(&wrong), "{wrong} of 100000");
        bloom.clear();
        assert!(!bloom.contains(3) && bloom.inserted() == 0);
    }
}
