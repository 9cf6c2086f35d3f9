//! Growth: a full segment is split; when no segment is free, an extent is added.

use std::ops::Deref;
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::fence;

use space::{Env, Space};

use super::directory::Entry;
use super::fingerprints::Bucket;
use super::layout::{BUCKET, Claim, DEPTH_MAX, Division, PIECES, first_bits};
use super::piece::{Growth, Piece, clear_claims};
use super::{Flaw, HashTable};
use crate::sealed::Sealed;
use crate::{Error, Extent, Extents, Fixed};

/// Bytes of an extent that is added, as long as the space has that many: as many as the table has, at least
/// this many segments and at most this many bytes.
const SEGMENTS_MIN: u64 = 4;
const BYTES_MAX: u64 = 1 << 32;

impl<H, X, K, V, F> HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    /// Splits the segment of a hash. The guard is that of its lock.
    #[cold]
    pub(super) fn split(
        &self,
        entry: Entry,
        hash: u64,
        guard: <H::Target as Env>::MutexGuard<'_, ()>,
    ) -> Result<(), Error> {
        if entry.depth() == DEPTH_MAX {
            return Err(self.full(self.root.segment_bytes()));
        }
        let claim = Claim { depth: entry.depth(), prefix: first_bits(hash, entry.depth()) };
        let (number, segment) = self.free_segment()?;
        let new = Entry::new(number, segment, claim.depth + 1);
        // Whoever finds the new segment finds its lock given up by this thread, and so all that it did.
        let stripes = claim.halves().map(|half| self.stripe(half.begin() << DEPTH_MAX, half.depth));
        let other = (!std::ptr::eq(stripes[0], stripes[1])).then(|| self.env.lock(stripes[1]));
        let old_piece = self.piece(entry);
        let space = self.space();
        old_piece.buckets(entry.segment()).for_each(Bucket::close);
        fence(Release);
        self.copy_half(entry, new, claim.halves()[1]);
        let claims = [
            (old_piece.claim_offset(entry.segment()), claim.halves()[0]),
            (self.piece(new).claim_offset(segment), claim.halves()[1]),
        ];
        space.store_u64(claims[1].0, claims[1].1.word());
        space.flush(claims[1].0, 8);
        if !F::LINKED_EARLY {
            space.fence();
        }
        if F::MOVED_EARLY {
            self.forget_moved(old_piece, entry.segment());
        }
        // From here on the new segment counts.
        space.store_u64(claims[0].0, claims[0].1.word());
        space.persist(claims[0].0, 8);
        {
            let _growth = self.env.lock(&self.growth);
            self.directory.set(claims[0].1, entry.at_depth(claim.depth + 1));
            self.directory.set(claims[1].1, new);
        }
        self.forget_moved(old_piece, entry.segment());
        self.piece(new).buckets(segment).for_each(Bucket::open);
        old_piece.buckets(entry.segment()).for_each(Bucket::open);
        drop(other);
        drop(guard);
        Ok(())
    }

    /// Copies the pairs of that half to the new segment, each to the same place.
    fn copy_half(&self, entry: Entry, new: Entry, half: Claim) {
        let space = self.space();
        let from = Self::slots(self.piece(entry), entry.segment());
        let to = Self::slots(self.piece(new), new.segment());
        for ((bucket, slot, at), (new_bucket, _, new_at)) in from.zip(to) {
            let print = bucket.fingerprint(slot);
            let held = if print == 0 { None } else { Sealed::<K, V>::read(space, at) };
            let moved = held.filter(|held| half.covers(self.hash(held.key)));
            new_bucket.set(slot, if moved.is_some() { print } else { 0 });
            if let Some(held) = moved {
                Sealed::write(space, new_at, held.key, held.value, held.sequence);
                space.flush(new_at, Sealed::<K, V>::BYTES);
                bucket.set(slot, 0);
            } else if Sealed::<K, V>::erase(space, new_at) {
                // From a split that a crash cut short, or from an earlier owner of the memory.
                space.flush(new_at, 8);
            }
        }
    }

    /// Erases pairs that were moved, for readers that look at slots without fingerprints. If a crash keeps
    /// one, the old segment no longer claims it.
    fn forget_moved(&self, piece: &Piece, segment: u64) {
        for (bucket, slot, at) in Self::slots(piece, segment) {
            if bucket.fingerprint(slot) == 0 {
                Sealed::<K, V>::erase(self.space(), at);
            }
        }
    }

    /// A segment that is free.
    fn free_segment(&self) -> Result<(usize, u64), Error> {
        let mut growth = self.env.lock(&self.growth);
        if growth.free.is_empty() {
            self.add_piece(&mut growth)?;
        }
        growth.free.pop().ok_or_else(|| self.full(self.root.segment_bytes()))
    }

    fn full(&self, wanted: u64) -> Error {
        Error::Full { wanted, len: self.space().len() }
    }

    /// Takes one more extent.
    fn add_piece(&self, growth: &mut Growth) -> Result<(), Error> {
        let space = self.space();
        if growth.pieces == PIECES {
            return Err(self.full(self.root.segment_bytes()));
        }
        let extent = match growth.unused.pop() {
            Some(extent) => extent,
            None => self.add_extent()?,
        };
        let division = Division::of(&self.root, extent);
        clear_claims(space, division);
        if !F::EXTENT_EARLY {
            space.fence();
        }
        self.root.set_pieces(space, growth.pieces as u64 + 1);
        _ = self.pieces[growth.pieces].set(Piece::new(&self.root, division));
        let number = growth.pieces;
        growth.free.extend((0..division.count).rev().map(|segment| (number, segment)));
        growth.pieces += 1;
        Ok(())
    }

    /// As much as the table has, or as much of it as there is.
    fn add_extent(&self) -> Result<Extent, Error> {
        let segments: u64 = self.pieces.iter().map_while(|piece| piece.get()).map(|p| p.division.count).sum();
        let each = self.root.segment_bytes() + 8;
        let mut bytes = (segments.max(SEGMENTS_MIN) * each + BUCKET).min(BYTES_MAX);
        loop {
            let least = self.root.extent_min();
            match self.extents.add(self.space(), bytes.max(least)) {
                Err(Error::Full { .. }) if bytes > least => bytes /= 2,
                added => return added,
            }
        }
    }
}
