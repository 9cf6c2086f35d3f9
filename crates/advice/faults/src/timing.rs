//! The offload engine in time: cores that touch new pages, a table of pages per core, and a thread that refills the tables
//! every so often.
//!
//! A core's fault finds a page in its table, or traps into the kernel. The thread accounts for used pages, zeroes new ones,
//! and works on a processor of its own or takes core 0's time. Free memory may run out: then tables stay empty, and the
//! kernel reclaims for its own faults.

use std::collections::BinaryHeap;

use serde::Serialize;

/// What is simulated. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Cores that touch pages.
    pub cores: usize,
    /// Pages that each touches.
    pub pages: u64,
    /// Between two new pages of a core.
    pub gap: f64,
    /// New pages that follow each other without a gap, before a gap as long as all theirs.
    pub burst: u64,
    /// Entries of a core's table; 0 without an engine.
    pub ring: u64,
    /// Between two refills.
    pub period: f64,
    /// A fault by the kernel, zeroing included.
    pub kernel: f64,
    /// The part of it under the page tables' lock, which the cores of a process share.
    pub locked: f64,
    /// A fault by the engine.
    pub engine: f64,
    /// By how much a page's first use takes longer if it was zeroed long before.
    pub cache: f64,
    /// The thread's work per page: accounting for one, zeroing the next.
    pub refill: f64,
    /// Whether the thread has a processor of its own.
    pub own_processor: bool,
    /// Free pages at the beginning, beyond which faults reclaim.
    pub free: u64,
    /// What reclaiming a page takes.
    pub reclaim: f64,
}

impl Setting {
    /// One core, a new page every microsecond, 64 entries, 2 ms, and plenty of memory.
    #[must_use]
    pub fn new(kernel: f64, engine: f64, refill: f64) -> Setting {
        Setting {
            cores: 1,
            pages: 100_000,
            gap: 1000.0,
            burst: 1,
            ring: 64,
            period: 2e6,
            kernel,
            locked: 0.3 * kernel,
            engine,
            cache: 0.0,
            refill,
            own_processor: true,
            free: u64::MAX,
            reclaim: 10_000.0,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Timed {
    /// Until the last core has touched its pages.
    pub time: f64,
    /// Faults that the engine completed, and that the kernel did.
    pub engine: u64,
    /// See above.
    pub kernel: u64,
    /// The thread's work.
    pub background: f64,
    /// Time that cores waited for the lock of the page tables.
    pub waited: f64,
    /// Pages that lay in tables at the end, zeroed for nobody.
    pub reserved: u64,
}

/// A core's memory accesses of a fault by the engine, beyond the walk: it reads the tail (4 B) and an entry's page (8 B),
/// and writes the entry (16 B) and the tail (4 B).
pub const ENGINE_BYTES: u64 = 4 + 8 + 16 + 4;

/// Latencies of a core's memory, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latencies {
    /// First cache.
    pub first: f64,
    /// Another core's, by way of the last cache.
    pub last: f64,
}

/// What a fault by the engine takes: the walk's last entry, the tail, an entry that the thread wrote on another core (four
/// share a line), and two stores that go to lines that are there.
#[must_use]
pub fn engine_time(latencies: Latencies) -> f64 {
    const ENTRIES_OF_A_LINE: f64 = 4.0;
    const PTES_OF_A_LINE: f64 = 8.0;
    // Marking wrote the leaf's line on another core, too; eight entries share it.
    let walk = 3.0 * latencies.first
        + latencies.last / PTES_OF_A_LINE
        + latencies.first * (1.0 - 1.0 / PTES_OF_A_LINE);
    let entry = latencies.last / ENTRIES_OF_A_LINE + latencies.first * (1.0 - 1.0 / ENTRIES_OF_A_LINE);
    // The locked change of the leaf, then three stores that drain behind each other.
    let lock = 4.0 * latencies.first;
    walk + latencies.first + entry + lock + 3.0 * latencies.first
}

#[derive(Clone, Copy, PartialEq)]
struct Next(f64, usize);

impl Eq for Next {}
impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The earliest first.
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

/// Runs it. The same setting gives the same numbers.
#[must_use]
pub fn run(setting: &Setting) -> Timed {
    let mut timed = Timed::default();
    let mut free = setting.free;
    let mut ready = vec![0u64; setting.cores];
    let mut done = vec![0u64; setting.cores];
    let mut queue: BinaryHeap<Next> = (0..setting.cores).map(|core| Next(setting.gap, core)).collect();
    let mut refill_at = 0.0;
    let mut lock_free = 0.0f64;
    // Core 0 is late by the thread's work where that has no processor of its own.
    let mut stolen = 0.0;
    while let Some(Next(mut now, core)) = queue.pop() {
        if done[core] == setting.pages {
            timed.time = timed.time.max(now);
            continue;
        }
        while setting.ring > 0 && refill_at <= now {
            let mut work = 0.0;
            for table in &mut ready {
                let wanted = (setting.ring - *table).min(free);
                *table += wanted;
                if free != u64::MAX {
                    free -= wanted;
                }
                work += wanted as f64 * setting.refill;
            }
            timed.background += work;
            if !setting.own_processor {
                stolen += work;
            }
            refill_at += setting.period.max(work);
        }
        if core == 0 {
            now += stolen;
            stolen = 0.0;
        }
        if ready[core] > 0 {
            ready[core] -= 1;
            timed.engine += 1;
            now += setting.engine + setting.cache;
        } else {
            let waits = (lock_free - now).max(0.0);
            timed.waited += waits;
            timed.kernel += 1;
            lock_free = now + waits + setting.locked;
            now += waits + setting.kernel;
            if free == 0 {
                now += setting.reclaim;
            } else if free != u64::MAX {
                free -= 1;
            }
        }
        done[core] += 1;
        let burst = setting.burst.max(1);
        let gap = if done[core].is_multiple_of(burst) { setting.gap * burst as f64 } else { 0.0 };
        queue.push(Next(now + gap, core));
    }
    timed.reserved = ready.iter().sum();
    timed
}

/// A sweep's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Entries of a core's table.
    Ring,
    /// Between two refills.
    Period,
    /// Cores.
    Cores,
    /// Free pages, by those that are touched.
    Free,
    /// Pages that follow each other without a gap.
    Burst,
    /// The thread on a processor of its own, or on core 0.
    Background,
}

/// Names of the axes.
pub const AXES: [(&str, Axis); 6] = [
    ("ring", Axis::Ring),
    ("period", Axis::Period),
    ("cores", Axis::Cores),
    ("free", Axis::Free),
    ("burst", Axis::Burst),
    ("background", Axis::Background),
];

/// A point of a sweep: the value, with the engine and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The parameter's value: entries, nanoseconds, cores, share of the pages, pages; 0 or 1 for `background`.
    pub value: f64,
    /// With the engine.
    pub with: Timed,
    /// Without.
    pub without: Timed,
}

