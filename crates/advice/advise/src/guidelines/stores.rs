//! The stores of blocks ([`event::BlockBatch`]), without events: the linter looks at nothing else.

use event::{AccessKind, BlockAccess, Select, Selected, SiteId, Unfolder};

/// Stores that are copied at once, wanted or not: most blocks have no more.
const STRIDE: usize = 2;
/// Room of the window: 256 stores, a block of the longest plain shape, and a stride.
const ROOM: usize = 256 + 64 + STRIDE;

/// Ordinary stores of known length, as bytes and code.
#[derive(Debug, Default)]
pub(super) struct Stores;

impl Select for Stores {
    type Kind = (u32, SiteId);
    const EMPTY: (u32, SiteId) = (0, SiteId::UNKNOWN);
    const ALL: bool = false;

    fn select(access: &BlockAccess) -> Selected<(u32, SiteId)> {
        match (access.kind, access.len) {
            (AccessKind::StoreNt, _) | (_, None) => Selected::Refuse,
            (AccessKind::Load, Some(_)) => Selected::Skip,
            (AccessKind::Store, Some(len)) => Selected::Keep((len, access.site)),
        }
    }
}

/// The shapes that are known, and a window of stores.
pub(super) type StoreUnfolder = Unfolder<Stores, STRIDE, ROOM>;
