//! Row shifting with segment swaps, after Zhou and others: the units of a row rotate within it, and hot
//! segments change places with cold ones.

use super::{Cost, Leveller, Media};

/// Rows of a page each; segments are rows, too, so that one table serves both.
#[derive(Clone, Debug)]
pub struct RowShift {
    row_shift: u32,
    shift_interval: u32,
    swap_interval: u32,
    /// By logical row: the physical one.
    rows: Vec<u32>,
    /// By physical row.
    state: Vec<Row>,
    /// By physical row: writes since the last swap.
    recent: Vec<u32>,
    since_swap: u32,
    hottest: u32,
    /// Where the search for a cold row goes on.
    cursor: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    shift: u32,
    writes: u32,
    worn: u32,
}

impl RowShift {
    /// `units` units in rows of `per_row`, both powers of two. A row shifts by one unit with every
    /// `shift_interval` writes to it; every `swap_interval` writes the row most written since changes places
    /// with a cold one.
    #[must_use]
    pub fn new(units: u64, per_row: u64, shift_interval: u32, swap_interval: u32) -> Self {
        let rows = (units / per_row) as usize;
        RowShift {
            row_shift: per_row.trailing_zeros(),
            shift_interval,
            swap_interval,
            rows: (0..rows as u32).collect(),
            state: vec![Row::default(); rows],
            recent: vec![0; rows],
            since_swap: 0,
            hottest: 0,
            cursor: 0,
        }
    }

    /// Exchanges the hottest row with the least worn one of a few that follow the last choice.
    #[cold]
    fn swap(&mut self, media: &mut Media) {
        const CANDIDATES: usize = 64;
        let (hot, rows) = (self.hottest, self.state.len() as u32);
        let candidates = (0..CANDIDATES.min(rows as usize) as u32).map(|step| (self.cursor + step) % rows);
        let worn = |row: &u32| (self.state[*row as usize].worn, self.recent[*row as usize]);
        let cold = candidates.filter(|&row| row != hot).min_by_key(worn).unwrap_or(hot);
        self.cursor = (self.cursor + CANDIDATES as u32) % rows;
        if cold != hot {
            let logical = |physical: u32| self.rows.iter().position(|&row| row == physical);
            if let (Some(a), Some(b)) = (logical(hot), logical(cold)) {
                self.rows.swap(a, b);
                self.move_row(hot, media);
                self.move_row(cold, media);
            }
        }
        self.recent.fill(0);
        (self.since_swap, self.hottest) = (0, 0);
    }

    fn move_row(&mut self, row: u32, media: &mut Media) {
        let first = u64::from(row) << self.row_shift;
        (first..first + (1 << self.row_shift)).for_each(|unit| media.move_to(unit));
        self.state[row as usize].worn += 1 << self.row_shift;
    }
}

impl Leveller for RowShift {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        let row = self.rows[(unit >> self.row_shift) as usize];
        let mask = (1u64 << self.row_shift) - 1;
        let within = ((unit & mask) + u64::from(self.state[row as usize].shift)) & mask;
        u64::from(row) << self.row_shift | within
    }

    #[inline(always)]
    fn tick(&mut self, _: u64, at: u64, media: &mut Media) {
        let row = (at >> self.row_shift) as u32;
        let state = &mut self.state[row as usize];
        state.writes += 1;
        state.worn += 1;
        if state.writes >= self.shift_interval {
            state.writes = 0;
            state.shift = (state.shift + 1) & ((1 << self.row_shift) - 1);
            self.move_row(row, media);
        }
        let recent = &mut self.recent[row as usize];
        *recent += 1;
        if *recent > self.recent[self.hottest as usize] {
            self.hottest = row;
        }
        self.since_swap += 1;
        if self.since_swap >= self.swap_interval {
            self.swap(media);
        }
    }

    fn physical(&self) -> u64 {
        (self.rows.len() as u64) << self.row_shift
    }

    fn cost(&self) -> Cost {
        let table_bytes = 20 * self.rows.len() as u64;
        Cost { lookup_ns: 50.0, table_bytes, moved_at_once: 2 << self.row_shift }
    }
}
