//! Bare logs: what a commit costs that does no more than its log.
//!
//! They know neither pages nor other processes, recover nothing, and check nothing; each is the least that
//! its protocol does.

use pmem::Mapped;
use space::{LINE, Space};

use crate::error::Error;

/// Writes of one transaction: where, and the same bytes everywhere.
pub struct Writes<'w> {
    pub places: &'w [u64],
    pub bytes: &'w [u8],
}

/// Something that commits.
pub trait Commits {
    /// Makes the writes of one transaction durable and visible.
    fn commit(&mut self, writes: &Writes<'_>) -> Result<(), Error>;
}

/// A ring of log records.
struct Ring {
    log: Mapped,
    at: u64,
    record: Vec<u8>,
}

impl Ring {
    fn new(bytes: u64) -> Result<Ring, Error> {
        Ok(Ring { log: Mapped::anonymous(bytes)?, at: 0, record: Vec::new() })
    }

    /// Appends a record by non-temporal stores, with a check, so that one fence makes it durable. Whether
    /// the log began anew.
    fn append(&mut self, writes: &Writes<'_>) -> bool {
        self.record.clear();
        self.record.extend_from_slice(&[0; 8]);
        for place in writes.places {
            self.record.extend_from_slice(&(writes.bytes.len() as u64).to_le_bytes());
            self.record.extend_from_slice(&place.to_le_bytes());
            self.record.extend_from_slice(writes.bytes);
        }
        let check = xxhash_rust::xxh3::xxh3_64(&self.record[8..]);
        self.record[..8].copy_from_slice(&check.to_le_bytes());
        self.record.resize(self.record.len().next_multiple_of(LINE as usize), 0);
        let again = self.at + self.record.len() as u64 > self.log.len();
        if again {
            self.at = 0;
        }
        self.log.store_nt(self.at, &self.record);
        self.at += self.record.len() as u64;
        again
    }
}

/// Redo: one record, one fence, then the words in place.
pub struct Redo {
    ring: Ring,
    array: Mapped,
}

impl Redo {
    pub fn new(log: u64, array: u64) -> Result<Redo, Error> {
        Ok(Redo { ring: Ring::new(log)?, array: Mapped::anonymous(array)? })
    }
}

impl Commits for Redo {
    fn commit(&mut self, writes: &Writes<'_>) -> Result<(), Error> {
        self.ring.append(writes);
        self.ring.log.fence();
        writes.places.iter().for_each(|place| self.array.store(*place, writes.bytes));
        Ok(())
    }
}

/// Undo: the old bytes of each write are durable before it; at the end all new ones are, then the end itself
/// is.
pub struct Undo {
    ring: Ring,
    array: Mapped,
    old: Vec<u8>,
}

impl Undo {
    pub fn new(log: u64, array: u64) -> Result<Undo, Error> {
        Ok(Undo { ring: Ring::new(log)?, array: Mapped::anonymous(array)?, old: Vec::new() })
    }
}

impl Commits for Undo {
    fn commit(&mut self, writes: &Writes<'_>) -> Result<(), Error> {
        self.old.resize(writes.bytes.len(), 0);
        for place in writes.places {
            self.array.load(*place, &mut self.old);
            self.ring.append(&Writes { places: &[*place], bytes: &self.old });
            self.ring.log.fence();
            self.array.store(*place, writes.bytes);
            self.array.flush(*place, writes.bytes.len() as u64);
        }
        self.array.fence();
        self.ring.append(&Writes { places: &[], bytes: &[] });
        self.ring.log.fence();
        Ok(())
    }
}

/// As SoftWrAP: redo, accesses in DRAM, and what is in DRAM retired to its place in NVM when the log is full.
pub struct SoftWrap {
    ring: Ring,
    dram: Mapped,
    home: Mapped,
    touched: Vec<(u64, u64)>,
}

impl SoftWrap {
    pub fn new(log: u64, array: u64) -> Result<SoftWrap, Error> {
        let (dram, home) = (Mapped::anonymous(array)?, Mapped::anonymous(array)?);
        Ok(SoftWrap { ring: Ring::new(log)?, dram, home, touched: Vec::new() })
    }

    fn retire(&mut self) {
        let mut bytes = Vec::new();
        for (at, len) in self.touched.drain(..) {
            bytes.resize(len as usize, 0);
            self.dram.load(at, &mut bytes);
            self.home.store_nt(at, &bytes);
        }
        self.home.fence();
    }
}

impl Commits for SoftWrap {
    fn commit(&mut self, writes: &Writes<'_>) -> Result<(), Error> {
        let again = self.ring.append(writes);
        self.ring.log.fence();
        if again {
            self.retire();
        }
        let len = writes.bytes.len() as u64;
        for place in writes.places {
            self.dram.store(*place, writes.bytes);
            self.touched.push((*place, len));
        }
        Ok(())
    }
}
