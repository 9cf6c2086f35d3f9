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
    /// Per page that it finds there.
    pub populate_again: f64,
    /// Zeroing of 4 KiB that are in no cache.
    pub zero: f64,
    /// The trap, page tables and accounting: a first store without the zeroing.
    pub trap: f64,
    /// By how much the first use of all lines of a page takes longer if the page was zeroed long before.
    pub cache: f64,
    /// The same by the bytes that were populated at once, as far as measured: what lies in a cache costs
    /// nothing more.
    pub cache_after: Vec<(u64, f64)>,
    /// By how much it takes longer if another processor has zeroed it.
    pub other: f64,
    /// Stores to a page that so far was the page of zeros, while another thread of the process runs; `None`
    /// on one processor.
    pub upgrade_beside: Option<f64>,
    /// Per page of a program that stores to new pages while a thread populates the same ones, and of the
    /// thread; `None` on one processor.
    pub chase: Option<(f64, f64)>,
    /// Waking a thread: for who wakes it, and until it runs.
    pub wake: (f64, f64),
    /// Giving a page back by `munmap`.
    pub unmap: f64,
    /// Giving 2 MiB back.
    pub unmap_huge: f64,
    /// By how much a fault takes longer because it is reported: where each is, and where one in many is.
    pub reports: (f64, f64),
}

impl Times {
    fn scaled(self, by: f64) -> Times {
        let Times { count, mean, p10, median, p90, p99 } = self;
        Times { count, mean: mean * by, p10: p10 * by, median: median * by, p90: p90 * by, p99: p99 * by }
    }
}

impl Costs {
    /// Where the kernel's work takes a program `by` times what it took when it was measured.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Costs {
        Costs {
            write: self.write.scaled(by),
            write_cold: self.write_cold.scaled(by),
            read: self.read.scaled(by),
            copy: self.copy.scaled(by),
            file: self.file.scaled(by),
            huge: self.huge.map(|times| times.scaled(by)),
            huge_cold: self.huge_cold.map(|times| times.scaled(by)),
            populate: self.populate.map(|time| time * by),
            populate_again: self.populate_again * by,
            zero: self.zero * by,
            trap: self.trap * by,
            upgrade_beside: self.upgrade_beside.map(|time| time * by),
            chase: self.chase.map(|(program, thread)| (program * by, thread * by)),
            unmap: self.unmap * by,
            unmap_huge: self.unmap_huge * by,
            ..self.clone()
        }
    }

    /// By how much the first use of a page takes longer if so many bytes were zeroed at once before.
    #[must_use]
    pub fn cache_after(&self, bytes: u64) -> f64 {
        let Some(&(first, least)) = self.cache_after.first() else { return self.cache };
        if bytes <= first {
            return least * bytes as f64 / first as f64;
        }
        let within = self.cache_after.windows(2).find(|two| bytes <= two[1].0);
        within.map_or_else(
            || self.cache_after.last().map_or(least, |(_, time)| *time),
            |two| {
                let share = (bytes - two[0].0) as f64 / (two[1].0 - two[0].0) as f64;
                two[0].1 + share * (two[1].1 - two[0].1)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cache_holds_is_between_what_was_measured() {
        let costs = Costs { cache: 7.0, ..Costs::default() };
        assert_eq!(costs.cache_after(1 << 20), 7.0);
        let costs = Costs { cache_after: vec![(1000, 10.0), (2000, 50.0), (4000, 60.0)], ..costs };
        let at = [0, 500, 1000, 1500, 3000, 4000, 1 << 30].map(|bytes| costs.cache_after(bytes));
        assert_eq!(at, [0.0, 5.0, 10.0, 30.0, 55.0, 60.0, 60.0]);
    }
}
