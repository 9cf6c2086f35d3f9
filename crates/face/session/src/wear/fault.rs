//! Why wear can't be estimated.

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum WearFault {
    /// A page that no memory has.
    #[error("a page of {0} bytes: use a power of two from 4KiB to 1GiB")]
    Page(u64),
    /// A number that has to be above 0.
    #[error("{what} of {value}: use a number above 0")]
    NotPositive {
        /// What it is of.
        what: &'static str,
        /// The number.
        value: f64,
    },
    /// No processor samples a trace or a built-in workload.
    #[error("--sampled is for a program: strandline wear --sampled 10007 -- ./app")]
    NothingToSample,
    /// A sampling interval that hides loops.
    #[error(transparent)]
    Algorithm(#[from] ::wear::estimate::AlgorithmError),
    /// A levelling policy that does not exist or does not fit.
    #[error(transparent)]
    Policy(#[from] ::wear::level::PolicyError),
    /// Nothing to level.
    #[error("{input} writes nothing to memory, so there is nothing to level")]
    NoWrites {
        /// The input.
        input: String,
    },
    /// A program that did not load the library that levels.
    #[error(
        "{program} did not load the library that levels its memory: it is linked statically, or runs as \
         another user (it ended with {ending})"
    )]
    NotLoaded {
        /// The program.
        program: String,
        /// How it ended.
        ending: String,
    },
    /// The library can't level here.
    #[error("{program} ran without levelling: {why}")]
    Refused {
        /// The program.
        program: String,
        /// Why.
        why: String,
    },
    /// NUMA nodes that are not there.
    #[error("no pages move between nodes {near} and {far}: this machine has {present}")]
    Nodes {
        /// The node of the memory that wears.
        near: u32,
        /// That of DRAM.
        far: u32,
        /// The nodes that there are.
        present: String,
    },
    /// What can't be done with a program.
    #[error("{0}")]
    System(String),
    /// More memory than the simulation holds.
    #[error("{bytes} bytes in units of {unit}: a simulation has at most 2^31 units; use a larger --unit")]
    TooLarge {
        /// Bytes of the memory.
        bytes: u64,
        /// Bytes of a unit.
        unit: u64,
    },
}
