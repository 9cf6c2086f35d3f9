//! What benches and results do, through their public face.

mod common;
mod model;
mod real;
mod results;
