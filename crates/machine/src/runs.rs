//! Runs of the program's code ([`event::RunBatch`]) as the machine takes them: an address at a time, without events.
//!
//! What a run does is known from its shape, so of each access only its line is to be looked up. How often an access was
//! executed is counted per shape, less the executions that left it out, and added up at the end ([`crate::told`]).
//!
//! Runs are short and follow each other in ways that no processor foresees, so loops over the accesses of one run
//! are slow. They are unfolded into blocks first, by copies of one length whatever the length of the run, and
//! then the accesses of a block are one loop. Where the next run begins its head tells, so that nothing waits for the
//! shape.

use event::{AccessKind, EVENT, RunShape};

use crate::LINE_BYTES;
use crate::cache::SITES_MAX;
use crate::core::{Core, Lookup};
use crate::lookahead;
use crate::ranges::Ranges;
use crate::told::Told;

/// Accesses that are carried out together.
const BLOCK: usize = 512;
/// Accesses of a plain shape at most.
const LONGEST: usize = 64;
/// Accesses that are copied at once, wanted or not: most runs have no more.
const STRIDE: usize = 8;
/// Words that were asked for before they are needed: they are in the caches of the core that wrote them.
const AHEAD: usize = 512;
const ROOM: usize = BLOCK + LONGEST + STRIDE;

/// What an access of a plain shape does, in one word: bytes but the first, a flag for stores, the site.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Access(u32);

const STORE: u32 = LINE_BYTES as u32;
const SITE_SHIFT: u32 = 7;
const _: () = assert!(SITES_MAX.leading_zeros() + 1 >= SITE_SHIFT && STORE < 1 << SITE_SHIFT);

impl Access {
    /// None if it is no load or store of a line at most. One that tells its length is of one byte here.
    fn new(access: &event::RunAccess) -> Option<Self> {
        let store = match access.kind {
            AccessKind::Load => 0,
            AccessKind::Store => STORE,
            AccessKind::StoreNt => return None,
        };
        let bytes = access.len.unwrap_or(1);
        let line = (1..=LINE_BYTES as u32).contains(&bytes);
        line.then(|| Access((bytes - 1) | store | access.site.0 << SITE_SHIFT))
    }

    /// The same of so many bytes, a line at most.
    fn of(self, bytes: u32) -> Self {
        Access(self.0 | (bytes - 1))
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

/// A shape, as far as unfolding needs it.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Its first access in [`Runs::accesses`].
    first: u32,
    /// How many accesses it has; 0: it is not plain.
    count: u16,
    /// Words behind the head of its runs. If one more than the accesses, the only access tells its length.
    behind: u16,
    /// How often it was run; if the access tells its length, how often it was executed.
    runs: u64,
}

/// Accesses of some runs.
#[derive(Clone, Debug)]
struct Block {
    /// Of each access, its address; 0: it was not executed.
    addresses: [u64; ROOM],
    /// What it does.
    kinds: [Access; ROOM],
    /// Its place in [`Runs::accesses`], less its place in the block.
    origins: [u32; ROOM],
}

impl Block {
    /// Puts [`STRIDE`] accesses in at `to`, those of the shapes from `from` on, or as many as there are words.
    #[inline(always)]
    fn put(&mut self, to: usize, accesses: &[Access], from: usize, words: &[u64]) {
        let room = &mut self.addresses[to..to + STRIDE];
        if let Some(run) = words.first_chunk::<STRIDE>() {
            room.copy_from_slice(run);
        } else {
            // The last words of a batch.
            room.iter_mut().zip(words).for_each(|(to, from)| *to = *from);
        }
        self.kinds[to..to + STRIDE].copy_from_slice(&accesses[from..from + STRIDE]);
        self.origins[to..to + STRIDE].fill((from as u32).wrapping_sub(to as u32));
    }

    /// The same for the accesses behind the first [`STRIDE`] of a run of so many.
    #[inline(never)]
    fn put_rest(&mut self, to: usize, accesses: &[Access], from: usize, words: &[u64], count: usize) {
        for done in (STRIDE..count).step_by(STRIDE) {
            self.put(to + done, accesses, from + done, &words[done..]);
        }
    }
}

/// The shapes that are known, and a block of accesses.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    shapes: Vec<Shape>,
    /// Of all plain shapes, those of which each access is a load or store of a line at most; and [`STRIDE`] more.
    accesses: Vec<Access>,
    pub(crate) told: Told,
    block: Box<Block>,
    /// How far the block is carried out, and where it ends.
    next: usize,
    end: usize,
}

