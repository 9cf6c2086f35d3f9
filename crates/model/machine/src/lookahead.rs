//! Reading ahead, so that the computer's memory answers for many modelled misses at once.
//!
//! A modelled LLC does not fit into the near caches of the computer that models it, and one modelled miss
//! reads several far addresses, each when the one before is known: the set of the line, the set of the line that
//! leaves the L2 for it, and the slot there that makes room. So before misses are modelled, passes over
//! the events to come read these addresses for all of them, one kind per pass: the reads of one pass do not wait
//! for each other. Nothing is changed but the computer's caches, and where a pass guesses wrongly, because an
//! earlier event moves what it saw, only time is lost.

use event::{Event, Op};

use crate::LINE_BYTES;
use crate::cache::Shared;
use crate::core::Core;
use crate::ranges::Ranges;

/// Events that are looked at, at most.
const EVENTS: usize = 64;
/// Misses that are looked for, at most; what they read fits into the computer's nearest cache.
const MISSES: usize = 16;
/// Lines of a long access that are looked at together.
pub(crate) const SPAN: u64 = MISSES as u64;
/// Fewer than this are not worth looking for,
const WORTHWHILE: usize = 4;
/// so that many events are then left alone,
const PAUSE: usize = 512;
/// and twice as many each time, up to these.
const PAUSE_MAX: usize = 16 * PAUSE;

/// How many accesses of runs are left alone when the next misses are too few.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause(usize);

impl Default for Pause {
    fn default() -> Self {
        Pause(PAUSE)
    }
}

impl Pause {
    /// After how many accesses to look again, if there were so many and that was `worthwhile` or not.
    fn after(&mut self, covered: usize, worthwhile: bool) -> usize {
        let Pause(pause) = *self;
        self.0 = if worthwhile { PAUSE } else { PAUSE_MAX.min(2 * pause) };
        if worthwhile { covered } else { pause }
    }
}

/// Reads what the misses at the beginning of `events`, which `core` runs next, are going to need. Returns after
/// how many events to do so again.
#[inline(never)]
pub(crate) fn read(core: &Core, llc: &Shared, ranges: &mut Ranges, events: &[Event]) -> usize {
    let mut misses = Misses::default();
    let mut covered = 0;
    for event in events.iter().take(EVENTS) {
        covered += 1;
        let (Op::Load { addr, .. } | Op::Store { addr, .. }) = event.op else { continue };
        misses.consider(core, ranges.place(addr / LINE_BYTES));
        if misses.count == MISSES {
            break;
        }
    }
    if misses.read(core, llc) { covered } else { PAUSE }
}

/// As [`read`], for a miss on `line` and then accesses of which only the addresses are known; 0 stands for none.
#[inline(never)]
pub(crate) fn read_addresses(
    core: &Core,
    llc: &Shared,
    ranges: &mut Ranges,
    line: u64,
    addresses: &[u64],
    pause: &mut Pause,
) -> usize {
    let mut misses = Misses::default();
    misses.consider(core, line);
    let mut covered = 0;
    for &addr in addresses.iter().take(EVENTS) {
        covered += 1;
        if addr == 0 {
            continue;
        }
        misses.consider(core, ranges.place(addr / LINE_BYTES));
        if misses.count == MISSES {
            break;
        }
    }
    pause.after(covered, misses.read(core, llc))
}

/// As [`read`], for an access of `core` to many lines, of which `line` is the next: reads what it and the
/// [`SPAN`] - 1 after it are going to need.
#[inline(never)]
pub(crate) fn read_span(core: &Core, llc: &Shared, ranges: &mut Ranges, line: u64) {
    let mut misses = Misses::default();
    for next in line..line.saturating_add(SPAN) {
        misses.consider(core, ranges.place(next));
    }
    misses.read(core, llc);
}

/// Reads what a miss of `core` on `line`, which is not in its L2, is going to need: two sets of the LLC, then a slot in each, so that
/// the computer waits twice and not four times. For a miss that stands alone, as [`read`] leaves these.
#[inline]
pub(crate) fn read_miss(core: &Core, llc: &Shared, line: u64) {
    let l2 = &core.l2;
    let leaving = l2.guess_victim(l2.set(line), &mut l2.foresight());
    let (searched, entered) = (llc.set(line), llc.set(l2.slots[leaving].tag));
    let seen = llc.peek_set(searched) ^ llc.peek_set(entered);
    let found = llc.guess(searched, line).unwrap_or(0);
    let victim = llc.guess_victim(entered, &mut llc.foresight());
    std::hint::black_box(seen ^ llc.slots[found].tag ^ llc.slots[victim].tag);
}

/// Asks for the line of the computer's memory with word `at`, if there is such a word. Nobody waits for it.
#[inline(always)]
pub(crate) fn ask_for(words: &[u64], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(word) = words.get(at) {
        safe_arch::prefetch_t0(word);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, at);
}

/// The lines that are going to miss.
#[derive(Default)]
struct Misses {
    lines: [u64; MISSES],
    count: usize,
}

impl Misses {
    /// Adds `line` if a glance does not find it in the core. There is room for one.
    #[inline(always)]
    fn consider(&mut self, core: &Core, line: u64) {
        if core.hints_at(line) || self.lines[..self.count].contains(&line) {
            return;
        }
        if let Some(slot) = core.l2.guess(core.l2.set(line), line) {
            std::hint::black_box(core.l2.slots[slot].tag);
            return;
        }
        self.lines[self.count] = line;
        self.count += 1;
    }

    /// Reads what they need, if they are many enough.
    fn read(&self, core: &Core, llc: &Shared) -> bool {
        let worthwhile = self.count >= WORTHWHILE;
        if worthwhile {
            read_needed(core, llc, &self.lines[..self.count]);
        }
        worthwhile
    }
}

/// Reads what `core` and the LLC are going to need for `lines`.
fn read_needed(core: &Core, llc: &Shared, lines: &[u64]) {
    // What leaves the L2: its set in the LLC.
    let mut entered = [0; MISSES];
    let mut chance = core.l2.foresight();
    for (set, &line) in entered.iter_mut().zip(lines) {
        let leaving = core.l2.guess_victim(core.l2.set(line), &mut chance);
        *set = llc.set(core.l2.slots[leaving].tag);
    }
    let mut searched = [0; MISSES];
    for (set, &line) in searched.iter_mut().zip(lines) {
        *set = llc.set(line);
    }
    let (entered, searched) = (&entered[..lines.len()], &searched[..lines.len()]);
    let sets = searched.iter().chain(entered);
    let mut seen = sets.fold(0, |seen, &set| seen ^ llc.peek_set(set));
    // The first slot of all stands for none, so that no decision waits for memory.
    let mut slots = [0; 2 * MISSES];
    let mut chance = llc.foresight();
    for (at, (&line, (&searched, &entered))) in lines.iter().zip(searched.iter().zip(entered)).enumerate() {
        slots[2 * at] = llc.guess(searched, line).unwrap_or(0);
        slots[2 * at + 1] = llc.guess_victim(entered, &mut chance);
    }
    seen = slots[..2 * lines.len()].iter().fold(seen, |seen, &slot| seen ^ llc.slots[slot].tag);
    // What was read is of no interest, but must be read.
    std::hint::black_box(seen);
}
