//! What synchronisation-free regions promise, held against every crash image of seeded runs: whatever
//! survives is a frontier, closed under happens-before, and nothing that was waited for is lost. Broken twins
//! are caught.

mod again;
mod any_bytes;
mod damaged;
mod desk;
mod flaws;
mod holds;
mod scene;
