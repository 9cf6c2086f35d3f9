//! Runs both parts.

use super::contest::VnvmContest;
use super::results::VnvmResults;
use super::{apart, commits, records};
use crate::Watch;
use crate::error::Error;

impl VnvmContest {
    /// Runs it.
    ///
    /// # Errors
    /// If memory or files can't be had, or one of ours fails.
    pub fn run(&self, watch: &dyn Watch) -> Result<VnvmResults, Error> {
        let (scale, rounds, service_ns) = (self.scale, self.rounds, self.service_ns);
        let mut results = VnvmResults { scale, rounds, service_ns, ..VnvmResults::default() };
        if self.commits {
            commits::measure(self, watch, &mut results)?;
        }
        if self.records && !watch.stopped() {
            let base = records::measure(self, watch, &mut results)?;
            base.map_or(Ok(()), |base| apart::measure(self, base, watch, &mut results))?;
        }
        Ok(results)
    }

    /// Runs one of four record stores in this process, for the one that measures them.
    ///
    /// # Errors
    /// If memory or files can't be had, or the parent is gone.
    pub fn store(&self, instance: u32) -> Result<(), Error> {
        apart::store(self, instance)
    }
}
