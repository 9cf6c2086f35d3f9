//! Where literals occur: a window of the length of the shortest one is shifted as far as its last bytes allow
//! (Wu and Manber's algorithm), in four parts of the text at a time to hide the latency of the tables.

/// Bytes that decide the shift.
const BLOCK: usize = 3;
/// Entries of the table of shifts.
const SHIFTS: usize = 1 << 14;
/// Parts that are searched side by side.
const PARTS: usize = 4;

/// A set of literals, each with a number.
pub struct Filter {
    /// The window: the length of the shortest literal, up to a bound.
    window: usize,
    shifts: Box<[u8; SHIFTS]>,
    /// Where the shift is 0: entries of `chains`, 0 for none.
    heads: Vec<u32>,
    chains: Vec<(u32, u32)>,
    literals: Vec<(Vec<u8>, u32)>,
    longest: usize,
}

impl Filter {
    /// A filter for `literals`, each of at least three bytes.
    pub fn new(literals: Vec<(Vec<u8>, u32)>) -> Option<Filter> {
        let shortest = literals.iter().map(|(literal, _)| literal.len()).min()?;
        let longest = literals.iter().map(|(literal, _)| literal.len()).max()?;
        let window = shortest.min(64);
        if window < BLOCK {
            return None;
        }
        let farthest = (window - BLOCK + 1) as u8;
        let mut filter = Filter {
            window,
            shifts: Box::new([farthest; SHIFTS]),
            heads: vec![0; SHIFTS],
            chains: vec![(0, 0)],
            literals,
            longest,
        };
        for number in 0..filter.literals.len() {
            let literal = filter.literals[number].0[..window].to_vec();
            for (at, block) in literal.windows(BLOCK).enumerate() {
                let hash = hash(u32::from_le_bytes([block[0], block[1], block[2], 0]));
                let shift = (window - BLOCK - at) as u8;
                let known = &mut filter.shifts[hash];
                *known = (*known).min(shift);
                if shift == 0 {
                    filter.chains.push((number as u32, filter.heads[hash]));
                    filter.heads[hash] = filter.chains.len() as u32 - 1;
                }
            }
        }
        Some(filter)
    }

    /// The length of the longest literal.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Reports number and place of each literal in `text`, in no order.
    pub fn find(&self, text: &[u8], mut report: impl FnMut(u32, std::ops::Range<usize>)) {
        let first = self.window - BLOCK;
        // The last block that can be read as four bytes.
        let Some(last) = text.len().checked_sub(4).filter(|last| *last >= first) else {
            return self.find_slowly(text, first, &mut report);
        };
        let part = (last - first) / PARTS;
        if part < 64 {
            let at = self.find_in(text, first, last, &mut report);
            return self.find_slowly(text, at, &mut report);
        }
        let mut at: [usize; PARTS] = std::array::from_fn(|lane| first + lane * part);
        let ends: [usize; PARTS] =
            std::array::from_fn(|lane| if lane + 1 == PARTS { last } else { first + (lane + 1) * part - 1 });
        while (0..PARTS).all(|lane| at[lane] <= ends[lane]) {
            let found: [u8; PARTS] = std::array::from_fn(|lane| self.shifts[hash(block(text, at[lane]))]);
            if found.contains(&0) {
                for lane in 0..PARTS {
                    if found[lane] == 0 {
                        self.candidates(text, at[lane], &mut report);
                    }
                    at[lane] += usize::from(found[lane].max(1));
                }
            } else {
                (0..PARTS).for_each(|lane| at[lane] += usize::from(found[lane]));
            }
        }
        let mut rest = 0;
        for lane in 0..PARTS {
            rest = self.find_in(text, at[lane], ends[lane], &mut report);
        }
        self.find_slowly(text, rest, &mut report);
    }

    /// Blocks from `at` to `end`, both included; returns the block behind.
    fn find_in(
        &self,
        text: &[u8],
        mut at: usize,
        end: usize,
        report: &mut impl FnMut(u32, std::ops::Range<usize>),
    ) -> usize {
        while at <= end {
            let shift = self.shifts[hash(block(text, at))];
            if shift == 0 {
                self.candidates(text, at, report);
            }
            at += usize::from(shift.max(1));
        }
        at
    }

    /// The last blocks, of which no fourth byte can be read.
    fn find_slowly(&self, text: &[u8], from: usize, report: &mut impl FnMut(u32, std::ops::Range<usize>)) {
        for at in from..(text.len() + 1).saturating_sub(BLOCK) {
            let hash = hash(u32::from_le_bytes([text[at], text[at + 1], text[at + 2], 0]));
            if self.shifts[hash] == 0 {
                self.candidates(text, at, report);
            }
        }
    }

    fn candidates(&self, text: &[u8], at: usize, report: &mut impl FnMut(u32, std::ops::Range<usize>)) {
        let start = at + BLOCK - self.window;
        let hash = hash(u32::from_le_bytes([text[at], text[at + 1], text[at + 2], 0]));
        let mut chain = self.heads[hash];
        while chain != 0 {
            let (number, next) = self.chains[chain as usize];
            let (literal, tag) = &self.literals[number as usize];
            if text[start..].starts_with(literal) {
                report(*tag, start..start + literal.len());
            }
            chain = next;
        }
    }
}

fn block(text: &[u8], at: usize) -> u32 {
    let bytes = text[at..at + 4].first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(bytes) & 0xff_ffff
}

fn hash(block: u32) -> usize {
    (block.wrapping_mul(0x9e37_79b1) >> (32 - SHIFTS.ilog2())) as usize
}
