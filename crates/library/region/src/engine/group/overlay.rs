//! What is committed and not yet in place: words by offset, in ordinary memory.

use std::sync::Arc;

use crate::writes::Writes;
use crate::{Change, Write};

/// Regions that are made durable together.
#[derive(Clone)]
pub(super) struct Batch {
    /// Their writes in commit order; each word that is set appears once, with its last value.
    pub(super) writes: Arc<Writes>,
    /// Number of the last region.
    pub(super) last: u64,
}

/// The committed regions that are not durable. Regions have numbers in commit order, from 1 on.
#[derive(Default)]
pub(super) struct Overlay {
    /// Writes of the regions that are in no batch.
    open: Writes,
    /// The batch that is being made durable and applied. Its words count until all of them are in place.
    batch: Option<Batch>,
    /// Number of the last committed region.
    pub(super) last: u64,
    /// Regions up to this number are durable.
    pub(super) due: u64,
}

impl Overlay {
    /// How many writes are in no batch.
    pub(super) fn open_len(&self) -> usize {
        self.open.entries().len()
    }

    /// Whether no committed word is outside of its place.
    pub(super) fn is_empty(&self) -> bool {
        self.batch.is_none() && self.open.entries().is_empty()
    }

    /// Commits a region of these writes. Its number.
    pub(super) fn commit(&mut self, writes: &[Write]) -> u64 {
        for write in writes {
            match write.change() {
                Change::Set(value) => _ = self.open.set(write.offset(), value),
                bits => self.open.push_bits(write.offset(), bits),
            }
        }
        self.draw()
    }

    /// The number of a region that is committed now.
    pub(super) fn draw(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The batch to make durable: the one that was begun and not ended, or a new one of all open regions.
    /// `None` if there is nothing to do.
    pub(super) fn begin(&mut self) -> Option<Batch> {
        if self.batch.is_none() && self.due < self.last {
            let writes = Arc::new(std::mem::take(&mut self.open));
            self.batch = Some(Batch { writes, last: self.last });
        }
        self.batch.clone()
    }

    /// The batch is durable, and all of its words are in place.
    pub(super) fn end(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.due = self.due.max(batch.last);
        }
    }

    /// What a committed region that is not in place has set the word at `offset` to.
    pub(super) fn get(&self, offset: u64) -> Option<u64> {
        self.open.get(offset).or_else(|| self.batch.as_ref()?.writes.get(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_found_until_its_batch_is_in_place() {
        let mut overlay = Overlay::default();
        assert!(overlay.is_empty() && overlay.begin().is_none());
        assert_eq!(overlay.commit(&[Write::set(64, 1), Write::set(72, 1)]), 1);
        assert_eq!(overlay.commit(&[Write::set(64, 2)]), 2);
        let batch = overlay.begin().expect("two regions are open");
        assert_eq!((batch.last, batch.writes.entries()), (2, &[Write::set(64, 2), Write::set(72, 1)][..]));
        assert_eq!(overlay.commit(&[Write::set(64, 3)]), 3);
        assert_eq!([overlay.get(64), overlay.get(72), overlay.get(80)], [Some(3), Some(1), None]);
        // It was not ended.
        assert_eq!(overlay.begin().map(|batch| batch.last), Some(2));
        overlay.end();
        assert_eq!((overlay.due, overlay.get(64), overlay.get(72)), (2, Some(3), None));
        assert_eq!(overlay.begin().map(|batch| batch.last), Some(3));
        overlay.end();
        assert!(overlay.is_empty());
        assert_eq!(overlay.due, overlay.last);
    }
}
