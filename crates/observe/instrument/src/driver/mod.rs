//! Stands in for the compiler's driver ([`compile`]) and for the `as` that it finds ([`assemble`]): starts
//! the real ones.

mod arguments;
mod assembler;
mod compile;
mod compiler;
mod flags;
mod intermediate;
mod language;
mod toolkit;

pub use assembler::{ASSEMBLER_ENV, AssemblerError, assemble};
pub use compile::{CC_ENV, CXX_ENV, VERBOSE_ENV, compile};
pub use language::{CcError, Language};
pub use toolkit::{PERSIST_RUNTIME, Runtimes};
