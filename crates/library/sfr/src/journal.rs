//! The redo journal of failure-atomic `msync`: a header, and records of what each `msync` writes to a file.
//!
//! A record counts if it is whole and of the header's generation, and so does each before it; so a crash leaves any number
//! of records, which are copied into the file in order. The header gets a new generation, durably, after the file was
//! synced and before a record is overwritten. All numbers are little-endian.
//!
//! | bytes of the header | |
//! |---|---|
//! | 0..8 | `slmsync1` |
//! | 8..16 | the generation |
//! | 16..24 | XXH3 of the bytes before |
//!
//! Records begin at byte 4096, each at a multiple of 512:
//!
//! | bytes of a record | |
//! |---|---|
//! | 0..8 | `slrecord` |
//! | 8..16, 16..24 | the generation, and the record's number in it, from 0 |
//! | 24..32 | bytes that the file has |
//! | 32..40, 40..48 | how many ranges there are, and how many bytes they have together |
//! | 48..56 | XXH3 of the record, with zeros here |
//! | 56..64 | zeros |
//! | 64.. | for each range its offset and its bytes; then the bytes of all ranges |
//!
//! Whoever has a journal makes a record durable with [`Journal::append`] and then writes the same bytes to the file itself.

use std::collections::HashSet;
use std::io::{Error, ErrorKind, Result};

use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the unit in which a journal remembers what it speaks of.
const PAGE: u64 = 4096;

/// A file, as a journal needs it. A crash keeps what was written before a [`Disk::sync`] that returned, and of what was written
/// since any sectors of 512 bytes.
pub trait Disk {
    /// Reads as much as there is; how much that was.
    ///
    /// # Errors
    /// As the system says.
    fn read(&self, at: u64, to: &mut [u8]) -> Result<usize>;

    /// Writes all of it; the file gets longer if need be.
    ///
    /// # Errors
    /// As the system says.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;

    /// Makes what was written durable, and the length.
    ///
    /// # Errors
    /// As the system says.
    fn sync(&self) -> Result<()>;

    /// Bytes that the file has.
    ///
    /// # Errors
    /// As the system says.
    fn length(&self) -> Result<u64>;

    /// Makes the file longer, by zeros, or shorter.
    ///
    /// # Errors
    /// As the system says.
    fn set_length(&self, length: u64) -> Result<()>;
}

/// A fault for a broken twin of the journal.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A record is not synced before the caller writes the file.
    RecordNotSynced,
    /// A record's header is written, durably, before what it speaks of, and recovery believes it.
    MarkFirst,
    /// The last range is left out.
    RangeDropped,
    /// A record counts whether or not its bytes are what was written.
    TornTail,
    /// The journal begins anew although the file was not synced.
    FileNotSynced,
    /// Records are overwritten before the new generation is durable.
    GenerationNotSynced,
    /// Records count whatever their generation.
    AnyGeneration,
    /// Recovery begins anew before what it copied is durable.
    CopyNotSynced,
}

/// How long a journal gets, and the fault of a broken twin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// With so many bytes of records the journal begins anew.
    pub full: u64,
    /// Zeros that are written ahead of short records, so that their syncs need not make a new length durable.
    pub ahead: u64,
    /// The fault.
    #[doc(hidden)]
    pub fault: Option<Fault>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { full: 16 << 20, ahead: 1 << 20, fault: None }
    }
}

const MAGIC: &[u8; 8] = b"slmsync1";
const RECORD: &[u8; 8] = b"slrecord";
/// Where records begin.
const BEGIN: u64 = 4096;
/// Records begin at multiples of this, the part of a file that a disk writes whole.
const SECTOR: u64 = 512;
const RECORD_HEADER: usize = 64;
/// A journal that was recovered. Whoever has it keeps other processes away from it.
#[derive(Debug)]
pub struct Journal<D> {
    disk: D,
    limits: Limits,
    generation: u64,
    sequence: u64,
    /// Where the next record begins.
    end: u64,
    /// Bytes that the file has.
    allocated: u64,
    /// Pages of the data's file that records say something of.
    pages: HashSet<u64>,
}

