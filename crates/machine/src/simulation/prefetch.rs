//! The L2's prefetcher: from lines that were missed to lines that may be missed next.

use crate::Config;
use crate::config::Prefetch;

/// Lines of a 4 KiB page, beyond which addresses mean nothing to each other.
const PAGE_LINES: u64 = 64;
/// How far a stream is followed at a time.
const DEGREE: u64 = 4;

/// One L2's prefetcher.
#[derive(Clone, Debug)]
pub(crate) struct Prefetcher {
    kind: Prefetch,
    /// The last line missed or expected.
    last: u64,
}

impl Prefetcher {
    pub(crate) fn new(config: &Config) -> Self {
        Prefetcher { kind: config.l2.prefetch.unwrap_or(Prefetch::None), last: u64::MAX }
    }

    /// The lines to fetch now that `line` was missed, nearest first.
    pub(crate) fn after(&mut self, line: u64) -> impl Iterator<Item = u64> + use<> {
        let before = std::mem::replace(&mut self.last, line);
        let (count, backwards) = match self.kind {
            Prefetch::None => (0, false),
            Prefetch::NextLine => (1, false),
            // The miss that follows prefetched lines lies DEGREE + 1 further on.
            Prefetch::Stream if (1..=DEGREE + 1).contains(&line.wrapping_sub(before)) => (DEGREE, false),
            Prefetch::Stream if (1..=DEGREE + 1).contains(&before.wrapping_sub(line)) => (DEGREE, true),
            Prefetch::Stream => (0, false),
        };
        let page = line / PAGE_LINES;
        let next =
            move |ahead: u64| if backwards { line.wrapping_sub(ahead) } else { line.wrapping_add(ahead) };
        (1..=count).map(next).take_while(move |line| line / PAGE_LINES == page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetcher(kind: Prefetch) -> Prefetcher {
        Prefetcher { kind, last: u64::MAX }
    }

    #[test]
    fn a_stream_is_followed_both_ways_and_not_beyond_its_page() {
        let mut stream = prefetcher(Prefetch::Stream);
        assert_eq!(stream.after(100).count(), 0);
        assert_eq!(stream.after(101).collect::<Vec<_>>(), [102, 103, 104, 105]);
        assert_eq!(stream.after(106).collect::<Vec<_>>(), [107, 108, 109, 110]);
        assert_eq!(stream.after(90).count(), 0);
        assert_eq!(stream.after(89).collect::<Vec<_>>(), [88, 87, 86, 85]);
        assert_eq!(stream.after(126).count(), 0);
        assert_eq!(stream.after(127).count(), 0, "the page ends");
    }

    #[test]
    fn the_next_line_is_fetched_after_each_miss() {
        let mut next = prefetcher(Prefetch::NextLine);
        assert_eq!(next.after(7).collect::<Vec<_>>(), [8]);
        assert_eq!(prefetcher(Prefetch::None).after(7).count(), 0);
    }
}
