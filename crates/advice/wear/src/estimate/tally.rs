//! Counts of writes by page, line and code site.

use event::map::Map;
use machine::{LINE_BYTES, PERSISTENT, WriteLog};
use serde::Serialize;

use crate::Rates;

/// Bytes of the pages in which counts are kept; larger ones are put together of these.
pub const BASE_PAGE: u64 = 4096;
const LINES: usize = (BASE_PAGE / LINE_BYTES) as usize;
const PAGE_SHIFT: u32 = LINES.trailing_zeros();
/// Slices of the run that are kept at most.
const SLICES_MAX: usize = 256;

/// What is counted with each write stands in its first line of the cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Page {
    number: u64,
    writes: u64,
    units: u64,
    /// The site that wrote last, and its writes: most pages have few sites, and this one is at hand.
    last: (u32, u32),
    /// The other sites.
    sites: Vec<(u32, u32)>,
    lines: [u32; LINES],
}

impl Page {
    fn wrote(&mut self, site: u32, times: u32) {
        if self.last.0 != site {
            let before = self.last;
            let known = self.sites.iter().position(|(known, _)| *known == site);
            self.last = known.map_or((site, 0), |at| self.sites.swap_remove(at));
            self.sites.extend((before.1 > 0).then_some(before));
        }
        self.last.1 = self.last.1.saturating_add(times);
    }
}

/// Writes of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PageWear {
    /// Its first address, as the program names it.
    pub address: u64,
    /// Whether it is of a range that the program mapped as persistent.
    pub persistent: bool,
    /// Lines written to it.
    pub writes: u64,
    /// Units that the media wrote in it.
    pub units: u64,
    /// Sites that had stored what was written, by writes, the most first.
    pub sites: Vec<(u32, u64)>,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Nanoseconds from the start of the run to the slice's end, 0 without a clock.
    pub end_ns: u64,
    /// Lines written in it.
    pub writes: u64,
}

/// Counts of what a machine wrote.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    numbers: Map<u64, u32>,
    pages: Vec<Page>,
    /// The page of the last write.
    last: (u64, u32),
    slices: Vec<Slice>,
    batches: u64,
    per_slice: u64,
    total: u64,
    first_ns: Option<u64>,
}

impl Tally {
    /// Adds what is in a log, written up to `time_ns`, and clears it. `each` is given every line and its
    /// site.
    pub fn take(&mut self, log: &mut WriteLog, time_ns: u64, mut each: impl FnMut(u64, u32)) {
        for &(line, site) in &log.lines {
            self.line(line, site);
            each(line & !PERSISTENT, site);
        }
        for &line in &log.units {
            let page = self.page(line);
            self.pages[page].units += 1;
        }
        self.total += log.lines.len() as u64;
        self.slice(log.lines.len() as u64, time_ns);
        log.clear();
    }

    /// Adds an estimate: `times` writes of a line up to `time_ns`, stored by `site`.
    pub fn estimated(&mut self, line: u64, site: u32, times: u32, time_ns: u64) {
        self.lines_of(line, site, times);
        self.total += u64::from(times);
        self.slice(u64::from(times), time_ns);
    }

    fn line(&mut self, line: u64, site: u32) {
        self.lines_of(line, site, 1);
    }

    fn lines_of(&mut self, line: u64, site: u32, times: u32) {
        let number = self.page(line);
        let page = &mut self.pages[number];
        page.writes += u64::from(times);
        let count = &mut page.lines[line as usize % LINES];
        *count = count.saturating_add(times);
        page.wrote(site, times);
    }

    /// The index of a line's page.
    fn page(&mut self, line: u64) -> usize {
        let number = line >> PAGE_SHIFT;
        if self.last.0 != number || self.pages.is_empty() {
            let pages = &mut self.pages;
            let index = *self.numbers.entry(number).or_insert_with(|| {
                pages.push(Page {
                    number,
                    writes: 0,
                    units: 0,
                    last: (0, 0),
                    sites: Vec::new(),
                    lines: [0; LINES],
                });
                (pages.len() - 1) as u32
            });
            self.last = (number, index);
        }
        self.last.1 as usize
    }

    /// Counts are kept per batch; neighbours are put together when there are too many.
    fn slice(&mut self, writes: u64, time_ns: u64) {
        self.first_ns.get_or_insert(time_ns);
        let per_slice = self.per_slice.max(1);
        match self.slices.last_mut().filter(|_| !self.batches.is_multiple_of(per_slice)) {
            Some(last) => {
                last.end_ns = last.end_ns.max(time_ns);
                last.writes += writes;
            }
            None => self.slices.push(Slice { end_ns: time_ns, writes }),
        }
        self.batches += 1;
        if self.slices.len() > SLICES_MAX {
            let pair = |pair: &[Slice]| Slice {
                end_ns: pair.iter().map(|slice| slice.end_ns).max().unwrap_or(0),
                writes: pair.iter().map(|slice| slice.writes).sum(),
            };
            self.slices = self.slices.chunks(2).map(pair).collect();
            self.per_slice = 2 * per_slice;
            // The last chunk may be half full.
            self.batches = self.batches.next_multiple_of(self.per_slice);
        }
    }

