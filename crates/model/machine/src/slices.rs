//! The slices of a last-level cache, and which of them a line belongs to.
//!
//! A Xeon Scalable processor spreads lines over as many slices as it has cores by a hash of their addresses. With a power of
//! two of slices, each bit of the slice's number is a parity of address bits, so lines that share a set have neighbours that share a
//! set, too: all four lines of a 256 B unit see the same history. With any other number that breaks: for some lines, which other parities
//! choose, the number is taken from the slices beyond the sixteenth. Of lines that share a set, the neighbours within
//! a pair do so as well, but the next pair only in about half of the cases.
//!
//! The functions were measured by others: J. D. McCalpin, *Mapping Addresses to L3/CHA Slices in Intel Processors*, TACC
//! TR-2021-03, who gives each as a sequence of slices and its permutations. Here they are written as parities, which
//! gives the same slices for all addresses below 256 GiB; higher bits are not known and left out.

/// Slices of a first- or second-generation Xeon Scalable processor.
#[derive(Clone, Debug)]
pub(crate) struct Slices {
    /// For each value of each byte of a line's number: the parities that it contributes to.
    parities: Box<[[u16; 256]; 4]>,
    /// For all parities together, the slice.
    slices: Box<[u8; 512]>,
    /// Sets of a slice, a power of two.
    sets: u64,
}

/// What is known of one number of slices.
struct Hash {
    /// Bits of the line's number of which the parity is a bit of the slice's number.
    near: [u32; 4],
    /// Bits whose parities decide together whether the slice is one of the first sixteen.
    choice: &'static [u32],
    /// A bit for each value of the choice: whether it is not.
    beyond: u32,
    /// Which bits of the slice's number then remain.
    left: usize,
}

const HASHES: [(u32, Hash); 2] = [
    (
        20,
        Hash {
            near: [0x5322_5b1d, 0x295f_cc47, 0x9c5e_5184, 0x2717_9461],
            choice: &[0x38bc_a308, 0x7179_4610, 0xe2f2_8c20, 0x4e2f_28c2],
            beyond: 0xa800,
            left: 0b11,
        },
    ),
    (
        24,
        Hash {
            near: [0x5322_5b1d, 0x295f_cc47, 0xb15b_964c, 0x4e2f_28c2],
            choice: &[0x7179_4610, 0xe2f2_8c20, 0xc5e5_1841, 0xa4e2_f28c, 0x38bc_a308],
            beyond: 0x2c3c_3c00,
            left: 0b111,
        },
    ),
];

impl Slices {
    /// So many slices, if their hash is known, with `sets` sets in all.
    pub(crate) fn new(count: u32, sets: usize) -> Option<Self> {
        let (_, hash) = HASHES.iter().find(|(known, _)| *known == count)?;
        let per_slice = sets as u64 / u64::from(count);
        if !(sets as u64).is_multiple_of(u64::from(count)) || !per_slice.is_power_of_two() {
            return None;
        }
        let mut parities = Box::new([[0; 256]; 4]);
        for (byte, table) in parities.iter_mut().enumerate() {
            for (value, entry) in table.iter_mut().enumerate() {
                let line = (value as u32) << (8 * byte);
                let masks = hash.near.iter().chain(hash.choice).enumerate();
                *entry = masks.fold(0, |all, (at, mask)| all | ((line & mask).count_ones() as u16 & 1) << at);
            }
        }
        let mut slices = Box::new([0; 512]);
        for (all, slice) in slices.iter_mut().enumerate() {
            let (near, choice) = (all & 0xf, all >> 4 & ((1 << hash.choice.len()) - 1));
            let beyond = hash.beyond >> choice & 1 == 1;
            *slice = (if beyond { 16 + (near & hash.left) } else { near }) as u8;
        }
        Some(Slices { parities, slices, sets: per_slice })
    }

    /// The numbers of slices that are known.
    pub(crate) fn known() -> impl Iterator<Item = u32> {
        HASHES.iter().map(|(count, _)| *count)
    }

    /// The slice of a line.
    #[inline(always)]
    fn of(&self, line: u64) -> u64 {
        let bytes = (line as u32).to_le_bytes();
        let all =
            self.parities.iter().zip(bytes).fold(0, |all, (table, byte)| all ^ table[usize::from(byte)]);
        u64::from(self.slices[usize::from(all) & 511])
    }

    /// The set of a line, among all: within a slice the low bits of its number choose.
    #[inline(always)]
    pub(crate) fn set(&self, line: u64) -> usize {
        (self.of(line) * self.sets + (line & (self.sets - 1))) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u32, lines: impl Iterator<Item = u64>) -> Vec<u64> {
        let slices = Slices::new(count, count as usize * 2048).unwrap();
        lines.map(|line| slices.of(line)).collect()
    }

    #[test]
    fn lines_are_in_the_slices_where_they_were_seen() {
        assert_eq!(
            of(20, 0..32),
            [
                0, 11, 2, 9, 7, 12, 5, 14, 1, 10, 3, 8, 6, 13, 4, 15, 1, 10, 3, 8, 6, 13, 4, 15, 0, 11, 18,
                17, 7, 12, 17, 18
            ]
        );
        assert_eq!(
            of(24, 0..32),
            [
                0, 3, 10, 9, 7, 20, 13, 22, 5, 6, 15, 12, 2, 17, 8, 19, 1, 2, 11, 8, 6, 21, 12, 23, 4, 23,
                14, 21, 3, 16, 9, 18
            ]
        );
        let far = [0x1234_5678, 0xdead_beef, 0x7fff_ffff];
        assert_eq!(of(20, far.into_iter()), [14, 6, 7]);
        assert_eq!(of(24, far.into_iter()), [22, 14, 7]);
    }

    #[test]
    fn slices_have_about_as_many_lines_each() {
        for count in Slices::known() {
            let mut lines = vec![0u32; count as usize];
            of(count, 0..1 << 16).into_iter().for_each(|slice| lines[slice as usize] += 1);
            let even = (1 << 16) / count;
            assert!(lines.iter().all(|&lines| lines.abs_diff(even) * 10 < even), "{lines:?}");
        }
    }

    /// Of lines that share a set: how often those that lie `apart` from them, in the same unit, do so as well.
    fn in_step(count: u32, apart: u64) -> f64 {
        let slices = Slices::new(count, count as usize * 16).unwrap();
        let sharing = (0..1u64 << 10).flat_map(|a| (0..1u64 << 10).map(move |b| (a, b)));
        let sharing: Vec<_> = sharing.filter(|&(a, b)| slices.set(a) == slices.set(b)).collect();
        let both = sharing.iter().filter(|&&(a, b)| slices.set(a ^ apart) == slices.set(b ^ apart)).count();
        both as f64 / sharing.len() as f64
    }

    #[test]
    fn a_unit_is_in_step_by_pairs_and_only_partly_as_a_whole() {
        // With 20 slices the pairs are neighbours, with 24 every second line.
        for (count, pair, other) in [(20, 1, 2), (24, 2, 1)] {
            assert_eq!(in_step(count, pair), 1.0);
            assert!((0.4..0.8).contains(&in_step(count, other)), "{}", in_step(count, other));
        }
    }

    #[test]
    fn what_is_not_known_is_not_invented() {
        assert!(Slices::new(18, 18 * 2048).is_none());
        assert!(Slices::new(20, 20 * 2047).is_none());
        assert!(Slices::new(20, 2048).is_none());
    }
}
