//! What a space that wraps another one must forward: a failed sync above all.

use event::FlushKind;

use super::LEN;
use crate::{Image, Prestore, Space, Word};

/// What a space answers about itself, beside its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// [`Space::fence_writes`].
    pub fence_writes: bool,
    /// [`Space::nt_is_sooner`].
    pub nt_is_sooner: bool,
    /// [`Space::has_failed`].
    pub has_failed: bool,
}

impl Answers {
    /// The answers of a space.
    pub fn of<S: Space>(space: &S) -> Answers {
        Answers {
            fence_writes: space.fence_writes(),
            nt_is_sooner: space.nt_is_sooner(),
            has_failed: space.has_failed(),
        }
    }

    /// Every combination.
    pub fn each() -> impl Iterator<Item = Answers> {
        (0..8).map(|bits| Answers {
            fence_writes: bits & 1 != 0,
            nt_is_sooner: bits & 2 != 0,
            has_failed: bits & 4 != 0,
        })
    }
}

/// A space that gives chosen answers. Where it has failed, its fences panic.
#[derive(Debug)]
pub struct Probe {
    image: Image,
    answers: Answers,
}

impl Probe {
    /// A space of [`LEN`] zeros with these answers.
    #[must_use]
    pub fn new(answers: Answers) -> Probe {
        Probe { image: Image::new(LEN), answers }
    }
}

impl Space for Probe {
    type Observer = ();

    fn observer(&self) -> &() {
        &()
    }
    fn len(&self) -> u64 {
        self.image.len()
    }
    fn flush_kind(&self) -> FlushKind {
        self.image.flush_kind()
    }
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.image.load_word(offset)
    }
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.image.store_word(offset, value);
    }
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.image.cas_u64(offset, old, new)
    }
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.image.store_nt(offset, bytes);
    }
    fn flush(&self, offset: u64, len: u64) {
        self.image.flush(offset, len);
    }
    fn fence(&self) {
        assert!(!self.answers.has_failed || std::thread::panicking(), "the fence failed");
    }
    fn fence_writes(&self) -> bool {
        self.answers.fence_writes
    }
    fn nt_is_sooner(&self) -> bool {
        self.answers.nt_is_sooner
    }
    fn has_failed(&self) -> bool {
        self.answers.has_failed
    }
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.image.prestore(offset, len, hint);
    }
}

/// Checks that the space that `wrap` makes around another one answers as that one does.
///
/// # Panics
/// If it does not.
pub fn forwards<W: Space>(wrap: impl Fn(Probe) -> W) {
    for answers in Answers::each() {
        assert_eq!(Answers::of(&wrap(Probe::new(answers))), answers, "a wrapper forwards these");
    }
}
