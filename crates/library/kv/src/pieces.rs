//! Pieces of the file for the index.

use std::sync::Arc;

use index::btree::BTree;
use index::{Extent, Extents};
use space::Env;

use crate::chunks::{Chunks, Reserve};
use crate::handle::Handle;
use crate::layout::Use;

/// The index in the file.
pub(crate) type Tree<E, H> = BTree<H, [u64; 2], u64, Pieces<E, H>>;

/// Bytes of a chunk before the index's part of it.
pub(crate) const HEAD: u64 = 256;
/// Pieces of the file for the index.
pub(crate) struct Pieces<E: Env, H> {
    env: H,
    chunks: Arc<Chunks<E>>,
}

impl<E: Env, H: Handle<E>> Pieces<E, H> {
    pub(crate) fn new(env: H, chunks: Arc<Chunks<E>>) -> Self {
        Pieces { env, chunks }
    }

    fn extent(&self, chunk: u32, count: u64) -> Extent {
        let layout = &self.chunks.layout;
        Extent { offset: layout.chunk_at(chunk) + HEAD, bytes: count * layout.chunk - HEAD }
    }
}

impl<E: Env, H: Handle<E>> Extents<E::Space> for Pieces<E, H> {
    fn add(&self, space: &E::Space, bytes: u64) -> Result<Extent, index::Error> {
        let count = (HEAD + bytes).div_ceil(self.chunks.layout.chunk);
        let full = index::Error::Full { wanted: bytes, len: space::Space::len(space) };
        let count32 = u32::try_from(count).map_err(|_| full.clone())?;
        let taken = self.chunks.take(&self.env, Use::Index, count, count32, Reserve::Share);
        let (chunk, _) = taken.map_err(|_| full)?;
        Ok(self.extent(chunk, count))
    }

    fn all(&self, _: &E::Space) -> Vec<Extent> {
        let mut pieces = self.chunks.used_as(&self.env, Use::Index);
        pieces.sort_unstable_by_key(|(_, head)| head.generation);
        pieces.into_iter().map(|(chunk, head)| self.extent(chunk, head.detail)).collect()
    }
}
