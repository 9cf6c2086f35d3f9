//! Which models made a result.

/// The version of the models: the package's, and a hash of the sources that results depend on.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("STRANDLINE_MODELS"));
