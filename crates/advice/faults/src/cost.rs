//! What faults cost: distributions of measured times.

use serde::Serialize;

/// Times of one kind of fault, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many were measured.
    pub count: usize,
    /// Their mean, without the slowest hundredth: interrupts and other processes.
    pub mean: f64,
    /// A tenth is shorter.
    pub p10: f64,
    /// Half of them are.
    pub median: f64,
    /// Nine tenths are.
    pub p90: f64,
    /// 99 of 100 are.
    pub p99: f64,
}

impl Times {
    /// Of measured times; all zero without any.
    #[must_use]
    pub fn of(mut times: Vec<f64>) -> Times {
        if times.is_empty() {
            return Times::default();
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let kept = &times[..(times.len() * 99).div_ceil(100)];
        Times {
            count: times.len(),
            mean: kept.iter().sum::<f64>() / kept.len() as f64,
            p10: at(0.1),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
        }
    }
}

/// Costs on a machine, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// First stores to pages of 4 KiB that the kernel has given out before.
    pub write: Times,
    /// The same in memory that was not used for long, or never.
    pub write_cold: Times,
    /// First loads: the kernel maps its page of zeros.
    pub read: Times,
    /// Stores to a page that so far was the page of zeros.
    pub copy: Times,
    /// First loads of a mapped file whose pages are in memory. The kernel maps several pages around each.
    pub file: Times,
    /// First stores to pages of 2 MiB; `None` where the kernel gives none.
    pub huge: Option<Times>,
    /// The same in memory that was not used for long, or never.
    pub huge_cold: Option<Times>,
    /// Per page that `MADV_POPULATE_WRITE` populates; `None` where the kernel has no such call.
    pub populate: Option<f64>,
    /// Zeroing of 4 KiB that are in no cache.
    pub zero: f64,
    /// The trap, page tables and accounting: a first store without the zeroing.
    pub trap: f64,
    /// By how much the first use of all lines of a page takes longer if the page was zeroed long before.
    pub cache: f64,
    /// Giving a page back by `munmap`.
    pub unmap: f64,
}
