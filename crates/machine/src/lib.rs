//! The modelled machine: cores, caches, controllers, devices.
#![forbid(unsafe_code)]

mod audit;
mod cache;
mod combining;
mod config;
mod core;
mod dimm;
mod figures;
mod hierarchy;
mod machine;
mod memory;
mod ranges;
mod replacement;
mod size;
mod timeline;

pub use audit::AuditError;
pub use config::{
    Buffer, CacheLevel, Config, ConfigError, Controller, Cores, Device, LINE_BYTES, Replacement, WriteOut,
};
pub use figures::{CacheFigures, Figures, MemoryFigures, SiteFigures, SiteMemory, Slice, Traffic};
pub use machine::Machine;
pub use size::{Size, SizeError};
