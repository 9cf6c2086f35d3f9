//! The columns of a block back into events, a piece at a time.

use crate::{Event, Op, SiteId};

use super::bytes::{Bytes, unzigzag};
use super::columns::{Columns, PADDING, Unpacker};
use super::error::Malformed;
use super::format::{BLOCK_EVENTS, BlockHeader, COLUMN_MAX};
use super::ops::{self, SeqReader};
use super::predict::{
    CLASS_BYTES, CLASS_MASK, CLASS_SCALE, CLASS_SHIFT, Edge, GUESS_SHIFT, SHAPE, SHAPE_CODE,
    SHAPE_INSTRUCTIONS, SHAPE_LEN, SiteState, WAY_BYTE, WAY_MASK, column,
};

/// No event takes more bytes than this in any column but the values.
const EVENT_COLUMN_MAX: usize = 20;

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
    states: Vec<SiteState>,
    current: usize,
    before: u64,
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
    ) -> Result<(), Malformed> {
        self.events = header.count as usize;
        self.done = 0;
        if usize::from(header.columns) != column::COUNT || self.events > BLOCK_EVENTS {
            return Err(Malformed("an events block of an unknown shape"));
        }
        let longest = |number| match number {
            column::VALUES => COLUMN_MAX,
            _ => self.events * EVENT_COLUMN_MAX,
        };
        self.columns.unpack(unpacker, payload, header.columns, longest)?;
        if self.columns.get(column::CONTROL).len() != self.events {
            return Err(Malformed("a block has another number of events than it says"));
        }
        for number in 0..column::COUNT {
            self.at[number] = self.columns.range(number).start;
        }
        self.last_seq = 0;
        self.states.clear();
        self.states.push(SiteState::new(SiteId::UNKNOWN.0, 0));
        self.current = 0;
        self.before = 0;
        self.mark = (0, 0);
        self.next_mark = None;
        self.peek_mark((0, 0))?;
        self.peek_seq()
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
        let done = self.run(count, out)?;
        self.done += done;
        if self.at.iter().zip(&self.columns.ends).any(|(at, end)| at > end) {
            return Err(Malformed("a column is shorter than its block needs"));
        }
        if self.left() == 0 {
            self.check_end()?;
        }
        self.peek_seq()
    }

    /// All columns must end with the block; the values are looked at where they are taken.
    fn check_end(&self) -> Result<(), Malformed> {
        let rest = (0..column::VALUES).any(|number| self.at[number] != self.columns.ends[number]);
        if rest || self.next_mark.is_some() {
            return Err(Malformed("a column is longer than its block needs"));
        }
        Ok(())
    }

    /// Decodes up to `count` events or the end of a batch.
    fn run(&mut self, count: usize, out: &mut Vec<Event>) -> Result<usize, Malformed> {
        let data = self.columns.data.as_slice();
        let start = self.at[column::CONTROL];
        let mut addresses = self.at[column::ADDRESSES];
        // Corrections may be read past their column, but no further than the padding.
        let addresses_max = data.len() - PADDING;
        let mut before = self.before;
        let mut current = self.current;
        let mut done = 0;
        for &control in &data[start..start + count] {
            done += 1;
            let from = current;
            let way = control & WAY_MASK;
            let mut instructions = 0;
            if way < WAY_BYTE {
                let edge = self.states[from].edges[usize::from(way)];
                current = usize::from(edge.local);
                instructions = edge.instructions;
            } else {
                current = told_site(&mut self.states, data, &self.columns.ends, &mut self.at, way)?;
            }
            let state = &mut self.states[current];
            let class = usize::from(control >> CLASS_SHIFT & 7);
            let coded = u64::from_le_bytes(
                data[addresses..addresses + 8].try_into().map_err(|_| Malformed("an address"))?,
            );
            addresses = (addresses + usize::from(CLASS_BYTES[class])).min(addresses_max);
            let correction = unzigzag(coded & CLASS_MASK[class]) << CLASS_SCALE[class];
            let addr =
                state.guesses(before)[usize::from(control >> GUESS_SHIFT & 3)].wrapping_add(correction);
            state.learn(before, addr);
            before = addr;

            if control & SHAPE != 0 {
                let mut bytes =
                    Bytes::at(&data[..self.columns.ends[column::SHAPES]], self.at[column::SHAPES]);
                told_shape(&mut bytes, state, &mut instructions)?;
                self.at[column::SHAPES] = bytes.position();
                if way < WAY_BYTE {
                    self.states[from].edges[usize::from(way)].instructions = instructions;
                }
            }
            let SiteState { site, len, code, .. } = self.states[current];
            if way >= WAY_BYTE {
                self.states[from].learn_edge(Edge { site, instructions, local: current as u16 });
            }
            let op = match code {
                ops::LOAD => Op::Load { addr, len },
                ops::STORE => Op::Store { addr, len },
                ops::STORE_NT => Op::StoreNt { addr, len },
                _ => rare(code, addr, data, &self.columns.ends, &mut self.at, &mut self.last_seq)?,
            };
            out.push(Event { op, site: SiteId(site), instructions });
            if ops::ends_batch(code) {
                break;
            }
        }
        self.at[column::CONTROL] += done;
        self.at[column::ADDRESSES] = addresses;
        self.before = before;
        self.current = current;
        Ok(done)
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

/// Bytes that these events store.
pub(super) fn stored_bytes(events: &[Event]) -> u64 {
    events.iter().filter_map(|event| event.op.stored()).map(|(_, len)| u64::from(len)).sum()
}

/// A site that is told by its number in the block.
#[inline(never)]
fn told_site(
    states: &mut Vec<SiteState>,
    data: &[u8],
    ends: &[usize],
    at: &mut [usize; column::COUNT],
    way: u8,
) -> Result<usize, Malformed> {
    let mut locals = Bytes::at(&data[..ends[column::LOCALS]], at[column::LOCALS]);
    let local = if way == WAY_BYTE { u16::from(locals.u8()?) } else { locals.u16()? };
    at[column::LOCALS] = locals.position();
    if usize::from(local) == states.len() {
        let mut sites = Bytes::at(&data[..ends[column::SITES]], at[column::SITES]);
        let before = states.last().map_or(0, |state| state.site);
        let site = u64::from(before).wrapping_add(unzigzag(sites.varint()?));
        at[column::SITES] = sites.position();
        let site = u32::try_from(site).map_err(|_| Malformed("a site above 32 bits"))?;
        states.push(SiteState::new(site, local));
    }
    if usize::from(local) < states.len() {
        Ok(usize::from(local))
    } else {
        Err(Malformed("a site that the block did not introduce"))
    }
}

/// An operation, length and instruction count that differ from the last time.
#[inline]
fn told_shape(bytes: &mut Bytes<'_>, state: &mut SiteState, instructions: &mut u32) -> Result<(), Malformed> {
    let shape = bytes.u8()?;
    state.code = shape & SHAPE_CODE;
    if shape & SHAPE_LEN != 0 {
        state.len = bytes.varint32()?;
    }
    if shape & SHAPE_INSTRUCTIONS != 0 {
        *instructions = bytes.varint32()?;
    }
    Ok(())
}

/// An operation other than a load or store.
#[inline(never)]
fn rare(
    code: u8,
    addr: u64,
    data: &[u8],
    ends: &[usize],
    at: &mut [usize; column::COUNT],
    last_seq: &mut u64,
) -> Result<Op, Malformed> {
    let mut extras = Bytes::at(&data[..ends[column::EXTRAS]], at[column::EXTRAS]);
    let bytes = Bytes::at(&data[..ends[column::SEQS]], at[column::SEQS]);
    let mut seqs = SeqReader { bytes, last: *last_seq };
    let op = ops::join(code, addr, &mut extras, &mut seqs)?;
    at[column::EXTRAS] = extras.position();
    at[column::SEQS] = seqs.bytes.position();
    *last_seq = seqs.last;
    Ok(op)
}
