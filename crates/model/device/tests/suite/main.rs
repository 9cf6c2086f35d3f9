//! What devices do, through their public face.

mod contract;
mod curves;
