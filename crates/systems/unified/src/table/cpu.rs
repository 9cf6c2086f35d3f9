//! CPU threads on a table's words.
//!
//! A change takes the locks of both buckets in ascending order, and a move of an eviction those of its two.
//! Locks are bytes in memory of their own. A lookup takes none: see [`Blocks`].

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, fence};
use std::thread::yield_now;

use super::{Answer, Change, NONE, code};
use crate::hash::SLOTS;
use crate::host::table::{fill, find, path, slot};
use crate::host::{load, store};
use crate::{Error, Hashed, Shape};

/// Lookups that fail this often to see one state wait for the locks.
const TRIES: u32 = 16;
/// Inserts that lose their path this often give up.
const ROUNDS: u32 = 64;

/// What CPU threads need beside the words.
#[derive(Debug)]
pub struct Guard {
    locks: Vec<AtomicU8>,
    blocks: Vec<Block>,
}

/// The changes of a block of buckets. A reader that finds as many begun after its reads as it found ended
/// before them saw no change in between: none was under way and none began.
#[derive(Debug, Default)]
struct Block {
    begun: AtomicU32,
    ended: AtomicU32,
    /// Batches of a device that have it. CPU threads change nothing meanwhile.
    owned: AtomicU32,
}

impl Guard {
    /// For a table of a shape.
    pub fn new(shape: Shape) -> Guard {
        let locks = (0..shape.buckets).map(|_| AtomicU8::new(0)).collect();
        Guard { locks, blocks: (0..shape.blocks()).map(|_| Block::default()).collect() }
    }

    /// Begins a device's batch of changes in a block; waits until no CPU thread and no other batch changes
    /// it.
    pub fn take(&self, block: u32) {
        let block = &self.blocks[block as usize];
        while block.owned.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            yield_now();
        }
        while block.begun.load(Ordering::SeqCst) != block.ended.load(Ordering::SeqCst) {
            spin_loop();
        }
        block.begun.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends it.
    pub fn give_back(&self, block: u32) {
        let block = &self.blocks[block as usize];
        block.ended.fetch_add(1, Ordering::SeqCst);
        block.owned.store(0, Ordering::SeqCst);
    }

    /// Begins a change by a CPU thread.
    fn begin(&self, block: u32) -> &Block {
        let block = &self.blocks[block as usize];
        loop {
            block.begun.fetch_add(1, Ordering::SeqCst);
            if block.owned.load(Ordering::SeqCst) == 0 {
                fence(Ordering::SeqCst);
                return block;
            }
            block.ended.fetch_add(1, Ordering::SeqCst);
            while block.owned.load(Ordering::Relaxed) != 0 {
                yield_now();
            }
        }
    }

    fn lock(&self, bucket: u32) {
        let lock = &self.locks[bucket as usize];
        while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            let mut turns = 0;
            while lock.load(Ordering::Relaxed) != 0 {
                turns += 1;
                if turns % 64 == 0 { yield_now() } else { spin_loop() }
            }
        }
    }

    fn unlock(&self, bucket: u32) {
        self.locks[bucket as usize].store(0, Ordering::Release);
    }

    /// Runs `body` with both buckets locked, as a change of their block.
    fn with<T>(&self, shape: Shape, one: u32, two: u32, body: impl FnOnce() -> T) -> T {
        // The block first: who waits for a device's batch holds no lock.
        let block = self.begin(one / shape.block);
        self.lock(one.min(two));
        if one != two {
            self.lock(one.max(two));
        }
        let result = body();
        self.unlock(one);
        if one != two {
            self.unlock(two);
        }
        block.ended.fetch_add(1, Ordering::Release);
        result
    }
}

/// A table as CPU threads use it. Any number of threads may, beside an accelerator.
#[derive(Clone, Copy)]
pub struct CpuTable<'a> {
    pub(super) words: &'a [AtomicU32],
    pub(super) shape: Shape,
    pub(super) guard: &'a Guard,
}

