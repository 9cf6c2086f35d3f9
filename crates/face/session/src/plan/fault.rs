//! Why there is no plan.

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanFault {
    /// Prices can't be used.
    #[error(transparent)]
    Prices(#[from] ::plan::prices::PriceError),
    /// Nothing to predict from.
    #[error(transparent)]
    Model(#[from] ::plan::ModelError),
    /// Tiers can't be measured.
    #[error(transparent)]
    Tiers(#[from] ::plan::tiers::TierError),
    /// A number that makes no sense.
    #[error("{what} of {value}: use {remedy}")]
    Number {
        /// What it is of.
        what: &'static str,
        /// The number.
        value: f64,
        /// What to write instead.
        remedy: &'static str,
    },
    /// A fleet's file that makes no sense.
    #[error("{file}: {reason}")]
    Fleet {
        /// The file.
        file: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A file of kinds that makes no sense.
    #[error("{file}:{line}: {fault}")]
    Kinds {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do.
        fault: String,
    },
    /// A program that did not load the library that looks at its memory.
    #[error(
        "{program} did not load the library that looks at its memory: it is linked statically, or runs as another user. It ended with \
         {ending} after {elapsed:.2} s and had {peak} in memory at most. Link it with the shared C library, or build it with `strandline cc`"
    )]
    NotLoaded {
        /// The program.
        program: String,
        /// How it ended.
        ending: String,
        /// Seconds.
        elapsed: f64,
        /// Bytes in memory.
        peak: String,
    },
    /// The program can't be run.
    #[error("{0}")]
    System(String),
}
