//! `doctor`: what this machine has, and which verbs are limited by what it lacks.
//!
//! Each fact is asked of the part that uses it: the sampler opens its events, `userfaultfd` is opened, a system
//! after a reboot is started. Nothing is changed; DAMON is only looked at.

mod fact;
mod kernel;
mod limits;
mod memory;
mod output;
mod tools;

pub use fact::{Fact, State};
pub use limits::Limit;

/// What was found.
#[derive(Clone, Debug)]
pub struct Doctor {
    /// What the machine has, in a fixed order.
    pub facts: Vec<Fact>,
    /// What that takes from verbs.
    pub limits: Vec<Limit>,
}

impl Doctor {
    /// Looks at this machine; it takes some tenths of a second.
    #[must_use]
    pub fn look() -> Doctor {
        let root = fact::Root::of_system();
        let mut facts = memory::facts(&root);
        facts.extend(kernel::facts(&root));
        facts.extend(tools::facts(&root));
        let limits = limits::of(&facts);
        Doctor { facts, limits }
    }
}
