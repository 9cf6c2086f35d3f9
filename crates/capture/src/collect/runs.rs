//! Runs: straight pieces of code whose accesses are recorded as one descriptor address and one word each.
//!
//! Nearly all of a recording is runs, so this is the collector's hot loop. A descriptor is decoded once per
//! process into templates of its events; afterwards a run is found by guessing that the
//! run that followed its predecessor last time follows again, and by a hash table where the guess fails.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use event::{Event, Op, SiteId};

use super::address_map::AddressMap;
use crate::wire::{RUN_MAGIC, RUN_MAX, RUN_STORE, accessed, descriptor_of};

/// Bytes of a descriptor before its accesses.
pub const DESCRIPTOR_HEAD: usize = 8;
/// Bytes of the longest descriptor.
pub const DESCRIPTOR_MAX: usize = DESCRIPTOR_HEAD + 8 * RUN_MAX;
/// Events of a batch at most, unless a single record expands to more.
pub const BATCH: usize = 4096;

/// One access of a decoded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes.
    pub len: u32,
    /// Where in the program.
    pub site: SiteId,
    /// Instructions since the access before it, it included; for the first one since the block's start.
    pub instructions: u32,
    /// Whether it is a store.
    pub store: bool,
}

/// A descriptor as its bytes say, before its code addresses get sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Each access, with its code address in place of a site.
    pub accesses: Vec<(u64, Access)>,
    /// Instructions from the last access to the end of the basic block.
    pub after: u32,
}

impl Descriptor {
    /// Reads the descriptor that lies at `address`, if `bytes` is one.
    #[must_use]
    pub fn parse(address: u64, bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..DESCRIPTOR_HEAD)?;
        let count = usize::from(head[4]);
        if u32::from_le_bytes([head[0], head[1], head[2], head[3]]) != RUN_MAGIC
            || !(1..=RUN_MAX).contains(&count)
        {
            return None;
        }
        let before = u32::from(u16::from_le_bytes([head[6], head[7]]));
        let mut accesses = Vec::with_capacity(count);
        for (at, entry) in
            bytes.get(DESCRIPTOR_HEAD..DESCRIPTOR_HEAD + 8 * count)?.chunks_exact(8).enumerate()
        {
            let offset = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
            let field = address + (DESCRIPTOR_HEAD + 8 * at) as u64;
            let log2_size = entry[4] & !RUN_STORE;
            if log2_size > 4 {
                return None;
            }
            let store = entry[4] & RUN_STORE != 0;
            let instructions = if at == 0 { before } else { u32::from(entry[5]) };
            let access = Access { len: 1 << log2_size, site: SiteId::UNKNOWN, instructions, store };
            accesses.push((field.wrapping_add_signed(offset.into()), access));
        }
        Some(Descriptor { accesses, after: head[5].into() })
    }
}

struct Run {
    first: u32,
    count: u32,
    after: u32,
    /// Address and index of the run that came after this one the last time.
    next: (u64, u32),
}

/// The known runs of one process.
#[derive(Default)]
pub struct Runs {
    runs: Vec<Run>,
    accesses: Vec<Access>,
    by_address: AddressMap,
    last: u32,
}

/// Why [`Runs::decode`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No record begins here (yet).
    End,
    /// A record that is not a run.
    Record,
    /// A run that is not known: [`Runs::learn`] it.
    Unknown(u64),
    /// A run that is longer than the words left.
    Cut,
    /// The batch is full.
    Full,
    /// The last event is a store whose bytes are told in the record after it.
    Stored,
}

impl Runs {
    /// Enters the run whose descriptor lies at `address`.
    pub fn learn(&mut self, address: u64, accesses: impl IntoIterator<Item = Access>, after: u32) {
        let first = self.accesses.len();
        self.accesses.extend(accesses);
        let count = (self.accesses.len() - first) as u32;
        assert!((1..=RUN_MAX as u32).contains(&count));
        self.by_address.insert(address, self.runs.len() as u32);
        self.runs.push(Run { first: first as u32, count, after, next: (0, 0) });
    }

    /// Number of words of the run at `address` with its header, if it is known.
    #[must_use]
    pub fn words(&self, address: u64) -> Option<usize> {
        self.by_address.get(address).map(|run| 1 + self.runs[run as usize].count as usize)
    }

