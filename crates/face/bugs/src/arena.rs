//! A space with a header and an allocator, read with care.

use std::cell::Cell;

use space::{LINE, Observer, Space};

/// Set once the structure is there.
const READY: u64 = 0;
/// Where the next allocation starts.
const FREE: u64 = 8;
/// Where a structure's own root begins.
pub(super) const ROOT: u64 = LINE;

/// What recovery may read before it counts as caught in a circle.
const PATIENCE: u32 = 100_000;

/// The space of one structure, for one thread.
pub(super) struct Arena<'s, S> {
    pub(super) space: &'s S,
    patience: Cell<u32>,
}

impl<'s, S: Space> Arena<'s, S> {
    /// One over a space whose header others look after.
    pub(super) fn over(space: &'s S) -> Self {
        Arena { space, patience: Cell::new(PATIENCE) }
    }

    /// An empty one, with `root` bytes for the structure.
    pub(super) fn create(space: &'s S, root: u64) -> Self {
        space.store_u64(FREE, (ROOT + root).next_multiple_of(LINE));
        space.persist(FREE, 8);
        Arena::over(space)
    }

    /// The structure is there: from here on recovery looks at it.
    pub(super) fn ready(&self) {
        self.set(READY, 1);
    }

    /// What a crash left, if the structure was ready.
    pub(super) fn open(space: &'s S) -> Option<Self> {
        (space.load_u64(READY) == 1).then(|| Arena::over(space))
    }

    /// Zeroed bytes that start at a line. A crash before they are linked leaks them.
    #[track_caller]
    pub(super) fn allocate(&self, bytes: u64) -> Result<u64, String> {
        let at = self.space.load_u64(FREE);
        let end = at.saturating_add(bytes).next_multiple_of(LINE);
        if end > self.space.len() {
            return Err(format!("there is no room for {bytes} bytes behind {at:#x}"));
        }
        self.set(FREE, end);
        Ok(at)
    }

    /// The word at `offset`, which may be any number.
    #[track_caller]
    pub(super) fn get(&self, offset: u64) -> Result<u64, String> {
        if !offset.is_multiple_of(8) || offset < ROOT || offset >= self.space.len() {
            return Err(format!("a pointer leads to {offset:#x}, where nothing can be"));
        }
        let patience = self.patience.get();
        if patience == 0 {
            return Err("pointers lead in circles".to_owned());
        }
        self.patience.set(patience - 1);
        Ok(self.space.load_u64(offset))
    }

    /// Stores a word and makes it durable.
    #[track_caller]
    pub(super) fn set(&self, offset: u64, word: u64) {
        self.space.store_u64(offset, word);
        self.space.persist(offset, 8);
    }

    /// Stores a word and starts to write it back.
    #[track_caller]
    pub(super) fn put(&self, offset: u64, word: u64) {
        self.space.store_u64(offset, word);
        self.space.flush(offset, 8);
    }

    /// Runs an operation as a region.
    pub(super) fn region(
        &self,
        number: u64,
        operation: impl FnOnce() -> Result<(), String>,
    ) -> Result<(), String> {
        self.space.observer().region_begin(number);
        operation()?;
        self.space.observer().region_end(number);
        Ok(())
    }
}
