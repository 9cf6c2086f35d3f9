//! Records that are not blocks: one call of a hook each, expanded to the events they stand for.
//!
//! Instructions: such a record counts as [`RECORD_INSTRUCTIONS`] of its own plus one per 32 bytes that it
//! touches, which is what the library's vectorised loops need; it stands for a call whose code is not
//! observed.

use event::{Event, FenceKind, FlushKind, Op, Order, SiteId};

use super::files::path_bytes;
use abi::{BYTES_PER_INSTRUCTION, LINE, LONGEST, access, atomic, flush, kind, kind_of};

/// Instructions that a record counts as, besides those for the bytes it touches.
pub const RECORD_INSTRUCTIONS: u32 = 1;

/// The header of a record that is not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// One of [`kind`].
    pub kind: u8,
    /// The kind's argument.
    pub argument: u8,
    /// Code address: a return address; 0 if unknown.
    pub pc: u64,
}

impl Header {
    /// Takes a header word apart.
    #[must_use]
    pub fn new(word: u64) -> Self {
        Header { kind: kind_of(word), argument: (word >> 48) as u8, pc: word & 0xffff_ffff_ffff }
    }
}

/// Words of the record that starts with these (four are enough), with its header. `None` if there is no such
/// kind: then nothing that follows can be read.
#[must_use]
pub fn length(words: &[u64]) -> Option<usize> {
    let word = |offset: usize| words.get(offset).copied();
    let payload = match Header::new(word(0)?).kind {
        kind::FENCE | kind::STRAND | kind::RETURN => 0,
        kind::LEAVE
        | kind::THREAD_START
        | kind::THREAD_END
        | kind::FREE
        | kind::REGION_BEGIN
        | kind::REGION_END => 1,
        kind::ENTER
        | kind::ACCESS
        | kind::ODD_ACCESS
        | kind::FLUSH
        | kind::LOCK
        | kind::UNLOCK
        | kind::SPAWN => 2,
        kind::JOIN | kind::ALLOC | kind::UNMAP => 2,
        kind::ATOMIC => 4,
        kind::MAP => 3 + bytes_to_words(word(3)?)?,
        kind::VALUE | kind::PHASE => 1 + bytes_to_words(word(1)?)?,
        kind::MAP_OFFSET | kind::MAP_SYNC | kind::CALL => 2,
        kind::FILE => {
            let [first, second] = path_bytes(word(1)?);
            5 + bytes_to_words(first + second)?
        }
        _ => return None,
    };
    Some(1 + payload)
}

/// The operation of a record that is most common among those that are one event each, with the record's
/// words. `payload` is what follows its header.
#[inline]
pub fn common(header: Header, payload: [u64; 2]) -> Option<(Op, usize)> {
    let [first, second] = payload;
    Some(match header.kind {
        kind::LOCK => (Op::Lock { lock: first, shared: header.argument == 1, seq: second }, 3),
        kind::UNLOCK => (Op::Unlock { lock: first, seq: second }, 3),
        kind::ALLOC => (Op::Alloc { addr: first, len: second }, 3),
        kind::FREE => (Op::Free { addr: first }, 2),
        _ => return None,
    })
}

fn bytes_to_words(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|&bytes| bytes < 1 << 20).map(|bytes| bytes.div_ceil(8))
}

/// The first `count` bytes of consecutive words.
pub fn bytes(words: &[u64], count: usize) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).take(count)
}

/// Events that a record stands for and that are still to be delivered.
#[derive(Clone, Debug, Default)]
pub struct Expansion {
    events: [Option<Op>; 5],
    next: usize,
    /// An access has the position of the synchronisation behind it.
    in_turn: bool,
    range: Option<Range>,
    site: Option<SiteId>,
    /// For the first event.
    instructions: u32,
}

/// One operation repeated over a range, in steps.
#[derive(Clone, Copy, Debug)]
struct Range {
    addr: u64,
    /// Bytes left.
    left: u64,
    what: Stretch,
}

