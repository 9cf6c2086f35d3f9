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
}
