//! Stores through their public face.

mod damage;
mod full;
mod model;
