//! When memory wears out, what wears it, and what levelling gives.
//!
//! *Estimation* ([`estimate`]): how often each page is written back, exactly from a modelled hierarchy, or
//! from samples of stores as a processor's performance unit gives them. *Lifetime* ([`Endurance`]): when 1 %
//! of the pages are worn out, without levelling, with a number of shuffles, ideally. *Levelling* ([`level`]):
//! policies behind one trait, on traces and under attack.
#![forbid(unsafe_code)]

mod assess;
pub mod estimate;
pub mod level;
mod lifetime;
mod rates;
mod spread;

pub use assess::{Assessment, Measure, Question, SiteWear, assess};
pub use lifetime::{CopyCost, Endurance, Reading, Reserve, Shuffled, WORN_SHARE, YEAR, brute_force};
pub use rates::Rates;
pub use spread::Spread;
