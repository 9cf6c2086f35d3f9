//! Writes that are not cut into atoms: no image lacks them.
//!
//! A run that writes a gigabyte has more words than any search looks at. [`super::plan`] chooses crash
//! points; what can be lost at one of them becomes atoms, and the rest is kept as it was written, with its
//! bytes where they were put when they were read. A bulk survives from the moment it was made, and with it
//! all that was in its cells before it: of the images that the platform allows, those are made in which it
//! did.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::names::LENGTHS;
use super::rules::PAGE;
use crate::Place;

/// The word of an image that says how many bulks it has.
pub(crate) const BULKS: Place = Place((LENGTHS as u64) << 48 | 1 << 40);

/// So many bytes are held in memory, the rest in a file.
const IN_MEMORY: usize = 32 << 20;
/// Bytes that are written to that file at once.
const TAIL: usize = 1 << 20;

/// What calls wrote and stores stored, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Bytes {
    memory: Vec<u8>,
    file: Option<File>,
    /// How many the file has.
    written: usize,
    /// What comes behind them.
    tail: Vec<u8>,
    /// Blocks of the file that were read last: images ask for one word after the other.
    blocks: Vec<Mutex<Block>>,
}

/// A block of the file by its number, or none.
type Block = Option<(usize, Vec<u8>)>;

/// Bytes of a block, and blocks that are held.
const BLOCK: usize = 4096;
const BLOCKS: usize = 256;

impl Bytes {
    /// Adds bytes, and says where they are.
    pub fn keep(&mut self, bytes: &[u8]) -> io::Result<Range<usize>> {
        let from = self.len();
        if self.file.is_none() && self.memory.len() + bytes.len() <= IN_MEMORY {
            self.memory.extend_from_slice(bytes);
        } else {
            let file = match &mut self.file {
                Some(file) => file,
                none => {
                    self.blocks.resize_with(BLOCKS, Mutex::default);
                    none.insert(nameless()?)
                }
            };
            self.tail.extend_from_slice(bytes);
            if self.tail.len() >= TAIL {
                file.write_all_at(&self.tail, self.written as u64)?;
                self.written += self.tail.len();
                self.tail.clear();
            }
        }
        Ok(from..from + bytes.len())
    }

    fn len(&self) -> usize {
        self.memory.len() + self.written + self.tail.len()
    }

    /// Bytes that were kept together, or a part of them.
    pub fn get(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        let in_file = self.memory.len() + self.written;
        if range.end <= self.memory.len() {
            return Cow::Borrowed(&self.memory[range]);
        }
        if range.start >= in_file {
            return Cow::Borrowed(&self.tail[range.start - in_file..range.end - in_file]);
        }
        let mut bytes = vec![0; range.len()];
        self.copy(range.start, &mut bytes);
        Cow::Owned(bytes)
    }

    /// Copies the bytes from `from` on.
    fn copy(&self, from: usize, to: &mut [u8]) {
        let (memory, in_file) = (self.memory.len(), self.memory.len() + self.written);
        match &self.file {
            _ if from < memory => to.copy_from_slice(&self.memory[from..from + to.len()]),
            Some(file) if from < in_file => {
                self.read(file, from - memory, to);
            }
            _ => to.copy_from_slice(&self.tail[from - in_file..][..to.len()]),
        }
    }

    /// Reads bytes of the file, a few of them by the block that they are in.
    fn read(&self, file: &File, from: usize, to: &mut [u8]) {
        let exactly = |from: usize, to: &mut [u8]| {
            let read = file.read_exact_at(to, from as u64);
            read.expect("a file of the checker's own, which nobody else can change, is read");
        };
        let (number, at) = (from / BLOCK, from % BLOCK);
        if at + to.len() > BLOCK || to.len() > BLOCK / 2 || (number + 1) * BLOCK > self.written {
            return exactly(from, to);
        }
        let mut block = self.blocks[number % BLOCKS].lock().unwrap_or_else(PoisonError::into_inner);
        if block.as_ref().is_none_or(|(held, _)| *held != number) {
            let (_, bytes) = block.insert((number, vec![0; BLOCK]));
            exactly(number * BLOCK, bytes);
        }
        if let Some((_, bytes)) = &*block {
            to.copy_from_slice(&bytes[at..at + to.len()]);
        }
    }

    /// Bytes that are held in memory.
    #[cfg(test)]
    fn held(&self) -> usize {
        self.memory.len() + self.tail.len()
    }
}

/// A file without a name, on a disk if that is possible: `/tmp` is often memory.
fn nameless() -> io::Result<File> {
    let (folder, disk) = (std::env::temp_dir(), Path::new("/var/tmp"));
    if folder == Path::new("/tmp") && disk.is_dir() {
        return tempfile::tempfile_in(disk);
    }
    tempfile::tempfile_in(folder)
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    pub place: Place,
    pub len: u64,
    /// Where its bytes are; none if they are zeros.
    pub bytes: Option<usize>,
    /// What the lengths' cell of the file is, which becomes durable with it.
    pub length: u64,
}

impl Bulk {
    /// Behind its last byte.
    pub fn end(&self) -> Place {
        Place(self.place.0 + self.len)
    }

    fn pages(&self) -> Range<u64> {
        self.place.0 / PAGE..self.end().0.div_ceil(PAGE)
    }
}

/// All of a run, by their order.
#[derive(Debug, Default)]
pub(crate) struct Bulks {
    pub bytes: Bytes,
    all: Vec<Bulk>,
    /// Those that wrote to a page.
    by_page: HashMap<u64, Vec<u32>>,
}

