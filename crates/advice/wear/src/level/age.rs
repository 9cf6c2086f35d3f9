//! Age-based remapping: the hottest pages on the least worn frames. It knows what no real policy knows at no
//! cost, the exact wear of each frame, and stands for what a policy can reach at most.

use super::{Cost, Leveller, Media};

/// Remapping by age, in pages.
#[derive(Clone, Debug)]
pub struct AgeBased {
    page_shift: u32,
    interval: u64,
    /// Pages that may be exchanged at a time.
    most: usize,
    frames: Vec<u32>,
    /// By page: writes since the last remapping.
    recent: Vec<u32>,
    /// By frame: writes so far.
    worn: Vec<u64>,
    since: u64,
}

impl AgeBased {
    /// `units` units in pages of `per_page`, both powers of two; pages are remapped every `interval` writes.
    #[must_use]
    pub fn new(units: u64, per_page: u64, interval: u64) -> Self {
        let pages = (units / per_page) as usize;
        AgeBased {
            page_shift: per_page.trailing_zeros(),
            interval,
            most: (pages / 64).max(1),
            frames: (0..pages as u32).collect(),
            recent: vec![0; pages],
            worn: vec![0; pages],
            since: 0,
        }
    }

    #[cold]
    fn remap_all(&mut self, media: &mut Media) {
        self.since = 0;
        let mut hot: Vec<u32> = (0..self.frames.len() as u32).collect();
        hot.sort_by_key(|&page| std::cmp::Reverse(self.recent[page as usize]));
        let mut owners: Vec<(u64, u32)> =
            self.frames.iter().zip(0..).map(|(&frame, page)| (self.worn[frame as usize], page)).collect();
        owners.sort_unstable();
        let per_page = 1u64 << self.page_shift;
        let pairs: Vec<(u32, u32)> =
            hot.iter().zip(&owners).take(self.most).map(|(&page, &(_, owner))| (page, owner)).collect();
        for (page, owner) in pairs {
            let frames = [self.frames[page as usize], self.frames[owner as usize]];
            let [here, there] = frames.map(|frame| self.worn[frame as usize]);
            // An exchange wears both frames; it has to be worth that.
            let worth = self.recent[page as usize].saturating_sub(self.recent[owner as usize]);
            if page == owner || here < there + 2 * per_page || u64::from(worth) < 4 * per_page {
                continue;
            }
            self.frames.swap(page as usize, owner as usize);
            for frame in frames {
                let first = u64::from(frame) << self.page_shift;
                (first..first + per_page).for_each(|unit| media.move_to(unit));
                self.worn[frame as usize] += per_page;
            }
        }
        self.recent.fill(0);
    }
}

impl Leveller for AgeBased {
    #[inline(always)]
    fn remap(&self, unit: u64) -> u64 {
        let frame = u64::from(self.frames[(unit >> self.page_shift) as usize]);
        frame << self.page_shift | (unit & ((1 << self.page_shift) - 1))
    }

    #[inline(always)]
    fn tick(&mut self, unit: u64, at: u64, media: &mut Media) {
        self.recent[(unit >> self.page_shift) as usize] += 1;
        self.worn[(at >> self.page_shift) as usize] += 1;
        self.since += 1;
        if self.since >= self.interval {
            self.remap_all(media);
        }
    }

    fn physical(&self) -> u64 {
        (self.frames.len() as u64) << self.page_shift
    }

    fn cost(&self) -> Cost {
        Cost {
            lookup_ns: 0.0,
            table_bytes: 16 * self.frames.len() as u64,
            moved_at_once: 2 << self.page_shift,
        }
    }
}
