//! A space whose contents can be changed under a program, and put back after it.
//!
//! A crash checker asks one question of very many images that differ little: does recovery cope with this
//! one? Making each image anew costs more than the answer. So a [`Scratch`] holds one image.
//! [`Scratch::apply`] turns it into the next one by the words that differ, recovery runs on it as on any
//! space, and [`Scratch::rollback`] takes back what recovery wrote, line by line, and nothing else.
//!
//! Meanwhile it notes which words recovery read before it wrote them ([`Scratch::touched`]). Two images that
//! agree on those make recovery do the same, so one of them need not be tried. What is noted holds per 8-byte
//! word and is on the safe side: a word that recovery wrote in part counts as read when any of it is read.
//!
//! Everything that is noted is stamped with the number of the run, so that nothing has to be wiped between
//! two runs.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed};

use event::FlushKind;

use crate::image::place;
use crate::{LINE, Prestore, Space, Word, check_range, check_whole_words, word_index};

/// Words of a line.
const WORDS: usize = (LINE / 8) as usize;

/// An image that recovery may read and write freely, and that can be rolled back.
///
/// It is for one thread. Several threads are no data race, but what they do at the same time may be missing
/// from [`Scratch::touched`] and escape a rollback; threads of a [`crate::Sim`] run one at a time and are
/// welcome. All methods take `&self`, so that a [`crate::Recorded`] around it can record the next image
/// through [`crate::Recorded::inner`].
#[derive(Debug)]
pub struct Scratch {
    /// What the program sees.
    words: Box<[AtomicU64]>,
    /// What a rollback goes back to.
    base: Box<[AtomicU64]>,
    /// Per line: the number of the run above [`Stamp::RUN`], then what the run did to the line.
    stamps: Box<[AtomicU64]>,
    /// The number of the run, in the place where stamps have it.
    run: AtomicU64,
    touched: List,
    changed: List,
    accesses: AtomicU64,
    accesses_max: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

/// The parts of a line's stamp.
struct Stamp;

impl Stamp {
    /// Lowest of the eight bits that say which words were written as a whole.
    const WRITTEN: u32 = 0;
    /// Lowest of the eight bits that say which words were read before.
    const READ: u32 = 8;
    /// All of them.
    const ANY_READ: u64 = 0xFF << Stamp::READ;
    /// Some byte of the line was written.
    const CHANGED: u64 = 1 << 16;
    /// One run.
    const RUN: u64 = 1 << 24;
    /// The number of the run.
    const RUNS: u64 = !(Stamp::RUN - 1);
}

/// A line that a run read before it wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Touched {
    /// Offset of the line's first byte.
    pub line: u64,
    /// Which of its eight words were read, the first one in the lowest bit.
    pub words: u8,
}

impl Scratch {
    /// `len` bytes of zero.
    ///
    /// # Panics
    /// If `len` is not a multiple of 8, or is 256 GiB or more.
    #[must_use]
    pub fn new(len: u64) -> Self {
        assert!(len.is_multiple_of(8), "an image of {len} bytes does not consist of 8-byte words");
        assert!(len <= LINE * u64::from(u32::MAX), "a scratch image of {len} bytes is too long");
        let zeros = |count: u64| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let lines = len.div_ceil(LINE);
        Scratch {
            words: zeros(len / 8),
            base: zeros(len / 8),
            stamps: zeros(lines),
            run: AtomicU64::new(Stamp::RUN),
            touched: List::new(lines),
            changed: List::new(lines),
            accesses: AtomicU64::new(0),
            accesses_max: AtomicU64::new(u64::MAX),
            flushes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        }
    }