impl Default for Runs {
    fn default() -> Self {
        Runs {
            shapes: Vec::new(),
            accesses: vec![Access::default(); STRIDE],
            told: Told::default(),
            block: Box::new(Block {
                addresses: [0; ROOM],
                kinds: [Access::default(); ROOM],
                origins: [0; ROOM],
            }),
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
        let (count, words) = (shape.accesses.len(), shape.words() - 1);
        let plain = words == count && count <= LONGEST || count == 1;
        let accesses: Option<Vec<Access>> =
            if plain { shape.accesses.iter().map(Access::new).collect() } else { None };
        let accesses = accesses.unwrap_or_default();
        self.shapes.push(Shape {
            first: first as u32,
            count: accesses.len() as u16,
            behind: u16::try_from(words).unwrap_or(u16::MAX),
            runs: 0,
        });
        self.told.learn(if accesses.is_empty() { &[] } else { &shape.accesses }, shape.after);
        self.accesses.splice(first..first, accesses);
    }

    /// Per shape: its first access in all shapes' order, how many accesses it has (none if it is not plain), and how often
    /// it was run.
    pub(crate) fn begun(&self) -> impl Iterator<Item = (&[Access], usize, u64)> {
        self.shapes.iter().map(|&Shape { first, count, runs, .. }| {
            let first = first as usize;
            (&self.accesses[first..first + usize::from(count)], first, runs)
        })
    }

    /// Makes a block of the accesses of plain runs from `words[*at..]`, and moves `at` behind them.
    ///
    /// # Panics
    /// If the words do not tell runs of known shapes.
    pub(crate) fn unfold(&mut self, words: &[u64], at: &mut usize) -> Stop {
        let Runs { shapes, accesses, told, block, .. } = self;
        let (mut word, mut end) = (*at, 0);
        let stop = loop {
            if end >= BLOCK {
                break Stop::Full;
            }
            let Some(&head) = words.get(word) else { break Stop::End };
            lookahead::ask_for(words, word + AHEAD);
            let number = head as u32 as usize;
            let Some(shape) = shapes.get_mut(number) else {
                assert_eq!(head, EVENT, "a run has a shape");
                break Stop::Event;
            };
            let mut count = RunShape::behind(head);
            if count == 0 {
                count = behind(shape);
            }
            let first = shape.first as usize;
            if count != usize::from(shape.count) {
                if shape.count == 0 {
                    break Stop::Other(number);
                }
                let [addr, length] = [words[word + 1], words[word + 2]];
                let (len, more) = (length as u32, (length >> 32) as u32);
                if addr != 0 {
                    if !(1..=LINE_BYTES as u32).contains(&len) {
                        break Stop::Other(number);
                    }
                    shape.runs += 1;
                    told.add(number, len, more);
                    block.addresses[end] = addr;
                    block.kinds[end] = accesses[first].of(len);
                    end += 1;
                }
                word += 3;
                continue;
            }
            shape.runs += 1;
            let run = &words[word + 1..];
            block.put(end, accesses, first, run);
            if count > STRIDE {
                block.put_rest(end, accesses, first, run, count);
            }
            end += count;
            word += 1 + count;
        };
        assert!(word <= words.len(), "a run has all its words");
        (self.next, self.end) = (0, end);
        *at = word;
        stop
    }

    /// The addresses of the block that are still to come.
    pub(crate) fn ahead(&self) -> &[u64] {
        &self.block.addresses[self.next..self.end]
    }

    /// Ends the block behind so many more accesses. Returns where it ended before, for [`Runs::go_on`].
    pub(crate) fn cut(&mut self, accesses: usize) -> usize {
        std::mem::replace(&mut self.end, self.next + accesses)
    }

    /// The block ends there again.
    pub(crate) fn go_on(&mut self, end: usize) {
        self.end = end;
    }

    /// Carries out what only needs the L1, to the end of the block or the first access that needs more. Adds the accesses
    /// that were not executed to `skipped`.
    #[inline(never)]
    pub(crate) fn hit_all(
        &mut self,
        core: &mut Core,
        ranges: &mut Ranges,
        skipped: &mut u64,
    ) -> Option<Hard> {
        let Runs { block, told, next, end, .. } = self;
        let addresses = &block.addresses[*next..*end];
        let kinds = &block.kinds[*next..*end];
        for (at, (&addr, &access)) in addresses.iter().zip(kinds).enumerate() {
            let raw = addr / LINE_BYTES;
            let whole = addr % LINE_BYTES + u64::from(access.0 % STORE) < LINE_BYTES;
            if whole && core.hit_again(raw, access.store(), access.site()) {
                continue;
            }
            if addr == 0 {
                let place = *next + at;
                told.skip(block.origins[place].wrapping_add(place as u32));
                *skipped += 1;
                continue;
            }
            if let Some(hard) = hit_first(core, ranges, addr, access, whole) {
                *next += at + 1;
                return Some(hard);
            }
        }
        *next = *end;
        None
    }
}

/// An access that is not to the line that was used last in its set. Not in line, so that the loop around it keeps its
/// registers.
#[inline(never)]
fn hit_first(core: &mut Core, ranges: &mut Ranges, addr: u64, access: Access, whole: bool) -> Option<Hard> {
    if !whole {
        return Some(Hard::Split(access, addr));
    }
    let raw = addr / LINE_BYTES;
    let line = ranges.place(raw);
    match core.hit_first(raw, line, access.store(), access.site()) {
        Lookup::Hit => None,
        found => Some(Hard::Missed(access, line, found)),
    }
}

/// For a head that does not tell. Not in line, so that the usual case does not wait for the shape.
#[cold]
#[inline(never)]
fn behind(shape: &Shape) -> usize {
    usize::from(shape.behind)
}