impl Bulks {
    pub fn new(bytes: Bytes) -> Self {
        Bulks { bytes, ..Bulks::default() }
    }

    /// Adds one and gives its number.
    pub fn add(&mut self, bulk: Bulk) -> u32 {
        let number = self.all.len() as u32;
        for page in bulk.pages() {
            self.by_page.entry(page).or_default().push(number);
        }
        self.all.push(bulk);
        number
    }

    pub fn get(&self, number: u32) -> Bulk {
        self.all[number as usize]
    }

    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Puts into `bytes`, which begin at `place`, what the first `count` bulks wrote there.
    pub fn fill(&self, place: Place, bytes: &mut [u8], count: u32) {
        if count == 0 || bytes.is_empty() {
            return;
        }
        let end = place.0 + bytes.len() as u64;
        let mut from = place.0;
        while from < end {
            let to = ((from / PAGE + 1) * PAGE).min(end);
            let (a, b) = ((from - place.0) as usize, (to - place.0) as usize);
            self.fill_page(from, &mut bytes[a..b], count);
            from = to;
        }
    }

    fn fill_page(&self, from: u64, bytes: &mut [u8], count: u32) {
        let Some(of_page) = self.by_page.get(&(from / PAGE)) else { return };
        let made = &of_page[..of_page.partition_point(|&number| number < count)];
        let end = from + bytes.len() as u64;
        let covers = |&number: &u32| {
            let bulk = self.get(number);
            bulk.place.0 <= from && end <= bulk.end().0
        };
        let first = made.iter().rposition(covers).unwrap_or(0);
        for &number in &made[first..] {
            let bulk = self.get(number);
            let (a, b) = (bulk.place.0.max(from), bulk.end().0.min(end));
            if a >= b {
                continue;
            }
            let to = &mut bytes[(a - from) as usize..(b - from) as usize];
            match bulk.bytes {
                Some(at) => self.bytes.copy(at + (a - bulk.place.0) as usize, to),
                None => to.fill(0),
            }
        }
    }

    /// Puts into `bytes`, which begin at `place`, what this bulk wrote there.
    pub fn fill_by(&self, number: u32, place: Place, bytes: &mut [u8]) {
        let bulk = self.get(number);
        for (at, byte) in (place.0..).zip(bytes) {
            if (bulk.place.0..bulk.end().0).contains(&at) {
                let mut one = [0];
                if let Some(from) = bulk.bytes {
                    self.bytes.copy(from + (at - bulk.place.0) as usize, &mut one);
                }
                [*byte] = one;
            }
        }
    }

    /// Whether any wrote to the page of `place`.
    pub fn has_page(&self, place: Place) -> bool {
        self.by_page.contains_key(&(place.0 / PAGE))
    }

    /// Pages that any wrote to, by [`Place`] divided by the page's length.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.by_page.keys().copied()
    }

    /// Numbers of the pages in the first `len` bytes of a file that any wrote to.
    pub fn pages_in(&self, file: u16, len: u64) -> Vec<u64> {
        let pages = Place::new(file, 0).0 / PAGE..Place::new(file, 0).0 / PAGE + len.div_ceil(PAGE);
        let mut own: Vec<u64> = self.pages().filter(|page| pages.contains(page)).collect();
        own.sort_unstable();
        own.into_iter().map(|page| page - pages.start).collect()
    }

    /// Pages of a bulk, by file and number in it.
    pub fn pages_of(bulk: Bulk) -> impl Iterator<Item = (u16, u64)> {
        bulk.pages().map(|page| {
            let place = Place(page * PAGE);
            (place.file(), place.offset() / PAGE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_beyond_the_memory_are_read_as_they_were_kept() {
        let mut bytes = Bytes::default();
        let piece = |number: usize| vec![number as u8; 700_001];
        let places: Vec<_> = (0..100).map(|at| bytes.keep(&piece(at)).expect("they are kept")).collect();
        assert!(bytes.held() <= IN_MEMORY + TAIL, "{}", bytes.held());
        for (number, place) in places.into_iter().enumerate() {
            assert!(*bytes.get(place.clone()) == piece(number)[..], "piece {number}");
            let mut word = [0; 8];
            for from in [place.start, place.start + 3333, place.end - 8] {
                bytes.copy(from, &mut word);
                assert_eq!(word, [number as u8; 8], "piece {number} at {from}");
            }
        }
    }

    #[test]
    fn a_page_is_what_the_first_bulks_made_of_it() {
        let mut bulks = Bulks::default();
        for (offset, len, byte) in [(0, 9000, 1), (4000, 200, 2), (4096, 4096, 3)] {
            let bytes = bulks.bytes.keep(&vec![byte; len]).expect("they are kept").start;
            let place = Place::new(5, offset);
            bulks.add(Bulk { place, len: len as u64, bytes: Some(bytes), length: 0 });
        }
        bulks.add(Bulk { place: Place::new(5, 4100), len: 4, bytes: None, length: 0 });
        let read = |count| {
            let mut bytes = [9; 200];
            bulks.fill(Place::new(5, 3990), &mut bytes, count);
            [0, 10, 105, 106, 109, 110, 114].map(|at| bytes[at])
        };
        assert_eq!(read(0), [9; 7]);
        assert_eq!(read(1), [1; 7]);
        assert_eq!(read(2), [1, 2, 2, 2, 2, 2, 2]);
        assert_eq!(read(3), [1, 2, 2, 3, 3, 3, 3]);
        assert_eq!(read(4), [1, 2, 2, 3, 3, 0, 3]);
    }
}
