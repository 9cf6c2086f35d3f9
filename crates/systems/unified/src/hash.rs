//! Where a key belongs: the shape of a table, signatures, the two candidate buckets.

use crate::Error;

/// Words of a bucket: eight signatures, then eight locations.
pub const BUCKET_WORDS: usize = 16;
/// Entries of a bucket.
pub const SLOTS: u32 = 8;
/// Words of the largest table: 2^26 buckets are 4 GiB, the most that one binding of a GPU takes.
const BUCKETS_MAX: u32 = 1 << 26;

/// Sizes of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Buckets, a power of two.
    pub buckets: u32,
    /// Buckets of a block, a power of two. Both candidates of a key are in one block.
    pub block: u32,
    /// Bits of a signature, at most 32. Fewer make keys collide, which only tests want.
    pub signature_bits: u32,
}

/// A key, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hashed {
    /// Decides the first bucket.
    pub(crate) hash: u32,
    /// Never 0, which marks an empty slot.
    pub(crate) signature: u32,
}

impl Hashed {
    /// A key that was hashed elsewhere. A signature of 0, which marks an empty slot, becomes 1.
    #[must_use]
    pub fn new(hash: u32, signature: u32) -> Hashed {
        Hashed { hash, signature: signature.max(1) }
    }

    /// What decides the first bucket.
    #[must_use]
    pub fn hash(self) -> u32 {
        self.hash
    }

    /// What a slot holds of the key; never 0.
    #[must_use]
    pub fn signature(self) -> u32 {
        self.signature
    }
}

impl Shape {
    /// A table of at least `keys` entries at a load of at most three quarters.
    ///
    /// # Errors
    /// If no table is that large.
    pub fn for_keys(keys: u64) -> Result<Shape, Error> {
        let buckets = (keys.saturating_mul(4) / 3).div_ceil(u64::from(SLOTS)).max(8).next_power_of_two();
        match u32::try_from(buckets) {
            Ok(buckets) if buckets <= BUCKETS_MAX => {
                Ok(Shape { buckets, block: buckets.min(1024), signature_bits: 32 })
            }
            _ => Err(Error::Request {
                what: "number of keys",
                got: keys.to_string(),
                expected: "at most 402653184 (a table of 4 GiB)",
            }),
        }
    }

    /// Blocks of the table.
    #[must_use]
    pub fn blocks(self) -> u32 {
        self.buckets / self.block
    }

    /// Words of the table.
    #[must_use]
    pub fn words(self) -> usize {
        self.buckets as usize * BUCKET_WORDS
    }

    /// Entries that the table has room for.
    #[must_use]
    pub fn slots(self) -> u64 {
        u64::from(self.buckets) * u64::from(SLOTS)
    }

    /// Hashes a key. The mixing is a bijection, so two keys have the same 64 bits never.
    #[must_use]
    pub fn hash(self, key: u64) -> Hashed {
        let mixed = Mix::of(key);
        let kept = u32::MAX >> (32 - self.signature_bits.clamp(1, 32));
        Hashed::new(mixed as u32, (mixed >> 32) as u32 & kept)
    }

    /// The first candidate bucket.
    #[must_use]
    pub fn first(self, hashed: Hashed) -> u32 {
        hashed.hash & (self.buckets - 1)
    }

    /// The other candidate of an entry in `bucket`; the other one's is `bucket` again.
    #[must_use]
    pub fn other(self, bucket: u32, signature: u32) -> u32 {
        bucket ^ (signature & (self.block - 1))
    }

    /// The block in which a key's buckets are.
    #[must_use]
    pub fn block_of(self, hashed: Hashed) -> u32 {
        self.first(hashed) / self.block
    }
}

/// The finaliser of SplitMix64: a bijection of 64 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mix(u64);

impl Mix {
    /// Mixes a number.
    #[must_use]
    pub fn of(key: u64) -> u64 {
        let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A sequence of random numbers from a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Mix {
        Mix(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Mix::of(self.0)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_each_others_and_in_one_block() {
        let shape = Shape { buckets: 4096, block: 64, signature_bits: 32 };
        for key in 0..10_000 {
            let hashed = shape.hash(key);
            let first = shape.first(hashed);
            let second = shape.other(first, hashed.signature);
            assert_eq!(shape.other(second, hashed.signature), first);
            assert_eq!(first / 64, second / 64);
            assert_ne!(hashed.signature, 0);
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        assert!(Shape::for_keys(1 << 32).is_err());
        assert!(Shape::for_keys(u64::MAX).is_err());
        let shape = Shape::for_keys(100_000_000).expect("fits");
        assert!(shape.slots() * 3 / 4 >= 100_000_000);
        assert_eq!(Shape::for_keys(0).expect("fits").buckets, 8);
    }
}
