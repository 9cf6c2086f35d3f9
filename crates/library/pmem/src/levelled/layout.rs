//! What stands where in the memory of a levelled space.
//!
//! ```text
//! 0      header: magic, bytes of a page, pages, checksum of these
//! 64     journal, one line: phase, two pages, three frames, checksum
//! 4096   table: of each page, the frame in which it lies, 4 bytes, and a checksum of both, 4 bytes
//! ...    frames, one more than pages, from a multiple of the page's size on
//! ```
//!
//! A page's entry is one word, so it names the old frame or the new one at every moment. The frame that no
//! entry names is the spare. A damaged entry that names the spare would look like a page that moved; its
//! checksum does not fit then. Version 1 has no checksums and is refused.

use super::LevelError;

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"SLLEVEL2");
/// Of the header.
pub(super) const PAGE: u64 = 8;
pub(super) const PAGES: u64 = 16;
pub(super) const CHECK: u64 = 24;
/// Of the journal.
pub(super) const JOURNAL: u64 = 64;
pub(super) const FIRST: u64 = JOURNAL + 8;
pub(super) const SECOND: u64 = JOURNAL + 16;
pub(super) const FRAME_A: u64 = JOURNAL + 24;
pub(super) const FRAME_B: u64 = JOURNAL + 32;
pub(super) const TEMPORARY: u64 = JOURNAL + 40;
pub(super) const JOURNAL_CHECK: u64 = JOURNAL + 48;
/// Of the table.
const TABLE: u64 = 4096;

/// How many pages of what size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a page, a power of two.
    pub page: u64,
    /// Pages that can be used; there is a frame more.
    pub pages: u64,
}

impl Shape {
    /// The shape, if memory can have it.
    ///
    /// # Errors
    /// [`LevelError::Shape`] if not.
    pub fn checked(self) -> Result<Shape, LevelError> {
        let Shape { page, pages } = self;
        let sound =
            page.is_power_of_two() && (4096..=1 << 30).contains(&page) && (2..1 << 31).contains(&pages);
        if sound { Ok(self) } else { Err(LevelError::Shape { pages, page }) }
    }

    /// Where a page's entry is.
    #[must_use]
    pub fn entry(self, page: u64) -> u64 {
        TABLE + 8 * page
    }

    /// What a page's entry is if it lies in a frame.
    #[must_use]
    pub fn entry_word(page: u64, frame: u64) -> u64 {
        frame | checksum(&[page, frame]) >> 32 << 32
    }

    /// The frame that an entry names.
    pub(super) fn frame_in(entry: u64) -> u64 {
        entry & u64::from(u32::MAX)
    }

    /// Where a frame starts.
    #[must_use]
    pub fn frame(self, frame: u64) -> u64 {
        (TABLE + 8 * self.pages).next_multiple_of(self.page) + frame * self.page
    }

    /// Frames: one more than pages.
    #[must_use]
    pub fn frames(self) -> u64 {
        self.pages + 1
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.frame(self.frames())
    }

    pub(super) fn check(self) -> u64 {
        checksum(&[MAGIC, self.page, self.pages])
    }
}

/// A checksum that no word, and no zeros, can have by themselves.
pub(super) fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    })
}
