//! Sets of byte values.

/// A set of byte values: what one position of an expression accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ByteSet([u64; 4]);

impl ByteSet {
    /// No byte.
    pub const NONE: ByteSet = ByteSet([0; 4]);
    /// Every byte.
    pub const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    /// One byte.
    pub fn one(byte: u8) -> ByteSet {
        ByteSet::range(byte, byte)
    }

    /// The bytes from `first` to `last`, both included.
    pub fn range(first: u8, last: u8) -> ByteSet {
        let mut set = ByteSet::NONE;
        for byte in first..=last {
            set.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
        set
    }

    /// Whether `byte` is in the set.
    pub fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    /// The bytes of either set.
    #[must_use]
    pub fn or(&self, other: &ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The set without `byte`.
    #[must_use]
    pub fn without(mut self, byte: u8) -> ByteSet {
        self.0[usize::from(byte >> 6)] &= !(1 << (byte & 63));
        self
    }

    /// Whether no byte is in both sets.
    pub fn is_disjoint(&self, other: &ByteSet) -> bool {
        self.0.iter().zip(other.0).all(|(mine, others)| mine & others == 0)
    }

    /// Whether the set has no byte.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// How many bytes are in the set.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The byte, if there is exactly one.
    pub fn single(&self) -> Option<u8> {
        if self.len() == 1 { self.bytes().next() } else { None }
    }

    /// The bytes in ascending order.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=255).filter(|&byte| self.has(byte))
    }
}

impl std::fmt::Display for ByteSet {
    /// A character, or ranges in brackets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let printed = |byte: u8| match byte {
            b'[' | b']' | b'-' | b'\\' | b'^' => format!("\\{}", char::from(byte)),
            0x21..=0x7e => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        if let Some(byte) = self.single() {
            return f.write_str(&printed(byte));
        }
        f.write_str("[")?;
        let mut next = 0u16;
        while next < 256 {
            let Some(first) = (next..256).find(|&byte| self.has(byte as u8)) else { break };
            let last = (first..256).take_while(|&byte| self.has(byte as u8)).last().unwrap_or(first);
            f.write_str(&printed(first as u8))?;
            if last > first {
                let dash = if last > first + 1 { "-" } else { "" };
                write!(f, "{dash}{}", printed(last as u8))?;
            }
            next = last + 1;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_printed_as_they_are_written() {
        assert_eq!(ByteSet::range(b'a', b'd').or(&ByteSet::one(b'x')).to_string(), "[a-dx]");
        assert_eq!(ByteSet::range(b'a', b'b').to_string(), "[ab]");
        assert_eq!(ByteSet::one(b'q').to_string(), "q");
        assert_eq!(ByteSet::ALL.to_string(), "[\\x00-\\xff]");
        assert_eq!(ByteSet::ALL.len(), 256);
    }

    #[test]
    fn sets_meet_where_they_share_a_byte() {
        let (low, high) = (ByteSet::range(0, 99), ByteSet::range(100, 255));
        assert!(low.is_disjoint(&high) && !low.is_disjoint(&ByteSet::one(99)));
        assert_eq!(low.or(&high), ByteSet::ALL);
    }
}
