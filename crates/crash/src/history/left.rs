//! What a run left in its files when nothing was lost.

use std::collections::BTreeSet;

use crate::words::Words;
use crate::{Contents, History, Place};

/// Bytes of the largest of the C library's locks, `pthread_rwlock_t`.
const OBJECT_BYTES: u64 = 56;

/// The files behind a whole run.
#[derive(Clone, Debug)]
pub struct Left<'a> {
    words: Words<'a>,
    /// By number of file: stored words, and those of them that held something else before.
    stored: Vec<(u64, u64)>,
    objects: BTreeSet<Place>,
}

impl History {
    /// What the run's stores make of `contents`.
    #[must_use]
    pub fn left<'a>(&self, contents: &'a Contents) -> Left<'a> {
        let mut left = Left {
            words: Words::new(&self.files, contents),
            stored: vec![(0, 0); self.files.len()],
            objects: self.objects.clone(),
        };
        for atom in &self.atoms {
            let before = left.words.get(atom.place);
            let after = left.words.put(atom.place, atom.value, atom.mask);
            if let Some((stored, changed)) = left.stored.get_mut(usize::from(atom.place.file())) {
                *stored += 1;
                *changed += u64::from(before != after);
            }
        }
        left
    }
}

impl Left<'_> {
    /// How many words the run stored to a file, and how many of these stores changed something.
    #[must_use]
    pub fn stored(&self, file: usize) -> (u64, u64) {
        self.stored.get(file).copied().unwrap_or_default()
    }

    /// The first byte of a file that is not what the run's stores made of it, and how many there are: something stored there that the
    /// source did not tell, or not in that order. What the C library keeps in its own locks is left out.
    #[must_use]
    pub fn differences(&self, file: usize, found: &[u8]) -> Option<(u64, u64)> {
        let number = u16::try_from(file).ok()?;
        let (mut first, mut count) = (None, 0);
        for (at, bytes) in (0..).step_by(8).zip(found.chunks(8)) {
            if self.is_in_object(Place::new(number, at)) {
                continue;
            }
            let expected = self.words.get(Place::new(number, at)).to_le_bytes();
            for (byte, (found, expected)) in (at..).zip(bytes.iter().zip(expected)) {
                if *found != expected {
                    first = first.or(Some(byte));
                    count += 1;
                }
            }
        }
        first.map(|first| (first, count))
    }

    fn is_in_object(&self, word: Place) -> bool {
        let before = self.objects.range(..=word).next_back();
        before.is_some_and(|object| {
            object.file() == word.file() && word.offset() - object.offset() < OBJECT_BYTES
        })
    }
}
