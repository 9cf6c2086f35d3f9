//! What a run does to memory, by data structure.

mod bank;
mod data;
mod locate;
mod overlap;
mod profiler;

pub use data::{Profile, StructureProfile};
pub use locate::{Locator, Namer, Owner, PAGE, REST, Structure};
pub use overlap::{Clusters, Members};
pub use profiler::Profiler;
