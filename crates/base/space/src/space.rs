//! The `Space` trait and its contract.

use event::FlushKind;

use crate::{Observer, Word, check_range};

/// Bytes of a cache line: the unit of flushes and pre-stores.
pub const LINE: u64 = 64;

/// A hint about a range that was written: where its lines should go before anybody asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prestore {
    /// Move the lines towards the shared cache (`cldemote`). No effect on what survives a crash.
    Demote,
    /// Start to write the lines back and keep them (`clwb`). It may stand in for no [`Space::flush`]: where
    /// the processor has only instructions that invalidate, it does nothing.
    Clean,
}

/// A byte-addressable memory of fixed length. Offsets and lengths are bytes.
///
/// # Errors are panics
/// An offset outside the space or a misaligned word is a mistake of the program, not of its input: every
/// method panics then, naming offset and length, and has changed nothing. Memory that is gone (a truncated
/// file) is the business of whoever opened it.
///
/// # Words and tearing
/// Memory consists of aligned 8-byte words. Each access of one word, and each part of a longer access that
/// covers a whole word, is one relaxed atomic access: another thread, and a crash, sees all of it or nothing.
/// A word that is covered in part, and the words of a longer access among themselves, can be seen, and
/// survive, in any combination. Words are little-endian, so a space has the same bytes on every machine.
///
/// # Threads
/// Accesses are relaxed: they never are a data race, and they order nothing. Order between threads comes from
/// the locks and threads of [`crate::Env`] and from [`Space::cas_u64`]. Threads that race on one word should
/// use the same width; with different widths the bytes read are unspecified.
///
/// # What survives a crash
/// A store may survive from the moment it is made, whether it was flushed or not, because a cache may evict
/// its line at any time. It *must* survive once
/// 1. its line was flushed after it by the same thread (or it was made by [`Space::store_nt`]), and
/// 2. a [`Space::fence`] of the same thread came after that.
///
/// A flush covers whole lines and all that the thread can see in them. Stores to one word survive in the
/// order in which they became visible: never a later one without an earlier. Between stores to different
/// words there is no order but that of rule 1 and 2, not even in one line. Whether "survives" means power
/// loss or only the end of the process depends on what is underneath: see `pmem::Durability`.
pub trait Space: Sync {
    /// Who hears of locks, threads, phases and regions of a run on this space; `()` if nobody.
    type Observer: Observer;

    /// The ear for what is not an access.
    fn observer(&self) -> &Self::Observer;

    /// Length in bytes, a multiple of 8.
    fn len(&self) -> u64;

    /// Whether there is no byte at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which instruction [`Space::flush`] stands for.
    fn flush_kind(&self) -> FlushKind;

    /// The word at `offset`, a multiple of its size.
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W;

    /// Writes the word at `offset`, a multiple of its size.
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W);

    /// The 8-byte word at `offset`.
    #[inline(always)]
    #[track_caller]
    fn load_u64(&self, offset: u64) -> u64 {
        self.load_word(offset)
    }

    /// Writes the 8-byte word at `offset`.
    #[inline(always)]
    #[track_caller]
    fn store_u64(&self, offset: u64, value: u64) {
        self.store_word(offset, value);
    }

    /// Writes 8-byte words that follow each other, the first at `offset`: as many stores in this order.
    #[inline(always)]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        check_range(self.len(), offset, 8 * words.len() as u64);
        for (at, &word) in (offset..).step_by(8).zip(words) {
            self.store_word(at, word);
        }
    }

    /// Writes `new` if the 8-byte word at `offset` is `old`: `Ok(old)`, else `Err` of what is there.
    /// Acquires, and releases if it writes. It is no [`Space::fence`]: on some processors it orders flushes,
    /// on others not.
    ///
    /// # Errors
    /// The word's value, if it is not `old`.
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64>;

    /// Reads the bytes at `offset`.
    #[inline]
    #[track_caller]
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        check_range(self.len(), offset, bytes.len() as u64);
        let (head, words, tail) = split(offset, bytes.len());
        let mut at = offset;
        let (first, rest) = bytes.split_at_mut(head);
        let (middle, last) = rest.split_at_mut(words * 8);
        debug_assert_eq!(last.len(), tail);
        for byte in first {
            *byte = self.load_word(at);
            at += 1;
        }
        for word in middle.as_chunks_mut::<8>().0 {
            *word = self.load_word::<u64>(at).to_le_bytes();
            at += 8;
        }
        for byte in last {
            *byte = self.load_word(at);
            at += 1;
        }
    }

    /// Writes the bytes at `offset` through the cache.
    #[inline]
    #[track_caller]
    fn store(&self, offset: u64, bytes: &[u8]) {
        check_range(self.len(), offset, bytes.len() as u64);
        let (head, words, _) = split(offset, bytes.len());
        let mut at = offset;
        let (first, rest) = bytes.split_at(head);
        let (middle, last) = rest.split_at(words * 8);
        for &byte in first {
            self.store_word(at, byte);
            at += 1;
        }
        for &word in middle.as_chunks::<8>().0 {
            self.store_word(at, u64::from_le_bytes(word));
            at += 8;
        }
        for &byte in last {
            self.store_word(at, byte);
            at += 1;
        }
    }

    /// Copies `len` bytes from `src` to `dst`. The ranges may overlap; the result is then that of a copy
    /// through a buffer outside the space. What holds of words as to tearing holds at `dst`.
    #[inline]
    #[track_caller]
    fn copy(&self, src: u64, dst: u64, len: u64) {
        const PIECE: u64 = 256;
        check_range(self.len(), src, len);
        check_range(self.len(), dst, len);
        let mut buffer = [0; PIECE as usize];
        let mut done = 0;
        while done < len {
            // Backwards if the destination lies behind the source, so that nothing is overwritten unread.
            // Pieces meet between words of the destination, so that none of them is written in two parts.
            let backwards = dst > src;
            let whole = if backwards { PIECE - 8 + (dst + len - done) % 8 } else { PIECE - (dst + done) % 8 };
            let count = whole.min(len - done);
            let at = if backwards { len - done - count } else { done };
            let piece = &mut buffer[..count as usize];
            self.load(src + at, piece);
            self.store(dst + at, piece);
            done += count;
        }
    }

    /// Writes the bytes at `offset` by non-temporal stores. Offset and length are multiples of 8.
    /// Needs no flush; until the next fence other threads may see older bytes.
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]);

    /// Starts to write back every line that the range touches.
    #[track_caller]
    fn flush(&self, offset: u64, len: u64);

    /// Starts to write back the line at `line`, a multiple of [`LINE`].
    #[inline(always)]
    #[track_caller]
    fn flush_line(&self, line: u64) {
        self.flush(line, LINE);
    }

    /// Waits until this thread's flushes and non-temporal stores have reached what survives, before any later
    /// store does.
    #[track_caller]
    fn fence(&self);

    /// Whether the fence itself writes back what was flushed, as a sync of a file does. A flush is then free
    /// and makes the next fence longer, so data that need not be durable yet is better flushed later.
    ///
    /// A wrapper forwards this. There is no default, so that none can forget it.
    fn fence_writes(&self) -> bool;

    /// Whether one whole line is durable sooner when it is stored by [`Space::store_nt`] than when it is
    /// stored and flushed. (Several lines are, on every machine measured so far.)
    ///
    /// A wrapper forwards this. There is no default, so that none can forget it.
    fn nt_is_sooner(&self) -> bool;

    /// Whether a fence of this space has failed; no later one succeeds then. A failing fence panics, except
    /// in a thread that is panicking already: code that relies on a fence there asks here.
    ///
    /// A wrapper forwards this: one that hides a failed sync lets a region commit that is not durable. There
    /// is no default, so that none can forget it.
    fn has_failed(&self) -> bool;

    /// Flush and fence: what was stored in the range before must survive from here on.
    #[inline(always)]
    #[track_caller]
    fn persist(&self, offset: u64, len: u64) {
        self.flush(offset, len);
        self.fence();
    }

    /// Gives a hint for every line that the range touches.
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore);

    /// The word at `offset` will be stored to soon: where there is a cache, its line may be fetched
    /// meanwhile. No access; an offset outside is no mistake.
    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        let _ = offset;
    }
}

