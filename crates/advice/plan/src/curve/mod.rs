//! Miss curves: misses by the size of a cache.

mod exact;
mod miss_curve;
pub(crate) mod shards;
mod umon;

pub use exact::Exact;
pub use miss_curve::MissCurve;
pub use shards::Shards;
pub use umon::Umon;
