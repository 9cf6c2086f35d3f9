//! Units and the blocks in them.
//!
//! A unit's word in the table says what it is: free, full of blocks of one class, the first of a run that is
//! one large block, or the first of a run that is a log's ring. It is written when the unit changes, durably,
//! and not logged: until a logged word says that one of its blocks is allocated, a unit is as good as free.
//! Which blocks are free is known in ordinary memory alone and read from the blocks' words at an opening.

use std::collections::BTreeMap;

use space::{Env, Space};

use crate::Error;
use crate::blocks::{FRONT, classes, requested};
use crate::layout::Layout;

const KIND_BITS: u32 = 56;
const CLASS: u64 = 1 << KIND_BITS;
const LARGE: u64 = 2 << KIND_BITS;
const LOG: u64 = 3 << KIND_BITS;

/// What a unit's word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Class(usize),
    Large(u64),
    Log(u64),
}

impl Use {
    fn read(word: u64) -> Option<Use> {
        let value = word & (CLASS - 1);
        match word - value {
            0 if value == 0 => Some(Use::Free),
            CLASS => Some(Use::Class(value as usize)),
            LARGE => Some(Use::Large(value)),
            LOG => Some(Use::Log(value)),
            _ => None,
        }
    }

    fn word(self) -> u64 {
        match self {
            Use::Free => 0,
            Use::Class(class) => CLASS | class as u64,
            Use::Large(units) => LARGE | units,
            Use::Log(units) => LOG | units,
        }
    }
}

/// What is free.
pub struct Heap {
    layout: Layout,
    sizes: Vec<u64>,
    /// Free blocks of each class.
    free: Vec<Vec<u64>>,
    /// Free runs of units: first, number.
    runs: BTreeMap<u64, u64>,
    /// A clock behind all SFRs that freed what is free.
    pub clock: u64,
}

impl Heap {
    /// The heap of a new pool.
    pub fn new(layout: &Layout) -> Heap {
        let sizes = classes(layout.unit);
        let free = vec![Vec::new(); sizes.len()];
        Heap { layout: *layout, sizes, free, runs: BTreeMap::from([(0, layout.units)]), clock: 0 }
    }

    /// The heap of a pool that has been recovered. A run of a log that is not among `rings` is free.
    pub fn open<E: Env>(env: &E, layout: &Layout, rings: &[(u64, u64)], clock: u64) -> Result<Heap, Error> {
        let mut heap = Heap { runs: BTreeMap::new(), clock, ..Heap::new(layout) };
        let space = env.space();
        let (mut unit, mut kept) = (0, 0);
        while unit < layout.units {
            let offset = layout.word(unit);
            let damaged = Error::Damaged { offset, what: "the word of a unit" };
            let is = Use::read(space.load_u64(offset)).ok_or(damaged.clone())?;
            let units = match is {
                Use::Free | Use::Class(_) => 1,
                Use::Large(units) | Use::Log(units) => units,
            };
            if units == 0
                || units > layout.units - unit
                || matches!(is, Use::Class(class) if class >= heap.sizes.len())
            {
                return Err(damaged);
            }
            match is {
                Use::Class(class) => heap.read_blocks(env, unit, class)?,
                Use::Large(_) => {
                    let at = layout.unit_at(unit);
                    if !heap.is_allocated(env, at)? {
                        heap.add_run(unit, units);
                    }
                }
                Use::Log(units) if rings.contains(&(unit, units)) => kept += 1,
                Use::Log(_) | Use::Free => heap.add_run(unit, units),
            }
            unit += units;
        }
        // Each log has a ring of its own.
        if kept != rings.len() {
            return Err(Error::Damaged {
                offset: layout.word(0),
                what: "the table of units, or a log's ring",
            });
        }
        Ok(heap)
    }

    fn read_blocks<E: Env>(&mut self, env: &E, unit: u64, class: usize) -> Result<(), Error> {
        let (at, size) = (self.layout.unit_at(unit), self.sizes[class]);
        let mut free = Vec::new();
        for block in (0..self.layout.unit / size).map(|number| at + number * size) {
            if !self.is_allocated(env, block)? {
                free.push(block);
            }
        }
        if free.len() as u64 == self.layout.unit / size {
            self.add_run(unit, 1);
        } else {
            self.free[class].extend(free);
        }
        Ok(())
    }

    fn is_allocated<E: Env>(&self, env: &E, block: u64) -> Result<bool, Error> {
        match env.space().load_u64(block) {
            0 => Ok(false),
            word if requested(word).is_some() => Ok(true),
            _ => Err(Error::Damaged { offset: block, what: "the word of a block" }),
        }
    }

