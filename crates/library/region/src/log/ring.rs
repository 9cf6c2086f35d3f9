//! A ring of lines, written pass after pass.

use space::{LINE, Space};

use super::line::{Role, WORDS, write_line, write_line_nt};

/// The ring has no room for so many lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Where a log is written. What is in it is known from its lines alone, so nothing of this is stored: at open
/// every ring is empty and starts its first pass.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Offset of the first line.
    base: u64,
    lines: u64,
    /// Lines written since it was empty, over all passes.
    head: u64,
    /// How many of these were written in earlier passes.
    passed: u64,
    /// The parity of this pass.
    parity: bool,
    /// The first of these that is still needed.
    tail: u64,
}

impl Ring {
    /// An empty ring of `len` bytes at `base`, both multiples of a line.
    pub(crate) fn new(base: u64, len: u64) -> Self {
        debug_assert!(base.is_multiple_of(LINE) && len.is_multiple_of(LINE) && len > 0);
        // The empty ring reads as parity 0, so the first pass has 1.
        Ring { base, lines: len / LINE, head: 0, passed: 0, parity: true, tail: 0 }
    }

    /// Lines written so far.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Whether `lines` more can be written without touching any that is needed.
    pub(crate) fn has_room(&self, lines: u64) -> bool {
        self.head - self.tail + lines <= self.lines
    }

    /// Lines before `tail` are not needed any more. That must be known to recovery before they are written
    /// over.
    pub(crate) fn release(&mut self, tail: u64) {
        debug_assert!((self.tail..=self.head).contains(&tail));
        self.tail = tail;
    }

    /// Stores the lines of a record behind the last one; `past_cache`, they need no flush.
    ///
    /// # Errors
    /// If that would be over one that is needed; nothing is stored then.
    #[inline(always)]
    pub(crate) fn push_record<S: Space>(
        &mut self,
        space: &S,
        lines: &[[u64; WORDS]],
        past_cache: bool,
    ) -> Result<(), Full> {
        if !self.has_room(lines.len() as u64) {
            return Err(Full);
        }
        let (mut rest, mut role) = (lines, Role::First);
        while !rest.is_empty() {
            // Up to where the next pass begins.
            let (now, later) = rest.split_at(rest.len().min((self.lines - self.at()) as usize));
            let first = self.base + self.at() * LINE;
            for (place, line) in (first..).step_by(LINE as usize).zip(now) {
                if past_cache {
                    write_line_nt(space, place, line, role, self.parity);
                } else {
                    write_line(space, place, line, role, self.parity);
                }
                role = Role::Later;
            }
            self.head += now.len() as u64;
            if self.at() == self.lines {
                self.turn();
            }
            rest = later;
        }
        Ok(())
    }

    /// Where the next line comes, in lines from the first: without a division.
    #[inline(always)]
    fn at(&self) -> u64 {
        self.head - self.passed
    }

    /// The place of the next line, and its parity.
    #[inline(always)]
    fn next(&mut self) -> Result<(u64, bool), Full> {
        if !self.has_room(1) {
            return Err(Full);
        }
        let next = (self.base + self.at() * LINE, self.parity);
        self.head += 1;
        if self.at() == self.lines {
            self.turn();
        }
        Ok(next)
    }

    /// The next pass begins.
    #[cold]
    fn turn(&mut self) {
        (self.passed, self.parity) = (self.head, !self.parity);
    }

    /// Stores one line behind the last one.
    ///
    /// # Errors
    /// If that would be over one that is needed.
    #[inline(always)]
    pub(crate) fn push<S: Space>(
        &mut self,
        space: &S,
        payload: &[u64; WORDS],
        role: Role,
    ) -> Result<(), Full> {
        let (place, parity) = self.next()?;
        write_line(space, place, payload, role, parity);
        Ok(())
    }

    /// Stores one line behind the last one in the way that is soonest durable, which it is from the next
    /// fence on; not so if it is not `flushed`, by mistake.
    ///
    /// # Errors
    /// If that would be over one that is needed.
    #[inline(always)]
    pub(crate) fn push_alone<S: Space>(
        &mut self,
        space: &S,
        payload: &[u64; WORDS],
        role: Role,
        flushed: bool,
    ) -> Result<(), Full> {
        let (from, past_cache) = (self.head, flushed && space.nt_is_sooner());
        let (place, parity) = self.next()?;
        if past_cache {
            write_line_nt(space, place, payload, role, parity);
            return Ok(());
        }
        write_line(space, place, payload, role, parity);
        if flushed {
            self.flush(space, from);
        }
        Ok(())
    }

    /// Flushes the lines from number `from` on, and starts to fetch the next one, which was flushed a pass
    /// ago and left the cache with that.
    #[inline(always)]
    pub(crate) fn flush<S: Space>(&self, space: &S, from: u64) {
        let count = (self.head - from).min(self.lines);
        // Behind the start of the ring, and before its end.
        let (low, high) = if count <= self.at() { (count, 0) } else { (self.at(), count - self.at()) };
        if high > 0 {
            space.flush(self.base + (self.lines - high) * LINE, high * LINE);
        }
        if low > 0 {
            space.flush(self.base + (self.at() - low) * LINE, low * LINE);
        }
        space.prefetch(self.base + self.at() * LINE);
    }
}

/// Makes the ring at `base` empty again. Flushes, does not fence; lines that are empty, too: a process that
/// was killed may have emptied them and no more.
pub(crate) fn clear<S: Space>(space: &S, base: u64, len: u64) {
    for word in (base..base + len).step_by(8) {
        if space.load_u64(word) != 0 {
            space.store_u64(word, 0);
        }
    }
    space.flush(base, len);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::{Content, read_line};
    use space::Image;

    #[test]
    fn what_is_needed_is_not_written_over() {
        let space = Image::new(1024);
        let mut ring = Ring::new(256, 4 * LINE);
        for number in 0..4 {
            ring.push(&space, &[number; WORDS], Role::First).expect("there is room");
        }
        assert_eq!(ring.push(&space, &[4; WORDS], Role::First), Err(Full));
        ring.release(2);
        ring.push(&space, &[4; WORDS], Role::First).expect("there is room again");
        let at = |line: u64| match read_line(&space, 256 + line * LINE) {
            Content::Whole { payload, parity, .. } => (payload[0], parity),
            other => panic!("{other:?}"),
        };
        assert_eq!([at(0), at(1), at(2), at(3)], [(4, false), (1, true), (2, true), (3, true)]);
        assert_eq!(space.load_u64(248), 0, "nothing beside the ring");
        assert_eq!(space.load_u64(512), 0, "nothing beside the ring");
        clear(&space, 256, 4 * LINE);
        assert!(space.to_bytes().iter().all(|byte| *byte == 0));
    }
}