    /// Lines written, in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Nanoseconds from the first to the last batch; 0 without a clock.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        let last = self.slices.iter().map(|slice| slice.end_ns).max().unwrap_or(0);
        last.saturating_sub(self.first_ns.unwrap_or(0))
    }

    /// The run in slices of as many batches.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Whether any persistent page was written.
    #[must_use]
    pub fn persistent(&self) -> bool {
        self.pages.iter().any(|page| page.number & (PERSISTENT >> PAGE_SHIFT) != 0)
    }

    /// Of pages of `bytes` (a power of two from [`BASE_PAGE`] on), persistent or not: what was written to
    /// them, in order of addresses.
    #[must_use]
    pub fn pages(&self, bytes: u64, persistent: bool) -> Vec<PageWear> {
        let shift = (bytes / BASE_PAGE).trailing_zeros();
        let mut pages: Vec<&Page> = self.of(persistent).collect();
        pages.sort_unstable_by_key(|page| page.number);
        let together = pages.chunk_by(|a, b| a.number >> shift == b.number >> shift);
        together.map(|parts| put_together(parts, bytes, shift)).collect()
    }

    /// Write counts of the lines that were written.
    #[must_use]
    pub fn lines(&self, persistent: bool) -> Rates {
        let lines = self.of(persistent).flat_map(|page| &page.lines);
        Rates::new(lines.filter(|count| **count > 0).map(|count| f64::from(*count)))
    }

    /// Every line that was written, with its count.
    pub fn each_line(&self, persistent: bool) -> impl Iterator<Item = (u64, u32)> {
        self.of(persistent).flat_map(|page| {
            let first = (page.number & !(PERSISTENT >> PAGE_SHIFT)) << PAGE_SHIFT;
            let counted = page.lines.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.map(move |(at, count)| (first + at as u64, *count))
        })
    }

    fn of(&self, persistent: bool) -> impl Iterator<Item = &Page> {
        self.pages.iter().filter(move |page| (page.number & (PERSISTENT >> PAGE_SHIFT) != 0) == persistent)
    }
}

fn put_together(parts: &[&Page], bytes: u64, shift: u32) -> PageWear {
    let flag = PERSISTENT >> PAGE_SHIFT;
    let number = parts.first().map_or(0, |page| page.number);
    let mut sites: Map<u32, u64> = Map::default();
    for (site, count) in parts.iter().flat_map(|page| page.sites.iter().chain([&page.last])) {
        *sites.entry(*site).or_default() += u64::from(*count);
    }
    sites.retain(|_, count| *count > 0);
    let mut sites: Vec<(u32, u64)> = sites.into_iter().collect();
    sites.sort_unstable_by_key(|&(site, count)| (std::cmp::Reverse(count), site));
    PageWear {
        address: ((number & !flag) >> shift) * bytes,
        persistent: number & flag != 0,
        writes: parts.iter().map(|page| page.writes).sum(),
        units: parts.iter().map(|page| page.units).sum(),
        sites,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[(u64, u32)]) -> WriteLog {
        WriteLog { lines: lines.to_vec(), units: lines.iter().map(|line| line.0 & !3).collect() }
    }

    #[test]
    fn small_pages_make_large_ones() {
        let mut tally = Tally::default();
        let huge = (2 << 20) / LINE_BYTES;
        let lines = [(0, 1), (64, 2), (huge - 1, 2), (huge, 3), (huge | PERSISTENT, 4), (0, 1)];
        let mut seen = Vec::new();
        tally.take(&mut log(&lines), 7, |line, site| seen.push((line, site)));
        assert_eq!(seen[4], (huge, 4));
        assert_eq!((tally.total(), tally.persistent(), tally.span_ns()), (6, true, 0));
        let small = tally.pages(BASE_PAGE, false);
        assert_eq!(small.iter().map(|page| page.writes).collect::<Vec<_>>(), [2, 1, 1, 1]);
        let large = tally.pages(2 << 20, false);
        assert_eq!(
            large.iter().map(|page| (page.address, page.writes)).collect::<Vec<_>>(),
            [(0, 4), (2 << 20, 1)]
        );
        assert_eq!(large[0].sites, [(1, 2), (2, 2)]);
        assert_eq!(large[0].units, 4);
        assert_eq!(tally.pages(BASE_PAGE, true).len(), 1);
        assert_eq!(tally.lines(false).atoms(), [(2.0, 1), (1.0, 3)]);
    }

    #[test]
    fn slices_keep_all_writes() {
        let mut tally = Tally::default();
        for time in 0..5000u64 {
            tally.take(&mut log(&[(time, 0)]), time, |_, _| {});
        }
        assert!(tally.slices().len() <= SLICES_MAX && tally.slices().len() > SLICES_MAX / 4);
        assert_eq!(tally.slices().iter().map(|slice| slice.writes).sum::<u64>(), 5000);
        assert!(tally.slices().is_sorted_by_key(|slice| slice.end_ns));
        assert_eq!(tally.span_ns(), 4999);
    }
}
