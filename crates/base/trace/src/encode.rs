//! Events of one thread into the columns of one block.

use std::sync::Arc;

use event::{BlockShape, Event, Op, RawWords};

use super::bytes::{put_varint, zigzag};
use super::format::BLOCK_EVENTS;
use super::ops::{self, SeqWriter};
use super::predict::{
    CORRECTED, CORRECTION_SHIFT, Entry, INSTRUCTIONS_BITS, INSTRUCTIONS_SHIFT, JUMPS, LEN_BITS, LEN_SHIFT,
    Memory, SHAPE_WIDE, WHAT_BYTES, column, next_context, what,
};
use super::words::{BLOCK_WORDS, Differences, Until, WordWriter};

/// Collects a block. Everything it learns is forgotten at the block's end, so that blocks decode
/// independently of each other.
///
/// The columns that every event may add to are as large as they can get, and eight bytes are written to them
/// whether they are needed or not; pages that are not touched cost nothing.
pub(super) struct Encoder {
    control: Box<[u8]>,
    whats: Numbers,
    wide: Vec<u8>,
    addresses: Numbers,
    extras: Vec<u8>,
    seqs: SeqWriter,
    times: Vec<u8>,
    values: Vec<u8>,

    events: usize,
    /// Those of them that have a control byte.
    plain: usize,
    /// The code blocks, and where the other events stand between them; empty if there is none.
    words: WordWriter,
    /// Number of words, and their column of carries.
    carries: Vec<u8>,
    /// Instructions since the last event, by the words.
    carry: u32,
    /// State of the prediction.
    memory: Memory,
    context: u64,
    before: u64,
    /// Event and time of the last entry in `times`.
    marked: (usize, u64),
}

impl Encoder {
    pub(super) fn new() -> Self {
        Encoder {
            control: vec![0; BLOCK_EVENTS].into(),
            whats: Numbers::new(),
            wide: Vec::new(),
            addresses: Numbers::new(),
            extras: Vec::new(),
            seqs: SeqWriter::default(),
            times: Vec::new(),
            values: Vec::new(),
            events: 0,
            plain: 0,
            words: WordWriter::default(),
            carries: Vec::new(),
            carry: 0,
            memory: Memory::new(),
            context: 0,
            before: 0,
            marked: (0, 0),
        }
    }

    /// Events in the block.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.events
    }

    /// Events that still fit.
    #[inline]
    pub(super) fn room(&self) -> usize {
        let events = BLOCK_EVENTS - self.events;
        if self.words.len() == 0 { events } else { events.min(BLOCK_WORDS - self.words.len()) }
    }

    /// First and last position in the global order; zeros if there is none.
    pub(super) fn seqs(&self) -> (u64, u64) {
        (self.seqs.first, self.seqs.last)
    }

    /// Stored bytes in the block.
    #[inline]
    pub(super) fn values_len(&self) -> usize {
        self.values.len()
    }

    /// Event number `event` of the block happened at `time_ns`.
    pub(super) fn mark_time(&mut self, event: usize, time_ns: u64) {
        put_varint(&mut self.times, (event - self.marked.0) as u64);
        put_varint(&mut self.times, zigzag(time_ns.wrapping_sub(self.marked.1)));
        self.marked = (event, time_ns);
    }

    /// The bytes of the stores among the events pushed last.
    pub(super) fn push_values(&mut self, values: &[u8]) {
        self.values.extend_from_slice(values);
    }

    /// Adds events, at most [`Encoder::room`].
    pub(super) fn push(&mut self, events: &[Event]) {
        if self.words.len() > 0 {
            self.words.push_events(events.len());
            self.carry = 0;
        }
        self.push_plain(events);
        self.events += events.len();
    }

    /// Adds raw blocks, from word `from` on, as far as there is room: words and events that were taken, and
    /// why no more were. `carry` are the thread's instructions since its last event, before and after.
    pub(super) fn push_raw(
        &mut self,
        words: &dyn RawWords,
        from: usize,
        carry: &mut u32,
        shapes: &[Arc<BlockShape>],
        mut shape_of: impl FnMut(u64) -> Option<u32>,
    ) -> (usize, usize, Until) {
        self.words.know(shapes);
        if self.words.len() == 0 {
            self.words.push_events(self.events);
            self.carry = 0;
        }
        let start = self.words.len();
        let pushed = self.words.push(words, from, BLOCK_EVENTS - self.events, shapes, &mut shape_of);
        if self.words.len() > start {
            if *carry != self.carry {
                self.words.carry(start, *carry);
            }
            *carry = self.words.carry_after(start, *carry, shapes, shape_of);
            self.carry = *carry;
        }
        self.events += pushed.events;
        (pushed.words, pushed.events, pushed.end)
    }

    /// Adds events to the columns of those that belong to no code block.
    ///
    /// No branch depends on a prediction: what holds is written too, and the column's end does not move.
    fn push_plain(&mut self, events: &[Event]) {
        assert!(events.len() <= BLOCK_EVENTS - self.plain);
        // In variables of their own, so that they stay in registers.
        let mut memory = self.memory.borrow();
        let (mut whats, mut addresses) = (self.whats.end(), self.addresses.end());
        let (mut before, mut context) = (self.before, self.context);
        for (event, control) in events.iter().zip(&mut self.control[self.plain..]) {
            let (shape, addr) = match event.op {
                Op::Load { addr, len } | Op::Store { addr, len } | Op::StoreNt { addr, len }
                    if fits(len, event.instructions) =>
                {
                    (shape(ops::access_code(&event.op), len, event.instructions), addr)
                }
                _ => rare(event, before, &mut self.wide, &mut self.extras, &mut self.seqs),
            };
            let what = what(event.site.0, shape);

            let entry = memory.entry(context);
            let corrected = u8::from(entry.what != what);
            let from_last = zigzag(addr.wrapping_sub(entry.last));
            let jump = addr.wrapping_sub(before);
            let from_jump = zigzag(jump.wrapping_sub(entry.jump));
            let jumps = u8::from(from_jump < from_last);
            let correction = from_jump.min(from_last);
            let bytes = (71 - correction.leading_zeros()) / 8;
            *entry = Entry { what, last: addr, jump, block: entry.block };

            whats.put(what, usize::from(corrected) * WHAT_BYTES);
            addresses.put(correction, bytes as usize);
            *control = (corrected * CORRECTED) | (jumps * JUMPS) | (bytes as u8) << CORRECTION_SHIFT;

            before = addr;
            context = next_context(context, what);
        }
        (self.whats.len, self.addresses.len) = (whats.len, addresses.len);
        (self.before, self.context) = (before, context);
        self.plain += events.len();
    }

    /// The differences of which [`super::words::DifferenceWriter`] makes two columns. Their memory may be
    /// exchanged.
    pub(super) fn differences(&mut self) -> &mut Differences {
        self.words.differences()
    }

    /// The block's other columns, in the order of [`column`]; those two are empty.
    pub(super) fn columns(&mut self) -> [&[u8]; column::COUNT] {
        let mut columns: [&[u8]; column::COUNT] = [&[]; column::COUNT];
        columns[column::CONTROL] = &self.control[..self.plain];
        columns[column::WHATS] = self.whats.get();
        columns[column::WIDE] = &self.wide;
        columns[column::ADDRESSES] = self.addresses.get();
        columns[column::EXTRAS] = &self.extras;
        columns[column::SEQS] = &self.seqs.column;
        columns[column::TIMES] = &self.times;
        columns[column::VALUES] = &self.values;
        if self.words.len() > 0 {
            put_varint(&mut self.carries, self.words.len() as u64);
            let [changes, names, carries] = self.words.columns();
            self.carries.extend_from_slice(carries);
            columns[column::CHANGES] = changes;
            columns[column::NAMES] = names;
            columns[column::CARRIES] = &self.carries;
        }
        columns
    }

    /// Starts the next block.
    pub(super) fn clear(&mut self) {
        self.whats.len = 0;
        self.wide.clear();
        self.addresses.len = 0;
        self.extras.clear();
        self.seqs.clear();
        self.times.clear();
        self.values.clear();
        (self.events, self.plain) = (0, 0);
        self.words.clear();
        self.carries.clear();
        self.carry = 0;
        self.memory.forget();
        self.context = 0;
        self.before = 0;
        self.marked = (0, 0);
    }
}