impl Point {
    /// Share of the time that the engine saves.
    #[must_use]
    pub fn gain(&self) -> f64 {
        1.0 - self.with.time / self.without.time.max(1e-9)
    }
}

/// One parameter over its values, the others as they are.
#[must_use]
pub fn sweep(setting: &Setting, axis: Axis) -> Vec<Point> {
    let values: &[f64] = match axis {
        Axis::Ring => &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0],
        Axis::Period => &[50e3, 200e3, 500e3, 1e6, 2e6, 5e6, 20e6],
        Axis::Cores => &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
        Axis::Free => &[0.0, 0.1, 0.25, 0.5, 0.75, 1.0],
        Axis::Burst => &[1.0, 16.0, 64.0, 256.0, 4096.0],
        Axis::Background => &[0.0, 1.0],
    };
    let all = setting.pages * setting.cores as u64;
    let point = |&value: &f64| {
        let mut one = *setting;
        match axis {
            Axis::Ring => one.ring = value as u64,
            Axis::Period => one.period = value,
            Axis::Cores => one.cores = value as usize,
            Axis::Free => one.free = (value * all as f64) as u64,
            Axis::Burst => one.burst = value as u64,
            Axis::Background => one.own_processor = value > 0.0,
        }
        Point { value, with: run(&one), without: run(&Setting { ring: 0, ..one }) }
    };
    values.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting { pages: 10_000, ..Setting::new(1000.0, 50.0, 400.0) }
    }

    #[test]
    fn every_fault_is_completed_once() {
        for axis in AXES.map(|(_, axis)| axis) {
            for point in sweep(&setting(), axis) {
                let cores = if axis == Axis::Cores { point.value as u64 } else { 1 };
                assert_eq!(point.with.engine + point.with.kernel, 10_000 * cores, "{axis:?} {point:?}");
                assert_eq!((point.without.engine, point.without.kernel), (0, 10_000 * cores));
            }
        }
    }

    #[test]
    fn without_an_engine_time_is_the_sum() {
        let timed = run(&Setting { ring: 0, ..setting() });
        // A gap before each page and one behind the last.
        assert_eq!(timed.time, 10_000.0 * 2000.0 + 1000.0);
    }

    #[test]
    fn a_table_serves_as_many_as_it_holds_in_a_period() {
        let timed = run(&setting());
        let periods = timed.time / 2e6;
        let served = timed.engine as f64 / (64.0 * periods);
        assert!((0.9..1.1).contains(&served), "{served}");
        let large = run(&Setting { ring: 4096, ..setting() });
        assert_eq!(large.kernel, 0);
    }

    #[test]
    fn shorter_periods_and_larger_tables_help() {
        for axis in [Axis::Ring, Axis::Period] {
            let gains: Vec<f64> = sweep(&setting(), axis).iter().map(Point::gain).collect();
            let ordered = gains.windows(2).all(|two| match axis {
                Axis::Ring => two[0] <= two[1] + 1e-3,
                _ => two[0] + 1e-3 >= two[1],
            });
            assert!(ordered, "{axis:?} {gains:?}");
        }
    }

    #[test]
    fn without_free_memory_tables_stay_empty() {
        let timed = run(&Setting { free: 0, ..setting() });
        assert_eq!(timed.engine, 0);
        assert!(timed.time > 10_000.0 * 10_000.0);
    }

    #[test]
    fn a_thread_without_a_processor_takes_the_programs_time() {
        let own = run(&setting());
        let shared = run(&Setting { own_processor: false, ..setting() });
        assert!(shared.time > own.time + 0.5 * shared.background, "{shared:?} {own:?}");
    }

    #[test]
    fn the_engines_time_grows_with_latencies() {
        let near = Latencies { first: 1.0, last: 20.0 };
        assert!(engine_time(near) < engine_time(Latencies { last: 60.0, ..near }));
    }
}
