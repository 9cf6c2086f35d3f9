//! Events of one thread into the columns of one block.

use crate::{Event, Op, SiteId};

use super::bytes::{put_varint, zigzag};
use super::format::BLOCK_EVENTS;
use super::ops::{self, SeqWriter};
use super::predict::{
    CLASS_BYTES, CLASS_OF_BYTES, CLASS_SCALED, CLASS_SHIFT, Edge, GUESS_SHIFT, SHAPE, SHAPE_INSTRUCTIONS,
    SHAPE_LEN, SiteState, WAY_BYTE, WAY_WORD, column,
};

/// Collects a block. Everything it learns is forgotten at the block's end, so that blocks decode
/// independently of each other.
pub(super) struct Encoder {
    control: Box<[u8]>,
    locals: Vec<u8>,
    new_sites: Vec<u8>,
    shapes: Vec<u8>,
    /// Larger than it can fill, so that eight bytes can be written anywhere; untouched pages cost nothing.
    addresses: Box<[u8]>,
    addresses_len: usize,
    extras: Vec<u8>,
    seqs: SeqWriter,
    times: Vec<u8>,
    values: Vec<u8>,

    events: usize,
    /// State of the prediction.
    sites: Sites,
    current: usize,
    before: u64,
    /// Event and time of the last entry in `times`.
    marked: (usize, u64),
}

impl Encoder {
    pub(super) fn new() -> Self {
        Encoder {
            control: vec![0; BLOCK_EVENTS].into(),
            locals: Vec::new(),
            new_sites: Vec::new(),
            shapes: Vec::new(),
            addresses: vec![0; BLOCK_EVENTS * 8].into(),
            addresses_len: 0,
            extras: Vec::new(),
            seqs: SeqWriter::default(),
            times: Vec::new(),
            values: Vec::new(),
            events: 0,
            sites: Sites::new(),
            current: 0,
            before: 0,
            marked: (0, 0),
        }
    }

    /// Events in the block.
    pub(super) fn len(&self) -> usize {
        self.events
    }

    /// Events that still fit.
    pub(super) fn room(&self) -> usize {
        BLOCK_EVENTS - self.events
    }

    /// First and last position in the global order; zeros if there is none.
    pub(super) fn seqs(&self) -> (u64, u64) {
        (self.seqs.first, self.seqs.last)
    }

    /// Stored bytes in the block.
    pub(super) fn values_len(&self) -> usize {
        self.values.len()
    }

    /// The next event happened at `time_ns`.
    pub(super) fn mark_time(&mut self, time_ns: u64) {
        put_varint(&mut self.times, (self.events - self.marked.0) as u64);
        put_varint(&mut self.times, zigzag(time_ns.wrapping_sub(self.marked.1)));
        self.marked = (self.events, time_ns);
    }

    /// The bytes of the stores among the events pushed last.
    pub(super) fn push_values(&mut self, values: &[u8]) {
        self.values.extend_from_slice(values);
    }

    /// Adds events, at most [`Encoder::room`].
    ///
    /// What comes as predicted stays in this loop; surprises are handled out of line, so that the loop keeps its
    /// variables in registers.
    pub(super) fn push(&mut self, events: &[Event]) {
        assert!(events.len() <= self.room());
        let mut out = self.addresses_len;
        let mut before = self.before;
        let mut current = self.current;
        for (event, control) in events.iter().zip(&mut self.control[self.events..]) {
            let from = current;
            let site = event.site.0;
            let [first, second] = self.sites.states[from].edges;
            let hit = first.site == site;
            let edge = if hit { first } else { second };
            let (way, local, predicted) = if edge.site == site {
                // Not `edge.local`: looking the number up again is more work, but the processor need not wait for
                // the event before to do it.
                (u8::from(!hit), self.sites.known(site, edge.local), edge.instructions)
            } else {
                let (way, local) = self.sites.tell(from, event, &mut self.locals, &mut self.new_sites);
                (way, local, 0)
            };
            current = usize::from(local);

            let (code, addr, len) = match event.op {
                Op::Load { addr, len } => (ops::LOAD, addr, len),
                Op::Store { addr, len } => (ops::STORE, addr, len),
                Op::StoreNt { addr, len } => (ops::STORE_NT, addr, len),
                ref op => {
                    let (code, addr) = ops::split(op, before, &mut self.extras, &mut self.seqs);
                    (code, addr, 0)
                }
            };
            let state = &mut self.sites.states[current];
            let guesses = state.guesses(before);
            let mut told = way;
            if addr == guesses[1] {
                told |= 1 << GUESS_SHIFT;
            } else if addr != guesses[0] {
                let (guess, class, correction) = correct(guesses, addr);
                self.addresses[out..out + 8].copy_from_slice(&correction.to_le_bytes());
                out += usize::from(CLASS_BYTES[usize::from(class)]);
                told |= guess << GUESS_SHIFT | class << CLASS_SHIFT;
            }
            state.learn(before, addr);
            before = addr;

            if (code, len, event.instructions) != (state.code, state.len, predicted) {
                told |= SHAPE;
                tell_shape(&mut self.shapes, state, (code, len), (event.instructions, predicted));
                if way < WAY_BYTE {
                    self.sites.states[from].edges[usize::from(way)].instructions = event.instructions;
                }
            }
            *control = told;
        }
        self.addresses_len = out;
        self.before = before;
        self.current = current;
        self.events += events.len();
    }