impl CpuTable<'_> {
    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The location of a key's signature, or [`NONE`].
    #[must_use]
    pub fn search(&self, hashed: Hashed) -> u32 {
        let first = self.shape.first(hashed);
        let block = &self.guard.blocks[(first / self.shape.block) as usize];
        for _ in 0..TRIES {
            let ended = block.ended.load(Ordering::Acquire);
            let found = self.look(first, hashed.signature);
            fence(Ordering::Acquire);
            if block.begun.load(Ordering::Relaxed) == ended {
                return found;
            }
            if block.owned.load(Ordering::Relaxed) == 0 { spin_loop() } else { yield_now() }
        }
        let second = self.shape.other(first, hashed.signature);
        self.guard.with(self.shape, first, second, || self.look(first, hashed.signature))
    }

    fn look(&self, first: u32, signature: u32) -> u32 {
        let at = |bucket: u32| {
            let at = bucket as usize * 16;
            // One slice for the bucket, so that its bounds are checked once.
            let words: &[AtomicU32] = &self.words[at..at + 16];
            let mut found = 8;
            for slot in (0..8).rev() {
                if words[slot].load(Ordering::Relaxed) == signature {
                    found = slot;
                }
            }
            if found < 8 { words[found + 8].load(Ordering::Relaxed) } else { NONE }
        };
        let found = at(first);
        if found != NONE { found } else { at(self.shape.other(first, signature)) }
    }

    /// Looks keys up, and meanwhile prefetches the bucket of the key `ahead` further on (0: none).
    ///
    /// # Panics
    /// If there are fewer places for locations than keys.
    pub fn search_batch(&self, keys: &[Hashed], locations: &mut [u32], ahead: usize) {
        assert!(locations.len() >= keys.len(), "a location for each key");
        if ahead == 0 {
            for (&key, location) in keys.iter().zip(locations) {
                *location = self.search(key);
            }
            return;
        }
        keys.iter().take(ahead).for_each(|&key| self.prefetch(key));
        for (number, (&key, location)) in keys.iter().zip(locations).enumerate() {
            if let Some(&later) = keys.get(number.saturating_add(ahead)) {
                self.prefetch(later);
            }
            *location = self.search(key);
        }
    }

    fn prefetch(&self, hashed: Hashed) {
        let word = &self.words[slot(self.shape.first(hashed), 0)];
        #[cfg(target_os = "linux")]
        pmem::isa::prefetch(word.as_ptr().cast());
        #[cfg(not(target_os = "linux"))]
        let _ = word;
    }

    /// Changes the table.
    ///
    /// # Errors
    /// If the location to insert is [`NONE`]; nothing has changed then.
    pub fn change(&self, hashed: Hashed, change: Change) -> Result<Answer, Error> {
        change.check()?;
        Ok(self.changed(hashed, change))
    }

    fn changed(&self, hashed: Hashed, change: Change) -> Answer {
        let (first, signature) = (self.shape.first(hashed), hashed.signature);
        let second = self.shape.other(first, signature);
        match change {
            Change::Delete(location) => {
                let delete =
                    || crate::host::table::delete(self.words, self.shape, first, signature, location);
                let (code, former) = self.guard.with(self.shape, first, second, delete);
                Answer::of(code, former)
            }
            Change::Insert(location) => {
                for _ in 0..ROUNDS {
                    let room = || self.insert_if_room(first, second, signature, location);
                    if let Some(answer) = self.guard.with(self.shape, first, second, room) {
                        return answer;
                    }
                    // Read without locks: each move checks again what it moves.
                    let Some(path) = path(self.words, self.shape, first, second, signature) else { break };
                    let moved = (1..path.length)
                        .rev()
                        .all(|step| self.relocate(path.slots[step - 1], path.slots[step]));
                    // The freed slot was the path's first, and the next round looks for it in the same order.
                    if !moved {
                        yield_now();
                    }
                }
                Answer::of(code::FULL, NONE)
            }
        }
    }

    fn insert_if_room(&self, first: u32, second: u32, signature: u32, location: u32) -> Option<Answer> {
        for bucket in [first, second] {
            if let Some(at) = find(self.words, bucket, signature, 0) {
                let former = load(self.words, slot(bucket, at + SLOTS));
                store(self.words, slot(bucket, at + SLOTS), location);
                return Some(Answer::of(code::REPLACED, former));
            }
        }
        for bucket in [first, second] {
            if let Some(at) = find(self.words, bucket, 0, signature % SLOTS) {
                fill(self.words, bucket, at, signature, location);
                return Some(Answer::of(code::INSERTED, NONE));
            }
        }
        None
    }

    /// Moves an entry to its other bucket, if it is still there and the slot still free.
    fn relocate(&self, (from, from_slot): (u32, u32), (to, to_slot): (u32, u32)) -> bool {
        self.guard.with(self.shape, from, to, || {
            let signature = load(self.words, slot(from, from_slot));
            let right = signature != 0 && self.shape.other(from, signature) == to;
            if !right || load(self.words, slot(to, to_slot)) != 0 {
                return false;
            }
            fill(self.words, to, to_slot, signature, load(self.words, slot(from, from_slot + SLOTS)));
            store(self.words, slot(from, from_slot), 0);
            true
        })
    }
}
