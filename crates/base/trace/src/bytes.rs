//! Integers as bytes: fixed ones little-endian, varints as in LEB128, signed differences zigzag.

use super::error::Malformed;

/// Appends `value` in groups of seven bits, the lowest first.
#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length and the bytes.
pub(super) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Small magnitudes of either sign become small numbers.
#[inline]
pub(super) const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

/// Inverse of [`zigzag`].
#[inline]
pub(super) const fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (coded & 1).wrapping_neg()
}

/// Takes a file's bytes apart without ever reading past them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Bytes { data, at: 0 }
    }

    /// Starts at `at` of `data`.
    pub(super) fn at(data: &'a [u8], at: usize) -> Self {
        Bytes { data, at }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let rest = self.data.get(self.at..).unwrap_or(&[]);
        let taken = rest.get(..len).ok_or(Malformed("a field reaches past the end"))?;
        self.at += len;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has room for one bit.
                return if shift == 63 && byte > 1 {
                    Err(Malformed("a number above 64 bits"))
                } else {
                    Ok(value)
                };
            }
        }
        Err(Malformed("a number of more than ten bytes"))
    }

    pub(super) fn varint32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed("a number above 32 bits"))
    }

    pub(super) fn str(&mut self) -> Result<&'a str, Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed("a text beyond memory"))?;
        std::str::from_utf8(self.take(len)?).map_err(|_| Malformed("a text that is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_come_back(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let mut bytes = Bytes::new(&out);
            prop_assert_eq!(bytes.varint(), Ok(value));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn zigzag_comes_back_and_keeps_small_small(value in any::<i64>()) {
            prop_assert_eq!(unzigzag(zigzag(value as u64)) as i64, value);
            prop_assert!(zigzag(value as u64) >= value.unsigned_abs());
        }
    }

    #[test]
    fn endless_and_oversized_varints_are_refused() {
        assert!(Bytes::new(&[0x80; 20]).varint().is_err());
        let mut eleven_bits_too_many = vec![0xff; 9];
        eleven_bits_too_many.push(2);
        assert!(Bytes::new(&eleven_bits_too_many).varint().is_err());
        assert!(Bytes::new(&[0x80]).varint().is_err());
    }
}
