//! A space that is only memory.

use std::sync::atomic::{self, AtomicU64, Ordering};

use event::FlushKind;

use crate::{Prestore, Space, Word, check_range, check_whole_words, word_index};

/// A space of atomic words on the heap. Flushes, fences and hints have no effect here; a [`crate::Recorded`]
/// around it reports them to a model or a checker.
#[derive(Debug)]
pub struct Image {
    words: Box<[AtomicU64]>,
    nt_is_sooner: bool,
}

impl Image {
    /// `len` bytes of zero.
    ///
    /// # Panics
    /// If `len` is not a multiple of 8 or more than memory can address.
    #[must_use]
    pub fn new(len: u64) -> Self {
        assert!(len.is_multiple_of(8), "an image of {len} bytes does not consist of 8-byte words");
        let words = usize::try_from(len / 8).expect("an image fits into the address space");
        Image { words: (0..words).map(|_| AtomicU64::new(0)).collect(), nt_is_sooner: false }
    }

    /// A copy of `bytes`.
    ///
    /// # Panics
    /// If their number is not a multiple of 8.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        assert!(rest.is_empty(), "an image of {} bytes does not consist of 8-byte words", bytes.len());
        let words = words.iter().map(|&word| AtomicU64::new(u64::from_le_bytes(word))).collect();
        Image { words, nt_is_sooner: false }
    }

    /// The same, and it says of itself what processors say for which [`Space::nt_is_sooner`].
    #[must_use]
    pub fn where_nt_is_sooner(self) -> Self {
        Image { nt_is_sooner: true, ..self }
    }

    /// The contents. While other threads write, each word is one that was there at some moment.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }
}

impl Space for Image {
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
        self.nt_is_sooner
    }

    /// A fence of ordinary memory does nothing, and does not fail.
    #[inline(always)]
    fn has_failed(&self) -> bool {
        false
    }

    #[inline(always)]
    fn load_word<W: Word>(&self, offset: u64) -> W {
        let index = word_index::<W>(self.len(), offset);
        let (word, shift) = place::<W>(index);
        W::truncate(self.words[word].load(Ordering::Relaxed) >> shift)
    }

    #[inline(always)]
    fn store_word<W: Word>(&self, offset: u64, value: W) {
        let index = word_index::<W>(self.len(), offset);
        let (word, shift) = place::<W>(index);
        if W::BYTES == 8 {
            self.words[word].store(value.widen(), Ordering::Relaxed);
            return;
        }
        // Another thread may write the rest of the word meanwhile.
        let mask = ((1 << (W::BYTES * 8 % 64)) - 1) << shift;
        let insert = |old| Some(old & !mask | value.widen() << shift);
        let _ = self.words[word].fetch_update(Ordering::Relaxed, Ordering::Relaxed, insert);
    }

    #[inline]
    fn cas_u64(&self, offset: u64, old: u64, new: u64) -> Result<u64, u64> {
        let index = word_index::<u64>(self.len(), offset);
        self.words[index].compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    fn store_nt(&self, offset: u64, bytes: &[u8]) {
        check_whole_words(offset, bytes.len());
        self.store(offset, bytes);
    }

    #[inline]
    fn flush(&self, offset: u64, len: u64) {
        check_range(self.len(), offset, len);
    }

    #[inline]
    fn fence(&self) {
        atomic::fence(Ordering::Release);
    }

    #[inline]
    fn prestore(&self, offset: u64, len: u64, _: Prestore) {
        check_range(self.len(), offset, len);
    }
}

/// The 8-byte word that holds the `index`-th `W`, and by how many bits it is shifted there.
#[inline(always)]
pub(crate) fn place<W: Word>(index: usize) -> (usize, u64) {
    let per_word = (8 / W::BYTES) as usize;
    (index / per_word, (index % per_word) as u64 * W::BYTES * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_and_out() {
        let bytes: Vec<u8> = (0..64).collect();
        let image = Image::from_bytes(&bytes);
        assert_eq!(image.to_bytes(), bytes);
        assert_eq!(image.load_u64(8), u64::from_le_bytes([8, 9, 10, 11, 12, 13, 14, 15]));
        image.store_word(13, 0xAAu8);
        image.store_word(62, 0xBBCCu16);
        let mut expected = bytes;
        expected[13] = 0xAA;
        expected[62..].copy_from_slice(&[0xCC, 0xBB]);
        assert_eq!(image.to_bytes(), expected);
    }

    #[test]
    fn neighbours_in_one_word_do_not_disturb_each_other() {
        let image = Image::new(8);
        std::thread::scope(|scope| {
            for byte in 0..8u64 {
                let image = &image;
                scope.spawn(move || {
                    for round in 0..=1000u64 {
                        image.store_word(byte, (round % 251) as u8);
                        assert_eq!(image.load_word::<u8>(byte), (round % 251) as u8);
                    }
                });
            }
        });
        assert_eq!(image.to_bytes(), [(1000 % 251) as u8; 8]);
    }

    #[test]
    #[should_panic(expected = "8-byte words")]
    fn an_odd_length() {
        let _ = Image::new(12);
    }
}