/// A column to which an event adds eight bytes or fewer.
struct Numbers {
    /// Room for the most that a block can take, and eight bytes.
    bytes: Box<[u8; NUMBERS + 8]>,
    len: usize,
}

/// Not less than `BLOCK_EVENTS * 8`.
const NUMBERS: usize = 1 << 19;
const _: () = assert!(NUMBERS >= BLOCK_EVENTS * 8);

impl Numbers {
    fn new() -> Self {
        let bytes = vec![0; NUMBERS + 8].into_boxed_slice();
        Numbers { bytes: bytes.try_into().unwrap_or_else(|_| unreachable!("it has this length")), len: 0 }
    }

    fn end(&mut self) -> End<'_> {
        End { bytes: &mut self.bytes, len: self.len }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Where a column grows.
struct End<'a> {
    bytes: &'a mut [u8; NUMBERS + 8],
    len: usize,
}

impl End<'_> {
    /// Adds the lower `bytes` bytes of `number`: writes all eight, as that is cheaper than to ask how many.
    #[inline(always)]
    fn put(&mut self, number: u64, bytes: usize) {
        // The remainder changes nothing but that the compiler sees that eight bytes fit.
        let at = self.len % NUMBERS;
        self.bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        self.len += bytes;
    }
}

/// Whether length and instructions have room in a shape.
#[inline(always)]
fn fits(len: u32, instructions: u32) -> bool {
    len >> LEN_BITS | instructions >> INSTRUCTIONS_BITS == 0
}

/// The shape of an operation whose length and instructions fit.
#[inline(always)]
fn shape(code: u8, len: u32, instructions: u32) -> u32 {
    u32::from(code) | len << LEN_SHIFT | instructions << INSTRUCTIONS_SHIFT
}

/// Writes what an event may have besides site, shape and address; returns shape and address.
#[inline(never)]
fn rare(
    event: &Event,
    before: u64,
    wide: &mut Vec<u8>,
    extras: &mut Vec<u8>,
    seqs: &mut SeqWriter,
) -> (u32, u64) {
    let (code, addr, len) = ops::split(&event.op, before, extras, seqs);
    if fits(len, event.instructions) {
        return (shape(code, len, event.instructions), addr);
    }
    put_varint(wide, u64::from(len));
    put_varint(wide, u64::from(event.instructions));
    (u32::from(code) | SHAPE_WIDE, addr)
}
