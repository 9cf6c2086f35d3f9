//! How threads and processes meet: locks, barriers, channels, locks on files, signals.

pub mod channel;
pub mod file_lock;
pub mod lock;
pub mod object;
pub mod omp;
pub mod once;
pub mod signals;
