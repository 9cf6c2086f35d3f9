//! A core's write-combining buffers, where non-temporal stores wait to become whole lines.
//!
//! A store opens a buffer for its line or adds to the open one. A buffer leaves for the controller when its
//! 64 bytes are full, when all buffers are taken and a new line comes (the one opened first goes), at a fence,
//! or when its own core touches the line with an ordinary access.

/// An open buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) line: u64,
    /// Bit `i`: byte `i` of the line was stored.
    pub(crate) bytes: u64,
    /// Who stored last.
    pub(crate) site: u32,
}

impl Pending {
    pub(crate) fn whole(&self) -> bool {
        self.bytes == u64::MAX
    }
}

/// The buffers of one core.
#[derive(Clone, Debug)]
pub(crate) struct Combining {
    /// In the order in which they were opened.
    open: Vec<Pending>,
    capacity: usize,
    /// Bytes stored.
    pub(crate) bytes_in: u64,
    /// Of these, onto bytes that were waiting already.
    pub(crate) bytes_absorbed: u64,
    /// Bytes that left.
    pub(crate) bytes_out: u64,
}

impl Combining {
    pub(crate) fn new(capacity: usize) -> Self {
        Combining {
            open: Vec::with_capacity(capacity),
            capacity,
            bytes_in: 0,
            bytes_absorbed: 0,
            bytes_out: 0,
        }
    }

    pub(crate) fn holds(&self, line: u64) -> bool {
        self.open.iter().any(|pending| pending.line == line)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.open.len() == self.capacity
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.open.iter().map(|pending| u64::from(pending.bytes.count_ones())).sum()
    }

    /// Stores `bytes` (a mask) of `line`. There is a buffer open for it, or one free. Returns the buffer if
    /// that filled it.
    pub(crate) fn store(&mut self, line: u64, bytes: u64, site: u32) -> Option<Pending> {
        self.bytes_in += u64::from(bytes.count_ones());
        let at = self.open.iter().position(|pending| pending.line == line).unwrap_or_else(|| {
            assert!(!self.is_full(), "the caller makes room first");
            self.open.push(Pending { line, bytes: 0, site });
            self.open.len() - 1
        });
        let pending = &mut self.open[at];
        self.bytes_absorbed += u64::from((pending.bytes & bytes).count_ones());
        pending.bytes |= bytes;
        pending.site = site;
        pending.whole().then(|| self.leave(at))
    }

    /// Takes out the buffer that was opened first.
    pub(crate) fn take_oldest(&mut self) -> Option<Pending> {
        (!self.open.is_empty()).then(|| self.leave(0))
    }

    /// Takes out the buffer of `line`.
    pub(crate) fn take(&mut self, line: u64) -> Option<Pending> {
        let at = self.open.iter().position(|pending| pending.line == line)?;
        Some(self.leave(at))
    }

    fn leave(&mut self, at: usize) -> Pending {
        let pending = self.open.remove(at);
        self.bytes_out += u64::from(pending.bytes.count_ones());
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_to_one_line_leave_together_when_it_is_full() {
        let mut buffers = Combining::new(2);
        for quarter in 0..3 {
            assert_eq!(buffers.store(9, 0xffff << (16 * quarter), 1), None);
        }
        assert_eq!(buffers.store(9, 0xffff << 48, 2), Some(Pending { line: 9, bytes: u64::MAX, site: 2 }));
        assert!(buffers.is_empty());
        assert_eq!((buffers.bytes_in, buffers.bytes_out, buffers.bytes_absorbed), (64, 64, 0));
    }

    #[test]
    fn the_oldest_leaves_first_and_rewritten_bytes_count_once() {
        let mut buffers = Combining::new(2);
        buffers.store(1, 0b0011, 1);
        buffers.store(2, 0b0001, 1);
        buffers.store(1, 0b0110, 5);
        assert!(buffers.is_full() && buffers.holds(1) && !buffers.holds(3));
        assert_eq!((buffers.bytes_in, buffers.bytes_absorbed, buffers.held_bytes()), (5, 1, 4));
        assert_eq!(buffers.take_oldest(), Some(Pending { line: 1, bytes: 0b0111, site: 5 }));
        assert_eq!((buffers.take(1), buffers.take(2).map(|p| p.bytes)), (None, Some(1)));
        assert_eq!(buffers.take_oldest(), None);
    }
}
