//! A host in one recorded memory: threads for processes, ranges of the memory for files. What a file was
//! written and not synced is a store that was not flushed, so a crash may lose any words of it.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use space::{Env, Image, Space};
use vnvm::{Backing, Host, LOCKS, Mode, SHARED_BYTES, Sizes, View};

/// Files, by name: where they are.
pub const FILES: u64 = 4;
pub const FILE_BYTES: u64 = 4 * 128;

pub fn sizes() -> Sizes {
    Sizes { log_page: 128, cache_page: 128, log_pages: 16, cache_pages: 6, files: 4 }
}

pub fn bytes() -> u64 {
    sizes().bytes() + FILES * FILE_BYTES
}

pub fn file_at(number: u64) -> u64 {
    sizes().bytes() + number * FILE_BYTES
}

/// What all processes have in common.
pub struct Machine<'e, E: Env> {
    pub env: &'e E,
    pub shared: Image,
    locks: Vec<E::Mutex<()>>,
    /// Slots whose processes died.
    pub dead: Mutex<BTreeSet<u32>>,
    /// The disk behind the files takes no more.
    pub full: AtomicBool,
}

impl<'e, E: Env> Machine<'e, E> {
    pub fn new(env: &'e E) -> Self {
        // Those of the region numbers that there are.
        let locks = (0..LOCKS.min(16)).map(|_| env.mutex(())).collect();
        Machine {
            env,
            shared: Image::new(SHARED_BYTES),
            locks,
            dead: Mutex::default(),
            full: AtomicBool::new(false),
        }
    }

    pub fn process(&self, slot: u32) -> SimHost<'_, 'e, E> {
        SimHost { machine: self, slot }
    }

    pub fn die(&self, slot: u32) {
        self.dead.lock().unwrap_or_else(PoisonError::into_inner).insert(slot);
    }
}

/// A process.
pub struct SimHost<'m, 'e, E: Env> {
    machine: &'m Machine<'e, E>,
    slot: u32,
}

pub struct SimFile<'m, 'e, E: Env> {
    machine: &'m Machine<'e, E>,
    number: u64,
}

pub struct SimView<'m, 'e, E: Env> {
    file: SimFile<'m, 'e, E>,
    /// Of a private mapping: what this process sees.
    own: Option<Mutex<Vec<u8>>>,
}

impl<E: Env> SimFile<'_, '_, E> {
    fn at(&self, offset: u64) -> u64 {
        file_at(self.number) + offset
    }
}

impl<E: Env> Backing for SimFile<'_, '_, E> {
    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.machine.env.space().load(self.at(offset), bytes);
        Ok(())
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.machine.full.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.machine.env.space().store(self.at(offset), bytes);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.machine.env.space().persist(self.at(0), FILE_BYTES);
        Ok(())
    }
    fn identity(&self) -> [u64; 2] {
        [1, self.number]
    }
}

impl<E: Env> View for SimView<'_, '_, E> {
    fn apply(&self, offset: u64, bytes: &[u8]) {
        match &self.own {
            Some(own) => {
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                own[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            None => self.file.machine.env.space().store(self.file.at(offset), bytes),
        }
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        match &self.own {
            Some(own) => {
                let own = own.lock().unwrap_or_else(PoisonError::into_inner);
                bytes.copy_from_slice(&own[offset as usize..][..bytes.len()]);
            }
            None => self.file.machine.env.space().load(self.file.at(offset), bytes),
        }
    }
    fn sync(&self, range: Range<u64>) -> io::Result<()> {
        self.file.machine.env.space().persist(self.file.at(range.start), range.end - range.start);
        Ok(())
    }
    fn address(&self) -> usize {
        0
    }
}

impl<'m, 'e, E: Env> Host for SimHost<'m, 'e, E> {
    type Env = E;
    type Shared = Image;
    type Guard<'a>
        = E::MutexGuard<'a, ()>
    where
        Self: 'a;
    type File = SimFile<'m, 'e, E>;
    type View = SimView<'m, 'e, E>;

    fn env(&self) -> &E {
        self.machine.env
    }
    fn shared(&self) -> &Image {
        &self.machine.shared
    }
    fn slot(&self) -> u32 {
        self.slot
    }
    fn pid(&self) -> u64 {
        100 + u64::from(self.slot)
    }
    fn lock(&self, number: u32) -> (E::MutexGuard<'_, ()>, bool) {
        (self.machine.env.lock(&self.machine.locks[number as usize]), false)
    }
    fn dead(&self) -> Vec<u32> {
        self.machine.dead.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
    fn retire(&self, slot: u32) {
        self.machine.dead.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot);
    }
    fn open(&self, path: &Path, _: Option<u64>) -> io::Result<SimFile<'m, 'e, E>> {
        let number = path.to_string_lossy().parse().map_err(|_| io::ErrorKind::NotFound)?;
        if number >= FILES {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(SimFile { machine: self.machine, number })
    }
    fn view(&self, file: &SimFile<'m, 'e, E>, len: u64, mode: Mode) -> io::Result<SimView<'m, 'e, E>> {
        let file = SimFile { machine: self.machine, number: file.number };
        let own = (mode != Mode::Shared).then(|| {
            let mut bytes = vec![0; len as usize];
            file.machine.env.space().load(file.at(0), &mut bytes);
            Mutex::new(bytes)
        });
        Ok(SimView { file, own })
    }
}