    /// A copy of `bytes`.
    ///
    /// # Panics
    /// If their number is not a multiple of 8.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let scratch = Scratch::new(bytes.len() as u64);
        for (word, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
            scratch.set(word, u64::from_le_bytes(*bytes));
        }
        scratch
    }

    /// The contents as the program sees them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect()
    }

    /// Makes the next image: writes each 8-byte word at its offset. A rollback does not take this back.
    ///
    /// # Panics
    /// If something was written since the last rollback, or an offset is outside or not a multiple of 8.
    #[track_caller]
    pub fn apply(&self, words: &[(u64, u64)]) {
        assert!(self.changed.len() == 0, "the last run's writes were not rolled back");
        for &(offset, word) in words {
            self.set(word_index::<u64>(self.len(), offset), word);
        }
    }

    /// Ends a run: takes back all that was written since the last rollback, and forgets what was touched and
    /// counted. Takes time for each line that was written, and none for what was read.
    pub fn rollback(&self) {
        for line in self.changed.iter() {
            let first = line as usize * WORDS;
            let end = self.words.len().min(first + WORDS);
            for (word, base) in self.words[first..end].iter().zip(&self.base[first..end]) {
                word.store(base.load(Relaxed), Relaxed);
            }
        }
        self.changed.clear();
        self.touched.clear();
        for count in [&self.accesses, &self.flushes, &self.fences] {
            count.store(0, Relaxed);
        }
        let next = self.run.load(Relaxed).wrapping_add(Stamp::RUN);
        if next == 0 {
            self.stamps.iter().for_each(|stamp| stamp.store(0, Relaxed));
        }
        self.run.store(next.max(Stamp::RUN), Relaxed);
    }

    /// The lines of which this run read a word that it had not written before, in the order of the first such
    /// read.
    pub fn touched(&self) -> impl Iterator<Item = Touched> + '_ {
        self.touched.iter().map(|line| Touched {
            line: u64::from(line) * LINE,
            words: (self.stamps[line as usize].load(Relaxed) >> Stamp::READ) as u8,
        })
    }

    /// The offsets of the lines that this run wrote, in the order of the first write.
    pub fn changed(&self) -> impl Iterator<Item = u64> + '_ {
        self.changed.iter().map(|line| u64::from(line) * LINE)
    }

    /// Lines that this run flushed, with repetitions.
    #[must_use]
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Relaxed)
    }

    /// Fences of this run. If there is none, nothing that it wrote had to survive.
    #[must_use]
    pub fn fences(&self) -> u64 {
        self.fences.load(Relaxed)
    }

    /// Lets a run of more than `accesses` words panic, so that recovery which goes round in circles on a
    /// damaged image comes to an end. There is no limit at first.
    pub fn limit(&self, accesses: u64) {
        self.accesses_max.store(accesses, Relaxed);
    }

    /// Writes a word for this run and those to come.
    fn set(&self, word: usize, value: u64) {
        self.words[word].store(value, Relaxed);
        self.base[word].store(value, Relaxed);
    }

    /// Counts an access of one word.
    #[inline(always)]
    #[track_caller]
    fn count(&self) {
        let accesses = self.accesses.load(Relaxed) + 1;
        self.accesses.store(accesses, Relaxed);
        if accesses > self.accesses_max.load(Relaxed) {
            endless(accesses);
        }
    }

    /// Notes a read of `word`.
    #[inline(always)]
    fn reads(&self, word: usize) {
        let (line, bit) = (word / WORDS, 1 << (word % WORDS));
        let stamp = self.stamp(line);
        if (stamp >> Stamp::READ | stamp >> Stamp::WRITTEN) & bit == 0 {
            if stamp & Stamp::ANY_READ == 0 {
                self.touched.push(line);
            }
            self.stamps[line].store(stamp | bit << Stamp::READ, Relaxed);
        }
    }

    /// Notes a write of `word`, of all its bytes if `whole`.
    #[inline(always)]
    fn writes(&self, word: usize, whole: bool) {
        let (line, bit) = (word / WORDS, u64::from(whole) << (word % WORDS));
        let (stamp, news) = (self.stamp(line), Stamp::CHANGED | bit << Stamp::WRITTEN);
        if stamp & news != news {
            if stamp & Stamp::CHANGED == 0 {
                self.changed.push(line);
            }
            self.stamps[line].store(stamp | news, Relaxed);
        }
    }

    /// The line's stamp, fresh if it is an earlier run's.
    #[inline(always)]
    fn stamp(&self, line: usize) -> u64 {
        let (stamp, run) = (self.stamps[line].load(Relaxed), self.run.load(Relaxed));
        if stamp & Stamp::RUNS == run { stamp } else { run }
    }
}