    /// Joins a run to its neighbours.
    fn add_run(&mut self, mut unit: u64, mut units: u64) {
        if let Some((&before, &count)) = self.runs.range(..unit).next_back()
            && before + count == unit
        {
            self.runs.remove(&before);
            (unit, units) = (before, count + units);
        }
        if let Some(count) = self.runs.remove(&(unit + units)) {
            units += count;
        }
        self.runs.insert(unit, units);
    }

    /// Takes units out of a free run and writes what they are now. The first word comes last: until then what
    /// stood there holds, and all its blocks are free.
    fn take_run<E: Env>(&mut self, env: &E, units: u64, is: Use) -> Result<u64, Error> {
        let fitting =
            self.runs.iter().find(|&(_, &count)| count >= units).map(|(&first, &count)| (first, count));
        let Some((first, count)) = fitting else {
            return Err(Error::Full { bytes: units * self.layout.unit });
        };
        self.runs.remove(&first);
        let (space, words) = (env.space(), self.layout.word(first));
        if count > units {
            self.runs.insert(first + units, count - units);
        }
        // The words behind the first one of a run are always 0, durably.
        let stale = (first + 1..first + units).map(|unit| self.layout.word(unit));
        let mut cleared = false;
        for word in stale.filter(|&word| space.load_u64(word) != 0) {
            space.store_u64(word, 0);
            space.flush(word, 8);
            cleared = true;
        }
        if cleared {
            space.fence();
        }
        if !matches!(is, Use::Log(_)) {
            let step = match is {
                Use::Class(class) => self.sizes[class],
                _ => self.layout.unit * units,
            };
            let at = self.layout.unit_at(first);
            let blocks = (0..self.layout.unit * units / step).map(|number| at + number * step);
            for block in blocks {
                space.store_u64(block, 0);
                space.flush(block, 8);
            }
            space.fence();
        }
        space.store_u64(words, is.word());
        space.persist(words, 8);
        Ok(first)
    }

    /// A run of units for a log's ring.
    pub fn take_ring<E: Env>(&mut self, env: &E, units: u64) -> Result<u64, Error> {
        self.take_run(env, units, Use::Log(units))
    }

    /// Gives a ring's units back, when nothing durable names it any more.
    pub fn give_ring(&mut self, unit: u64, units: u64) {
        self.add_run(unit, units);
    }

    /// A free block for `bytes` of payload: its offset, front included. Its word is 0.
    pub fn take<E: Env>(&mut self, env: &E, bytes: u64) -> Result<u64, Error> {
        let needed = bytes.checked_add(FRONT).ok_or(Error::Full { bytes })?;
        let class = self.sizes.partition_point(|&size| size < needed);
        if class == self.sizes.len() {
            let units = needed.div_ceil(self.layout.unit);
            let first = self.take_run(env, units, Use::Large(units)).map_err(|_| Error::Full { bytes })?;
            return Ok(self.layout.unit_at(first));
        }
        if self.free[class].is_empty() {
            let unit = self.take_run(env, 1, Use::Class(class)).map_err(|_| Error::Full { bytes })?;
            let (at, size) = (self.layout.unit_at(unit), self.sizes[class]);
            let blocks = (0..self.layout.unit / size).map(|number| at + number * size);
            self.free[class].extend(blocks.rev());
        }
        self.free[class].pop().ok_or(Error::Full { bytes })
    }

    /// Makes a block free whose SFR is committed. `block` is what [`Heap::block`] said.
    pub fn give<E: Env>(&mut self, env: &E, block: u64) {
        match self.place(env, block) {
            Some((_, Use::Class(class))) => self.free[class].push(block),
            Some((unit, Use::Large(units))) => self.add_run(unit, units),
            _ => {}
        }
    }

    /// The block whose payload begins at `offset`, and how many bytes it has room for; `None` if there can't
    /// be one.
    pub fn block<E: Env>(&self, env: &E, offset: u64) -> Option<(u64, u64)> {
        let block = offset.checked_sub(FRONT)?;
        match self.place(env, block)? {
            (_, Use::Class(class)) => Some((block, self.sizes[class] - FRONT)),
            (_, Use::Large(units)) => Some((block, units * self.layout.unit - FRONT)),
            _ => None,
        }
    }

    /// The unit of a block that begins at `block`.
    fn place<E: Env>(&self, env: &E, block: u64) -> Option<(u64, Use)> {
        let unit = block.checked_sub(self.layout.units_at)? / self.layout.unit;
        if unit >= self.layout.units {
            return None;
        }
        let within = block - self.layout.unit_at(unit);
        let is = Use::read(env.space().load_u64(self.layout.word(unit)))?;
        let begins = match is {
            Use::Class(class) => {
                let size = *self.sizes.get(class)?;
                within.is_multiple_of(size) && within + size <= self.layout.unit
            }
            Use::Large(_) => within == 0,
            Use::Free | Use::Log(_) => false,
        };
        begins.then_some((unit, is))
    }
}