/// A borrowed space is a space: recovery runs on the image that a checker keeps.
impl<S: Space> Space for &S {
    type Observer = S::Observer;

    #[inline(always)]
    fn observer(&self) -> &S::Observer {
        (**self).observer()
    }

    #[inline(always)]
    fn len(&self) -> u64 {
        (**self).len()
    }

    #[inline(always)]
    fn flush_kind(&self) -> FlushKind {
        (**self).flush_kind()
    }

    #[inline(always)]
    #[track_caller]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        (**self).load_word(offset)
    }

    #[inline(always)]
    #[track_caller]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        (**self).store_word(offset, value);
    }

    #[inline(always)]
    #[track_caller]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        (**self).cas_u64(offset, old, new)
    }

    #[inline(always)]
    #[track_caller]
    fn store_words(&self, offset: u64, words: &[u64]) {
        (**self).store_words(offset, words);
    }

    #[inline(always)]
    #[track_caller]
    fn load(&self, offset: u64, bytes: &mut [u8]) {
        (**self).load(offset, bytes);
    }

    #[inline(always)]
    #[track_caller]
    fn store(&self, offset: u64, bytes: &[u8]) {
        (**self).store(offset, bytes);
    }

    #[inline(always)]
    #[track_caller]
    fn copy(&self, src: u64, dst: u64, len: u64) {
        (**self).copy(src, dst, len);
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        (**self).store_nt(offset, bytes);
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, offset: u64, len: u64) {
        (**self).flush(offset, len);
    }

    #[inline(always)]
    #[track_caller]
    fn flush_line(&self, line: u64) {
        (**self).flush_line(line);
    }

    #[inline(always)]
    #[track_caller]
    fn fence(&self) {
        (**self).fence();
    }

    #[inline(always)]
    fn fence_writes(&self) -> bool {
        (**self).fence_writes()
    }

    #[inline(always)]
    fn nt_is_sooner(&self) -> bool {
        (**self).nt_is_sooner()
    }

    #[inline(always)]
    fn has_failed(&self) -> bool {
        (**self).has_failed()
    }

    #[inline(always)]
    #[track_caller]
    fn persist(&self, offset: u64, len: u64) {
        (**self).persist(offset, len);
    }

    #[inline(always)]
    #[track_caller]
    fn prestore(&self, offset: u64, len: u64, hint: Prestore) {
        (**self).prestore(offset, len, hint);
    }

    #[inline(always)]
    fn prefetch(&self, offset: u64) {
        (**self).prefetch(offset);
    }
}

/// Bytes before the first whole word of a range, whole words, bytes after them.
#[inline(always)]
fn split(offset: u64, len: usize) -> (usize, usize, usize) {
    let head = (offset.wrapping_neg() & 7).min(len as u64) as usize;
    (head, (len - head) / 8, (len - head) % 8)
}
