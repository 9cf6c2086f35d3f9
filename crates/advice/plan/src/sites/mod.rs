//! Plans for programs that were not recompiled: what use of pages by allocation site bounds, and what it can't say.

mod bounds;
mod seen;

pub use bounds::{Mix, PhasePlan, SiteAnswer, SitePlan, plan};
pub use seen::{Rate, Samples, Seen, SiteUse, Window};
