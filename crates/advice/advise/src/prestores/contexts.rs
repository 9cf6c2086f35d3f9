//! Sequentiality contexts: the regions that a program writes from one end to the other.
//!
//! A context is a range of addresses and the place of the last write in it. A write that continues where the
//! last write of *any* of the thread's contexts ended (in the same line or the next) extends that context, so
//! that several streams and temporaries written in turn do not disturb each other. A context never leaves the
//! allocation in which it began.
//!
//! **A streak must advance.** Taken literally, "the same or the neighbouring line" makes a loop that rewrites
//! one line for ever an endless sequence, and a message buffer of one line, too. So a write continues a
//! context only if none of its bytes is before the end of the last one (or, going down, behind its start).
//!
//! **A streak must not stand still.** A thousand buckets that are filled at random are a thousand streams if
//! one has the patience, and a matrix written column by column is one for each row. Their lines lie about
//! half full for so long that whatever sends them away early sends them several times. A write that comes
//! more than [`PATIENCE`] instructions after the one it continues belongs to the same region but is no
//! streak.

use event::SiteId;

use super::allocations::Object;
use super::lines::{ContextId, LINE};
use super::places::{Part, Places};

/// Contexts followed at a time; the one not written for the longest time (nearly) makes room.
const CONTEXTS: usize = 1 << 16;
/// Entries of the table that finds a context by the line of its last write.
const ENDS: usize = 1 << 14;
/// Entries of one of its sets. Were there one, the many regions of a line or two that a hash table writes
/// would soon take the entry of a stream, and break it into regions of accidental sizes.
const WAYS: usize = 4;
/// An entry that is free.
const NO_END: (u64, u32) = (u64::MAX, 0);
/// Instructions between two writes of a streak, at most. A loop that needs longer from one element to the
/// next has no trouble with its stores.
const PATIENCE: u64 = 1_000;
/// Source lines distinguished within one context; writes of a ninth line have no size.
const PARTS: usize = 8;

/// Who writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    pub(super) thread: u32,
    pub(super) function: u32,
}

/// What is written, and when on the thread's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) at: u64,
}

/// One context.
#[derive(Clone, Debug)]
struct Context {
    generation: u32,
    /// Whether it was written since the hand of the clock came by.
    used: bool,
    thread: u32,
    /// Who began it.
    function: u32,
    /// The last write.
    from: u64,
    to: u64,
    /// When it was, on the thread's clock.
    at: u64,
    /// Bytes of the streak that it belongs to.
    run: u64,
    /// All writes.
    low: u64,
    high: u64,
    object: Object,
    parts: [Part; PARTS],
    count: usize,
}

/// All contexts that are followed: 50 MiB at most.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    slots: Vec<Context>,
    hand: usize,
    /// By line and thread: contexts whose last write was there, in each set the latest first.
    ends: Vec<[(u64, u32); WAYS]>,
}

impl Contexts {
    /// The context that a write of `thread` at instruction `now` continues, if any, and whether it does so in
    /// time.
    pub(super) fn continued(
        &mut self,
        thread: u32,
        addr: u64,
        len: u32,
        now: u64,
    ) -> Option<(ContextId, bool)> {
        if self.ends.is_empty() {
            return None;
        }
        let (first, end) = (addr / LINE, addr.saturating_add(u64::from(len)));
        for line in [first, first.wrapping_sub(1), (end - 1) / LINE + 1] {
            let key = end_key(thread, line);
            let set = &self.ends[end_set(key)];
            let Some(&(_, index)) = set.iter().find(|(known, _)| *known == key) else { continue };
            let context = &self.slots[index as usize];
            let up = addr >= context.to && addr / LINE <= (context.to - 1) / LINE + 1;
            let down = end <= context.from && (end - 1) / LINE + 1 >= context.from / LINE;
            let inside = addr >= context.object.start && end <= context.object.end;
            if context.thread == thread && (up || down) && inside {
                let id = ContextId { index, generation: context.generation };
                return Some((id, now.saturating_sub(context.at) <= PATIENCE));
            }
        }
        None
    }

    /// Whether `id` is still followed, was begun by the same function and its range contains `addr`. What
    /// other functions write there are regions of their own: the zeros that somebody filled a matrix with say
    /// nothing about it.
    pub(super) fn contains(&self, id: ContextId, writer: Writer, addr: u64) -> bool {
        self.slots.get(id.index as usize).is_some_and(|context| {
            context.generation == id.generation
                && (context.thread, context.function) == (writer.thread, writer.function)
                && (context.low..context.high).contains(&addr)
        })
    }

