//! What encoder and decoder both know: for each context, what happened in it last.
//!
//! Code repeats itself. The two events before predict well which one comes next: its site, its operation, its
//! length and the instructions before it. They also distinguish the instruction from others of its site, and
//! an instruction's address is most often its last one, or as far from that of the event before as the last
//! time (`node->count`, then `node->keys`). So the memory is a table with a hash of the two events before as
//! its index; what falls on the same entry is predicted badly, and nothing else happens.
//!
//! An event that goes as predicted costs one control byte. All others cost a fixed number of bytes for what
//! happened and a few for the address. Neither side branches on whether a prediction holds, as
//! processors could not predict that.

/// What happened last in one context. Half a cache line, as entries are touched at random.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Entry {
    /// Site and shape: see [`what`].
    pub what: u64,
    /// The address.
    pub last: u64,
    /// The address minus that of the event before.
    pub jump: u64,
    /// The block that the entry is from. In any other it is empty.
    pub block: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

/// Width of a context.
const CONTEXT_BITS: u32 = 13;
/// Number of contexts.
const CONTEXTS: usize = 1 << CONTEXT_BITS;
/// The event before the last one takes part in a context with its lower bits, shifted by this.
const CONTEXT_SHIFT: u32 = 7;
/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The context after an event that came in `context`.
#[inline(always)]
pub(super) fn next_context(context: u64, what: u64) -> u64 {
    (context << CONTEXT_SHIFT) ^ (what.wrapping_mul(SPREAD) >> (u64::BITS - CONTEXT_BITS))
}

/// The entries of all contexts.
pub(super) struct Memory {
    entries: Box<[Entry; CONTEXTS]>,
    block: u32,
}

impl Memory {
    pub(super) fn new() -> Self {
        let entries = vec![Entry::default(); CONTEXTS].into_boxed_slice();
        Memory {
            entries: entries.try_into().unwrap_or_else(|_| unreachable!("it has this length")),
            block: 1,
        }
    }

    /// Empties all entries.
    pub(super) fn forget(&mut self) {
        self.block = self.block.wrapping_add(1);
        if self.block == 0 {
            self.entries.fill(Entry::default());
            self.block = 1;
        }
    }

    /// The entries, without the indirection.
    pub(super) fn borrow(&mut self) -> Borrowed<'_> {
        Borrowed { entries: &mut self.entries, block: self.block }
    }
}

/// A [`Memory`] in use.
pub(super) struct Borrowed<'a> {
    entries: &'a mut [Entry; CONTEXTS],
    block: u32,
}

impl Borrowed<'_> {
    /// The context's entry; empty if it is not from this block.
    #[inline(always)]
    pub(super) fn entry(&mut self, context: u64) -> &mut Entry {
        let entry = &mut self.entries[context as usize % CONTEXTS];
        if entry.block != self.block {
            *entry = Entry { block: self.block, ..Entry::default() };
        }
        entry
    }
}

/// In a shape: the operation's code.
pub(super) const SHAPE_CODE: u32 = 0x1f;
/// In a shape: length and instructions do not fit and stand elsewhere.
pub(super) const SHAPE_WIDE: u32 = 1 << 5;
/// In a shape: where the length stands.
pub(super) const LEN_SHIFT: u32 = 6;
/// Width of a shape's length.
pub(super) const LEN_BITS: u32 = 12;
/// In a shape: where the instructions stand.
pub(super) const INSTRUCTIONS_SHIFT: u32 = LEN_SHIFT + LEN_BITS;
/// Width of a shape's instructions.
pub(super) const INSTRUCTIONS_BITS: u32 = u32::BITS - INSTRUCTIONS_SHIFT;

/// Site and shape in one number.
#[inline(always)]
pub(super) fn what(site: u32, shape: u32) -> u64 {
    u64::from(shape) << 32 | u64::from(site)
}

/// Bytes of site and shape where they are not as predicted.
pub(super) const WHAT_BYTES: usize = 8;

/// Control byte: site and shape are not as predicted.
pub(super) const CORRECTED: u8 = 1;
/// Control byte: the address is predicted by its distance to that of the event before, not by the last one.
pub(super) const JUMPS: u8 = 2;
/// Control byte: from this bit on, the number of bytes that correct the address.
pub(super) const CORRECTION_SHIFT: u32 = 2;
/// Largest control byte.
pub(super) const CONTROL_MAX: u8 = CORRECTED | JUMPS | 8 << CORRECTION_SHIFT;

/// Columns of an events block.
pub(super) mod column {
    /// One control byte per event.
    pub const CONTROL: usize = 0;
    /// Sites and shapes that were not predicted.
    pub const WHATS: usize = 1;
    /// Lengths and instructions that do not fit into a shape.
    pub const WIDE: usize = 2;
    /// Corrections of addresses.
    pub const ADDRESSES: usize = 3;
    /// What else rare operations have.
    pub const EXTRAS: usize = 4;
    /// Positions in the global order.
    pub const SEQS: usize = 5;
    /// When batches started.
    pub const TIMES: usize = 6;
    /// Stored bytes.
    pub const VALUES: usize = 7;
    /// Which words of code blocks are not as before.
    pub const CHANGES: usize = 8;
    /// Which of the latest differences those have that are not heads.
    pub const CODES: usize = 9;
    /// Differences that are none of these.
    pub const DIFFERENCES: usize = 10;
    /// Shapes of those that are heads.
    pub const NAMES: usize = 11;
    /// Number of words, and instructions that they leave out.
    pub const CARRIES: usize = 12;
    /// How many.
    pub const COUNT: usize = 13;
}
