//! What is in a segment: read when it is used first.

use std::ops::Deref;

use space::{Env, Space};

use super::directory::Entry;
use super::fingerprints::{Bucket, fingerprint};
use super::layout::{BUCKET, Claim, DEPTH_MAX, first_bits};
use super::piece::Piece;
use super::{Flaw, HashTable};
use crate::sealed::Sealed;
use crate::{Extents, Fixed};

impl<H, X, K, V, F> HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    /// Makes sure that fingerprints of a segment are there. For the holder of its lock.
    #[inline(always)]
    pub(super) fn load(&self, entry: Entry, hash: u64) {
        let piece = self.piece(entry);
        if !piece.is_loaded(entry.segment()) {
            self.load_now(
                piece,
                entry,
                Claim { depth: entry.depth(), prefix: first_bits(hash, entry.depth()) },
            );
        }
    }

    /// The slots of a segment: which bucket, which slot, and where.
    pub(super) fn slots<'p>(
        piece: &'p Piece,
        segment: u64,
    ) -> impl Iterator<Item = (Bucket<'p>, usize, u64)> + 'p {
        let begin = piece.segment_offset(segment);
        piece.buckets(segment).zip((begin..).step_by(BUCKET as usize)).flat_map(|(bucket, begin)| {
            (0..Self::SLOTS).map(move |slot| (bucket, slot, begin + Self::OFFSETS[slot]))
        })
    }

    #[cold]
    fn load_now(&self, piece: &Piece, entry: Entry, claim: Claim) {
        let space = self.space();
        let mut erased = false;
        for (bucket, slot, at) in Self::slots(piece, entry.segment()) {
            let Some(held) = Sealed::<K, V>::read(space, at) else { continue };
            let hash = self.hash(held.key);
            let home = piece.home(entry, hash);
            // A pair of the other half, from before a split; or nothing that this table has written.
            if !claim.covers(hash) || !home.offsets.contains(&(at / BUCKET * BUCKET)) {
                Sealed::<K, V>::erase(space, at);
                continue;
            }
            // A crash may have kept the pair that an update erased.
            let twin = self.find(&home, held.key, hash);
            let older = match twin {
                Some((place, other)) if Sealed::<K, V>::newer(held.sequence, other.sequence) => {
                    home.buckets[place.0].set(place.1, 0);
                    bucket.set(slot, fingerprint(hash));
                    Some(Self::slot(&home, place))
                }
                Some(_) => Some(at),
                None => {
                    bucket.set(slot, fingerprint(hash));
                    None
                }
            };
            if let Some(at) = older {
                Sealed::<K, V>::erase(space, at);
                space.flush(at, 8);
                erased = true;
            }
        }
        if erased {
            space.fence();
        }
        piece.buckets(entry.segment()).for_each(Bucket::open);
    }

    /// The pairs of the segment that has this hash, and the first hash behind it, if there is one.
    pub(super) fn pairs_of(&self, hash: u64) -> (Vec<(K, V)>, Option<u64>) {
        let (entry, _guard) = self.hold(hash);
        let claim = Claim { depth: entry.depth(), prefix: first_bits(hash, entry.depth()) };
        let slots = Self::slots(self.piece(entry), entry.segment());
        let used = slots.filter(|(bucket, slot, _)| bucket.fingerprint(*slot) != 0);
        let pairs = used.filter_map(|(_, _, at)| Sealed::<K, V>::read(self.space(), at));
        let next = (claim.end() < 1 << DEPTH_MAX).then(|| claim.end() << DEPTH_MAX);
        (pairs.map(|held| (held.key, held.value)).collect(), next)
    }

    /// Reads all segments with so many threads, each from a piece of the hashes. Without it each segment is
    /// read when it is used first, which makes that one operation longer.
    pub fn load_all(&self, threads: u32) {
        let threads = threads.max(1);
        let bound = |part: u32| (u64::from(part) << DEPTH_MAX) / u64::from(threads);
        self.env.threads(threads, |part| {
            let mut at = bound(part);
            while at < bound(part + 1) {
                let (entry, _guard) = self.hold(at << DEPTH_MAX);
                let claim =
                    Claim { depth: entry.depth(), prefix: first_bits(at << DEPTH_MAX, entry.depth()) };
                at = claim.end();
            }
        });
    }
}
