//! Sinks on threads: fan-out, queues, write-behind.
//!
//! Producing events, encoding them, modelling a machine and advising cost about the same each, and none needs
//! another's result. [`broadcast`] runs every sink on a thread of its own and hands each of them the whole
//! stream, through a [`Relay`]. [`WriteBehind`] moves the last step of one sink, such as compressing and
//! writing a trace file, to another thread. Both rest on a bounded [`queue`](queue()) that wakes its ends as
//! seldom as it can.
//!
//! The stream that a sink sees does not depend on timing: every sink gets the same batches in the same order.
#![forbid(unsafe_code)]

mod behind;
mod queue;
mod relay;

pub use behind::WriteBehind;
pub use queue::{Receiver, Sender, queue};
pub use relay::{Relay, broadcast};
