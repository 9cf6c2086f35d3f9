//! The modelled machine: cores, caches, controllers, devices.
#![forbid(unsafe_code)]

mod figures;

pub use figures::{CacheFigures, Figures, MemoryFigures, SiteFigures, SiteMemory, Slice, Traffic};
