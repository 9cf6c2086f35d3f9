//! Stores through their public face.

mod model;