    /// Whether `id` is still followed, and wrote on both sides of `addr`, or there.
    pub(super) fn covers(&self, id: ContextId, addr: u64) -> bool {
        self.slots.get(id.index as usize).is_some_and(|context| {
            context.generation == id.generation && (context.low..context.high).contains(&addr)
        })
    }

    /// A new context for a write within `object`.
    pub(super) fn open(
        &mut self,
        writer: Writer,
        addr: u64,
        object: Object,
        places: &mut Places,
    ) -> ContextId {
        let index = if self.slots.len() < CONTEXTS {
            if self.ends.is_empty() {
                self.ends = vec![[NO_END; WAYS]; ENDS / WAYS];
            }
            self.slots.push(Context {
                generation: 0,
                used: false,
                thread: writer.thread,
                function: writer.function,
                from: 0,
                to: 0,
                at: 0,
                run: 0,
                low: 0,
                high: 0,
                object,
                parts: [Part::default(); PARTS],
                count: 0,
            });
            self.slots.len() - 1
        } else {
            let index = self.oldest();
            self.slots[index].close(places);
            index
        };
        let context = &mut self.slots[index];
        context.generation = context.generation.wrapping_add(1);
        (context.thread, context.function) = (writer.thread, writer.function);
        (context.object, context.count) = (object, 0);
        (context.low, context.high, context.from, context.to) = (addr, addr, addr, addr);
        ContextId { index: index as u32, generation: context.generation }
    }

    /// The next context that was not written for a whole turn of the hand.
    fn oldest(&mut self) -> usize {
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            if !std::mem::take(&mut self.slots[self.hand].used) {
                return self.hand;
            }
        }
    }

    /// `place` writes `len` bytes at `addr` in the context, as a continuation (`streak`) or not.
    pub(super) fn write(&mut self, id: ContextId, place: u32, write: Write, streak: bool) {
        let Write { addr, len, at } = write;
        let context = &mut self.slots[id.index as usize];
        let end = addr.saturating_add(u64::from(len));
        let key = end_key(context.thread, context.to.saturating_sub(1) / LINE);
        if let Some(old) = self.ends[end_set(key)].iter_mut().find(|old| **old == (key, id.index)) {
            *old = NO_END;
        }
        context.used = true;
        (context.from, context.to, context.at) = (addr, end, at);
        (context.low, context.high) = (context.low.min(addr), context.high.max(end));
        let before = if streak { context.run } else { 0 };
        context.run = before + u64::from(len);
        // A sequence is longer than a line. Whoever makes it so gets what was written before as well.
        let sequence = match context.run {
            ..=LINE => 0,
            run if before <= LINE => run,
            _ => u64::from(len),
        };
        if let Some(part) = context.part(place) {
            part.bytes += u64::from(len);
            part.streak_bytes += sequence;
        }
        let key = end_key(context.thread, (end - 1) / LINE);
        let set = &mut self.ends[end_set(key)];
        let room = set.iter().position(|(known, _)| [key, NO_END.0].contains(known)).unwrap_or(WAYS - 1);
        set[..=room].rotate_right(1);
        set[0] = (key, id.index);
    }

    /// The account of `place` in a context, if it is still followed.
    pub(super) fn part(&mut self, id: ContextId, place: u32) -> Option<&mut Part> {
        let context = self.slots.get_mut(id.index as usize)?;
        if context.generation == id.generation { context.part(place) } else { None }
    }

    /// Closes all contexts. A streak that was filling an object from its start would have gone on: its size
    /// is the object's.
    pub(super) fn close_all(&mut self, places: &mut Places) {
        for context in &mut self.slots {
            let from_the_start = context.low / LINE == context.object.start / LINE;
            if context.run > LINE && from_the_start && context.object.site != SiteId::UNKNOWN {
                context.high = context.high.max(context.object.end);
            }
            context.close(places);
        }
        *self = Contexts::default();
    }
}

impl Context {
    fn part(&mut self, place: u32) -> Option<&mut Part> {
        let known = self.parts[..self.count].iter().position(|part| part.place == place);
        if known.is_none() && self.count < PARTS {
            self.parts[self.count] = Part { place, ..Part::default() };
            self.count += 1;
        }
        let new = (known.is_none() && self.parts[self.count - 1].place == place).then(|| self.count - 1);
        known.or(new).map(|at| &mut self.parts[at])
    }

    fn close(&mut self, places: &mut Places) {
        let allocated = (self.object.site != SiteId::UNKNOWN).then_some(self.object.site);
        for part in &self.parts[..self.count] {
            places.close(part, self.high - self.low, allocated);
        }
        self.count = 0;
    }
}

fn end_key(thread: u32, line: u64) -> u64 {
    line ^ u64::from(thread) << 58
}

