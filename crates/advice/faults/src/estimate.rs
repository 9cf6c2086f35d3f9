//! What a page-fault offload engine would save a program: by the source's formula, and by a better one.
//!
//! The source's (section 4.5.2 of C.-C. Chou's thesis) multiplies counts by constant differences:
//! `T = (N_write (c_write - c_poe) + N_read (c_read - c_poe)) / f`. It leaves out that zeroed pages are cold when they are
//! used, what its background threads cost, and that each read takes a page of its own; and every fault costs the mean of
//! one loop on one machine.

use serde::Serialize;

/// Times of a fault in nanoseconds: of the kernel's for a store and a load, and of the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FaultTimes {
    /// A first store, by the kernel.
    pub write: f64,
    /// A first load, by the kernel.
    pub read: f64,
    /// Either, by the engine.
    pub engine: f64,
}

/// Nanoseconds that the source's formula says are saved.
#[must_use]
pub fn formula(writes: u64, reads: u64, times: FaultTimes) -> f64 {
    writes as f64 * (times.write - times.engine) + reads as f64 * (times.read - times.engine)
}

/// What the better estimate takes into account besides, in nanoseconds per page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Besides {
    /// By how much a page's first use takes longer if it was zeroed long before.
    pub cache: f64,
    /// Zeroing a page and accounting for it in the background.
    pub background: f64,
    /// Share of the background's work that has a processor of its own, 0 to 1.
    pub idle: f64,
    /// Share of the faults that find the table filled, 0 to 1.
    pub hits: f64,
}

/// The better estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Saved {
    /// Nanoseconds of the program's threads, all in all.
    pub saved: f64,
    /// Nanoseconds of work that moves to the background.
    pub background: f64,
    /// Pages that loads take which the kernel's page of zeros would have served.
    pub pages: u64,
}

/// Nanoseconds saved, with what the formula leaves out.
#[must_use]
pub fn estimate(writes: u64, reads: u64, times: FaultTimes, besides: Besides) -> Saved {
    let faults = (writes + reads) as f64 * besides.hits;
    let background = faults * besides.background;
    let saved = formula(writes, reads, times) * besides.hits
        - faults * besides.cache
        - background * (1.0 - besides.idle);
    Saved { saved, background, pages: (reads as f64 * besides.hits) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: FaultTimes = FaultTimes { write: 1000.0, read: 400.0, engine: 100.0 };

    #[test]
    fn the_formula_is_the_sum_of_the_differences() {
        assert_eq!(formula(10, 5, TIMES), 10.0 * 900.0 + 5.0 * 300.0);
    }

    #[test]
    fn what_is_left_out_makes_it_less() {
        let nothing = Besides { cache: 0.0, background: 0.0, idle: 0.0, hits: 1.0 };
        assert_eq!(estimate(10, 5, TIMES, nothing).saved, formula(10, 5, TIMES));
        let all = Besides { cache: 50.0, background: 300.0, idle: 0.5, hits: 1.0 };
        let saved = estimate(10, 5, TIMES, all);
        assert_eq!((saved.saved, saved.background, saved.pages), (10_500.0 - 750.0 - 2250.0, 4500.0, 5));
        assert_eq!(estimate(10, 5, TIMES, Besides { hits: 0.0, ..all }), Saved::default());
    }
}
