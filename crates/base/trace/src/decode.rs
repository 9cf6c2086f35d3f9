//! The columns of a block back into events, a piece at a time.

use std::sync::Arc;

use event::{BlockShape, EVENT, Event, HEAD, Op, SiteId};

use super::bytes::{Bytes, unzigzag};
use super::columns::{Columns, PADDING, Unpacker};
use super::error::Malformed;
use super::format::{BLOCK_EVENTS, BlockHeader, COLUMN_MAX};
use super::ops::{self, SeqReader};
use super::predict::{
    CONTROL_MAX, CORRECTED, CORRECTION_SHIFT, Entry, INSTRUCTIONS_SHIFT, JUMPS, LEN_BITS, LEN_SHIFT, Memory,
    SHAPE_CODE, SHAPE_WIDE, WHAT_BYTES, column, next_context,
};
use super::words::{BLOCK_WORDS, WordReader};

/// No event takes more bytes than this in any column but the values.
const EVENT_COLUMN_MAX: usize = 20;

/// No word takes more bytes than this in a column.
const WORD_COLUMN_MAX: usize = 9;

/// Which bits of eight bytes read are a correction of that many bytes.
const CORRECTION_MASK: [u64; 16] = {
    let mut masks = [u64::MAX; 16];
    let mut bytes = 0;
    while bytes < 8 {
        masks[bytes] = (1 << (8 * bytes)) - 1;
        bytes += 1;
    }
    masks
};

/// A block that is being read. Its memory is reused for the thread's next block.
#[derive(Default)]
pub(super) struct Decoder {
    columns: Columns,
    /// Where reading goes on, per column, in `columns.data`.
    at: [usize; column::COUNT],
    last_seq: u64,
    next_seq: Option<u64>,
    events: usize,
    done: usize,
    /// Made when it is first needed: of many threads, few may be read at a time.
    memory: Option<Memory>,
    context: u64,
    before: u64,
    shapes: Arc<Vec<BlockShape>>,
    words: WordReader,
    /// The word that is read next.
    word: usize,
    /// Instructions since the last event, by the words.
    carry: u32,
    /// The word before which the thread had executed so many.
    next_carry: Option<(usize, u32)>,
    /// Event and time of the latest mark that was reached, and of the next one.
    mark: (usize, u64),
    next_mark: Option<(usize, u64)>,
}

impl Decoder {
    /// Starts a block.
    pub(super) fn open(
        &mut self,
        header: &BlockHeader,
        payload: &[u8],
        unpacker: &mut Unpacker,
        shapes: &Arc<Vec<BlockShape>>,
    ) -> Result<(), Malformed> {
        self.events = header.count as usize;
        self.done = 0;
        if usize::from(header.columns) != column::COUNT || self.events > BLOCK_EVENTS {
            return Err(Malformed("an events block of an unknown shape"));
        }
        let longest = |number| match number {
            column::VALUES => COLUMN_MAX,
            column::CHANGES.. => BLOCK_WORDS * WORD_COLUMN_MAX,
            _ => self.events * EVENT_COLUMN_MAX,
        };
        self.columns.unpack(unpacker, payload, header.columns, longest)?;
        for number in 0..column::COUNT {
            self.at[number] = self.columns.range(number).start;
        }
        self.open_words(shapes)?;
        if self.words.words().is_empty() && self.columns.get(column::CONTROL).len() != self.events {
            return Err(Malformed("a block has another number of events than it says"));
        }
        self.last_seq = 0;
        self.memory.get_or_insert_with(Memory::new).forget();
        self.context = 0;
        self.before = 0;
        self.mark = (0, 0);
        self.next_mark = None;
        self.peek_mark((0, 0))?;
        self.peek_seq()
    }

    /// Reads the words of the block's code blocks, if it has any.
    fn open_words(&mut self, shapes: &Arc<Vec<BlockShape>>) -> Result<(), Malformed> {
        (self.word, self.carry, self.next_carry) = (0, 0, None);
        let mut carries = self.bytes(column::CARRIES);
        let count = if carries.is_empty() { 0 } else { carries.varint()? };
        let count = usize::try_from(count).map_err(|_| Malformed("more words than a block can have"))?;
        self.at[column::CARRIES] = carries.position();
        let mut words = std::mem::take(&mut self.words);
        let (changes, codes) = (self.columns.get(column::CHANGES), self.columns.get(column::CODES));
        let (mut differences, mut names) = (self.bytes(column::DIFFERENCES), self.bytes(column::NAMES));
        let read = words.open(count, changes, codes, &mut differences, &mut names, shapes);
        let (differences, names) = (differences.position(), names.position());
        let (changes, codes) = (changes.len(), codes.len());
        self.words = words;
        read?;
        (self.at[column::DIFFERENCES], self.at[column::NAMES]) = (differences, names);
        self.at[column::CHANGES] += changes;
        self.at[column::CODES] += codes;
        self.shapes = Arc::clone(shapes);
        self.peek_carry(0)
    }

