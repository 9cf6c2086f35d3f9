//! Memory that loses its power: what a crash at each fence could leave, for suites that must not use the
//! crash checker.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use event::FlushKind;

use crate::{Image, LINE, Prestore, Space, Word, lines};

/// What a power failure leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The memory.
    pub bytes: Vec<u8>,
    /// Steps of the program that had ended ([`Powered::end_step`]).
    pub steps: u64,
    /// All that was stored, which a killed process leaves, too: the last one of its fence. The first one is
    /// what is durable.
    pub newest: bool,
}

/// What a [`Powered`] space knows beside its newest contents.
#[derive(Debug)]
struct Known {
    durable: Image,
    /// Lines that were flushed since the last fence, as they were then.
    flushed: BTreeMap<u64, [u8; LINE as usize]>,
    cuts: Vec<Cut>,
    steps: u64,
}

/// Memory that notes what a power failure at each fence could leave: what is durable, the newest contents,
/// and three mixtures of their lines, as a cache can write back any line at any time: every second line is
/// the newest one, or the first or the last half of those that differ. For programs of one thread.
#[derive(Debug)]
pub struct Powered {
    now: Image,
    known: Mutex<Known>,
}

impl Powered {
    /// So many bytes of zeros, a multiple of 8.
    #[must_use]
    pub fn new(bytes: u64) -> Powered {
        let known =
            Known { durable: Image::new(bytes), flushed: BTreeMap::new(), cuts: Vec::new(), steps: 0 };
        Powered { now: Image::new(bytes), known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step of the program has ended, which the next cuts have to hold.
    pub fn end_step(&self) {
        self.known().steps += 1;
    }

    /// How many cuts there are so far.
    pub fn cuts(&self) -> usize {
        self.known().cuts.len()
    }

    /// What a power failure could have left, in the order of fences.
    pub fn into_cuts(self) -> Vec<Cut> {
        self.known.into_inner().unwrap_or_else(PoisonError::into_inner).cuts
    }

    /// Notes what a power failure at this moment could leave.
    fn cut(&self, known: &mut Known) {
        let (durable, now) = (known.durable.to_bytes(), self.now.to_bytes());
        let line = |at: usize| at..(at + LINE as usize).min(now.len());
        let lines = (0..now.len()).step_by(LINE as usize);
        let changed: Vec<usize> = lines.filter(|&at| durable[line(at)] != now[line(at)]).collect();
        if !changed.is_empty() {
            let (odd, half) = (known.cuts.len() / 5 % 2, changed.len() / 2);
            let newer: [&dyn Fn(usize) -> bool; 4] = [
                &|_| false,
                &|rank| changed[rank] / LINE as usize % 2 == odd,
                &|rank| rank < half,
                &|rank| rank >= half,
            ];
            for newer in newer {
                let mut bytes = durable.clone();
                for &at in changed.iter().enumerate().filter(|(rank, _)| newer(*rank)).map(|(_, at)| at) {
                    bytes[line(at)].copy_from_slice(&now[line(at)]);
                }
                known.cuts.push(Cut { bytes, steps: known.steps, newest: false });
            }
        }
        known.cuts.push(Cut { bytes: now, steps: known.steps, newest: true });
    }
}

impl Space for Powered {
    type Observer = ();

    fn observer(&self) -> &() {
        &()
    }
    fn len(&self) -> u64 {
        self.now.len()
    }
    fn flush_kind(&self) -> FlushKind {
        self.now.flush_kind()
    }
    fn load_word<W: Word>(&self, offset: u64) -> W {
        self.now.load_word(offset)
    }
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        self.now.store_word(offset, value);
    }
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        self.now.cas_u64(offset, old, new)
    }
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        self.now.store_nt(offset, bytes);
        self.flush(offset, bytes.len() as u64);
    }
    fn flush(&self, offset: u64, len: u64) {
        self.now.flush(offset, len);
        for line in lines(offset, len) {
            let mut bytes = [0; LINE as usize];
            self.now.load(line, &mut bytes);
            self.known().flushed.insert(line, bytes);
        }
    }
    fn fence(&self) {
        let mut known = self.known();
        self.cut(&mut known);
        for (line, bytes) in std::mem::take(&mut known.flushed) {
            known.durable.store(line, &bytes);
        }
    }
    fn fence_writes(&self) -> bool {
        self.now.fence_writes()
    }
    fn nt_is_sooner(&self) -> bool {
        self.now.nt_is_sooner()
    }
    fn has_failed(&self) -> bool {
        self.now.has_failed()
    }
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        self.now.prestore(offset, len, hint);
    }
}
