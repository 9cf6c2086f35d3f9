//! How often pages are written back: exactly, from a modelled hierarchy, and from samples of stores.

mod accuracy;
mod allocations;
mod bloom;
mod exact;
mod sampled;
mod tally;

pub use accuracy::{Accuracy, accuracy};
pub use bloom::Bloom;
pub use exact::{Exact, Watch};
pub use sampled::{Algorithm, AlgorithmError, Sampled, Swap};
pub use tally::{BASE_PAGE, PageWear, Slice, Tally};
