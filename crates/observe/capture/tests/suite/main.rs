//! The crate through its public face.

mod collect;
mod live;
mod symbols;
