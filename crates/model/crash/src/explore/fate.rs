//! What a search remembers of its images.

/// What became of an image that a part of a search met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Right,
    /// It was wrong, and is counted with this finding of its part, if it is with one.
    Wrong(Option<usize>),
    /// It was not examined.
    Expected,
}
