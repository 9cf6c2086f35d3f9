//! The crate through its public face.

mod compilers;
mod mutations;