    fn peek_carry(&mut self, word: usize) -> Result<(), Malformed> {
        let mut bytes = self.bytes(column::CARRIES);
        let next = if bytes.is_empty() {
            None
        } else {
            let words = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
            Some((word.saturating_add(words), bytes.varint32()?))
        };
        self.at[column::CARRIES] = bytes.position();
        self.next_carry = next;
        Ok(())
    }

    /// Behind the last event there may be code blocks of which nothing was executed, with carries before
    /// them.
    fn pass_carries(&mut self) -> Result<(), Malformed> {
        while let Some((word, _)) = self.next_carry {
            if word >= self.words.words().len() {
                return Err(Malformed("a carry behind a block's words"));
            }
            self.peek_carry(word)?;
        }
        Ok(())
    }

    /// Events that were not given yet.
    pub(super) fn left(&self) -> usize {
        self.events - self.done
    }

    /// The next position in the global order among the events that were not given yet.
    pub(super) fn next_seq(&self) -> Option<u64> {
        self.next_seq
    }

    /// When the next event happened.
    pub(super) fn time_ns(&self) -> u64 {
        match self.next_mark {
            Some((event, time)) if event <= self.done => time,
            _ => self.mark.1,
        }
    }

    /// When the batch that was given last happened.
    pub(super) fn batch_time_ns(&self) -> u64 {
        self.mark.1
    }

