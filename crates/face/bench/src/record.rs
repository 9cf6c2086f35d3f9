//! Keys and values of records, made of their ids. The program of a peer (`peers/c/harness.c`) makes the same.

use std::cell::RefCell;

use workload::load::{TargetError, value_is_of, value_word};

/// What keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum KeyKind {
    /// 8 bytes: the id.
    #[serde(rename = "8")]
    Word,
    /// 16 bytes: the id, and its complement.
    #[serde(rename = "16")]
    Pair,
    /// 24 letters: `user` and the id's 20 decimal digits.
    #[serde(rename = "text")]
    Text,
}

impl KeyKind {
    /// How many bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Word => 8,
            Self::Pair => 16,
            Self::Text => 24,
        }
    }

    /// The key of a record in bytes, whose order is that of ids.
    #[must_use]
    pub fn of(self, id: u64) -> ([u8; 24], usize) {
        let mut key = [0; 24];
        match self {
            Self::Word => key[..8].copy_from_slice(&id.to_be_bytes()),
            Self::Pair => {
                key[..8].copy_from_slice(&id.to_be_bytes());
                key[8..16].copy_from_slice(&(!id).to_be_bytes());
            }
            Self::Text => {
                key[..4].copy_from_slice(b"user");
                let mut rest = id;
                for digit in key[4..].iter_mut().rev() {
                    *digit = b'0' + (rest % 10) as u8;
                    rest /= 10;
                }
            }
        }
        (key, self.bytes())
    }
}

/// Bytes that values begin at different places of.
const NOISE: usize = 4096;

thread_local! {
    /// The value that a thread makes, behind it what it copies from.
    static VALUE: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Hands `use_it` the value of a record: the word that says whose it is, and bytes that depend on the
/// version.
pub fn with_value<R>(id: u64, version: u64, bytes: usize, use_it: impl FnOnce(&[u8]) -> R) -> R {
    VALUE.with_borrow_mut(|(value, noise)| {
        if value.len() != bytes {
            value.resize(bytes, 0);
            let mut random = 88_172_645_463_325_252u64;
            noise.clear();
            noise.resize_with(bytes + NOISE, || {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random as u8
            });
        }
        let from = version as usize % NOISE;
        value.copy_from_slice(&noise[from..from + bytes]);
        value[..8].copy_from_slice(&value_word(id, version).to_le_bytes());
        use_it(value)
    })
}

/// Whether the bytes are those of a value of the record.
///
/// # Errors
/// If not.
pub fn judge(id: u64, value: &[u8], bytes: usize) -> Result<(), TargetError> {
    let word = value.first_chunk().map(|word| u64::from_le_bytes(*word));
    if value.len() == bytes && word.is_some_and(|word| value_is_of(word, id)) {
        return Ok(());
    }
    Err(wrong(id))
}

/// A value is another record's.
pub fn wrong(id: u64) -> TargetError {
    TargetError(format!("the value of id {id:#x} is another record's"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_as_ids() {
        for kind in [KeyKind::Word, KeyKind::Pair, KeyKind::Text] {
            let keys = [0, 9, 10, 1 << 40, u64::MAX].map(|id| kind.of(id));
            assert!(keys.is_sorted_by(|a, b| a.0 < b.0), "{kind:?}");
        }
        assert_eq!(&KeyKind::Text.of(u64::MAX).0, b"user18446744073709551615");
    }

    #[test]
    fn values_say_whose_they_are() {
        for bytes in [8, 100, 65_536] {
            with_value(1 << 20, 77, bytes, |value| {
                assert!(judge(1 << 20, value, bytes).is_ok());
                assert!(judge(1 << 21, value, bytes).is_err());
                assert!(judge(1 << 20, &value[1..], bytes).is_err());
            });
        }
    }
}
