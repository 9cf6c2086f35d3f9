//! Where a line is: on which memory, and on which of its DIMMs.

use device::Divisor;

use crate::LINE_BYTES;
use crate::config::Controller;

/// Bit of a line's number: the line is of persistent memory. The same address before and after a mapping is
/// thus two lines, as it is two pieces of memory.
pub const PERSISTENT: u64 = 1 << 58;

/// Chunks of consecutive lines, dealt to the DIMMs in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interleave {
    dimms: Divisor,
    count: u64,
    /// Lines of a chunk, as a shift.
    chunk_shift: u32,
}

impl Interleave {
    pub(crate) fn new(controller: &Controller) -> Self {
        Interleave {
            dimms: Divisor::new(u64::from(controller.dimms)),
            count: u64::from(controller.dimms),
            chunk_shift: (controller.interleave.0 / LINE_BYTES).trailing_zeros(),
        }
    }

    /// The DIMM of a line (of one memory, so without [`PERSISTENT`]), and the
    /// line's number there.
    #[inline]
    pub(crate) fn place(&self, line: u64) -> (usize, u64) {
        let within = line & ((1 << self.chunk_shift) - 1);
        let (row, dimm) = self.dimms.divide(line >> self.chunk_shift);
        (dimm as usize, row << self.chunk_shift | within)
    }

    /// The line that is at `local` of a DIMM: the inverse of [`Interleave::place`].
    #[inline]
    pub(crate) fn line(&self, dimm: usize, local: u64) -> u64 {
        let within = local & ((1 << self.chunk_shift) - 1);
        ((local >> self.chunk_shift) * self.count + dimm as u64) << self.chunk_shift | within
    }
}
