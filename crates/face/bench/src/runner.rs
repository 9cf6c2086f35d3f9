//! Something that runs slices of operations.

use std::time::Duration;

use space::Env;
use workload::load::{Pace, Slice, Tally, Target, drive};

use crate::clock::Spent;
use crate::error::Error;

/// Runs slices on one contender.
pub trait Runner {
    /// Runs a slice; what it took. The results are added to `tally`.
    ///
    /// # Errors
    /// If the contender can't do it, or loses a record.
    fn run(&mut self, slice: &Slice, tally: &mut Tally) -> Result<Spent, Error>;
}

/// What a contender is asked to do with its runner.
pub type Use<'a> = &'a mut dyn FnMut(&mut dyn Runner) -> Result<(), Error>;

/// A target in this process.
pub struct InProcess<'a, E> {
    /// Whose threads run the operations.
    pub env: &'a E,
    /// What they run on.
    pub target: &'a dyn Target,
    /// Its name.
    pub name: &'a str,
    /// Reads that `read-many` hands over at once.
    pub many: usize,
}

impl<E: Env> Runner for InProcess<'_, E> {
    fn run(&mut self, slice: &Slice, tally: &mut Tally) -> Result<Spent, Error> {
        let pace = Pace { many: self.many, idle: &idle, ..Pace::default() };
        let (result, spent) = Spent::by(|| drive(self.env, self.target, slice, &pace, tally));
        result.map_err(|error| Error::of(self.name, error))?;
        Ok(spent)
    }
}

/// Waits until an operation is nearly due: a thread that sleeps wakes some tens of microseconds late.
fn idle(nanoseconds: u64) {
    const LATE: u64 = 200_000;
    if nanoseconds > LATE {
        std::thread::sleep(Duration::from_nanos(nanoseconds - LATE));
    } else {
        std::hint::spin_loop();
    }
}
