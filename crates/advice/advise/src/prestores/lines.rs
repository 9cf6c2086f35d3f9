//! The lines that were written not long ago: when, by whom, and which of their bytes.
//!
//! A bounded table: a line that had to make room was written longer ago than the 65,536 sets of 16 lines
//! hold, which is more than the caches of any machine that the advice is for. It counts as never used again.

/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;
const WAYS: usize = 16;
const SETS: usize = 1 << 16;

/// Names a context as long as it is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContextId {
    /// Where it is in the table of contexts.
    pub(super) index: u32,
    /// How often that entry was used before.
    pub(super) generation: u32,
}

impl ContextId {
    #[cfg(test)]
    pub(super) const NONE: ContextId = ContextId { index: u32::MAX, generation: 0 };
}

/// When something happened, on two clocks that count instructions and one that counts lines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moment {
    /// Of the thread.
    pub(super) own: u64,
    /// Of all threads together.
    pub(super) global: u64,
    pub(super) thread: u32,
    /// Lines that all threads [touched](super::touched::Touched), modulo 2^32.
    pub(super) touched: u32,
}

impl Moment {
    /// Instructions between an `earlier` moment and this one; `threads` run at a time.
    pub(super) fn since(self, earlier: Moment, threads: u64) -> u64 {
        if self.thread == earlier.thread {
            self.own.saturating_sub(earlier.own)
        } else {
            self.global.saturating_sub(earlier.global) / threads.max(1)
        }
    }

    /// Lines touched between an `earlier` moment and this one.
    pub(super) fn lines_since(self, earlier: Moment) -> u64 {
        self.touched.wrapping_sub(earlier.touched).into()
    }
}

/// A line's last write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    line: u64,
    /// Bit `i`: byte `i` was written, since the line's bytes were last overwritten.
    pub(super) bytes: u64,
    pub(super) at: Moment,
    pub(super) context: ContextId,
    pub(super) place: u32,
    /// Whether one of these bytes was read since.
    pub(super) read: bool,
    /// Whether what was written is nobody's any more: its memory was freed. The line may still be in a cache.
    pub(super) freed: bool,
    /// Whether the program itself flushed or demoted it since.
    pub(super) sent: bool,
}

const _: () = assert!(size_of::<Written>() == 56);

/// The table: 8 bytes for each line that it has room for, which the system gives when they are needed, and 56
/// for each that it holds. 64 MiB at most.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By set: for each way a part of the line's number, where most searches end, and its place in `written`,
    /// plus 1; 0: it is empty.
    sets: Vec<[[u32; WAYS]; 2]>,
    written: Vec<Written>,
}

impl Lines {
    /// The last write of `line`, if it is remembered.
    #[inline]
    pub(super) fn find(&mut self, line: u64) -> Option<&mut Written> {
        let [prints, slots] = self.sets.get(set(line))?;
        // All at once, as for most lines there is none.
        if !prints.iter().fold(false, |fits, print| fits | (*print == line as u32)) {
            return None;
        }
        let mut fits = prints.iter().zip(slots).filter(|(print, slot)| **print == line as u32 && **slot > 0);
        let slot = fits.find(|(_, slot)| self.written[**slot as usize - 1].line == line)?.1;
        Some(&mut self.written[*slot as usize - 1])
    }

    /// Enters a line that is not in the table; the one written longest ago makes room.
    pub(super) fn insert(&mut self, line: u64, bytes: u64, at: Moment, context: ContextId, place: u32) {
        if self.sets.is_empty() {
            self.sets = vec![[[0; WAYS]; 2]; SETS];
        }
        let new = Written { line, bytes, at, context, place, read: false, freed: false, sent: false };
        let [prints, slots] = &mut self.sets[set(line)];
        let age = |way: &usize| match slots[*way] {
            0 => 0,
            slot => self.written[slot as usize - 1].at.global + 1,
        };
        let Some(way) = (0..WAYS).min_by_key(age) else { return };
        match slots[way] {
            0 => {
                self.written.push(new);
                slots[way] = self.written.len() as u32;
            }
            slot => self.written[slot as usize - 1] = new,
        }
        prints[way] = line as u32;
    }

    /// The bytes of the lines from `first` to `last` are no longer anybody's: nobody reads them, and whatever
    /// is written there next takes the place of all of them.
    pub(super) fn free(&mut self, first: u64, last: u64) {
        if last - first >= self.written.len() as u64 {
            let within = |written: &&mut Written| (first..=last).contains(&written.line);
            self.written.iter_mut().filter(within).for_each(Written::free);
            return;
        }
        for line in first..=last {
            if let Some(written) = self.find(line) {
                written.free();
            }
        }
    }
}