#[derive(Clone, Copy, Debug)]
enum Stretch {
    Load,
    Store,
    StoreNt,
    Flush(FlushKind),
    Demote,
    Prefetch,
}

impl Expansion {
    /// The event that is delivered next.
    #[must_use]
    pub fn peek(&self) -> Option<Event> {
        let op = match self.events.get(self.next).copied().flatten() {
            Some(op) => op,
            None => self.range?.first(),
        };
        Some(Event { op, site: self.site.unwrap_or(SiteId::UNKNOWN), instructions: self.instructions })
    }

    /// The position for which the next event has to wait.
    #[must_use]
    pub fn turn(&self) -> Option<u64> {
        let seq = |at: usize| self.events.get(at).copied().flatten().and_then(|op| op.seq());
        seq(self.next).or_else(|| if self.in_turn { seq(self.next + 1) } else { None })
    }

    /// The event, if it is the only one.
    #[must_use]
    pub fn single(&self) -> Option<Event> {
        let several = self.events.get(self.next + 1).is_some_and(Option::is_some);
        let ranges = self.range.is_some();
        self.peek().filter(|_| !several && !ranges)
    }

    /// Goes on to the event after it.
    pub fn advance(&mut self) {
        self.instructions = 0;
        if self.events.get(self.next).copied().flatten().is_some() {
            self.next += 1;
        } else {
            self.range = self.range.and_then(Range::rest);
        }
    }

    /// One event.
    #[must_use]
    pub fn one(op: Op, site: SiteId, instructions: u32) -> Self {
        let events = [Some(op), None, None, None, None];
        Expansion { events, site: Some(site), instructions, ..Expansion::default() }
    }

    /// Several events, as many as there are, in order.
    #[must_use]
    pub fn several(ops: [Option<Op>; 5], site: SiteId, instructions: u32) -> Self {
        let mut events = [None; 5];
        events.iter_mut().zip(ops.into_iter().flatten()).for_each(|(to, op)| *to = Some(op));
        Expansion { events, site: Some(site), instructions, ..Expansion::default() }
    }

    /// An access of any length, as [`kind::ODD_ACCESS`] reports it. None if the argument means nothing.
    #[must_use]
    pub fn access(argument: u8, addr: u64, len: u64, site: SiteId, carry: u32) -> Option<Self> {
        let what = match argument {
            access::LOAD => Stretch::Load,
            access::STORE => Stretch::Store,
            access::STORE_NT => Stretch::StoreNt,
            _ => return None,
        };
        Some(Self::stretch(what, addr, len, site, carry))
    }

    /// A flush of every line that the range touches, as [`kind::FLUSH`] reports it.
    #[must_use]
    pub fn flush(argument: u8, addr: u64, len: u64, site: SiteId, carry: u32) -> Option<Self> {
        let what = match argument {
            flush::CLWB => Stretch::Flush(FlushKind::Clwb),
            flush::CLFLUSHOPT => Stretch::Flush(FlushKind::Clflushopt),
            flush::CLFLUSH => Stretch::Flush(FlushKind::Clflush),
            flush::CLDEMOTE => Stretch::Demote,
            flush::PREFETCH => Stretch::Prefetch,
            _ => return None,
        };
        let first = addr & !(LINE - 1);
        let end = addr.saturating_add(len);
        let lines = if len == 0 { 0 } else { (end - first).div_ceil(LINE) };
        let mut expansion = Self::stretch(what, first, lines.saturating_mul(LINE), site, carry);
        expansion.instructions = carry + RECORD_INSTRUCTIONS;
        Some(expansion)
    }

    fn stretch(what: Stretch, addr: u64, len: u64, site: SiteId, carry: u32) -> Self {
        let touching = u32::try_from(len / BYTES_PER_INSTRUCTION).unwrap_or(u32::MAX);
        let instructions = carry.saturating_add(RECORD_INSTRUCTIONS).saturating_add(touching);
        let range = (len > 0).then_some(Range { addr, left: len, what });
        Expansion { range, site: Some(site), instructions, ..Expansion::default() }
    }