fn end_set(key: u64) -> usize {
    // Arrays often lie a power of two apart.
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % (ENDS / WAYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANYWHERE: Object = Object { start: 0, end: u64::MAX, site: SiteId::UNKNOWN };

    fn writer(thread: u32) -> Writer {
        Writer { thread, function: 0 }
    }

    /// Writes as the watcher does, without its table of lines; returns whether it was a streak.
    fn write(contexts: &mut Contexts, places: &mut Places, thread: u32, addr: u64, len: u32) -> bool {
        let continued = contexts.continued(thread, addr, len, 0);
        let (id, streak) =
            continued.unwrap_or_else(|| (contexts.open(writer(thread), addr, ANYWHERE, places), false));
        contexts.write(id, 1, Write { addr, len, at: 0 }, streak);
        streak
    }

    #[test]
    fn streams_written_in_turn_are_each_a_streak() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        for n in 0..100 {
            for stream in 0..5u64 {
                assert_eq!(write(&mut contexts, &mut places, 0, (stream << 20) + n * 8, 8), n > 0);
            }
        }
        for n in 1..100 {
            assert_eq!(write(&mut contexts, &mut places, 0, (9 << 20) - n * 16, 16), n > 1, "downwards");
        }
        assert_eq!(contexts.slots.len(), 6);
    }

    #[test]
    fn single_lines_at_random_do_not_break_a_stream() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        let mut random = 1u64;
        for n in 0..20_000 {
            assert_eq!(write(&mut contexts, &mut places, 0, n * 64, 64), n > 0, "{n}");
            for _ in 0..4 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                write(&mut contexts, &mut places, 0, (1 << 40) + (random >> 44 << 8), 8);
            }
        }
    }

    #[test]
    fn rewriting_one_line_is_no_streak() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        for _ in 0..10 {
            assert!(!write(&mut contexts, &mut places, 0, 4096, 64));
        }
    }

    #[test]
    fn another_thread_or_a_gap_of_a_line_is_no_continuation() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        assert!(!write(&mut contexts, &mut places, 0, 0, 64));
        assert!(!write(&mut contexts, &mut places, 1, 64, 64));
        assert!(!write(&mut contexts, &mut places, 0, 128, 8));
        assert!(write(&mut contexts, &mut places, 0, 192, 8), "a gap within the next line is none");
    }

    #[test]
    fn what_goes_on_after_a_long_time_is_no_streak() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        let id = contexts.open(writer(0), 0, ANYWHERE, &mut places);
        contexts.write(id, 1, Write { addr: 0, len: 8, at: 100 }, false);
        assert_eq!(contexts.continued(0, 8, 8, 100 + PATIENCE), Some((id, true)));
        assert_eq!(contexts.continued(0, 8, 8, 101 + PATIENCE), Some((id, false)));
    }

    #[test]
    fn a_context_ends_with_its_object() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        let object = Object { start: 0, end: 64, site: SiteId(2) };
        let id = contexts.open(writer(0), 0, object, &mut places);
        contexts.write(id, 1, Write { addr: 0, len: 64, at: 0 }, false);
        assert_eq!(contexts.continued(0, 64, 8, 0), None);
    }

    #[test]
    fn what_is_half_filled_at_the_end_has_the_size_of_its_object() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        for start in [0, 8192] {
            let object = Object { start, end: start + 8192, site: SiteId(2) };
            let id = contexts.open(writer(0), start, object, &mut places);
            for n in 0..(8192 - start) / 8 {
                contexts.write(id, 1, Write { addr: start + n * 8, len: 8, at: 0 }, n > 0);
            }
            let id = contexts.open(writer(0), start + 64, object, &mut places);
            contexts.write(id, 2, Write { addr: start + 64, len: 64, at: 0 }, false);
        }
        contexts.close_all(&mut places);
        assert_eq!(places.get(1).classes.iter().map(|(_, class)| class.size).collect::<Vec<_>>(), [8192]);
        assert_eq!(places.get(2).classes.iter().map(|(_, class)| class.size).collect::<Vec<_>>(), [64]);
    }

    #[test]
    fn the_bound_holds_and_closed_contexts_have_no_account() {
        let (mut contexts, mut places) = (Contexts::default(), Places::default());
        let first = contexts.open(writer(0), 0, ANYWHERE, &mut places);
        contexts.write(first, 1, Write { addr: 0, len: 8, at: 0 }, false);
        for n in 1..=2 * CONTEXTS as u64 {
            write(&mut contexts, &mut places, 0, n << 12, 8);
        }
        assert_eq!(contexts.slots.len(), CONTEXTS);
        assert!(contexts.part(first, 1).is_none());
        assert!(size_of::<Context>() * CONTEXTS + ENDS * 16 <= 50 << 20, "{}", size_of::<Context>());
    }
}
