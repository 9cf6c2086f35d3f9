//! Runs of pages: which are in use, which can be given.

use std::collections::BTreeMap;

/// A row of pages, parts of which are in use.
#[derive(Debug)]
pub struct Runs {
    /// First page and length of what is in use, and of what is free; neighbours that are free are one.
    used: BTreeMap<u32, u32>,
    free: BTreeMap<u32, u32>,
    /// Pages below this one have been given at some time.
    top: u32,
}

impl Runs {
    /// So many pages, all free.
    pub fn new(pages: u32) -> Self {
        Runs { used: BTreeMap::new(), free: BTreeMap::from([(0, pages)]), top: 0 }
    }

    /// A run of so many pages that begins at a multiple of `align` pages, and whether all of it is new: it
    /// was never given before.
    pub fn take(&mut self, pages: u32, align: u32) -> Option<(u32, bool)> {
        let begin = |start: u32| start.checked_next_multiple_of(align.max(1));
        let (start, len, first) = self.free.iter().find_map(|(&start, &len)| {
            let first = begin(start)?;
            (u64::from(first) + u64::from(pages) <= u64::from(start) + u64::from(len))
                .then_some((start, len, first))
        })?;
        self.free.remove(&start);
        if first > start {
            self.free.insert(start, first - start);
        }
        let (end, behind) = (first + pages, start + len);
        if behind > end {
            self.free.insert(end, behind - end);
        }
        self.used.insert(first, pages);
        let new = first >= self.top;
        self.top = self.top.max(end);
        Some((first, new))
    }

    /// Length of the run that begins at a page.
    pub fn len(&self, first: u32) -> Option<u32> {
        self.used.get(&first).copied()
    }

    /// Takes a run back. False if none begins there.
    pub fn give(&mut self, first: u32) -> bool {
        let Some(mut len) = self.used.remove(&first) else { return false };
        let mut start = first;
        if let Some((&before, &own)) = self.free.range(..first).next_back()
            && before + own == first
        {
            self.free.remove(&before);
            (start, len) = (before, len + own);
        }
        if let Some(behind) = self.free.remove(&(start + len)) {
            len += behind;
        }
        self.free.insert(start, len);
        true
    }

    /// Pages below this one have been given at some time.
    pub fn top(&self) -> u32 {
        self.top
    }
}
