//! Sizes of blocks, and the word in front of each.

/// Bytes of a block before its payload: a word that says whether it is allocated, and one of padding, so that
/// payloads are aligned as `malloc`'s are.
pub const FRONT: u64 = 16;

/// The upper bits of an allocated block's word; the lower 48 say how many bytes were asked for. A free
/// block's word is 0.
const ALLOCATED: u64 = 0xA10C << 48;

/// The word of an allocated block.
pub fn allocated(bytes: u64) -> u64 {
    ALLOCATED | bytes
}

/// The bytes that were asked for, if the word is an allocated block's.
pub fn requested(word: u64) -> Option<u64> {
    (word >> 48 == ALLOCATED >> 48).then_some(word & ((1 << 48) - 1))
}

/// Sizes of small blocks with their front, for units of `unit` bytes: steps of at most a quarter.
pub fn classes(unit: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (2..=8).map(|sixteenths| sixteenths * 16).collect();
    let mut power = 128;
    while power < unit / 2 {
        sizes.extend((1..=4).map(|quarter| power + power / 4 * quarter));
        power *= 2;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_and_are_aligned() {
        for unit in [4096, 64 << 10] {
            let classes = classes(unit);
            assert!(classes.is_sorted_by(|a, b| a < b && b * 4 <= a * 6), "{classes:?}");
            assert!(classes.iter().all(|size| size.is_multiple_of(16)));
            assert_eq!(classes.last(), Some(&(unit / 2)));
        }
    }

    #[test]
    fn words_of_blocks() {
        assert_eq!(requested(allocated(77)), Some(77));
        assert_eq!(requested(0), None);
    }
}