impl Written {
    fn free(&mut self) {
        (self.bytes, self.read, self.freed) = (u64::MAX, true, true);
    }
}

fn set(line: u64) -> usize {
    // The low bits spread neighbours over the sets, the product whatever has a large power of two as its
    // stride.
    let mixed = line ^ (line >> 16).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as usize % SETS
}

/// The lines that `len` bytes at `addr` touch, with the mask of the bytes touched in each.
pub(super) fn split(addr: u64, len: u32) -> impl Iterator<Item = (u64, u64)> {
    let last = addr.saturating_add(u64::from(len.max(1)) - 1);
    (addr / LINE..=last / LINE).map(move |line| {
        let from = if line == addr / LINE { addr % LINE } else { 0 };
        let to = if line == last / LINE { last % LINE } else { LINE - 1 };
        (line, u64::MAX << from & u64::MAX >> (LINE - 1 - to))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn moment(global: u64) -> Moment {
        Moment { own: global, global, ..Moment::default() }
    }

    #[test]
    fn the_line_written_longest_ago_is_forgotten_first() {
        let mut lines = Lines::default();
        assert!(lines.find(3).is_none());
        // All in one set: multiples of the number of sets, below where the mixing begins.
        let same_set: Vec<u64> = (0..1 << 24).filter(|&line| set(line) == 5).take(WAYS + 1).collect();
        assert_eq!(same_set.len(), WAYS + 1);
        for (&line, at) in same_set.iter().zip(1..) {
            lines.insert(line, 1, moment(at), ContextId::NONE, 7);
        }
        assert!(lines.find(same_set[0]).is_none());
        assert!(same_set[1..].iter().all(|&line| lines.find(line).is_some()));
        lines.free(same_set[1], same_set[1]);
        let mut is_freed = |line| lines.find(line).is_some_and(|written| written.freed);
        assert!(is_freed(same_set[1]) && !is_freed(same_set[2]));
        lines.free(0, u64::MAX / LINE);
        let mut is_freed = |line| lines.find(line).is_some_and(|written| written.freed);
        assert!(same_set[1..].iter().all(|&line| is_freed(line)));
    }

    /// Lines of one set, of which two have the same lower half.
    static ONE_SET: LazyLock<Vec<u64>> = LazyLock::new(|| {
        let mut lines: Vec<u64> = (0..1 << 24).filter(|&line| set(line) == 5).take(WAYS + 4).collect();
        lines.extend((1..1 << 24).map(|upper| upper << 32 | lines[0]).find(|&line| set(line) == 5));
        lines
    });

    proptest! {
        #[test]
        fn a_set_holds_what_a_plain_list_would(steps in prop::collection::vec((0..WAYS + 5, 0..8), 0..200)) {
            let pool = &ONE_SET;
            let mut lines = Lines::default();
            // Lines, when they were written, whether they were freed; those that are there only.
            let mut list: Vec<(u64, u64, bool)> = Vec::new();
            for (now, (which, step)) in (1..).zip(steps) {
                let line = pool[which];
                let known = list.iter().position(|known| known.0 == line);
                match (known, step) {
                    (Some(at), 0) => {
                        lines.free(line, line);
                        list[at].2 = true;
                    }
                    (Some(_), _) => {}
                    (None, _) => {
                        if list.len() == WAYS {
                            let oldest = (0..WAYS).min_by_key(|&at| list[at].1).expect("it is full");
                            list.remove(oldest);
                        }
                        list.push((line, now, false));
                        lines.insert(line, 1, moment(now), ContextId::NONE, 7);
                    }
                }
                for &line in pool.iter() {
                    let known = list.iter().find(|known| known.0 == line).map(|known| (known.1, known.2));
                    let found = lines.find(line).map(|written| (written.at.global, written.freed));
                    prop_assert_eq!(found, known, "{:#x}", line);
                }
            }
        }
    }

    #[test]
    fn distances_between_threads_are_on_the_common_clock() {
        let earlier = Moment { own: 10, global: 100, thread: 1, touched: u32::MAX };
        let later = |own, thread| Moment { own, global: 500, thread, touched: 9 };
        assert_eq!(later(40, 1).since(earlier, 4), 30);
        assert_eq!(later(3, 2).since(earlier, 4), 100);
        assert_eq!(later(3, 2).lines_since(earlier), 10);
    }
}
