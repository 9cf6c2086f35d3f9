//! Where words are: the pages of which lines may be in spares, in memory.
//!
//! # Threads
//! One thread at a time changes this, the one that has the engine's lock. Others look up places without it,
//! and read there. What may happen to a word meanwhile, which nobody writes, because its readers hold a lock
//! of the program's?
//! - Another word of its line is committed. The line's other copy is written and counts from then on; in both
//!   copies the word is the same. A second such commit writes the first copy, and writes to the word what is
//!   there.
//! - The page gets a slot. As before.
//! - The page loses its slot, and the spare page is another one's. Then what was read may be anything. So
//!   that is counted, before and after: who finds that the count has changed looks again, under the lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use space::LINE;

use super::parts::Parts;
use super::table::Slot;

/// The pages that have slots.
pub(super) struct Active {
    parts: Parts,
    /// By a hash of the page: a slot's number plus 1, the first of a chain.
    heads: Vec<AtomicU32>,
    slots: Vec<View>,
    /// Goes up before slots are taken from their pages, and after it: odd meanwhile.
    changes: AtomicU64,
}

/// A slot.
struct View {
    page: AtomicU64,
    lines: AtomicU64,
    /// The next slot of its chain plus 1.
    next: AtomicU32,
}

impl Active {
    /// No page has a slot.
    pub(super) fn new(parts: Parts) -> Active {
        let heads = (2 * parts.slots as usize).next_power_of_two();
        let view = || View { page: AtomicU64::new(0), lines: AtomicU64::new(0), next: AtomicU32::new(0) };
        Active {
            parts,
            heads: (0..heads).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..parts.slots).map(|_| view()).collect(),
            changes: AtomicU64::new(0),
        }
    }

    fn head(&self, page: u64) -> &AtomicU32 {
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.heads[hash as usize & (self.heads.len() - 1)]
    }

    /// The slot of a page.
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let mut link = self.head(page).load(Ordering::Acquire);
        // A chain that changes meanwhile can lead astray, but not for ever.
        for _ in 0..self.slots.len() {
            let slot = link.checked_sub(1)?;
            let view = &self.slots[slot as usize];
            if view.page.load(Ordering::Relaxed) == page {
                return Some(slot);
            }
            link = view.next.load(Ordering::Acquire);
        }
        None
    }

    /// What a slot has.
    pub(super) fn slot(&self, slot: u32) -> Slot {
        let view = &self.slots[slot as usize];
        Slot { page: view.page.load(Ordering::Relaxed), lines: view.lines.load(Ordering::Relaxed) }
    }

    /// Where the word or the piece of a line at `offset` is.
    #[inline]
    pub(super) fn place(&self, offset: u64) -> u64 {
        let (page, line) = self.parts.page(offset);
        match self.find(page) {
            Some(slot) if self.slots[slot as usize].lines.load(Ordering::Acquire) >> line & 1 == 1 => {
                self.parts.spare(slot) + offset - self.parts.home(page)
            }
            _ => offset,
        }
    }

    /// What `load` reads where the word or the piece of a line at `offset` is; `None` if it may have been
    /// moved meanwhile.
    #[inline]
    pub(super) fn look<R>(&self, offset: u64, load: impl FnOnce(u64) -> R) -> Option<R> {
        let before = self.changes.load(Ordering::Acquire);
        let found = load(self.place(offset));
        fence(Ordering::Acquire);
        (before.is_multiple_of(2) && self.changes.load(Ordering::Relaxed) == before).then_some(found)
    }

    /// Gives a slot that no page has to a page, and says which lines are in the spare.
    pub(super) fn link(&self, slot: u32, Slot { page, lines }: Slot) {
        let (head, view) = (self.head(page), &self.slots[slot as usize]);
        view.page.store(page, Ordering::Relaxed);
        view.lines.store(lines, Ordering::Release);
        view.next.store(head.load(Ordering::Relaxed), Ordering::Release);
        head.store(slot + 1, Ordering::Release);
    }

    /// Says which lines of a slot's page are in the spare.
    pub(super) fn set_lines(&self, slot: u32, lines: u64) {
        self.slots[slot as usize].lines.store(lines, Ordering::Release);
    }

    /// Takes slots from their pages, of which all lines are at home.
    pub(super) fn unlink(&self, slots: &[u32]) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        for &slot in slots {
            let mut link = self.head(self.slot(slot).page);
            while link.load(Ordering::Relaxed) != slot + 1 {
                link = &self.slots[link.load(Ordering::Relaxed) as usize - 1].next;
            }
            let view = &self.slots[slot as usize];
            link.store(view.next.load(Ordering::Relaxed), Ordering::Release);
            view.lines.store(0, Ordering::Relaxed);
        }
        // What is stored to spares from here on is not seen by anybody who does not see the count.
        self.changes.fetch_add(1, Ordering::Release);
        fence(Ordering::Release);
    }
}

/// The lines in a mask, as offsets in their page.
pub(super) fn offsets(lines: u64) -> impl Iterator<Item = u64> {
    (0..64).filter(move |line| lines >> line & 1 == 1).map(|line| line * LINE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::Logs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(steps in prop::collection::vec((0u32..18, 0u64..40, 1u64..4), 1..200)) {
            let parts = Parts::of(&Logs { base: 12288, count: 1, bytes: 4096, state: 8192, end: 1 << 20 });
            let active = Active::new(parts);
            let mut slots = BTreeMap::new();
            for (slot, page, lines) in steps {
                if let Some(before) = slots.remove(&slot) {
                    active.unlink(&[slot]);
                    prop_assert_eq!(active.find(before), None);
                } else if slots.values().all(|other| *other != page) {
                    slots.insert(slot, page);
                    active.link(slot, Slot { page, lines });
                    let first = active.look(parts.home(page) + 24, |place| place);
                    let expected = if lines & 1 == 1 { parts.spare(slot) } else { parts.home(page) };
                    prop_assert_eq!(first, Some(expected + 24));
                }
                for page in 0..40 {
                    let expected = slots.iter().find(|(_, other)| **other == page).map(|(slot, _)| *slot);
                    prop_assert_eq!(active.find(page), expected);
                }
            }
        }
    }

    #[test]
    fn who_reads_a_page_that_loses_its_slot_is_reported() {
        let parts = Parts::of(&Logs { base: 12288, count: 1, bytes: 4096, state: 8192, end: 1 << 20 });
        let active = Active::new(parts);
        active.link(3, Slot { page: 200, lines: 2 });
        let lost = active.look(parts.home(200) + LINE, |place| {
            active.unlink(&[3]);
            place
        });
        assert_eq!(lost, None);
        assert_eq!(active.look(parts.home(200) + LINE, |place| place), Some(parts.home(200) + LINE));
    }
}
