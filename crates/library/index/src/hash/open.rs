//! A new table, and one that is there already.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::OnceLock;

use space::{Env, Space};

use super::directory::{Directory, Entry};
use super::layout::{Claim, DEPTH_MAX, Division, PIECES, Root};
use super::piece::{Growth, Piece, clear_claims, clear_segment};
use super::{BATCH, Flaw, HashTable, Options, STRIPE_BITS};
use crate::extents::make_durable;
use crate::{Error, Extents, Fixed};

/// A segment that claims hashes, and where its word is.
struct Found {
    claim: Claim,
    piece: usize,
    segment: u64,
    word: u64,
}

impl<H, X, K, V, F> HashTable<H, X, K, V, F>
where
    H: Deref<Target: Env + Sized> + Send + Sync,
    X: Extents<<H::Target as Env>::Space>,
    K: Fixed,
    V: Fixed,
    F: Flaw,
{
    /// Makes an empty table. Until this returns there is none, whatever a crash leaves.
    ///
    /// # Errors
    /// If the options are out of range, there is a table already, or the first extent has no room for a
    /// segment.
    pub fn create(env: H, extents: X, options: &Options) -> Result<Self, Error> {
        if !options.buckets.is_power_of_two() || !(2..=1 << 16).contains(&options.buckets) {
            return Err(Error::Options("the buckets of a segment are not a power of 2 from 2 to 65536"));
        }
        let space = env.space();
        let first = extents.all(space)[0];
        Root::check_new(space, first.offset)?;
        let bucket_bits = options.buckets.trailing_zeros();
        let root =
            Root { offset: first.offset, bucket_bits, seed: options.seed.unwrap_or_else(|| env.random()) };
        let division = Division::of(&root, first);
        if division.count == 0 {
            return Err(Error::Full { wanted: root.extent_min(), len: first.bytes });
        }
        clear_claims(space, division);
        clear_segment::<_, K, V>(space, &root, division.base, &Self::OFFSETS[..Self::SLOTS]);
        space.store_u64(division.table, Claim { depth: 0, prefix: 0 }.word());
        space.flush(division.table, 8);
        root.write::<_, K, V>(space, 1);
        space.fence();
        root.finish(space);
        Self::open(env, extents)
    }

    /// Opens the table that is there.
    ///
    /// # Errors
    /// If there is none of such keys and values, or it is damaged.
    pub fn open(env: H, extents: X) -> Result<Self, Error> {
        let space = env.space();
        let mut all = extents.all(space);
        let (root, count) = Root::read::<_, K, V>(space, all[0].offset)?;
        if count == 0 || count > all.len().min(PIECES) as u64 {
            return Err(Error::Damaged { offset: root.offset, what: "the number of extents" });
        }
        let mut unused = all.split_off(count as usize);
        unused.reverse();
        make_durable(space, &all);
        let pieces = [const { OnceLock::new() }; PIECES];
        let (mut found, mut free) = (Vec::new(), Vec::new());
        for (number, extent) in all.into_iter().enumerate() {
            let piece = Piece::new(&root, Division::of(&root, extent));
            for segment in (0..piece.division.count).rev() {
                let word = piece.claim_offset(segment);
                match Claim::read(space, word)? {
                    Some(claim) => found.push(Found { claim, piece: number, segment, word }),
                    None => free.push((number, segment)),
                }
            }
            _ = pieces[number].set(piece);
        }
        let unfinished = drop_unfinished(&root, &mut found)?;
        for Found { piece, segment, word, .. } in &unfinished {
            space.store_u64(*word, 0);
            space.flush(*word, 8);
            free.push((*piece, *segment));
        }
        if !unfinished.is_empty() {
            space.fence();
        }
        let entry = |at: &Found| (at.claim, Entry::new(at.piece, at.segment, at.claim.depth));
        let directory = Directory::new(found.iter().map(entry));
        let stripes = (0..1 << STRIPE_BITS).map(|_| env.mutex(())).collect();
        let growth = env.mutex(Growth { free, pieces: count as usize, unused });
        Ok(HashTable {
            extents,
            root,
            pieces,
            directory,
            stripes,
            growth,
            kind: PhantomData,
            batch: BATCH,
            env,
        })
    }
}

/// Takes away the new halves of segments whose old half still claims all. What is left has each hash once.
fn drop_unfinished(root: &Root, found: &mut Vec<Found>) -> Result<Vec<Found>, Error> {
    found.sort_by_key(|at| (at.claim.begin(), at.claim.depth));
    let mut covered = 0;
    let mut unfinished = Vec::new();
    let mut counted: Vec<Found> = Vec::with_capacity(found.len());
    for one in found.drain(..) {
        if one.claim.begin() == covered {
            covered = one.claim.end();
            counted.push(one);
            continue;
        }
        let old = counted.last().map(|old| old.claim);
        if old.is_none_or(|old| old.depth == DEPTH_MAX || old.halves()[1] != one.claim) {
            return Err(Error::Damaged { offset: one.word, what: "which hashes a segment has" });
        }
        unfinished.push(one);
    }
    if covered != 1 << DEPTH_MAX {
        return Err(Error::Damaged { offset: root.offset, what: "hashes that no segment has" });
    }
    *found = counted;
    Ok(unfinished)
}
