//! Processes made to execute system calls: the `ptrace` layer and batches of calls.

mod batch;
mod guard;
pub mod kill_points;
mod memory;
mod ptrace;
mod thread;

pub use batch::{Batch, CODE, lost_handler, wait_handler};
pub use guard::{CONTEXT, Guard};
pub use memory::{read, read_exact, write};
pub use ptrace::{
    RegisterSet, Registers, SIGNALS_DURING_CALLS, cont, detach, get_mask, get_registers, get_rseq,
    get_xstate, interrupt, kill, peek_signals, seize, set_mask, set_options, set_registers, set_xstate, wait,
};
pub use thread::{RECORD, RECORDS, SCRATCH, Stopped, syscall_instruction};
