//! The stores of runs ([`event::RunBatch`]), without events.
//!
//! Which accesses of a run are stores is known from its shape, and the linter looks at nothing else. Runs are short and
//! no processor foresees which comes next, so their stores are gathered into a block first, by steps that are the
//! same for nearly every run, and then looked at in one loop.

use event::{AccessKind, EVENT, RunAccess, RunShape, SiteId};

/// Stores that are looked at together.
const BLOCK: usize = 256;
/// Stores of a plain shape at most.
const LONGEST: usize = 64;
/// Stores that are copied at once, wanted or not: most runs have no more.
const STRIDE: usize = 2;
const ROOM: usize = BLOCK + LONGEST + STRIDE;

/// A store of a plain shape.
#[derive(Clone, Copy, Debug)]
struct RunStore {
    /// Where its address is, in words from the head of the run.
    word: u32,
    len: u32,
    site: SiteId,
}

impl RunStore {
    const NONE: RunStore = RunStore { word: 0, len: 0, site: SiteId::UNKNOWN };
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Its first store in [`Runs::stores`].
    first: u32,
    stores: u32,
    /// Words of a run; 0: the shape is not plain.
    words: u32,
}

/// The shapes that are known, and a block of stores.
#[derive(Debug)]
pub(super) struct Runs {
    shapes: Vec<Shape>,
    /// Of all plain shapes, those of which each access is an ordinary one of known length; and [`STRIDE`] more.
    stores: Vec<RunStore>,
    /// Of each store of the block, its address; 0: it was not executed.
    addresses: Box<[u64; ROOM]>,
    /// Of each, its bytes and code.
    kinds: Box<[(u32, SiteId); ROOM]>,
    end: usize,
}

impl Default for Runs {
    fn default() -> Self {
        Runs {
            shapes: Vec::new(),
            stores: vec![RunStore::NONE; STRIDE],
            addresses: Box::new([0; ROOM]),
            kinds: Box::new([(0, SiteId::UNKNOWN); ROOM]),
            end: 0,
        }
    }
}

/// Why [`Runs::gather`] came back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// The block is full.
    Full,
    /// The batch is done.
    End,
    /// An event between runs.
    Event,
    /// A run of this shape, which is not plain.
    Other(usize),
}

impl Runs {
    /// Takes in the shapes that are new.
    pub(super) fn learn(&mut self, shapes: &[impl AsRef<RunShape>]) {
        for shape in shapes.get(self.shapes.len()..).unwrap_or_default() {
            let shape = shape.as_ref();
            let first = self.stores.len() - STRIDE;
            let stores: Vec<RunStore> = (1..)
                .zip(&shape.accesses)
                .filter(|(_, access)| access.kind == AccessKind::Store)
                .map(|(word, access)| RunStore { word, len: access.len.unwrap_or(0), site: access.site })
                .collect();
            let plain = |access: &RunAccess| access.kind != AccessKind::StoreNt && access.len.is_some();
            let words = if shape.accesses.iter().all(plain) && stores.len() <= LONGEST {
                1 + shape.accesses.len() as u32
            } else {
                0
            };
            self.shapes.push(Shape { first: first as u32, stores: stores.len() as u32, words });
            self.stores.splice(first..first, stores);
        }
    }

    /// Makes a block of the stores of plain runs from `words[*at..]`, and moves `at` behind these.
    ///
    /// # Panics
    /// If the words do not tell runs of known shapes.
    pub(super) fn gather(&mut self, words: &[u64], at: &mut usize) -> Stop {
        let (mut word, mut end) = (*at, 0);
        let stop = loop {
            if end >= BLOCK {
                break Stop::Full;
            }
            let Some(&head) = words.get(word) else { break Stop::End };
            if head == EVENT {
                break Stop::Event;
            }
            let number = head as u32 as usize;
            let Shape { first, stores, words: count } = self.shapes[number];
            if count == 0 {
                break Stop::Other(number);
            }
            let run = &words[word..word + count as usize];
            let (first, stores) = (first as usize, stores as usize);
            for (place, store) in self.stores[first..first + STRIDE].iter().enumerate() {
                // What is not wanted may be of another shape, and lie behind the run.
                self.addresses[end + place] = run[(store.word as usize).min(run.len() - 1)];
                self.kinds[end + place] = (store.len, store.site);
            }
            if stores > STRIDE {
                for (place, store) in self.stores[first..first + stores].iter().enumerate().skip(STRIDE) {
                    self.addresses[end + place] = run[store.word as usize];
                    self.kinds[end + place] = (store.len, store.site);
                }
            }
            end += stores;
            word += count as usize;
        };
        self.end = end;
        *at = word;
        stop
    }

    /// The block's stores that were executed: address, bytes and code. Number `at` of them all.
    #[inline(always)]
    pub(super) fn store(&self, at: usize) -> (u64, u32, SiteId) {
        let (len, site) = self.kinds[at];
        (self.addresses[at], len, site)
    }

    /// Number of stores in the block.
    pub(super) fn stores(&self) -> usize {
        self.end
    }

    /// Bytes held.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.shapes.capacity() * size_of::<Shape>()
            + self.stores.capacity() * size_of::<RunStore>()
            + ROOM * (size_of::<u64>() + size_of::<(u32, SiteId)>())
    }
}
