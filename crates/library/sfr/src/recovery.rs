//! Recovery: undoes what was not committed.

use std::ops::Range;

use space::{Env, Space};

use crate::entry::{DATA, Entry, POSITION_MAX};
use crate::layout::{self, HEADER_BYTES, LOGS_MAX, Layout, ROOT, SELECTOR};
use crate::pool::{seed, write_heads};
use crate::queue::Queue;
use crate::ring::Ring;
use crate::{Error, Flaw, Options};

/// What an opening found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Entries that were undone.
    pub undone: u64,
    /// Logs that they came from.
    pub logs: u32,
    /// A place where what survived is not closed under happens-before, if there is one. A correct program has
    /// none; one with a race in the pool may.
    pub overlap: Option<Overlap>,
}

/// Bytes that a region which is not committed stored to, and after it, by the clock, one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The first byte that both stored to.
    pub offset: u64,
    /// The log of the region that was undone.
    pub undone: u32,
    /// The log of the region that is committed.
    pub committed: u32,
}

/// A recovered pool's parts.
pub struct State {
    pub layout: Layout,
    pub queues: Vec<Queue>,
    pub selector: u64,
    pub clock: u64,
    pub recovered: Recovered,
}

/// An entry and its log.
struct Of {
    log: u32,
    entry: Entry,
}

pub fn recover<E: Env>(env: &E, options: &Options) -> Result<State, Error> {
    let space = env.space();
    let mut header = [0; HEADER_BYTES];
    if space.len() < layout::TABLE {
        return Err(Error::TooSmall { there: space.len() });
    }
    space.load(0, &mut header);
    let layout = Layout::read(&header)?;
    if layout.bytes > space.len() {
        return Err(Error::Cut { pool: layout.bytes, there: space.len() });
    }
    let found = Layout::name(&header);
    if !options.layout.is_empty() && found != options.layout {
        return Err(Error::Layout { found, wanted: options.layout.clone() });
    }
    // A killed process leaves heads and words of units in the caches. What is seen of them here must not be
    // lost with the power afterwards, when what was decided by them is durable.
    if options.flaw != Some(Flaw::RecoveredEarly) {
        space.persist(0, layout.units_at);
    }
    let mut selector = space.load_u64(SELECTOR);
    let (mut live, mut committed): (Vec<Of>, Vec<Of>) = (Vec::new(), Vec::new());
    let mut queues = Vec::new();
    let (mut clock, mut logs) = (0, 0);
    for log in 0..LOGS_MAX {
        let words = [space.load_u64(layout::vector(selector, log)), space.load_u64(layout::line(log))];
        let mut head = words[0].max(words[1]).max(1);
        if head > POSITION_MAX {
            return Err(Error::Damaged { offset: layout::line(log), what: "the head of a log" });
        }
        let ring = Ring::read(env, &layout, log)?;
        let before = live.len();
        for entry in ring.iter().flat_map(|ring| ring.scan(env, seed(&layout, log))) {
            clock = clock.max(entry.stamp);
            let counted = entry.position <= POSITION_MAX && entry.stamp <= POSITION_MAX;
            if !counted || !is_data(&layout, &entry) {
                return Err(Error::Damaged { offset: layout::line(log), what: "an entry of a log" });
            }
            let undone = entry.position >= words[0].max(words[1]);
            (if undone { &mut live } else { &mut committed }).push(Of { log, entry });
        }
        // Entries may be missing in between, but positions are used once.
        head = live[before..].iter().map(|of| of.entry.position + 1).fold(head, u64::max);
        logs += u32::from(live.len() > before);
        queues.push(Queue::new(head, 0, ring));
    }
    clock += 1;
    for queue in &mut queues {
        queue.clock = clock;
    }
    let overlap = overlap(&live, &committed);
    if let Some(Overlap { offset, .. }) = overlap.filter(|_| options.strict) {
        return Err(Error::NotClosed { offset });
    }
    let recovered =
        Recovered { undone: live.iter().filter(|of| of.entry.bytes > 0).count() as u64, logs, overlap };
    if !live.is_empty() {
        let heads: Vec<_> = queues.iter().map(|queue| queue.head).collect();
        if options.flaw == Some(Flaw::HeadsBeforeUndo) {
            write_heads(env, &heads, &mut selector, None);
        }
        undo(env, &mut live, options.flaw);
        if options.flaw != Some(Flaw::HeadsBeforeUndo) {
            write_heads(env, &heads, &mut selector, None);
        }
    }
    Ok(State { layout, queues, selector, clock, recovered })
}

/// Whether an entry undoes what is a program's: a part of a block, its word or that of the root.
fn is_data(layout: &Layout, entry: &Entry) -> bool {
    let end = entry.offset + entry.bytes;
    entry.bytes == 0
        || entry.offset >= layout.units_at && end <= layout.bytes
        || entry.offset >= ROOT && end <= ROOT + 8
}

/// Restores what the entries say, the newest first, durably.
fn undo<E: Env>(env: &E, live: &mut [Of], flaw: Option<Flaw>) {
    live.sort_unstable_by_key(|of| match flaw {
        Some(Flaw::UndoneByLog) => (0, of.log, of.entry.position),
        _ => (of.entry.stamp, of.log, of.entry.position),
    });
    if flaw != Some(Flaw::UndoneForward) {
        live.reverse();
    }
    for Of { entry, .. } in live.iter() {
        if entry.bytes == 8 && entry.offset.is_multiple_of(8) {
            env.space().store_u64(entry.offset, entry.data[0]);
        } else {
            env.space().store(entry.offset, &entry.old()[..entry.bytes as usize]);
        }
    }
    for Of { entry, .. } in live.iter() {
        env.space().flush(entry.offset, entry.bytes);
    }
    env.space().fence();
}

/// The invariant of the design: a committed region has not seen one that is not committed. What is left of
/// committed entries shows a part of what would break it: a later store to the same bytes.
fn overlap(live: &[Of], committed: &[Of]) -> Option<Overlap> {
    let bytes = |of: &Of| -> Range<u64> { of.entry.offset..of.entry.offset + of.entry.bytes };
    let mut undone: Vec<&Of> = live.iter().filter(|of| of.entry.bytes > 0).collect();
    undone.sort_unstable_by_key(|of| of.entry.offset);
    committed.iter().filter(|of| of.entry.bytes > 0).find_map(|later| {
        let range = bytes(later);
        let from = undone.partition_point(|of| of.entry.offset + DATA <= range.start);
        let near = undone[from..].iter().take_while(|of| of.entry.offset < range.end);
        let found =
            near.filter(|of| bytes(of).end > range.start).find(|of| of.entry.stamp < later.entry.stamp);
        found.map(|of| Overlap {
            offset: of.entry.offset.max(range.start),
            undone: of.log,
            committed: later.log,
        })
    })
}
