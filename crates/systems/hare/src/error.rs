//! Why an expression is refused, and where it says what is not supported.

use std::ops::Range;

/// An expression that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}, at byte {} of the expression: `{}`", .at.start, excerpt(.pattern, .at))]
pub struct Refusal {
    /// The expression.
    pub pattern: String,
    /// Where in it the construct stands, in bytes.
    pub at: Range<usize>,
    /// What the construct is.
    pub why: Why,
}

/// The constructs that are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)`.
    #[error("look-around is not regular")]
    LookAround,
    /// `\1`.
    #[error("a back-reference is not regular")]
    BackReference,
    /// Not an expression.
    #[error("{0}")]
    Syntax(String),
    /// `\b` over Unicode's words.
    #[error("a word boundary of Unicode needs whole characters; `(?-u:\\b)` takes bytes")]
    UnicodeBoundary,
    /// Repetition that would be unrolled too far.
    #[error("unrolled, the repetition has more than {limit} positions")]
    TooManyPositions {
        /// The most that an expression may have.
        limit: usize,
    },
    /// A bound beyond the counters.
    #[error("the bound {bound} is above {limit}")]
    Bound {
        /// What the expression says.
        bound: u32,
        /// The largest bound.
        limit: u32,
    },
    /// A hardware design has one report bit per byte, and none before the first.
    #[error("it matches the empty string, which hardware does not report")]
    EmptyMatch,
    /// More components than slots.
    #[error("it needs {needed} slots, the design has {slots}")]
    Slots {
        /// What the expressions need, gates included.
        needed: usize,
        /// What there is.
        slots: usize,
    },
    /// More classes than the class unit holds.
    #[error("it needs {needed} character classes, the design has {classes}")]
    Classes {
        /// What the expressions need.
        needed: usize,
        /// What there is.
        classes: usize,
    },
    /// More inexact counters than bit vectors.
    #[error("it needs {needed} bit vectors, the design has {vectors}")]
    Vectors {
        /// What the expressions need.
        needed: usize,
        /// What there is.
        vectors: usize,
    },
    /// A loop over more than one component.
    #[error("a repeated group feeds back, which the pipeline of the Verilog design does not")]
    Feedback,
}

fn excerpt<'a>(pattern: &'a str, at: &Range<usize>) -> &'a str {
    pattern.get(at.clone()).unwrap_or(pattern)
}
