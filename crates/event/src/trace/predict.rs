//! What encoder and decoder both know: for each code site of a block, what it did last.
//!
//! Code repeats itself. After a site comes, most often, one of the two sites that came after it
//! before; a site does the same operation with the same length each time; and its address continues its
//! own stride, or keeps its distance from the event before (`node->count`, then `node->keys`).
//! An event that goes as predicted costs one control byte, always about the same one.

/// A site that followed another.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Edge {
    /// The follower's number in the run.
    pub site: u32,
    /// Instructions from the one to the other, last time.
    pub instructions: u32,
    /// The follower's number in the block.
    pub local: u16,
}

/// One site's memory. A cache line, as many are touched at random.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct SiteState {
    /// Its last address.
    pub last: u64,
    /// Its last address minus the one before.
    pub stride: u64,
    /// Its last address minus that of the event before it.
    pub jump: u64,
    /// Its last followers, the newer first.
    pub edges: [Edge; 2],
    /// The site's number in the run.
    pub site: u32,
    /// Its last length.
    pub len: u32,
    /// Its last operation.
    pub code: u8,
}

const _: () = assert!(size_of::<SiteState>() == 64);

impl SiteState {
    /// A site that did nothing yet and expects to follow itself.
    pub(super) fn new(site: u32, local: u16) -> Self {
        let edge = Edge { site, instructions: 0, local };
        SiteState { last: 0, stride: 0, jump: 0, edges: [edge; 2], site, len: 0, code: 0 }
    }

    /// The four guesses at the next address, by the number that the control byte gives them.
    #[inline(always)]
    pub(super) fn guesses(&self, before: u64) -> [u64; 4] {
        [self.last.wrapping_add(self.stride), before.wrapping_add(self.jump), self.last, before]
    }

    /// Learns the address; `before` is that of the thread's event before.
    #[inline(always)]
    pub(super) fn learn(&mut self, before: u64, addr: u64) {
        self.stride = addr.wrapping_sub(self.last);
        self.jump = addr.wrapping_sub(before);
        self.last = addr;
    }

    /// Learns a follower that was not expected.
    #[inline]
    pub(super) fn learn_edge(&mut self, edge: Edge) {
        self.edges[1] = self.edges[0];
        self.edges[0] = edge;
    }
}

/// Control byte: bits 0 and 1, how the site is told.
pub(super) const WAY_MASK: u8 = 3;
/// The site's number in the block follows as one byte; 0 and 1 are the edges.
pub(super) const WAY_BYTE: u8 = 2;
/// The site's number in the block follows as two bytes.
pub(super) const WAY_WORD: u8 = 3;
/// Control byte: bits 2 and 3, which guess at the address is corrected.
pub(super) const GUESS_SHIFT: u32 = 2;
/// Control byte: bits 4 to 6, the correction's class.
pub(super) const CLASS_SHIFT: u32 = 4;
/// Control byte: operation, length or instructions differ from the last time.
pub(super) const SHAPE: u8 = 0x80;

/// In a shape byte, beside the code: the length follows.
pub(super) const SHAPE_LEN: u8 = 0x20;
/// In a shape byte: the instructions follow.
pub(super) const SHAPE_INSTRUCTIONS: u8 = 0x40;
/// In a shape byte: the code.
pub(super) const SHAPE_CODE: u8 = 0x1f;

/// Bytes of a correction by class. Class 2 counts in units of eight bytes, all others in bytes.
pub(super) const CLASS_BYTES: [u8; 8] = [0, 1, 1, 2, 3, 4, 6, 8];
/// Left shift of a correction by class.
pub(super) const CLASS_SCALE: [u8; 8] = [0, 0, 3, 0, 0, 0, 0, 0];
/// Which bits of eight bytes read are the correction, by class.
pub(super) const CLASS_MASK: [u64; 8] =
    [0, 0xff, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xffff_ffff_ffff, u64::MAX];
/// The class of unscaled corrections, by the bytes they need.
pub(super) const CLASS_OF_BYTES: [u8; 9] = [0, 1, 3, 4, 5, 6, 6, 7, 7];
/// The class of scaled corrections.
pub(super) const CLASS_SCALED: u8 = 2;

/// Columns of an events block.
pub(super) mod column {
    /// One control byte per event.
    pub const CONTROL: usize = 0;
    /// Site numbers within the block, where no edge predicted them.
    pub const LOCALS: usize = 1;
    /// Site numbers within the run, for each new number within the block.
    pub const SITES: usize = 2;
    /// Operations, lengths, instructions that were not predicted.
    pub const SHAPES: usize = 3;
    /// Corrections of addresses.
    pub const ADDRESSES: usize = 4;
    /// What else rare operations have.
    pub const EXTRAS: usize = 5;
    /// Positions in the global order.
    pub const SEQS: usize = 6;
    /// When batches started.
    pub const TIMES: usize = 7;
    /// Stored bytes.
    pub const VALUES: usize = 8;
    /// How many.
    pub const COUNT: usize = 9;
}
