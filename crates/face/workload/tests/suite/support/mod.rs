//! Spaces that crash.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use event::FlushKind;
use space::{Image, LINE, Prestore, Space, Word, lines};

/// What a [`Crashing`] space leaves out: the mistakes that a crash test must catch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    None,
    /// The `n`-th flush of each `period` is forgotten.
    Flush {
        n: u64,
        period: u64,
    },
    /// Likewise a fence.
    Fence {
        n: u64,
        period: u64,
    },
}

/// A space that knows what of it must survive, and keeps what it would look like after a crash before each
/// fence.
pub struct Crashing {
    now: Image,
    state: Mutex<State>,
}

struct State {
    /// What was flushed and fenced.
    durable: Vec<u8>,
    /// Lines that were flushed and not yet fenced, as they were at the flush.
    flushed: BTreeMap<u64, Vec<u8>>,
    mistake: Mistake,
    flushes: u64,
    fences: u64,
    cuts: Vec<Cut>,
    done: u64,
}

/// The moment before a fence.
pub struct Cut {
    /// All that must survive.
    pub durable: Vec<u8>,
    /// All that was stored.
    pub newest: Vec<u8>,
    /// The last argument of [`Crashing::acknowledge`].
    pub done: u64,
}

impl Cut {
    /// An image in which each line is either what must survive or what was stored, as `choose` says of its
    /// number.
    pub fn image(&self, choose: impl Fn(u64) -> bool) -> Image {
        let mut bytes = self.durable.clone();
        for (number, (line, newest)) in (0..).zip(bytes.chunks_mut(64).zip(self.newest.chunks(64))) {
            if choose(number) {
                line.copy_from_slice(newest);
            }
        }
        Image::from_bytes(&bytes)
    }
}

impl Crashing {
    pub fn new(image: Image, mistake: Mistake) -> Self {
        let state = State {
            durable: image.to_bytes(),
            flushed: BTreeMap::new(),
            mistake,
            flushes: 0,
            fences: 0,
            cuts: Vec::new(),
            done: 0,
        };
        Crashing { now: image, state: Mutex::new(state) }
    }

    /// Everything up to the `done`-th operation has returned.
    pub fn acknowledge(&self, done: u64) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).done = done;
    }

    /// The moments before each fence, and the one after the end.
    pub fn into_cuts(self) -> Vec<Cut> {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.cuts.push(Cut { durable: state.durable, newest: self.now.to_bytes(), done: state.done });
        state.cuts
    }
}

impl Space for Crashing {
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
    fn fence_writes(&self) -> bool {
        self.now.fence_writes()
    }
    fn nt_is_sooner(&self) -> bool {
        self.now.nt_is_sooner()
    }
    fn has_failed(&self) -> bool {
        self.now.has_failed()
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
        self.now.store(offset, bytes);
        self.flush(offset, bytes.len() as u64);
    }
    fn flush(&self, offset: u64, len: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.flushes += 1;
        if matches!(state.mistake, Mistake::Flush { n, period } if state.flushes % period == n) {
            return;
        }
        for line in lines(offset, len) {
            let mut bytes = vec![0; LINE as usize];
            self.now.load(line, &mut bytes);
            state.flushed.insert(line, bytes);
        }
    }
    fn fence(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.fences += 1;
        if matches!(state.mistake, Mistake::Fence { n, period } if state.fences % period == n) {
            return;
        }
        let cut = Cut { durable: state.durable.clone(), newest: self.now.to_bytes(), done: state.done };
        state.cuts.push(cut);
        for (line, bytes) in std::mem::take(&mut state.flushed) {
            let at = line as usize;
            state.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    /// Nothing survives because of a hint: there are processors that have none.
    fn prestore(&self, _: u64, _: u64, _: Prestore) {}
}