/// Bytes to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte, in the file.
    pub offset: u64,
    /// How many there are; at least 1.
    pub bytes: u64,
}

impl<D: Disk> Journal<D> {
    /// Copies what the journal has into the file, durably, and begins anew. An empty journal is as good as none.
    ///
    /// # Errors
    /// If the header is there and not a journal's ([`ErrorKind::InvalidData`]), and as the system says.
    pub fn recover(disk: D, data: &D, limits: Limits) -> Result<Self> {
        let allocated = disk.length()?;
        let pages = HashSet::new();
        let mut journal = Journal { disk, limits, generation: 0, sequence: 0, end: BEGIN, allocated, pages };
        journal.read_header()?;
        journal.replay(data)?;
        journal.begin_anew()?;
        Ok(journal)
    }

    /// Its file.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    fn has(&self, fault: Fault) -> bool {
        self.limits.fault == Some(fault)
    }

    fn read_header(&mut self) -> Result<()> {
        let mut header = [0; 24];
        let got = self.disk.read(0, &mut header)?;
        let cut = header[..got].iter().all(|byte| *byte == 0);
        if cut {
            // It was being made.
            return Ok(());
        }
        if got < header.len() || &header[..8] != MAGIC {
            let what = "not a journal of ours; move it away if its file needs nothing of it";
            return Err(Error::new(ErrorKind::InvalidData, what));
        }
        if xxh3_64(&header[..16]).to_le_bytes() != header[16..] {
            return Err(Error::new(ErrorKind::InvalidData, "the header is damaged"));
        }
        self.generation = number(&header, 8);
        Ok(())
    }

    /// Copies whole records into the file, and makes that durable.
    fn replay(&mut self, data: &D) -> Result<()> {
        let mut any = false;
        while let Some(record) = self.read_record()? {
            let length = number(&record, 24);
            if data.length()? < length {
                data.set_length(length)?;
            }
            let mut from = RECORD_HEADER + 16 * number(&record, 32) as usize;
            for index in 0..number(&record, 32) as usize {
                let at = RECORD_HEADER + 16 * index;
                let (offset, bytes) = (number(&record, at), number(&record, at + 8) as usize);
                data.write(offset, &record[from..from + bytes])?;
                from += bytes;
            }
            self.end += (record.len() as u64).next_multiple_of(SECTOR);
            self.sequence += 1;
            any = true;
        }
        if any && !self.has(Fault::CopyNotSynced) { data.sync() } else { Ok(()) }
    }

    /// The record at the end, if it is whole.
    fn read_record(&self) -> Result<Option<Vec<u8>>> {
        let mut header = [0; RECORD_HEADER];
        if self.disk.read(self.end, &mut header)? < RECORD_HEADER || &header[..8] != RECORD {
            return Ok(None);
        }
        let generation = self.has(Fault::AnyGeneration) || number(&header, 8) == self.generation;
        if !generation || number(&header, 16) != self.sequence {
            return Ok(None);
        }
        let (ranges, bytes) = (number(&header, 32), number(&header, 40));
        let all =
            ranges.checked_mul(16).and_then(|all| all.checked_add(bytes)?.checked_add(RECORD_HEADER as u64));
        let Some(all) = all.filter(|all| *all <= self.allocated.saturating_sub(self.end)) else {
            return Ok(None);
        };
        let mut record = vec![0; all as usize];
        if self.disk.read(self.end, &mut record)? < record.len() {
            return Ok(None);
        }
        let sum = number(&record, 48);
        record[48..56].fill(0);
        let sized = (0..ranges as usize).map(|index| number(&record, RECORD_HEADER + 16 * index + 8));
        let fits = sized.fold(0_u64, u64::saturating_add) == bytes;
        let believed = self.has(Fault::TornTail) || self.has(Fault::MarkFirst);
        Ok((fits && (believed || xxh3_64(&record) == sum)).then_some(record))
    }

    /// Makes a record durable: after this a crash leaves its ranges in the file. `data` are their bytes, one behind the
    /// other, and `length` is the file's.
    ///
    /// # Errors
    /// As the system says. Whether the record is durable is then unknown, and nothing may be built on it.
    pub fn append(&mut self, ranges: &[Range], data: &[u8], length: u64) -> Result<()> {
        let (ranges, data) = match ranges.split_last() {
            Some((last, others)) if self.has(Fault::RangeDropped) => {
                (others, &data[..data.len() - last.bytes as usize])
            }
            _ => (ranges, data),
        };
        let mut record = Vec::with_capacity(RECORD_HEADER + 16 * ranges.len() + data.len());
        record.extend_from_slice(RECORD);
        let numbers = [self.generation, self.sequence, length, ranges.len() as u64, data.len() as u64, 0, 0];
        numbers.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        for range in ranges {
            record.extend_from_slice(&range.offset.to_le_bytes());
            record.extend_from_slice(&range.bytes.to_le_bytes());
        }
        record.extend_from_slice(data);
        let sum = xxh3_64(&record);
        record[48..56].copy_from_slice(&sum.to_le_bytes());
        let end = self.end + (record.len() as u64).next_multiple_of(SECTOR);
        record.resize((end - self.end) as usize, 0);
        self.allocate(end)?;
        if self.has(Fault::MarkFirst) {
            self.disk.write(self.end, &record[..RECORD_HEADER + 16 * ranges.len()])?;
            self.disk.sync()?;
        }
        self.disk.write(self.end, &record)?;
        if !self.has(Fault::RecordNotSynced) {
            self.disk.sync()?;
        }
        self.end = end;
        self.sequence += 1;
        for range in ranges {
            self.pages.extend(range.offset / PAGE..=(range.offset + range.bytes - 1) / PAGE);
        }
        Ok(())
    }

    fn allocate(&mut self, end: u64) -> Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        let ahead = self.limits.ahead;
        if end - self.end < ahead {
            let zeros = vec![0; (end + ahead - self.allocated) as usize];
            self.disk.write(self.allocated, &zeros)?;
            self.allocated += zeros.len() as u64;
        } else {
            self.allocated = end;
        }
        Ok(())
    }

    /// Whether it is time to begin anew.
    pub fn is_full(&self) -> bool {
        self.end > self.limits.full
    }

    /// Whether records say something of these bytes.
    pub fn speaks_of(&self, offset: u64, bytes: u64) -> bool {
        let mut pages = offset / PAGE..offset.saturating_add(bytes).div_ceil(PAGE);
        if pages.end - pages.start > self.pages.len() as u64 {
            return self.pages.iter().any(|page| pages.contains(page));
        }
        pages.any(|page| self.pages.contains(&page))
    }

    /// Syncs the file, so that no record is needed.
    ///
    /// # Errors
    /// As the system says.
    pub fn retire(&mut self, data: &D) -> Result<()> {
        if self.sequence == 0 {
            return Ok(());
        }
        if !self.has(Fault::FileNotSynced) {
            data.sync()?;
        }
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> Result<()> {
        let mut header = [0; 24];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&(self.generation + 1).to_le_bytes());
        let sum = xxh3_64(&header[..16]);
        header[16..].copy_from_slice(&sum.to_le_bytes());
        self.disk.write(0, &header)?;
        self.allocated = self.allocated.max(header.len() as u64);
        if !self.has(Fault::GenerationNotSynced) {
            self.disk.sync()?;
        }
        self.generation += 1;
        self.sequence = 0;
        self.end = BEGIN;
        self.pages.clear();
        Ok(())
    }
}

/// The number at an offset.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
