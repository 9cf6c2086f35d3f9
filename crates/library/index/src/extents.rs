//! Where a structure's memory comes from.

use std::sync::Mutex;

use space::{LINE, Space};

use crate::Error;

/// A piece of a space that belongs to one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Where it begins, a multiple of 256.
    pub offset: u64,
    /// Its length, a multiple of 256.
    pub bytes: u64,
}

/// Hands out pieces of a space, for good: whose a piece is survives a crash.
///
/// A structure finds its pieces again in the order in which it got them. Contents of a new piece are zeros,
/// or what a crash left of an earlier attempt to use it that never became reachable.
pub trait Extents<S: Space>: Send + Sync {
    /// One more piece of at least so many bytes. Durably the structure's when this returns.
    ///
    /// # Errors
    /// If there is no room.
    fn add(&self, space: &S, bytes: u64) -> Result<Extent, Error>;

    /// All pieces, the oldest first. There is at least one; its first 256 bytes are where the structure
    /// keeps its root words, zeros when it is new.
    fn all(&self, space: &S) -> Vec<Extent>;
}

/// Makes durable what a structure's pieces hold. What a killed process stored last is in the caches: whoever
/// opens the structure sees it, and must not build on it while it can be lost with the power.
pub(crate) fn make_durable<S: Space>(space: &S, pieces: &[Extent]) {
    for piece in pieces {
        space.flush(piece.offset, piece.bytes);
    }
    space.fence();
}

/// Bytes before the first piece of a [`Whole`].
const HEAD: u64 = 256;
/// The first word of a space that is one structure's.
const MAGIC: u64 = u64::from_le_bytes(*b"SLWHOLE1");
/// Where the table of pieces begins: how far they go, a word each, 0 behind the last.
const ENDS: u64 = 64;
/// Pieces that there is room for.
const MOST: u64 = (HEAD - ENDS) / 8;

/// A space that is one structure's alone, divided from front to back.
///
/// The head of 256 bytes: a magic word, and from byte 64 on a word for each piece, its end. A piece is the
/// structure's when its end is durable, which one store of one word makes it.
#[derive(Debug)]
pub struct Whole {
    /// Held while a piece is made. No simulated thread stops in between: nothing is waited for.
    adding: Mutex<()>,
}

impl Whole {
    /// Makes a new division of `space`, with one piece of `bytes`, which is rounded up to 256.
    ///
    /// # Errors
    /// If there is no room, or something is in the space already.
    pub fn create<S: Space>(space: &S, bytes: u64) -> Result<Self, Error> {
        if space.len() < HEAD {
            return Err(Error::Full { wanted: HEAD, len: space.len() });
        }
        let found = space.load_u64(0);
        if found != 0 {
            return Err(Error::Mismatch { offset: 0, found, expected: 0, what: "an empty space" });
        }
        for at in (ENDS..HEAD).step_by(8) {
            space.store_u64(at, 0);
        }
        space.persist(ENDS, HEAD - ENDS);
        let whole = Whole { adding: Mutex::new(()) };
        whole.add(space, bytes)?;
        space.store_u64(0, MAGIC);
        space.persist(0, 8);
        Ok(whole)
    }

    /// Opens a division.
    ///
    /// # Errors
    /// If there is none, or its table is not one.
    pub fn open<S: Space>(space: &S) -> Result<Self, Error> {
        let found = if space.len() < HEAD { 0 } else { space.load_u64(0) };
        if found != MAGIC {
            return Err(Error::Mismatch { offset: 0, found, expected: MAGIC, what: "a structure's file" });
        }
        // A killed process may have left the last end in the caches.
        space.persist(0, HEAD);
        let mut before = HEAD;
        let mut ended = false;
        for at in (ENDS..HEAD).step_by(8) {
            let end = space.load_u64(at);
            let grows = end > before && end <= space.len() && end.is_multiple_of(HEAD);
            if (end != 0 && (ended || !grows)) || (end == 0 && at == ENDS) {
                return Err(Error::Damaged { offset: at, what: "the end of an extent" });
            }
            ended |= end == 0;
            before = end.max(before);
        }
        Ok(Whole { adding: Mutex::new(()) })
    }
}

impl<S: Space> Extents<S> for Whole {
    fn add(&self, space: &S, bytes: u64) -> Result<Extent, Error> {
        let _one = self.adding.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = self.all(space);
        let offset = all.last().map_or(HEAD, |last| last.offset + last.bytes);
        let full = Error::Full { wanted: bytes, len: space.len() };
        let end = bytes.max(1).checked_next_multiple_of(HEAD).and_then(|bytes| offset.checked_add(bytes));
        let end = end.filter(|end| *end <= space.len() && (all.len() as u64) < MOST).ok_or(full)?;
        let word = ENDS + 8 * all.len() as u64;
        space.store_u64(word, end);
        space.persist(word, 8);
        Ok(Extent { offset, bytes: end - offset })
    }

    fn all(&self, space: &S) -> Vec<Extent> {
        let mut offset = HEAD;
        let ends = (ENDS..HEAD).step_by(8).map(|at| space.load_u64(at)).take_while(|end| *end != 0);
        ends.map(|end| {
            let extent = Extent { offset, bytes: end - offset };
            offset = end;
            extent
        })
        .collect()
    }
}

const _: () = assert!(HEAD.is_multiple_of(LINE));