impl Space for Scratch {
    type Observer = ();

    #[inline(always)]
    fn observer(&self) -> &() {
        &()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        FlushKind::Clwb
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        false
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        false
    }

    /// A fence of ordinary memory does nothing, and does not fail.
    #[inline(always)]
    fn has_failed(&self) -> bool {
        false
    }

    #[inline(always)]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let (word, shift) = place::<W>(word_index::<W>(self.len(), offset));
        self.count();
        self.reads(word);
        W::truncate(self.words[word].load(Relaxed) >> shift)
    }

    #[inline(always)]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        let (word, shift) = place::<W>(word_index::<W>(self.len(), offset));
        self.count();
        self.writes(word, W::BYTES == 8);
        if W::BYTES == 8 {
            self.words[word].store(value.widen(), Relaxed);
            return;
        }
        let mask = ((1 << (W::BYTES * 8 % 64)) - 1) << shift;
        let old = self.words[word].load(Relaxed);
        self.words[word].store(old & !mask | value.widen() << shift, Relaxed);
    }

    #[inline]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let word = word_index::<u64>(self.len(), offset);
        self.count();
        self.reads(word);
        let result = self.words[word].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        if result.is_ok() {
            self.writes(word, true);
        }
        result
    }

    #[inline]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        check_whole_words(offset, bytes.len());
        self.store(offset, bytes);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        check_range(self.len(), offset, len);
        let lines = if len == 0 { 0 } else { (offset + len - 1) / LINE - offset / LINE + 1 };
        self.flushes.store(self.flushes.load(Relaxed) + lines, Relaxed);
    }

    #[inline]
    fn fence(&self) {
        self.fences.store(self.fences.load(Relaxed) + 1, Relaxed);
    }

    #[inline]
    fn prestore(&self, offset: u64, len: u64, _: Prestore) {
        check_range(self.len(), offset, len);
    }
}

/// Numbers of lines, each at most once.
#[derive(Debug)]
struct List {
    lines: Box<[AtomicU32]>,
    len: AtomicUsize,
}

impl List {
    fn new(capacity: u64) -> Self {
        List { lines: (0..capacity).map(|_| AtomicU32::new(0)).collect(), len: AtomicUsize::new(0) }
    }

    fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    fn clear(&self) {
        self.len.store(0, Relaxed);
    }

    /// Adds a line. Threads that race may lose one; there is room for all the same.
    #[inline(never)]
    #[allow(clippy::cast_possible_truncation)] // an image has fewer than 2^32 lines
    fn push(&self, line: usize) {
        let len = self.len();
        if let Some(slot) = self.lines.get(len) {
            slot.store(line as u32, Relaxed);
            self.len.store(len + 1, Relaxed);
        }
    }

    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.lines[..self.len()].iter().map(|line| line.load(Relaxed))
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn endless(accesses: u64) -> ! {
    panic!("access {accesses} of a run goes beyond its limit: it may be going round in circles")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_the_run_may_overflow() {
        let scratch = Scratch::new(128);
        scratch.load_u64(64);
        // An old stamp of the number that comes after the last.
        assert_eq!(scratch.stamps[1].load(Relaxed) & Stamp::RUNS, Stamp::RUN);
        scratch.run.store(Stamp::RUNS, Relaxed);
        scratch.store_u64(0, 1);
        scratch.rollback();
        assert_eq!((scratch.touched().count(), scratch.changed().count()), (0, 0));
        scratch.load_u64(64);
        scratch.store_u64(0, 1);
        assert_eq!(scratch.touched().collect::<Vec<_>>(), [Touched { line: 64, words: 1 }]);
        assert_eq!(scratch.changed().collect::<Vec<_>>(), [0]);
        scratch.rollback();
        assert_eq!(scratch.to_bytes(), [0; 128]);
    }
}
