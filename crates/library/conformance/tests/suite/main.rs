//! The tests of pools and engines from outside, in one binary.

#[path = "../common/field.rs"]
mod field;
#[path = "../common/pools.rs"]
mod pools;

mod damage;
mod engines;
mod heap;
mod lengths;
mod moves;
mod mutations;
mod neighbours;
mod outside;
mod reserved;
mod reuse;
mod stops;
