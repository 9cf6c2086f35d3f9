//! Blocks of the program's code ([`event::BlockBatch`]) as the machine takes them: an address at a time, without events.
//!
//! What a block does is known from its shape, so of each access only the line is looked up. Executions of an access are
//! counted per shape, less those that left it out, and added up at the end ([`crate::tallies`]). The accesses of many blocks are
//! unfolded into a window ([`event::Unfolder`]), and the accesses of the window are one loop.

use event::{AccessKind, BlockAccess, BlockShape, Select, Selected, Stop, Unfolder};

use crate::LINE_BYTES;
use crate::cache::SITES_MAX;
use crate::core::{Core, Lookup};
use crate::lookahead;
use crate::ranges::Ranges;
use crate::tallies::Tallies;

/// Accesses that are copied at once, wanted or not: most blocks have no more.
const STRIDE: usize = 8;
/// Room of the window: 512 accesses, a block of the longest plain shape, and a stride.
const ROOM: usize = 512 + 64 + STRIDE;
/// Words that were asked for before they are needed: they are in the caches of the core that wrote them.
const AHEAD: usize = 512;

/// What an access of a plain shape does, in one word: bytes but the first, a flag for stores, the site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access(u32);

const STORE: u32 = LINE_BYTES as u32;
const SITE_SHIFT: u32 = 7;
const _: () = assert!(SITES_MAX.leading_zeros() + 1 >= SITE_SHIFT && STORE < 1 << SITE_SHIFT);

impl Access {
    /// None if it is no load or store of a line at most. One whose length each execution states is of one byte here.
    fn new(access: &BlockAccess) -> Option<Self> {
        let store = match access.kind {
            AccessKind::Load => 0,
            AccessKind::Store => STORE,
            AccessKind::StoreNt => return None,
        };
        let bytes = access.len.unwrap_or(1);
        is_line(bytes).then(|| Access((bytes - 1) | store | access.site.0 << SITE_SHIFT))
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

fn is_line(bytes: u32) -> bool {
    (1..=LINE_BYTES as u32).contains(&bytes)
}

impl Select for Tallies {
    type Kind = Access;
    const EMPTY: Access = Access(0);
    const ALL: bool = true;

    fn select(access: &BlockAccess) -> Selected<Access> {
        Access::new(access).map_or(Selected::Refuse, Selected::Keep)
    }

    #[inline(always)]
    fn ahead(words: &[u64], at: usize) {
        lookahead::ask_for(words, at + AHEAD);
    }

    #[inline(always)]
    fn sized(&mut self, shape: usize, access: Access, len: u32, instructions: u32) -> Option<Access> {
        is_line(len).then(|| {
            self.add(shape, len, instructions);
            access.of(len)
        })
    }
}

/// The shapes that are known, and a window of accesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    unfolder: Unfolder<Tallies, STRIDE, ROOM>,
    /// How far the window is carried out, and where it ends.
    next: usize,
    end: usize,
}

/// An access that takes more than a look at the L1.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hard {
    /// An access to two lines, at an address.
    Split(Access, u64),
    /// An access to a line, as the machine calls it, and how that was found.
    Missed(Access, u64, Lookup),
}

impl Blocks {
    /// Shapes known.
    pub(crate) fn known(&self) -> usize {
        self.unfolder.known()
    }

    /// Adds a shape. Its sites are known to the machine.
    pub(crate) fn learn(&mut self, shape: &BlockShape) {
        let plain = self.unfolder.learn(shape);
        self.unfolder.select.learn(if plain { &shape.accesses } else { &[] }, shape.after);
    }

    /// See [`Unfolder::executions`].
    pub(crate) fn executions(&self) -> impl Iterator<Item = (&[Access], usize, u64)> {
        self.unfolder.executions()
    }

    /// What the shapes' executions have in common is not counted here yet.
    pub(crate) fn tallies(&self) -> &Tallies {
        &self.unfolder.select
    }

    /// The same, to be added to.
    pub(crate) fn tallies_mut(&mut self) -> &mut Tallies {
        &mut self.unfolder.select
    }

    /// See [`Unfolder::unfold`].
    pub(crate) fn unfold(&mut self, words: &[u64], at: &mut usize) -> Stop {
        let stop = self.unfolder.unfold(words, at);
        (self.next, self.end) = (0, self.unfolder.unfolded());
        stop
    }

    /// The addresses of the window that are still to come.
    pub(crate) fn ahead(&self) -> &[u64] {
        &self.unfolder.addresses()[self.next..self.end]
    }

    /// Ends the window after so many more accesses. Returns where it ended before, for [`Blocks::go_on`].
    pub(crate) fn cut(&mut self, accesses: usize) -> usize {
        std::mem::replace(&mut self.end, self.next + accesses)
    }

    /// The window ends there again.
    pub(crate) fn go_on(&mut self, end: usize) {
        self.end = end;
    }

    /// Carries out accesses that need only the L1, up to the end of the window or the first access that needs more. Adds the
    /// accesses that were not executed to `skipped`.
    #[inline(never)]
    pub(crate) fn hit_all(
        &mut self,
        core: &mut Core,
        ranges: &mut Ranges,
        skipped: &mut u64,
    ) -> Option<Hard> {
        let Blocks { unfolder, next, end } = self;
        let (window, tallies) = unfolder.parts();
        let addresses = &window.addresses[*next..*end];
        let kinds = &window.kinds[*next..*end];
        for (at, (&addr, &access)) in addresses.iter().zip(kinds).enumerate() {
            let raw = addr / LINE_BYTES;
            let whole = addr % LINE_BYTES + u64::from(access.0 % STORE) < LINE_BYTES;
            if whole && core.hit_again(raw, access.store(), access.site()) {
                continue;
            }
            if addr == 0 {
                let index = *next + at;
                tallies.skip(window.origins[index].wrapping_add(index as u32));
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
