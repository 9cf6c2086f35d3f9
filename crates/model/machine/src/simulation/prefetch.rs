//! The L2's prefetcher: from lines that were asked for to lines that may be asked for next.

use crate::Config;
use crate::config::Prefetch;

/// Lines of a 4 KiB page, beyond which addresses mean nothing to each other.
const PAGE_LINES: u64 = 64;
// What Intel's optimization manual says of the streamer of its cores' L2 (where it describes Sandy Bridge): it follows up to 32 streams, asks for up to two lines at
// each look into the L2, and runs up to 20 lines ahead. The manual has one stream forwards and one backwards in a page; here a
// page has one, in the direction of its last two accesses. That it asks for less when much is under way has no published numbers; here it does when
// there is no miss register. That lines far ahead go to the LLC only is left out.
/// Pages of which it knows something.
const PAGES: usize = 32;
/// Lines that it asks for at a time,
const AT_A_TIME: u64 = 2;
/// and how far ahead of what was asked for.
const AHEAD: u64 = 20;

/// One L2's prefetcher.
#[derive(Clone, Debug)]
pub(crate) enum Prefetcher {
    None,
    NextLine,
    /// The pages, from the one on that was used last.
    Stream(Vec<Page>),
}

/// A page in which lines were accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    number: u64,
    /// The last line accessed.
    last: u64,
    /// Lines beyond it, in the direction of the stream, that were asked for.
    asked: u64,
    backwards: bool,
}

impl Prefetcher {
    pub(crate) fn new(config: &Config) -> Self {
        match config.l2.prefetch.unwrap_or(Prefetch::None) {
            Prefetch::None => Prefetcher::None,
            Prefetch::NextLine => Prefetcher::NextLine,
            Prefetch::Stream => Prefetcher::Stream(Vec::with_capacity(PAGES)),
        }
    }

    /// Whether accesses that the L2 answers matter, and not only what it does not have.
    pub(crate) fn hears_hits(&self) -> bool {
        matches!(self, Prefetcher::Stream(_))
    }

    /// The lines to fetch now that `line` was asked for, nearest first.
    pub(crate) fn after(&mut self, line: u64) -> Lines {
        match self {
            Prefetcher::None => Lines::none(line),
            Prefetcher::NextLine => Lines { left: 1, ..Lines::none(line) },
            Prefetcher::Stream(pages) => followed(pages, line),
        }
    }

    /// The last `count` of these were not fetched, as there was no miss register: they come next.
    pub(crate) fn put_off(&mut self, count: u64) {
        if let Prefetcher::Stream(pages) = self
            && let Some(page) = pages.first_mut()
        {
            page.asked -= count;
        }
    }
}

/// The next lines of the stream that `line` belongs to.
fn followed(pages: &mut Vec<Page>, line: u64) -> Lines {
    let number = line / PAGE_LINES;
    let Some(at) = pages.iter().position(|page| page.number == number) else {
        pages.truncate(PAGES - 1);
        pages.insert(0, Page { number, last: line, asked: 0, backwards: false });
        return Lines::none(line);
    };
    pages[..=at].rotate_right(1);
    let page = &mut pages[0];
    let (backwards, step) = (line < page.last, line.abs_diff(page.last));
    if step == 0 {
        return Lines::none(line);
    }
    let asked = if backwards == page.backwards { page.asked.saturating_sub(step) } else { 0 };
    let left = AT_A_TIME.min(AHEAD - asked);
    *page = Page { number, last: line, asked: asked + left, backwards };
    Lines { from: line, ahead: asked + 1, left, backwards }
}

/// Lines one after the other, as far as their page goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    from: u64,
    ahead: u64,
    /// How many are still to come, if the page does not end.
    pub(crate) left: u64,
    backwards: bool,
}

impl Lines {
    fn none(from: u64) -> Lines {
        Lines { from, ahead: 1, left: 0, backwards: false }
    }
}

impl Iterator for Lines {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let Lines { from, ahead, .. } = *self;
        let line = if self.backwards { from.wrapping_sub(ahead) } else { from.wrapping_add(ahead) };
        if self.left == 0 || line / PAGE_LINES != from / PAGE_LINES {
            return None;
        }
        (self.left, self.ahead) = (self.left - 1, ahead + 1);
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> impl FnMut(u64) -> Vec<u64> {
        let mut prefetcher = Prefetcher::Stream(Vec::new());
        move |line| prefetcher.after(line).collect()
    }

    #[test]
    fn a_stream_is_followed_both_ways_and_not_beyond_its_page() {
        let mut after = stream();
        assert_eq!(after(64), []);
        assert_eq!(after(65), [66, 67]);
        assert_eq!(after(66), [68, 69], "two for each access, whoever answers it");
        assert_eq!(after(76), [77, 78], "what was passed over is not asked for");
        assert_eq!(after(75), [74, 73], "it turns round");
        assert_eq!(after(126), [127], "the page ends");
        assert_eq!(after(128), [], "a page of its own");
    }

    #[test]
    fn a_stream_runs_twenty_lines_ahead_and_no_further() {
        let mut after = stream();
        let furthest = (0..64).map(|line| after(line).into_iter().max().map_or(0, |last| last - line));
        assert_eq!(furthest.max(), Some(AHEAD));
    }

    #[test]
    fn many_streams_are_followed_side_by_side() {
        let mut after = stream();
        let mut both = |streams: u64| {
            let first: usize = (0..streams).map(|page| after(page * 64).len()).sum();
            (first, (0..streams).map(|page| after(page * 64 + 1).len()).sum::<usize>())
        };
        assert_eq!(both(32), (0, 64));
        let mut after = stream();
        let lines = (0..33).map(|page| page * 64).chain((0..33).map(|page| page * 64 + 1));
        assert_eq!(
            lines.map(|line| after(line).len()).sum::<usize>(),
            0,
            "one too many, and all are forgotten"
        );
    }

    #[test]
    fn what_was_put_off_comes_next() {
        let mut prefetcher = Prefetcher::Stream(Vec::new());
        prefetcher.after(0);
        assert_eq!(prefetcher.after(1).collect::<Vec<_>>(), [2, 3]);
        prefetcher.put_off(1);
        assert_eq!(prefetcher.after(2).collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn the_next_line_is_fetched_after_each_miss() {
        assert_eq!(Prefetcher::NextLine.after(7).collect::<Vec<_>>(), [8]);
        assert_eq!(Prefetcher::None.after(7).count(), 0);
    }
}
