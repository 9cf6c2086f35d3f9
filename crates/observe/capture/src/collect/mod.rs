//! From the chunks of many threads to one stream of events.
//!
//! ```text
//!   session (shared memory)      stream, one per thread          merger                    sink
//!   chunks: FILLING, FULL  -->   words to events          -->    global order       -->    event::Sink
//!                                  |      |                      of synchronisation
//!                              blocks   records
//!                                  |      |
//!                                 code: addresses to sites
//! ```

mod address_map;
mod blocks;
mod calls;
mod code;
#[cfg(target_arch = "x86_64")]
mod compare;
mod contexts;
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
mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use interrupts::{Interrupt, Interrupts};
pub use outcome::{Counted, Missed, Options, Outcome, Progress, StackOutcome, ThreadOutcome, Warning};
pub use record::{abandon, count, record};
