//! Runs of the program's code ([`event::RunBatch`]) as the machine takes them: an address at a time, without events.
//!
//! What a run does is known from its shape, so of each access only its line is to be looked up. How often a site loaded
//! and stored is counted per shape and added up at the end.
//!
//! Runs are short and follow each other in ways that no processor foresees, so loops over the accesses of one run
//! are slow. They are unfolded into blocks first, by copies of one length whatever the length of the run, and
//! then the accesses of a block are one loop.

use event::{AccessKind, EVENT, RunShape};

use crate::LINE_BYTES;
use crate::cache::SITES_MAX;
use crate::core::{Core, Lookup};
use crate::ranges::Ranges;

/// Accesses that are carried out together.
const BLOCK: usize = 512;
/// Accesses of a plain shape at most.
const LONGEST: usize = 64;
/// Accesses that are copied at once, wanted or not: most runs have no more.
const STRIDE: usize = 8;
const ROOM: usize = BLOCK + LONGEST + STRIDE;

/// What an access of a plain shape does, in one word: bytes but the first, a flag for stores, the site.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access(u32);

const STORE: u32 = LINE_BYTES as u32;
const SITE_SHIFT: u32 = 7;
const _: () = assert!(SITES_MAX.leading_zeros() + 1 >= SITE_SHIFT && STORE < 1 << SITE_SHIFT);

impl Access {
    /// None if it is no load or store of a line at most.
    fn new(access: &event::RunAccess) -> Option<Self> {
        let store = match access.kind {
            AccessKind::Load => 0,
            AccessKind::Store => STORE,
            AccessKind::StoreNt => return None,
        };
        let bytes = access.len.filter(|&bytes| (1..=LINE_BYTES as u32).contains(&bytes))?;
        Some(Access((bytes - 1) | store | access.site.0 << SITE_SHIFT))
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> u32 {
        self.0 % STORE + 1
    }

    #[inline(always)]
    pub(crate) fn store(self) -> bool {
        self.0 & STORE != 0
    }

    #[inline(always)]
    pub(crate) fn site(self) -> u32 {
        self.0 >> SITE_SHIFT
    }
}

/// A shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Its first access in [`Runs::accesses`].
    first: u32,
    /// How many accesses it has; 0: it is not plain.
    count: u32,
    /// How often it was run.
    runs: u64,
}

/// The shapes that are known, and a block of accesses.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    shapes: Vec<Shape>,
    /// Of all plain shapes, those of which each access is a load or store of a line at most; and [`STRIDE`] more.
    accesses: Vec<Access>,
    /// Of each access of the block, its address; 0: it was not executed.
    addresses: Box<[u64; ROOM]>,
    /// Of each access of the block, what it does.
    kinds: Box<[Access; ROOM]>,
    /// How far the block is carried out, and where it ends.
    next: usize,
    end: usize,
}

impl Default for Runs {
    fn default() -> Self {
        Runs {
            shapes: Vec::new(),
            accesses: vec![Access::default(); STRIDE],
            addresses: Box::new([0; ROOM]),
            kinds: Box::new([Access::default(); ROOM]),
            next: 0,
            end: 0,
        }
    }
}

/// Why [`Runs::unfold`] came back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The block is full.
    Full,
    /// The batch is done.
    End,
    /// An event between runs.
    Event,
    /// A run of this shape, which is not plain.
    Other(usize),
}

/// What is not done with a look at the L1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hard {
    /// An access to two lines, at an address.
    Split(Access, u64),
    /// An access to a line, as the machine calls it, and how that was found.
    Missed(Access, u64, Lookup),
}

impl Runs {
    /// Shapes known.
    pub(crate) fn known(&self) -> usize {
        self.shapes.len()
    }

    /// Takes in a shape. Its sites are known to the machine.
    pub(crate) fn learn(&mut self, shape: &RunShape) {
        let first = self.accesses.len() - STRIDE;
        let plain: Option<Vec<Access>> = shape.accesses.iter().map(Access::new).collect();
        let plain = plain.filter(|accesses| accesses.len() <= LONGEST).unwrap_or_default();
        self.shapes.push(Shape { first: first as u32, count: plain.len() as u32, runs: 0 });
        self.accesses.splice(first..first, plain);
    }

    /// The accesses of all plain shapes, with how often their runs began.
    pub(crate) fn begun(&self) -> impl Iterator<Item = (Access, u64)> {
        self.shapes.iter().flat_map(|&Shape { first, count, runs }| {
            let accesses = &self.accesses[first as usize..][..count as usize];
            accesses.iter().map(move |&access| (access, runs))
        })
    }

    /// Makes a block of the accesses of plain runs from `words[*at..]`, and moves `at` behind them.
    ///
    /// # Panics
    /// If the words do not tell runs of known shapes.
    pub(crate) fn unfold(&mut self, words: &[u64], at: &mut usize) -> Stop {
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
            let shape = &mut self.shapes[number];
            let (first, count) = (shape.first as usize, shape.count as usize);
            if count == 0 {
                break Stop::Other(number);
            }
            shape.runs += 1;
            let run = &words[word + 1..];
            if let Some(run) = run.first_chunk::<STRIDE>().filter(|_| count <= STRIDE) {
                self.addresses[end..end + STRIDE].copy_from_slice(run);
                self.kinds[end..end + STRIDE].copy_from_slice(&self.accesses[first..first + STRIDE]);
            } else {
                self.addresses[end..end + count].copy_from_slice(&run[..count]);
                self.kinds[end..end + count].copy_from_slice(&self.accesses[first..first + count]);
            }
            end += count;
            word += 1 + count;
        };
        (self.next, self.end) = (0, end);
        *at = word;
        stop
    }

    /// The addresses of the block that are still to come.
    pub(crate) fn ahead(&self) -> &[u64] {
        &self.addresses[self.next..self.end]
    }

    /// Carries out what only needs the L1, to the end of the block or the first access that needs more. `skipped` is
    /// told of those that were not executed.
    #[inline]
    pub(crate) fn hit_all(
        &mut self,
        core: &mut Core,
        ranges: &mut Ranges,
        mut skipped: impl FnMut(Access),
    ) -> Option<Hard> {
        let addresses = &self.addresses[self.next..self.end];
        let kinds = &self.kinds[self.next..self.end];
        for (at, (&addr, &access)) in addresses.iter().zip(kinds).enumerate() {
            let raw = addr / LINE_BYTES;
            let whole = addr % LINE_BYTES + u64::from(access.0 % STORE) < LINE_BYTES;
            if whole && core.hit_again(raw, access.store(), access.site()) {
                continue;
            }
            if addr == 0 {
                skipped(access);
                continue;
            }
            let hard = if whole {
                let line = ranges.place(raw);
                match core.hit_first(raw, line, access.store(), access.site()) {
                    Lookup::Hit => continue,
                    found => Hard::Missed(access, line, found),
                }
            } else {
                Hard::Split(access, addr)
            };
            self.next += at + 1;
            return Some(hard);
        }
        self.next = self.end;
        None
    }
}
