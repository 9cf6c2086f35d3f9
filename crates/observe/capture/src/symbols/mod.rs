//! Code addresses into functions and lines.
//!
//! Names come from the program files' DWARF debug information (`-g`), with inlined functions; where there is
//! none, from the symbol table; where there is none either, a site is its module and address.

mod elf;
mod expression;
mod globals;
mod layouts;
mod names;
mod resolver;
mod types;

pub use elf::{HOW_TO_BUILD, Image, RUNTIME, instrumented, preload};
pub use globals::{Variable, globals};
pub use layouts::{Debug, Layouts};
pub use resolver::{Resolver, stands_for_caller};
pub use types::Types;
