//! What the machine does, through its public face.

mod blocks;
mod caches;
mod coherence;
mod common;
mod config;
mod conservation;
mod curves;
mod designs;
mod evictions;
mod hardware_prestores;
mod hops;
mod memory_side;
mod presets;
mod simulation;
mod simulation_laws;
mod simulation_stores;
mod simulation_threads;
mod strands;
mod timed;
mod translation;
mod xpoint;
