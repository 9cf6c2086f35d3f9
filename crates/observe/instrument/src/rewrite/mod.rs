//! Assembler source to assembler source: [`rewrite`] turns the compiler's output into code that records.
//!
//! Five things happen to a file. The thread-sanitizer pass's calls become code in line ([`blocks`]). Flushes,
//! fences, non-temporal stores and locked instructions get a call before them ([`persist`]). The C
//! library's memory and string functions, and C++'s `new` and `delete`, are called under the
//! runtime's names ([`rename`]). Jumps to the runtime's functions become calls ([`tail`]). Stores that the
//! pass left out get hooks ([`unhooked`], [`hand_written`], [`masked`]). Everything else stays as it is, byte
//! by byte and line by line: inserted statements share the line of what they belong to, so that the
//! assembler's messages and line numbers stay right.
//!
//! Where the compiler ran without the pass ([`rewrite_shipped`]), every access gets its hook from the
//! instruction that makes it ([`shipped`], [`loads`]), and [`atomics`] knows which of them synchronise
//! threads.
//!
//! For programs that survive by the persistency runtime there is a dialect of its own ([`rewrite_logged`],
//! [`logged`]), which keeps the calls for stores and drops the rest.
//!
//! What is not understood is left alone. The runtime has the sanitizer's functions for real, too,
//! so a call that stays is slower and no less true.
//!
//! From the bottom up: [`scan`], [`edits`] and [`instruction`] know the language; [`control`], [`syntax`] and
//! [`source`] what statements mean; the other files have a task each, and [`walk`] leads through a source.

mod atomics;
mod awaited;
mod blocks;
mod control;
mod copies;
mod edits;
mod exports;
mod hand_written;
mod held;
mod helpers;
mod instruction;
mod library;
mod loads;
mod logged;
mod masked;
mod no_line;
mod persist;
mod rename;
mod scan;
mod shipped;
mod source;
mod syntax;
mod tail;
mod taken;
#[cfg(test)]
mod tests;
mod unhooked;
mod volatile;
mod walk;

pub use atomics::Atomics;
pub use exports::Exports;
pub use logged::rewrite_logged;
pub use walk::{rewrite, rewrite_shipped};
