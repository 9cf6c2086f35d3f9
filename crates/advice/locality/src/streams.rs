//! Arrays that a thread reads in order, a few at a time: by their addresses, for several accesses may be one line of source.

const STREAMS: usize = 4;
/// Elements in a row that make an array.
const LONG: u32 = 8;
/// Accesses within which what was read is used as an index.
const SOON: u64 = 4;

/// A thread's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Streams {
    /// The next address of each, and how many came in a row.
    next: [(u64, u32); STREAMS],
    turn: usize,
    /// When an array was read last.
    read: u64,
}

impl Streams {
    /// A load; whether it goes on in an array.
    #[inline]
    pub(crate) fn load(&mut self, addr: u64, len: u32, now: u64) -> bool {
        if len > 8 {
            return false;
        }
        for (next, count) in &mut self.next {
            if *next == addr {
                *next = addr + u64::from(len);
                *count = count.saturating_add(1);
                if *count >= LONG {
                    self.read = now;
                    return true;
                }
                return false;
            }
        }
        // The shortest one makes room, and one after the other fades.
        self.turn = (self.turn + 1) % STREAMS;
        let fading = &mut self.next[self.turn].1;
        *fading = (*fading).min(LONG * 4).saturating_sub(1);
        let at =
            (0..STREAMS).map(|at| (self.turn + at) % STREAMS).min_by_key(|&at| self.next[at].1).unwrap_or(0);
        self.next[at] = (addr.wrapping_add(u64::from(len)), 1);
        false
    }

    /// Whether an array was read a moment ago.
    pub(crate) fn just_read(&self, now: u64) -> bool {
        self.read != 0 && now.wrapping_sub(self.read) <= SOON
    }
}
