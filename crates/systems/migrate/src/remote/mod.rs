//! Processes made to execute system calls: the `ptrace` layer and batches of calls.

mod batch;
mod memory;
mod ptrace;
mod thread;

pub use batch::Batch;
pub use memory::{read, read_exact, write};
pub use ptrace::{
    RegisterSet, Registers, SIGNALS_DURING_CALLS, cont, detach, get_mask, get_registers, get_rseq,
    get_xstate, interrupt, kill, peek_signals, seize, set_mask, set_options, set_registers, set_xstate, wait,
};
pub use thread::{SCRATCH, Stopped, syscall_instruction};