    fn bytes(&self, number: usize) -> Bytes<'_> {
        Bytes::at(&self.columns.data[..self.columns.ends[number]], self.at[number])
    }

    fn peek_seq(&mut self) -> Result<(), Malformed> {
        let bytes = self.bytes(column::SEQS);
        self.next_seq =
            if bytes.is_empty() { None } else { Some(SeqReader { bytes, last: self.last_seq }.next()?) };
        Ok(())
    }

    fn peek_mark(&mut self, mark: (usize, u64)) -> Result<(), Malformed> {
        let mut bytes = self.bytes(column::TIMES);
        let next = if bytes.is_empty() {
            None
        } else {
            let events = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
            let time = mark.1.wrapping_add(unzigzag(bytes.varint()?));
            Some((mark.0.saturating_add(events), time))
        };
        self.at[column::TIMES] = bytes.position();
        self.next_mark = next;
        Ok(())
    }

    /// Gives the next events, up to the end of their batch, at most `most`; appends them to `out`.
    /// A batch ends with a fence or synchronisation, where the time is known anew, or with the block.
    pub(super) fn batch(&mut self, most: usize, out: &mut Vec<Event>) -> Result<(), Malformed> {
        while let Some(mark) = self.next_mark
            && mark.0 <= self.done
        {
            self.mark = mark;
            self.peek_mark(mark)?;
        }
        let until = self.next_mark.map_or(self.events, |(event, _)| event.min(self.events));
        let count = (until - self.done).min(most);
        let before = out.len();
        if self.words.words().is_empty() {
            self.plain(count, out)?;
        } else {
            self.mixed(count, out)?;
        }
        let done = out.len() - before;
        if done > self.left() {
            return Err(Malformed("a block has more events than it says"));
        }
        self.done += done;
        if self.at.iter().zip(&self.columns.ends).any(|(at, end)| at > end) {
            return Err(Malformed("a column is shorter than its block needs"));
        }
        if self.left() == 0 {
            self.pass_carries()?;
            self.check_end()?;
        }
        self.peek_seq()
    }

    /// Decodes about `count` events or up to the end of a batch: a code block is not taken apart.
    fn mixed(&mut self, count: usize, out: &mut Vec<Event>) -> Result<(), Malformed> {
        let full = out.len() + count;
        while out.len() < full {
            while let Some((word, carry)) = self.next_carry
                && word <= self.word
            {
                // Before a plain event it does not count.
                if word == self.word {
                    self.carry = carry;
                }
                self.peek_carry(word)?;
            }
            let words = &self.words.words()[self.word..];
            let Some(&head) = words.first() else {
                return Err(Malformed("a block has fewer events than it says"));
            };
            if head == EVENT {
                let events = words.iter().take(full - out.len()).take_while(|word| **word == EVENT).count();
                let before = out.len();
                let batch_ends = self.plain(events, out)?;
                self.word += out.len() - before;
                self.carry = 0;
                if batch_ends {
                    return Ok(());
                }
                continue;
            }
            // What was read names shapes that are there.
            let shape = &self.shapes[head as u32 as usize];
            let len = shape.words();
            let Some(block) = words.get(1..len).filter(|_| head & HEAD != 0) else {
                return Err(Malformed("a code block that is cut off"));
            };
            shape.accesses(block, &mut self.carry, |access, addr, len, instructions| {
                out.push(Event { op: access.op(addr, len), site: access.site, instructions });
            });
            self.word += len;
        }
        Ok(())
    }

    /// All columns must end with the block; the values are looked at where they are taken.
    fn check_end(&self) -> Result<(), Malformed> {
        let rest = (0..column::COUNT)
            .any(|number| number != column::VALUES && self.at[number] != self.columns.ends[number]);
        if rest || self.next_mark.is_some() {
            return Err(Malformed("a column is longer than its block needs"));
        }
        Ok(())
    }

    /// Decodes up to `count` events that belong to no code block, or up to the end of a batch; whether that
    /// was reached.
    fn plain(&mut self, count: usize, out: &mut Vec<Event>) -> Result<bool, Malformed> {
        let Decoder { columns, at, memory, last_seq, .. } = self;
        let Some(mut memory) = memory.as_mut().map(Memory::borrow) else { return Ok(false) };
        let data = columns.data.as_slice();
        let start = at[column::CONTROL];
        if count > columns.ends[column::CONTROL] - start {
            return Err(Malformed("a block has fewer events than it says"));
        }
        let (mut whats, mut addresses) = (at[column::WHATS], at[column::ADDRESSES]);
        // Both may be read past their column, but no further than the padding.
        let furthest = data.len() - PADDING;
        let (mut before, mut context) = (self.before, self.context);
        let (mut done, mut ended) = (0, false);
        for &control in &data[start..start + count] {
            if control > CONTROL_MAX {
                return Err(Malformed("an unknown control byte"));
            }
            done += 1;
            let entry = memory.entry(context);
            let corrected = control & CORRECTED != 0;
            let what = if corrected { eight(data, whats) } else { entry.what };
            whats = (whats + usize::from(corrected) * WHAT_BYTES).min(furthest);
            let guess = if control & JUMPS != 0 { before.wrapping_add(entry.jump) } else { entry.last };
            let bytes = usize::from(control >> CORRECTION_SHIFT);
            let addr = guess.wrapping_add(unzigzag(eight(data, addresses) & CORRECTION_MASK[bytes % 16]));
            addresses = (addresses + bytes).min(furthest);
            *entry = Entry { what, last: addr, jump: addr.wrapping_sub(before), block: entry.block };
            context = next_context(context, what);

            let shape = (what >> 32) as u32;
            let code = (shape & SHAPE_CODE) as u8;
            let (mut len, mut instructions) =
                (shape >> LEN_SHIFT & ((1 << LEN_BITS) - 1), shape >> INSTRUCTIONS_SHIFT);
            if shape & SHAPE_WIDE != 0 {
                let mut wide = Bytes::at(&data[..columns.ends[column::WIDE]], at[column::WIDE]);
                (len, instructions) = (wide.varint32()?, wide.varint32()?);
                at[column::WIDE] = wide.position();
            }
            let op = match code {
                ops::LOAD => Op::Load { addr, len },
                ops::STORE => Op::Store { addr, len },
                ops::STORE_NT => Op::StoreNt { addr, len },
                _ => rare(code, addr, len, data, &columns.ends, at, last_seq)?,
            };
            out.push(Event { op, site: SiteId(what as u32), instructions });
            before = addr;
            if ops::ends_batch(code) {
                ended = true;
                break;
            }
        }
        at[column::CONTROL] += done;
        (at[column::WHATS], at[column::ADDRESSES]) = (whats, addresses);
        (self.before, self.context) = (before, context);
        Ok(ended)
    }

    /// The bytes of the stores among `events`, which are the events that were given last.
    pub(super) fn values(&mut self, events: &[Event]) -> Result<&[u8], Malformed> {
        let len = stored_bytes(events);
        let start = self.at[column::VALUES];
        let end = self.columns.ends[column::VALUES];
        let len = usize::try_from(len).ok().filter(|len| *len <= end - start);
        let len = len.ok_or(Malformed("stored values are missing"))?;
        self.at[column::VALUES] = start + len;
        if self.left() == 0 && start + len != end {
            return Err(Malformed("more stored values than stores"));
        }
        Ok(&self.columns.data[start..start + len])
    }
}

/// Bytes that these events store or write.
pub(super) fn stored_bytes(events: &[Event]) -> u64 {
    events.iter().filter_map(|event| event.op.value_len()).map(u64::from).sum()
}

/// The eight bytes from `at`, which is before the padding, as a number.
#[inline(always)]
fn eight(data: &[u8], at: usize) -> u64 {
    data[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// An operation other than a load or store.
#[inline(never)]
fn rare(
    code: u8,
    addr: u64,
    len: u32,
    data: &[u8],
    ends: &[usize],
    at: &mut [usize; column::COUNT],
    last_seq: &mut u64,
) -> Result<Op, Malformed> {
    let mut extras = Bytes::at(&data[..ends[column::EXTRAS]], at[column::EXTRAS]);
    let bytes = Bytes::at(&data[..ends[column::SEQS]], at[column::SEQS]);
    let mut seqs = SeqReader { bytes, last: *last_seq };
    let op = ops::join(code, addr, len, &mut extras, &mut seqs)?;
    at[column::EXTRAS] = extras.position();
    at[column::SEQS] = seqs.bytes.position();
    *last_seq = seqs.last;
    Ok(op)
}
