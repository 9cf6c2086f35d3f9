//! The table of lines: what was stored and not read, what of a line was used, who had it last.

const SIZE: usize = 1 << 16;
pub(crate) const NOBODY: u16 = u16::MAX;

/// One line while it is in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) tag: u64,
    /// Bytes stored by `owner` and not read since.
    pub(crate) unread: u64,
    /// Bytes touched since it came.
    pub(crate) touched: u64,
    /// Bytes that the present owner wrote, and that the one before wrote.
    pub(crate) written: u64,
    pub(crate) before: u64,
    /// Who stored last, and whether with a store of 32 B or more.
    pub(crate) store_site: u32,
    pub(crate) large: bool,
    /// Who brought it.
    pub(crate) fetch_site: u32,
    pub(crate) owner: u16,
    pub(crate) switches: u16,
    /// Fetches of its thread's cache when it left that.
    pub(crate) left_at: u32,
    pub(crate) left: bool,
    /// Whether this stay was judged to share bytes.
    pub(crate) judged: bool,
}

const EMPTY: Line = Line {
    tag: u64::MAX,
    unread: 0,
    touched: 0,
    written: 0,
    before: 0,
    store_site: 0,
    large: false,
    fetch_site: 0,
    owner: NOBODY,
    switches: 0,
    left_at: 0,
    left: false,
    judged: false,
};

/// Lines by number, directly mapped.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Vec<Line>);

impl Default for Lines {
    fn default() -> Self {
        Lines(vec![EMPTY; SIZE])
    }
}

impl Lines {
    fn place(line: u64) -> usize {
        // Pages of one column must not meet in one place, or strides would look like capacity.
        ((line ^ line >> 16 ^ (line >> 22).wrapping_mul(0x9e37)) as usize) & (SIZE - 1)
    }

    /// The line, and what it drove out if it came now.
    #[inline]
    pub(crate) fn get(&mut self, line: u64, site: u32) -> (&mut Line, bool, Option<Line>) {
        let entry = &mut self.0[Self::place(line)];
        if entry.tag == line {
            return (entry, false, None);
        }
        let out = (entry.tag != u64::MAX).then_some(*entry);
        *entry = Line { tag: line, fetch_site: site, ..EMPTY };
        (entry, true, out)
    }

    /// A line that a first-level cache gave up.
    pub(crate) fn leaves(&mut self, line: u64, fetches: u32) {
        let entry = &mut self.0[Self::place(line)];
        if entry.tag == line {
            (entry.left, entry.left_at) = (true, fetches);
        }
    }

    /// Forgets all: events were passed over.
    pub(crate) fn forget(&mut self) {
        self.0.fill(EMPTY);
    }
}
