//! From the chunks of many threads to one stream of events.
//!
//! ```text
//!   session (shared memory)      stream, one per thread          merger                    sink
//!   chunks: FILLING, FULL  -->   words to events          -->    global order       -->    event::Sink
//!                                  |      |                      of synchronisation
//!                                runs   records
//!                                  |      |
//!                                 code: addresses to sites
//! ```

mod address_map;
mod calls;
mod code;
#[cfg(target_arch = "x86_64")]
mod compare;
mod decoder;
mod files;
mod interrupts;
mod merge;
mod outcome;
mod piece;
mod processes;
mod programs;
mod record;
mod records;
mod runs;
mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use interrupts::{Interrupt, Interrupts};
pub use outcome::{Counted, Options, Outcome, Progress, ThreadOutcome, Warning};
pub use record::{count, record};
