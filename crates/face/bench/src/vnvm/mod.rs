//! Virtualised NVM: commits beside bare logs and libpmemobj, and stores of large records beside NVM alone
//! (`bench vnvm`).

mod apart;
mod commits;
mod contest;
mod logs;
mod peer;
mod records;
mod results;
mod run;

pub use contest::VnvmContest;
pub use results::{CommitRow, RecordRow, VnvmResults};
