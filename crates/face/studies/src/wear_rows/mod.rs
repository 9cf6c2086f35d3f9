//! Wear (Gogte 2020, chapter III: Kevlar): lifetimes, estimates, levelling and reduction, and what they cost.

mod control;
mod cost;
mod estimation;
mod lifetime;
mod observe;
mod programs;
mod tables;

pub use control::ROWS as REDUCTION;
pub use cost::ROWS as COST;
pub use estimation::ROWS as ESTIMATION;
pub use lifetime::ROWS as LIFETIME;
pub use observe::Observed;
