//! Published crash-consistency bugs, re-created as small structures, each with its correct twin.
//!
//! They are what the crash checker is held against: it has to find each bug without a hint where, and to say
//! nothing of the twins. Like all structures of ours they are generic over [`Env`], so that they run on real
//! memory, recorded, and in the checker. `examples/c/bugs` has their like in C and C++.
//!
//! # How one is written
//! A file per structure. A variant is a value of an enumeration, asked where bug and twin differ and nowhere
//! else. A run makes the structure on an empty space and works on it; each operation is a region, and once
//! that has ended, its effect must survive. The check recovers what a crash left and says what is wrong. It
//! reads through an `Arena`, which turns pointers that lead nowhere, and circles, into findings.
//!
//! The twins rest on the contract of [`Space`] alone: words persist in no order but that of flushes and
//! fences, not even in one line.
#![forbid(unsafe_code)]

mod arena;
mod cceh;
mod chain;
mod fair;
mod level;
mod list;
mod log;
mod map;
mod masstree;
mod redo;
mod registry;
mod shadow;
mod undo;

use space::{Env, Space};

use arena::Arena;

/// A structure in one variant.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// The structure's name.
    pub structure: &'static str,
    /// The variant's name: `fixed`, or what is wrong.
    pub variant: &'static str,
    /// Where the bug was published, and what it is.
    pub origin: &'static str,
    program: Program,
}

/// The structures; each has an enumeration of its variants, the correct one first.
#[derive(Clone, Copy, Debug)]
enum Program {
    Cceh(cceh::Variant),
    Chain(chain::Variant),
    Fair(fair::Variant),
    Level(level::Variant),
    List(list::Variant),
    Log(log::Variant),
    Masstree(masstree::Variant),
    Redo(redo::Variant),
    Shadow(shadow::Variant),
    Undo(undo::Variant),
}

/// What a structure can do.
trait Structure: Copy {
    /// Makes the structure on an empty space and works on it. The error is a mistake of the program itself.
    fn run<E: Env>(self, env: &E) -> Result<(), String>;

    /// Recovers a structure that was ready, of whose operations so many had ended.
    fn check<S: Space>(self, arena: &Arena<'_, S>, done: u64) -> Result<(), String>;
}

/// Does the same with each structure.
macro_rules! each {
    ($program:expr, $variant:ident => $call:expr) => {
        match $program {
            Program::Cceh($variant) => $call,
            Program::Chain($variant) => $call,
            Program::Fair($variant) => $call,
            Program::Level($variant) => $call,
            Program::List($variant) => $call,
            Program::Log($variant) => $call,
            Program::Masstree($variant) => $call,
            Program::Redo($variant) => $call,
            Program::Shadow($variant) => $call,
            Program::Undo($variant) => $call,
        }
    };
}

impl Bug {
    /// Bytes of space that a run needs.
    pub const BYTES: u64 = 16 << 10;

    /// Whether this is a correct twin.
    #[must_use]
    pub fn is_correct(&self) -> bool {
        self.variant == "fixed"
    }

    /// The correct twin.
    #[must_use]
    pub fn twin(&self) -> Option<&'static Bug> {
        bugs().iter().find(|bug| bug.structure == self.structure && bug.is_correct())
    }

    /// Makes the structure on a space of [`Bug::BYTES`] zeros and works on it.
    ///
    /// # Errors
    /// If the program finds what it did not store: a mistake in the program, or somebody changed the space.
    pub fn run<E: Env>(&self, env: &E) -> Result<(), String> {
        each!(self.program, variant => variant.run(env))
    }

    /// Recovers what a crash left of a run and says what is wrong. `done` is the number of regions that had
    /// ended.
    ///
    /// # Errors
    /// What a crash must not have done, in one line.
    pub fn recover_and_check<S: Space>(&self, space: &S, done: u64) -> Result<(), String> {
        match Arena::open(space) {
            Some(arena) => each!(self.program, variant => variant.check(&arena, done)),
            None if done > 0 => Err(format!("{done} operations ended in a structure that is not there")),
            None => Ok(()),
        }
    }
}

/// All of them, a structure's correct twin before its bugs.
#[must_use]
pub fn bugs() -> &'static [Bug] {
    registry::BUGS
}
