//! Pre-stores: what a program is advised for what it does.

mod patterns;
mod phases;
mod run;
