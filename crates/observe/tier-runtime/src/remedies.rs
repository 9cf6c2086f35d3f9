//! What may save page faults, by site of allocation: pages that are there before they are used, huge pages, a thread that
//! runs ahead of the program.
//!
//! The file has a line per site: its key, and `populate`, `huge` or `prefault`.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::kinds::Placed;
use crate::page::{PAGE, whole};

/// `MADV_POPULATE_WRITE`, since Linux 5.14.
const POPULATE_WRITE: libc::c_int = 23;
/// Bytes that the thread populates at a time: others wait for the kernel's lock meanwhile.
const PIECE: usize = 256 << 10;

/// One remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// All pages at once, when memory is allocated.
    Populate,
    /// Pages of 2 MiB where they fit.
    Huge,
    /// All pages, by a thread of their own.
    Prefault,
}

impl Remedy {
    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Remedy::Populate => "populate",
            Remedy::Huge => "huge",
            Remedy::Prefault => "prefault",
        }
    }

    fn named(name: &str) -> Option<Remedy> {
        [Remedy::Populate, Remedy::Huge, Remedy::Prefault].into_iter().find(|one| one.name() == name)
    }
}

/// Remedies by site, and what was done.
#[derive(Debug, Default)]
pub struct Remedies {
    of: BTreeMap<u64, Remedy>,
    /// By site and remedy.
    pub done: BTreeMap<(u64, Remedy), Placed>,
}

impl Remedies {
    /// From a file. Lines that make no sense are left out; who wrote the file has checked it.
    pub fn read(path: &Path) -> Remedies {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| {
            let (key, name) = line.split_once(' ')?;
            Some((u64::from_str_radix(key, 16).ok()?, Remedy::named(name.trim())?))
        };
        Remedies { of: text.lines().filter_map(line).collect(), done: BTreeMap::new() }
    }

    /// A site's.
    pub fn of(&self, key: u64) -> Option<Remedy> {
        self.of.get(&key).copied()
    }

    /// Whether the thread is wanted.
    pub fn prefaults(&self) -> bool {
        self.of.values().any(|remedy| *remedy == Remedy::Prefault)
    }

    /// Counts one.
    pub fn did(&mut self, key: u64, remedy: Remedy, bytes: usize, done: io::Result<()>) {
        self.done.entry((key, remedy)).or_default().add(bytes, done);
    }
}

/// Treats the pages of a block that was just allocated; `heap`: by `malloc`. Returns their bytes, and what
/// the kernel said.
pub fn apply(remedy: Remedy, address: usize, len: usize, heap: bool) -> (usize, io::Result<()>) {
    let (start, end) = match remedy {
        Remedy::Huge => mapped(address, if heap { usable(address).max(len) } else { len }),
        Remedy::Populate | Remedy::Prefault => whole(address, len),
    };
    let bytes = end.saturating_sub(start);
    if bytes == 0 {
        return (0, Ok(()));
    }
    let done = match remedy {
        Remedy::Populate => advise(start, bytes, POPULATE_WRITE),
        Remedy::Huge => advise(start, bytes, libc::MADV_HUGEPAGE),
        Remedy::Prefault => {
            enqueue(start, end);
            Ok(())
        }
    };
    (bytes, done)
}

/// All pages of which the block has a byte. A mapping of which a part has other advice is two to the kernel,
/// which then moves neither for `realloc`: that copies all bytes. The allocator's own bytes lie before the
/// block, in its first page.
fn mapped(address: usize, len: usize) -> (usize, usize) {
    (address & !(PAGE - 1), address.saturating_add(len).next_multiple_of(PAGE))
}

fn usable(address: usize) -> usize {
    // SAFETY: a block that the C library has just allocated.
    unsafe { libc::malloc_usable_size(ptr::with_exposed_provenance_mut(address)) }
}

fn advise(start: usize, len: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the advice changes no byte: pages appear as a store of what they hold would make them appear.
    let done = unsafe { libc::madvise(ptr::with_exposed_provenance_mut(start), len, advice) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

static WAITING: (Mutex<VecDeque<(usize, usize)>>, Condvar) = (Mutex::new(VecDeque::new()), Condvar::new());
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// There is a thread: what is allocated from now on waits for it, though it may not run yet.
pub fn begin() {
    ACTIVE.store(true, Ordering::Relaxed);
}

/// Nothing is given to the thread any more: it was the parent's.
pub fn end() {
    ACTIVE.store(false, Ordering::Relaxed);
}

fn enqueue(start: usize, end: usize) {
    if ACTIVE.load(Ordering::Relaxed) {
        WAITING.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((start, end));
        WAITING.1.notify_one();
    }
}

/// The thread. Memory that is freed meanwhile is either unmapped, which the kernel refuses, or somebody's again.
pub fn prefault() {
    loop {
        let mut waiting = WAITING.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, end) = loop {
            if let Some(range) = waiting.pop_front() {
                break range;
            }
            waiting = WAITING.1.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        };
        drop(waiting);
        for at in (start..end).step_by(PIECE) {
            if advise(at, PIECE.min(end - at), POPULATE_WRITE).is_err() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose only large block is its first allocation.
    #[test]
    fn what_is_allocated_before_the_thread_runs_waits_for_it() {
        enqueue(0x1000, 0x2000);
        assert!(WAITING.0.lock().expect("nobody panicked").is_empty(), "there is no thread");
        begin();
        enqueue(0x1000, 0x2000);
        assert_eq!(WAITING.0.lock().expect("nobody panicked").pop_front(), Some((0x1000, 0x2000)));
        end();
    }

    #[test]
    fn a_mapping_is_advised_whole() {
        assert_eq!(mapped(0x10010, 0x3000 - 0x10), (0x10000, 0x13000));
        assert_eq!(mapped(0x10010, 0x3000), (0x10000, 0x14000));
        assert_eq!(mapped(0x10000, 0x3000), (0x10000, 0x13000));
    }
}