    /// An atomic access, as [`kind::ATOMIC`] reports it and [`Op`] documents it. A sequentially consistent
    /// store is an `xchg` on x86-64, hence followed by its implied fence. There, a relaxed access that has a
    /// position orders as much as any other.
    #[must_use]
    pub fn atomic(argument: u8, payload: [u64; 4], site: SiteId, carry: u32) -> Option<Self> {
        let [addr, len, released, acquired] = payload;
        let len = u32::try_from(len).ok()?;
        let (access, in_turn) = (argument & 7, argument & atomic::IN_ORDER != 0);
        let order = match (argument >> 4, access) {
            (0, atomic::STORE) | (3, _) => Order::Release,
            (0..=4, atomic::READ_MODIFY_WRITE) if in_turn => Order::AcqRel,
            (0..=2, _) => Order::Acquire,
            (4, _) => Order::AcqRel,
            (5, _) => Order::SeqCst,
            _ => return None,
        };
        let release = (released != 0).then_some(Op::Release { var: addr, order, seq: released });
        let acquire = (acquired != 0).then_some(Op::Acquire { var: addr, order, seq: acquired });
        let (load, store) = (Op::Load { addr, len }, Op::Store { addr, len });
        let locked = Op::Fence(FenceKind::Locked);
        let exchanged = (order == Order::SeqCst).then_some(locked);
        let ops = match access {
            atomic::LOAD => [Some(load), acquire, None, None, None],
            atomic::STORE if in_turn => [Some(store), release, exchanged, None, None],
            atomic::STORE => [release, Some(store), exchanged, None, None],
            atomic::READ_MODIFY_WRITE => [Some(load), release, Some(store), acquire, Some(locked)],
            atomic::MEETING => [release, acquire, None, None, None],
            _ => return None,
        };
        Some(Expansion { in_turn, ..Self::several(ops, site, carry + RECORD_INSTRUCTIONS) })
    }
}

impl Range {
    /// Bytes that one event can tell.
    fn step(self) -> u64 {
        match self.what {
            Stretch::Flush(_) | Stretch::Demote | Stretch::Prefetch => LINE,
            _ => self.left.min(LONGEST),
        }
    }

    fn first(self) -> Op {
        let (addr, len) = (self.addr, self.step() as u32);
        match self.what {
            Stretch::Load => Op::Load { addr, len },
            Stretch::Store => Op::Store { addr, len },
            Stretch::StoreNt => Op::StoreNt { addr, len },
            Stretch::Flush(kind) => Op::Flush { addr, kind },
            Stretch::Demote => Op::Demote { addr },
            Stretch::Prefetch => Op::Prefetch { addr },
        }
    }

    fn rest(self) -> Option<Range> {
        let step = self.step();
        let left = self.left.saturating_sub(step);
        (left > 0).then_some(Range { addr: self.addr.wrapping_add(step), left, what: self.what })
    }
}

/// The operation at another position of the global order.
#[must_use]
pub fn at_position(op: Op, seq: u64) -> Op {
    match op {
        Op::Acquire { var, order, .. } => Op::Acquire { var, order, seq },
        Op::Release { var, order, .. } => Op::Release { var, order, seq },
        Op::Lock { lock, shared, .. } => Op::Lock { lock, shared, seq },
        Op::Unlock { lock, .. } => Op::Unlock { lock, seq },
        Op::Spawn { child, .. } => Op::Spawn { child, seq },
        Op::ThreadStart { .. } => Op::ThreadStart { seq },
        Op::ThreadEnd { .. } => Op::ThreadEnd { seq },
        Op::Join { thread, .. } => Op::Join { thread, seq },
        other => other,
    }
}
