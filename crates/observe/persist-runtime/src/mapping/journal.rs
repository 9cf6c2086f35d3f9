//! The redo journal beside a file, `FILE.sl-journal`: a header, and records of what `msync` wrote.
//!
//! A record counts if it is whole and of the header's generation, and so does each before it; so a crash leaves any number
//! of records, which are copied into the file in order. The header gets a new generation, durably, after the file was
//! synced and before a record is overwritten. All numbers are little-endian.

use std::collections::HashSet;
use std::ffi::{CString, c_uint};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::dirty::PAGE;
use super::file::{self, File};

const MAGIC: &[u8; 8] = b"slmsync1";
const RECORD: &[u8; 8] = b"slrecord";
/// Where records begin.
const BEGIN: u64 = 4096;
/// Records begin at multiples of this, the part of a file that a disk writes whole.
const SECTOR: u64 = 512;
const RECORD_HEADER: usize = 64;
/// With so many bytes of records the journal begins anew.
const LIMIT: u64 = 16 << 20;
/// Zeros that are written ahead of short records, so that their syncs need not make a new length durable.
const AHEAD: u64 = 1 << 20;

/// A journal, locked for this process.
pub struct Journal {
    path: PathBuf,
    file: File,
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
pub struct Range {
    pub offset: u64,
    pub bytes: u64,
}

/// The name of a file's journal.
pub fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".sl-journal");
    PathBuf::from(name)
}

/// What is the matter with a journal, by name.
fn bad(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

impl Journal {
    /// Opens a file's journal, makes it if `mode` says with which permissions, and copies what it has into the file;
    /// `None` if there is none. `WouldBlock` says that another process has it.
    pub fn open(of: &Path, data: &File, mode: Option<c_uint>) -> Result<Option<Journal>> {
        let path = path_of(of);
        let name = CString::new(path.as_os_str().as_bytes())?;
        let (file, new) = loop {
            let old = File::open(&name, libc::O_RDWR, 0);
            let (file, new) = match (old, mode) {
                (Ok(file), _) => (file, false),
                (Err(error), Some(mode)) if error.kind() == ErrorKind::NotFound => {
                    (File::open(&name, libc::O_RDWR | libc::O_CREAT, mode)?, true)
                }
                (Err(error), None) if error.kind() == ErrorKind::NotFound => return Ok(None),
                (Err(error), _) => return Err(error),
            };
            file.lock()?;
            // Who had it may have removed it meanwhile.
            if file::identity_of(&name).ok() == Some(file.identity()?.0) {
                break (file, new);
            }
        };
        let allocated = file.identity()?.1;
        let mut journal =
            Journal { path, file, generation: 0, sequence: 0, end: BEGIN, allocated, pages: HashSet::new() };
        journal.read_header()?;
        journal.replay(data)?;
        journal.begin_anew()?;
        if new {
            file::sync_directory_of(&journal.path)?;
        }
        Ok(Some(journal))
    }

    fn read_header(&mut self) -> Result<()> {
        let mut header = [0; 24];
        let got = self.file.read(0, &mut header)?;
        let cut = header[..got].iter().all(|byte| *byte == 0);
        if cut {
            // It was being made.
            return Ok(());
        }
        if got < header.len() || &header[..8] != MAGIC {
            return Err(bad(
                &self.path,
                "not a journal of ours; move it away if its file needs nothing of it",
            ));
        }
        if xxh3_64(&header[..16]).to_le_bytes() != header[16..] {
            return Err(bad(&self.path, "the header is damaged"));
        }
        self.generation = number(&header, 8);
        Ok(())
    }

    /// Copies whole records into the file, and makes that durable.
    fn replay(&mut self, data: &File) -> Result<()> {
        let mut any = false;
        while let Some(record) = self.read_record()? {
            let length = number(&record, 24);
            if data.identity()?.1 < length {
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
        if any { data.sync() } else { Ok(()) }
    }

    /// The record at the end, if it is whole.
    fn read_record(&self) -> Result<Option<Vec<u8>>> {
        let mut header = [0; RECORD_HEADER];
        if self.file.read(self.end, &mut header)? < RECORD_HEADER || &header[..8] != RECORD {
            return Ok(None);
        }
        if (number(&header, 8), number(&header, 16)) != (self.generation, self.sequence) {
            return Ok(None);
        }
        let (ranges, bytes) = (number(&header, 32), number(&header, 40));
        let all =
            ranges.checked_mul(16).and_then(|all| all.checked_add(bytes)?.checked_add(RECORD_HEADER as u64));
        let Some(all) = all.filter(|all| *all <= self.allocated.saturating_sub(self.end)) else {
            return Ok(None);
        };
        let mut record = vec![0; all as usize];
        if self.file.read(self.end, &mut record)? < record.len() {
            return Ok(None);
        }
        let sum = number(&record, 48);
        record[48..56].fill(0);
        let sized = (0..ranges as usize).map(|index| number(&record, RECORD_HEADER + 16 * index + 8));
        let fits = sized.fold(0_u64, u64::saturating_add) == bytes;
        Ok((fits && xxh3_64(&record) == sum).then_some(record))
    }

    /// Makes a record durable: after this a crash leaves its ranges in the file. `data` are their bytes, one behind the
    /// other, and `length` is the file's.
    pub fn append(&mut self, ranges: &[Range], data: &[u8], length: u64) -> Result<()> {
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
        self.file.write(self.end, &record)?;
        self.file.sync()?;
        self.end = end;
        self.sequence += 1;
        for range in ranges {
            self.pages.extend(range.offset / PAGE as u64..=(range.offset + range.bytes - 1) / PAGE as u64);
        }
        Ok(())
    }

    fn allocate(&mut self, end: u64) -> Result<()> {
        if end <= self.allocated {
            return Ok(());
        }
        if end - self.end < AHEAD {
            let zeros = vec![0; (end + AHEAD - self.allocated) as usize];
            self.file.write(self.allocated, &zeros)?;
            self.allocated += zeros.len() as u64;
        } else {
            self.allocated = end;
        }
        Ok(())
    }

    /// Whether it is time to begin anew.
    pub fn is_full(&self) -> bool {
        self.end > LIMIT
    }

    /// Whether records say something of these bytes.
    pub fn speaks_of(&self, offset: u64, bytes: u64) -> bool {
        let page = PAGE as u64;
        let mut pages = offset / page..offset.saturating_add(bytes).div_ceil(page);
        if pages.end - pages.start > self.pages.len() as u64 {
            return self.pages.iter().any(|page| pages.contains(page));
        }
        pages.any(|page| self.pages.contains(&page))
    }

    /// Syncs the file, so that no record is needed.
    pub fn retire(&mut self, data: &File) -> Result<()> {
        if self.sequence == 0 {
            return Ok(());
        }
        data.sync()?;
        self.begin_anew()
    }

    fn begin_anew(&mut self) -> Result<()> {
        let mut header = [0; 24];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&(self.generation + 1).to_le_bytes());
        let sum = xxh3_64(&header[..16]);
        header[16..].copy_from_slice(&sum.to_le_bytes());
        self.file.write(0, &header)?;
        self.allocated = self.allocated.max(header.len() as u64);
        self.file.sync()?;
        self.generation += 1;
        self.sequence = 0;
        self.end = BEGIN;
        self.pages.clear();
        Ok(())
    }

    /// Removes it; it was retired.
    pub fn remove(self) {
        if let Ok(name) = CString::new(self.path.as_os_str().as_bytes()) {
            // One that stays has no records.
            _ = file::remove(&name);
        }
    }
}

/// The number at an offset.
fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