    /// The block's columns, in the order of [`column`].
    pub(super) fn columns(&self) -> [&[u8]; column::COUNT] {
        let mut columns: [&[u8]; column::COUNT] = [&[]; column::COUNT];
        columns[column::CONTROL] = &self.control[..self.events];
        columns[column::LOCALS] = &self.locals;
        columns[column::SITES] = &self.new_sites;
        columns[column::SHAPES] = &self.shapes;
        columns[column::ADDRESSES] = &self.addresses[..self.addresses_len];
        columns[column::EXTRAS] = &self.extras;
        columns[column::SEQS] = &self.seqs.column;
        columns[column::TIMES] = &self.times;
        columns[column::VALUES] = &self.values;
        columns
    }

    /// Starts the next block.
    pub(super) fn clear(&mut self) {
        self.locals.clear();
        self.new_sites.clear();
        self.shapes.clear();
        self.addresses_len = 0;
        self.extras.clear();
        self.seqs.clear();
        self.times.clear();
        self.values.clear();
        self.events = 0;
        self.sites.clear();
        self.current = 0;
        self.before = 0;
        self.marked = (0, 0);
    }
}

/// Writes an operation, length or instruction count that differs from the last time.
#[inline(never)]
fn tell_shape(
    shapes: &mut Vec<u8>,
    state: &mut SiteState,
    (code, len): (u8, u32),
    (instructions, predicted): (u32, u32),
) {
    let with_len = if len == state.len { 0 } else { SHAPE_LEN };
    let with_instructions = if instructions == predicted { 0 } else { SHAPE_INSTRUCTIONS };
    (state.code, state.len) = (code, len);
    shapes.push(code | with_len | with_instructions);
    if with_len != 0 {
        put_varint(shapes, u64::from(len));
    }
    if with_instructions != 0 {
        put_varint(shapes, u64::from(instructions));
    }
}

/// The guess that is nearest to `addr`, the class of what is missing, and that, ready to be written.
#[inline(never)]
fn correct(guesses: [u64; 4], addr: u64) -> (u8, u8, u64) {
    let mut best = (zigzag(addr.wrapping_sub(guesses[0])), 0u8);
    for guess in 1..4u8 {
        let coded = zigzag(addr.wrapping_sub(guesses[usize::from(guess)]));
        if coded < best.0 {
            best = (coded, guess);
        }
    }
    let (coded, guess) = best;
    let bytes = (71 - (coded | 1).leading_zeros() - u32::from(coded == 0) * 8) / 8;
    let class = CLASS_OF_BYTES[bytes as usize];
    let difference = addr.wrapping_sub(guesses[usize::from(guess)]);
    let scaled = zigzag((difference as i64 >> 3) as u64);
    if difference & 7 == 0 && scaled <= 0xff && coded > 0xff {
        (guess, CLASS_SCALED, scaled)
    } else {
        (guess, class, coded)
    }
}

/// The sites of a block and their numbers in it.
struct Sites {
    states: Vec<SiteState>,
    /// Open addressing by the number in the run.
    table: Vec<Slot>,
}

/// A site's number in the run, and in the block plus one; all 0 if empty.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Slot {
    site: u32,
    local: u32,
}

/// Slots of an empty table.
const TABLE_MIN: usize = 1 << 9;

impl Sites {
    fn new() -> Self {
        let mut sites = Sites { states: Vec::new(), table: vec![Slot::default(); TABLE_MIN] };
        sites.clear();
        sites
    }

    /// Forgets all but the unknown site, which has number 0 in every block.
    fn clear(&mut self) {
        self.states.clear();
        self.table.fill(Slot::default());
        self.enter(SiteId::UNKNOWN.0);
    }

    fn enter(&mut self, site: u32) -> u16 {
        let local = self.states.len() as u16;
        self.states.push(SiteState::new(site, local));
        if self.states.len() * 2 > self.table.len() {
            self.table = vec![Slot::default(); self.table.len() * 2];
            for local in 0..self.states.len() {
                let site = self.states[local].site;
                let at = self.find(site);
                self.table[at] = Slot { site, local: local as u32 + 1 };
            }
        } else {
            let at = self.find(site);
            self.table[at] = Slot { site, local: u32::from(local) + 1 };
        }
        local
    }

    #[inline(always)]
    fn home(&self, site: u32) -> usize {
        (site.wrapping_mul(0x9e37_79b1) >> 12) as usize & (self.table.len() - 1)
    }

    /// The number in the block of a site that has one, which is `local`.
    #[inline(always)]
    fn known(&self, site: u32, local: u16) -> u16 {
        let slot = self.table[self.home(site)];
        if slot.site == site && slot.local != 0 { (slot.local - 1) as u16 } else { local }
    }

    /// Where `site` stands in the table, or where it belongs.
    fn find(&self, site: u32) -> usize {
        let mut at = self.home(site);
        while self.table[at].local != 0 && self.table[at].site != site {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// Writes the number in the block of a site that no edge of `from` predicted, and makes it one of them;
    /// gives how it was told, and the number.
    #[inline(never)]
    fn tell(
        &mut self,
        from: usize,
        event: &Event,
        locals: &mut Vec<u8>,
        new_sites: &mut Vec<u8>,
    ) -> (u8, u16) {
        let site = event.site.0;
        let local = match self.table[self.find(site)].local {
            0 => {
                let before = self.states.last().map_or(0, |state| state.site);
                put_varint(new_sites, zigzag(u64::from(site).wrapping_sub(u64::from(before))));
                self.enter(site)
            }
            local => (local - 1) as u16,
        };
        self.states[from].learn_edge(Edge { site, instructions: event.instructions, local });
        if let Ok(byte) = u8::try_from(local) {
            locals.push(byte);
            (WAY_BYTE, local)
        } else {
            locals.extend_from_slice(&local.to_le_bytes());
            (WAY_WORD, local)
        }
    }
}
