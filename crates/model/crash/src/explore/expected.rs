//! What is known of images on which recovery hangs.

use crate::Place;
use crate::finding::Finding;

/// What is known of a recovery that hangs.
#[derive(Debug)]
pub(super) struct Hang {
    /// How it was found.
    pub finding: Finding,
    /// Words and what they hold in its image.
    pub words: Vec<(Place, u64)>,
    /// Expected images met since one of them did not hang.
    pub met: u64,
}

/// What is to be done with an image.
pub(super) enum Expected {
    /// It is examined.
    No,
    /// It is examined, with little time: it hangs like this one.
    Examined(usize),
    /// It is not.
    Skipped,
}
