//! What structures of the library do to their memory, operation by operation: recorded once, and carried out
//! by patterns of threads as often and where these like.

use std::collections::BTreeMap;

use event::{Batch, Definition, Event, FenceKind, FlushKind, Op, Sink, SinkError, SiteId, ThreadId};
use space::{Image, LINE, Recorded};

use crate::pattern;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Load,
    Store,
    StoreNt,
    Flush,
    Fence,
    Lock,
    Unlock,
}

/// A step of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Offset of an access in words, or a lock's number.
    pub at: u32,
    /// Instructions, estimated.
    pub instructions: u16,
    /// Bytes, at most a line.
    pub bytes: u8,
    pub what: What,
}

impl Step {
    /// Where an access is.
    pub fn offset(self) -> u64 {
        u64::from(self.at) * 8
    }

    /// The step as an event, its access at `addr`.
    pub fn event(self, addr: u64) -> Event {
        let len = u32::from(self.bytes);
        let op = match self.what {
            What::Load => Op::Load { addr, len },
            What::Store => Op::Store { addr, len },
            What::StoreNt => Op::StoreNt { addr, len },
            What::Flush => Op::Flush { addr, kind: FlushKind::Clwb },
            What::Fence => Op::Fence(FenceKind::Store),
            What::Lock => Op::Lock { lock: u64::from(self.at), shared: false, seq: 0 },
            What::Unlock => Op::Unlock { lock: u64::from(self.at), seq: 0 },
        };
        pattern::event(op, self.instructions.into())
    }
}

/// Instructions of a word that is loaded or stored: the access, a comparison, a branch and a part of the loop
/// around them.
const PER_WORD: u32 = 4;

/// Offset 0, and lock 0, in a recording.
const BASE: u64 = Recorded::<Image, Kept>::BASE;
const LOCKS: u64 = Recorded::<Image, Kept>::LOCKS;

/// Keeps the operations of all threads but the first, which fills the structure. An operation begins with a
/// region's mark.
#[derive(Default)]
pub(crate) struct Kept {
    /// Operations by thread. Loads of one line that follow each other are one step, with the instructions of
    /// all of them.
    pub threads: Vec<Vec<Vec<Step>>>,
    /// Bytes of the space in use.
    pub end: u64,
    /// Instructions of an operation beside its accesses.
    per_operation: u16,
    /// Files whose locks are kept, and which sites are in them.
    files: &'static [&'static str],
    common: Vec<bool>,
    /// Locks that are held and kept, by thread.
    held: BTreeMap<u32, Vec<u64>>,
    /// A thread is one operation from its first event on.
    whole: bool,
}

impl Kept {
    /// With so many instructions for each operation, and the locks that are taken in these files.
    pub fn new(per_operation: u16, files: &'static [&'static str]) -> Kept {
        Kept { per_operation, files, ..Kept::default() }
    }

    /// All that a thread does is one operation.
    pub fn whole(self) -> Kept {
        Kept { whole: true, ..self }
    }

    fn push(&self, steps: &mut Vec<Step>, what: What, at: u64, (bytes, instructions): (u32, u32)) {
        let extra = if steps.is_empty() { self.per_operation } else { 0 };
        steps.push(Step {
            at: u32::try_from(at).unwrap_or(u32::MAX),
            instructions: u16::try_from(instructions).unwrap_or(u16::MAX).saturating_add(extra),
            bytes: u8::try_from(bytes).unwrap_or(u8::MAX),
            what,
        });
    }

    fn add(&self, op: Op, common: bool, held: &mut Vec<u64>, steps: &mut Vec<Step>) {
        match op {
            Op::Load { addr, len } => {
                let mut offset = addr - BASE;
                let end = offset + u64::from(len);
                while offset < end {
                    let bytes = (LINE - offset % LINE).min(end - offset) as u32;
                    match steps.last_mut() {
                        Some(last) if last.what == What::Load && last.offset() / LINE == offset / LINE => {
                            last.instructions = last.instructions.saturating_add(words(bytes) as u16);
                        }
                        _ => self.push(steps, What::Load, offset / 8, (bytes, words(bytes))),
                    }
                    offset += u64::from(bytes);
                }
            }
            Op::Store { addr, len } | Op::StoreNt { addr, len } => {
                let what = if matches!(op, Op::Store { .. }) { What::Store } else { What::StoreNt };
                let mut offset = addr - BASE;
                let end = offset + u64::from(len);
                while offset < end {
                    let bytes = (LINE - offset % LINE).min(end - offset) as u32;
                    self.push(steps, what, offset / 8, (bytes, words(bytes)));
                    offset += u64::from(bytes);
                }
            }
            Op::Flush { addr, .. } => self.push(steps, What::Flush, (addr - BASE) / 8, (8, 2)),
            Op::Fence(_) => self.push(steps, What::Fence, 0, (0, 1)),
            Op::Lock { lock, .. } if common => {
                held.push(lock);
                self.push(steps, What::Lock, (lock - LOCKS) / LINE, (0, 10));
            }
            Op::Unlock { lock, .. } => {
                if let Some(at) = held.iter().position(|kept| *kept == lock) {
                    held.swap_remove(at);
                    self.push(steps, What::Unlock, (lock - LOCKS) / LINE, (0, 4));
                }
            }
            _ => {}
        }
    }
}

impl Sink for Kept {
    fn name(&self) -> &'static str {
        "studies"
    }

    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        if let Definition::Site(SiteId(number), site) = definition {
            let file = site.frame().map_or("", |frame| frame.file.as_str());
            let at = number as usize;
            self.common.resize(self.common.len().max(at + 1), false);
            self.common[at] = self.files.iter().any(|kept| file.ends_with(kept));
        }
        Ok(())
    }

    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        let ThreadId(number) = batch.thread;
        let end = batch.events.iter().map(|event| match event.op {
            Op::Load { addr, len } | Op::Store { addr, len } | Op::StoreNt { addr, len } => {
                addr + u64::from(len) - BASE
            }
            Op::Flush { addr, .. } => addr / LINE * LINE + LINE - BASE,
            _ => 0,
        });
        self.end = self.end.max(end.max().unwrap_or(0));
        if number == 0 {
            return Ok(());
        }
        let at = number as usize - 1;
        self.threads.resize_with(self.threads.len().max(at + 1), Vec::new);
        let mut thread = std::mem::take(&mut self.threads[at]);
        let mut held = self.held.remove(&number).unwrap_or_default();
        for event in batch.events {
            if matches!(event.op, Op::RegionBegin { .. }) || (self.whole && thread.is_empty()) {
                thread.push(Vec::new());
            }
            // What a thread does before its first operation is nothing.
            let Some(steps) = thread.last_mut() else { continue };
            let common = self.common.get(event.site.0 as usize).copied().unwrap_or_default();
            self.add(event.op, common, &mut held, steps);
        }
        self.threads[at] = thread;
        self.held.insert(number, held);
        Ok(())
    }
}

fn words(bytes: u32) -> u32 {
    PER_WORD * bytes.div_ceil(8)
}
