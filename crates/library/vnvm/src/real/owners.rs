//! The real host of one process: the NVM, the memory that processes share, and who they are.
//!
//! The shared memory is the file `shared` of the NVM's directory: the protocol's words, the system's start
//! that it belongs to, a table of processes, lock words. A process is known
//! by its number and the moment it began; one of another namespace, whose number says nothing here, by the
//! lock it holds on a file of its slot's.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pmem::life::{Life, boot};
use pmem::protect::Key;
use pmem::{Mapped, Os};
use rustix::fs::{FlockOperation, flock};
use space::{Env, Space};

use super::files::{RealFile, RealView};
use super::locks::Word;
use crate::error::{Error, Result};
use crate::host::{Host, Mode, Permit};
use crate::layout::SLOTS;
use crate::pool::{LOCKS, SHARED_BYTES};

const BOOT: u64 = SHARED_BYTES.next_multiple_of(64);
const OWNERS: u64 = BOOT + 64;
const OWNER: u64 = 32;
const LOCK_WORDS: u64 = OWNERS + OWNER * SLOTS as u64;
/// Bytes between locks: those of one line would disturb each other.
const LOCK_STEP: u64 = 64;
/// Bytes of the file.
pub(crate) const SHARED_FILE: u64 = LOCK_WORDS + LOCK_STEP * LOCKS as u64;

/// One process and its NVM.
#[derive(Debug)]
pub struct Real {
    env: Os<Mapped>,
    shared: Mapped,
    key: Option<Key>,
    slot: u32,
    directory: PathBuf,
    left: AtomicBool,
    /// Keeps the lock by which processes of other namespaces know that this one lives.
    _claim: File,
}

/// Says whose shared memory this is: this start of the system's.
pub(crate) fn begin(shared: &Mapped) {
    let now = boot();
    shared.store_u64(BOOT, now as u64);
    shared.store_u64(BOOT + 8, (now >> 64) as u64);
}

/// The slots of processes that live and have the memory, if it is of this start of the system.
pub(crate) fn living(shared: &Mapped, directory: &Path) -> Vec<u32> {
    let now = boot();
    if shared.load_u64(BOOT) != now as u64 || shared.load_u64(BOOT + 8) != (now >> 64) as u64 {
        return Vec::new();
    }
    (0..SLOTS).filter(|slot| owner(shared, *slot).is_some_and(|life| lives(life, directory, *slot))).collect()
}

fn owner(shared: &Mapped, slot: u32) -> Option<Life> {
    let at = OWNERS + OWNER * u64::from(slot);
    let word = |number: u64| shared.load_u64(at + 8 * number);
    (word(0) != 0).then(|| Life { pid: word(0), began: word(1), namespace: word(2) })
}

fn lives(life: Life, directory: &Path, slot: u32) -> bool {
    life.is_alive().unwrap_or_else(|| {
        let held = File::open(claim(directory, slot))
            .map(|file| flock(&file, FlockOperation::NonBlockingLockShared));
        matches!(held, Ok(Err(_)))
    })
}

fn claim(directory: &Path, slot: u32) -> PathBuf {
    directory.join(format!("slot-{slot}"))
}

/// A slot that nobody has, and its file, locked. A child of a dead process may still have the lock of its
/// parent's slot: that one is passed over.
fn free_slot(shared: &Mapped, directory: &Path) -> Result<(u32, File)> {
    for slot in (0..SLOTS).filter(|slot| owner(shared, *slot).is_none()) {
        let path = claim(directory, slot);
        let failed = |source| Error::Directory { action: "open", path: path.clone(), source };
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok((slot, file));
        }
    }
    Err(Error::TooMany { what: "processes", max: u64::from(SLOTS) })
}

impl Real {
    /// Takes a slot. The directory's lock is held.
    pub(crate) fn enter(nvm: Mapped, shared: Mapped, directory: &Path, protect: bool) -> Result<Real> {
        let (slot, file) = free_slot(&shared, directory)?;
        let key = if protect { Key::new() } else { None };
        let key = key.filter(|key| key.protect(&nvm).is_ok());
        let me = Life::of_this_process();
        let at = OWNERS + OWNER * u64::from(slot);
        shared.store_u64(at + 8, me.began);
        shared.store_u64(at + 16, me.namespace);
        shared.fence();
        shared.store_u64(at, me.pid);
        shared.fence();
        Ok(Real {
            env: Os::new(nvm),
            shared,
            key,
            slot,
            directory: directory.to_owned(),
            left: AtomicBool::new(false),
            _claim: file,
        })
    }

    /// Gives the slot back.
    pub(crate) fn exit(&self) {
        self.left.store(true, Ordering::Relaxed);
        self.retire(self.slot);
        _ = std::fs::remove_file(claim(&self.directory, self.slot));
    }

    /// Where the NVM's files are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether stray stores to the NVM fault.
    pub fn is_protected(&self) -> bool {
        self.key.is_some()
    }

    /// The NVM's memory.
    pub fn nvm(&self) -> &Mapped {
        self.env.space()
    }

    fn word(&self, number: u32) -> Word<'_> {
        Word { memory: &self.shared, at: LOCK_WORDS + LOCK_STEP * u64::from(number) }
    }

    fn is_dead(&self, slot: u32) -> bool {
        slot < SLOTS && owner(&self.shared, slot).is_none_or(|life| !lives(life, &self.directory, slot))
    }
}

impl Drop for Real {
    /// Who goes without having left is dead to the others, which adopt its state, although the process may
    /// live on.
    fn drop(&mut self) {
        if !self.left.load(Ordering::Relaxed) {
            self.shared.store_u64(OWNERS + OWNER * u64::from(self.slot) + 8, u64::MAX);
        }
    }
}

/// A held lock of several processes.
#[derive(Debug)]
pub struct Held<'m> {
    word: Word<'m>,
    slot: u32,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.word.give(self.slot);
    }
}

impl Host for Real {
    type Env = Os<Mapped>;
    type Shared = Mapped;
    type Guard<'a> = Held<'a>;
    type File = RealFile;
    type View = RealView;

    fn env(&self) -> &Os<Mapped> {
        &self.env
    }

    fn shared(&self) -> &Mapped {
        &self.shared
    }

    fn slot(&self) -> u32 {
        self.slot
    }

    fn pid(&self) -> u64 {
        u64::from(std::process::id())
    }

    fn lock(&self, number: u32) -> (Held<'_>, bool) {
        let word = self.word(number);
        let died = word.take(self.slot, |slot| self.is_dead(slot));
        (Held { word, slot: self.slot }, died)
    }

    fn dead(&self) -> Vec<u32> {
        let taken = (0..SLOTS).filter(|slot| *slot != self.slot && owner(&self.shared, *slot).is_some());
        taken.filter(|slot| self.is_dead(*slot)).collect()
    }

    fn retire(&self, slot: u32) {
        (0..LOCKS).for_each(|number| self.word(number).abandon(slot));
        self.shared.store_u64(OWNERS + OWNER * u64::from(slot), 0);
    }

    fn open(&self, path: &Path, make: Option<u64>) -> io::Result<RealFile> {
        RealFile::open(path, make)
    }

    fn view(&self, file: &RealFile, len: u64, mode: Mode) -> io::Result<RealView> {
        file.view(len, mode)
    }

    fn permit(&self) -> Permit {
        self.key.as_ref().map(Key::permit).unwrap_or_default()
    }
}