    /// Decodes runs from `words[*at..]` into `out` until something else comes up.
    ///
    /// `carry` are instructions executed since the thread's last event. With `VALUES` it stops after each store.
    pub fn decode<const VALUES: bool>(
        &mut self,
        words: &[AtomicU64],
        at: &mut usize,
        out: &mut Vec<Event>,
        carry: &mut u32,
    ) -> Stop {
        let before = out.len();
        out.reserve((BATCH + RUN_MAX).saturating_sub(before));
        let mut buffer =
            Slots { slots: out.spare_capacity_mut(), filled: 0, full: BATCH.saturating_sub(before) };
        let stop = self.decode_into::<VALUES>(words, at, &mut buffer, carry);
        let filled = buffer.filled;
        // SAFETY: `decode_into` has written the first `filled` of the spare slots.
        unsafe { out.set_len(before + filled) };
        stop
    }

    #[inline(always)]
    fn decode_into<const VALUES: bool>(
        &mut self,
        words: &[AtomicU64],
        at: &mut usize,
        out: &mut Slots,
        carry: &mut u32,
    ) -> Stop {
        // Kept in registers: through the references, they would go to memory with each event.
        let (mut position, mut instructions) = (*at, *carry);
        let stop = loop {
            let Some(header) = words.get(position) else { break Stop::End };
            let header = header.load(Ordering::Relaxed);
            if header == 0 {
                break Stop::End;
            }
            let Some(address) = descriptor_of(header) else { break Stop::Record };
            if out.filled >= out.full {
                break Stop::Full;
            }
            let Some(index) = self.follow(address) else { break Stop::Unknown(address) };
            let run = &self.runs[index as usize];
            let count = run.count as usize;
            let Some(addresses) = words.get(position + 1..position + 1 + count) else { break Stop::Cut };
            let accesses = &self.accesses[run.first as usize..][..count];
            let stored = out.expand(addresses, accesses, run.after, &mut instructions);
            position += 1 + count;
            if VALUES && stored {
                break Stop::Stored;
            }
        };
        (*at, *carry) = (position, instructions);
        stop
    }

    /// The run at `address`, guessed from the one before.
    #[inline]
    fn follow(&mut self, address: u64) -> Option<u32> {
        if let Some(last) = self.runs.get(self.last as usize)
            && last.next.0 == address
        {
            self.last = last.next.1;
            return Some(self.last);
        }
        let found = self.by_address.get(address)?;
        self.runs[self.last as usize].next = (address, found);
        self.last = found;
        Some(found)
    }
}

/// The part of a batch that is still to be filled.
struct Slots<'a> {
    slots: &'a mut [MaybeUninit<Event>],
    /// Slots written, from the first on.
    filled: usize,
    /// At so many, the batch is full; there are [`RUN_MAX`] slots more.
    full: usize,
}

impl Slots<'_> {
    /// Writes one run's events; whether the last of them is a store. `carry` are the instructions before the run, and
    /// afterwards those that no event has told.
    ///
    /// An access without an address was not executed: a jump left the run before it.
    #[inline(always)]
    fn expand(&mut self, addresses: &[AtomicU64], accesses: &[Access], after: u32, carry: &mut u32) -> bool {
        let slots = &mut self.slots[self.filled..self.filled + addresses.len()];
        let (mut filled, mut stored, mut last) = (0, false, 0);
        let mut instructions = *carry;
        for (address, access) in addresses.iter().zip(accesses) {
            let (addr, len) = (accessed(address.load(Ordering::Relaxed)), access.len);
            let op = if access.store { Op::Store { addr, len } } else { Op::Load { addr, len } };
            let event = Event { op, site: access.site, instructions: instructions + access.instructions };
            slots[filled].write(event);
            // No branch: whether a jump is taken is for the program's processor to guess, not for ours.
            let executed = addr != 0;
            filled += usize::from(executed);
            instructions = if executed { 0 } else { instructions };
            stored = if executed { access.store } else { stored };
            last = addr;
        }
        self.filled += filled;
        *carry = instructions + if last == 0 { 0 } else { after };
        stored
    }
}
