//! Who judges an image.

use crate::{History, Mark, MarkKind, Place};

/// A word of an image that differs from the image before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The word.
    pub place: Place,
    /// All of its bytes, little-endian.
    pub word: u64,
}

/// A crash image, given as the difference to the one that the same oracle was given before.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// The run.
    pub history: &'a History,
    /// In order; a later change of a word replaces an earlier one. The first image's are relative to what the files held
    /// when the run began.
    pub changes: &'a [Change],
    /// Regions that had begun.
    pub begun: u64,
    /// Regions that had ended: whatever the program promises at the end of a region holds for these.
    pub ended: u64,
    /// How long recovery is worth waiting for.
    pub patience: Patience,
    pub(crate) marks: usize,
    pub(crate) more_marks: &'a [u32],
}

impl<'a> Image<'a> {
    /// What the program had said before the crash, each thread's in its order.
    pub fn marks(&self) -> impl Iterator<Item = &'a Mark> + use<'a> {
        let history = self.history;
        self.mark_numbers().map(|at| &history.marks[at as usize])
    }

    /// The same, as indices into [`History::marks`].
    pub(crate) fn mark_numbers(&self) -> impl Iterator<Item = u32> + use<'a> {
        (0..self.marks as u32).chain(self.more_marks.iter().copied())
    }

    /// What the program had printed, where the run says so.
    #[must_use]
    pub fn printed(&self) -> Vec<u8> {
        let table = &self.history.table;
        self.ended_regions().filter_map(|region| event::printed(region, table)).flatten().collect()
    }

    /// What the program had acknowledged elsewhere than on its standard output, where the run says so.
    #[must_use]
    pub fn acked(&self) -> Vec<u8> {
        let table = &self.history.table;
        self.ended_regions().filter_map(|region| event::acked(region, table)).flatten().collect()
    }

    /// Numbers of the regions that had ended, each thread's in its order.
    pub fn ended_regions(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.marks().filter_map(|mark| match mark.kind {
            MarkKind::End(region) => Some(region),
            _ => None,
        })
    }
}

/// How long recovery is worth waiting for, if it can hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// Long enough to be sure that it hangs.
    #[default]
    Full,
    /// Longer than recovery takes. What becomes of the image is only compared, and looked at again.
    Usual,
    /// Hardly longer than recovery takes: the image has in it what made recovery hang before.
    Little,
}

/// In which way an image was called wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Recovery, or whoever looked at its result, said so.
    #[default]
    Failed,
    /// Recovery crashed.
    Crashed,
    /// Recovery did not end.
    Hung,
}

/// Recovers an image and says whether the result is right.
pub trait Oracle {
    /// Takes over the changes, recovers, judges, and leaves its own copy as the changes made it, without what recovery wrote.
    ///
    /// # Errors
    /// What is wrong, in one line.
    fn examine(&mut self, image: &Image<'_>) -> Result<(), String>;

    /// In which way the last examination called its image wrong, if it did.
    fn ending(&self) -> Ending {
        Ending::Failed
    }

    /// What the last examination read before it wrote to it, each line at most once; `None` if the oracle does not know. Images that
    /// differ elsewhere are then not examined.
    fn read(&self) -> Option<&[Read]> {
        None
    }

    /// Whether the search is to end before the next image: for want of time, or because somebody stopped it.
    fn stopped(&self) -> bool {
        false
    }
}

/// Words of a line that recovery read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The line's first byte.
    pub line: Place,
    /// Which of its eight words, the first one in the lowest bit.
    pub words: u8,
}

impl Read {
    pub(crate) fn includes(&self, word: Place) -> bool {
        self.line == word.line() && self.words & 1 << (word.0 / 8 % 8) != 0
    }
}
