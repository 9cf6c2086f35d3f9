//! Words that are counted many at a time are counted as one by one.

#[path = "../../src/base/kinds.rs"]
mod kinds;

use kinds::Kinds;

#[test]
fn many_words_at_a_time_are_counted_as_one_by_one() {
    kinds::prepare();
    let mut random = 1_u64;
    for length in 0..200 {
        for upper in [&[0b00, 0b10, 0b11][..], &[0b00, 0b01, 0b10, 0b11]] {
            let words: Vec<u64> = (0..length)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let kind = upper[(random >> 40) as usize % upper.len()];
                    if random >> 60 == 0 { 0 } else { kind << 62 | random >> 20 }
                })
                .collect();
            let end = words.iter().position(|&word| word >> 62 == 0b01).unwrap_or(length);
            let of = |upper| words[..end].iter().filter(|&&word| word >> 62 == upper).count() as u64;
            let used = words[..end].iter().filter(|&&word| word != 0).count() as u64;
            let expected = Kinds { used, blocks: of(0b10), stores: of(0b11) };
            for width in [0, 4, 8, u8::MAX] {
                let mut left = words.clone();
                assert_eq!(Kinds::take_by(&mut left, width), (expected, end), "{width} {words:x?}");
                assert!(left[..end].iter().all(|word| *word == 0) && left[end..] == words[end..]);
            }
            assert_eq!(Kinds::take(&mut words.clone()), (expected, end));
        }
    }
}
