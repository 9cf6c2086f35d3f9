//! Guarded words: a number of 48 bits with a guard of 16 bits, in one word. A changed byte is always found,
//! and other damage but for one time in 65,536. A crash keeps all of a word or nothing.

/// Numbers are below this.
pub const END: u64 = 1 << 48;

/// The word for `number`, which is below [`END`], at `offset`.
#[must_use]
pub fn seal(offset: u64, number: u64) -> u64 {
    debug_assert!(number < END);
    number | guard(offset, number) << 48
}

/// 16 bits. A byte lies in one of three pieces of the number, so each change of a byte changes them.
fn guard(offset: u64, number: u64) -> u64 {
    let place = (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16;
    let [first, second, third] = [number as u16, (number >> 16) as u16, (number >> 32) as u16];
    let sum = place ^ first ^ second.rotate_left(5) ^ third.rotate_left(11);
    // Not 0: memory that was lost reads as zeros as a rule, and that is no number.
    u64::from(if sum == 0 { u16::MAX } else { sum })
}

/// The number in the word at `offset`; `None` if it is damaged, or was never sealed.
#[must_use]
pub fn open(offset: u64, word: u64) -> Option<u64> {
    let number = word & (END - 1);
    (word == seal(offset, number)).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_guarded_number_is_read_back_or_a_changed_byte_found(
            offset in 0u64..1 << 45, number in prop_oneof![0..END, 0..4096u64, Just(0)]
        ) {
            let (offset, word) = (offset * 8, seal(offset * 8, number));
            prop_assert_eq!(open(offset, word), Some(number));
            for byte in 0..8 {
                for change in 1..=255 {
                    prop_assert_eq!(open(offset, word ^ change << (8 * byte)), None, "{:#x}", change << (8 * byte));
                }
            }
        }
    }
}
