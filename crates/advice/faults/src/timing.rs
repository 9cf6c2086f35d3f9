//! The offload engine in time: cores of the modelled machine touch new pages, walkers complete the faults with pages out of
//! a table per core, and a kernel thread refills the tables every so often.
//!
//! Walks, the tables' and page tables' lines and zeroed pages go through the machine's caches ([`machine::Tlb`]); given
//! are the kernel's times and the thread's work per page. The thread works on a processor of its own or takes core 0's
//! time. Free memory may run out: then tables stay empty, and the kernel reclaims for its own faults.

use event::{Event, FenceKind, Op, SinkError, SiteId, ThreadId};
use machine::{Config, ConfigError, Next, Offload, PageFaults, Program, Simulation, Size, Time, Tlb};
use serde::Serialize;

/// Why it can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum TimingError {
    /// The machine can't be: without timing, with too many cores, a value that none can have.
    #[error(transparent)]
    Machine(#[from] ConfigError),
    /// The run ended with an error.
    #[error(transparent)]
    Run(#[from] SinkError),
}

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
    /// Whether they are stored to, or loaded from.
    pub write: bool,
    /// Whether pages have 2 MiB.
    pub huge: bool,
    /// Entries of a core's table; 0 without an engine.
    pub ring: u64,
    /// Between two refills, at least 1000.
    pub period: f64,
    /// A first store by the kernel, zeroing included.
    pub kernel: f64,
    /// A first load by the kernel.
    pub kernel_read: f64,
    /// The part of either under the page tables' lock, which the cores of a process share.
    pub locked: f64,
    /// The thread's work per page: accounting for one, zeroing the next.
    pub refill: f64,
    /// Whether the thread has a processor of its own.
    pub own_processor: bool,
    /// Free pages at the beginning, beyond which faults reclaim.
    pub free: u64,
    /// What reclaiming a page takes.
    pub reclaim: f64,
    /// When cores begin.
    pub start: f64,
}

impl Setting {
    /// One core that stores to a new page every microsecond, 64 entries, 2 ms, and plenty of memory.
    #[must_use]
    pub fn new(kernel: f64, refill: f64) -> Setting {
        Setting {
            cores: 1,
            pages: 20_000,
            gap: 1000.0,
            burst: 1,
            write: true,
            huge: false,
            ring: 64,
            period: 2e6,
            kernel,
            kernel_read: kernel / 2.0,
            locked: 0.3 * kernel,
            refill,
            own_processor: true,
            free: u64::MAX,
            reclaim: 10_000.0,
            start: 0.0,
        }
    }

    /// The machine, with a core more than touch pages: the thread's.
    fn config(&self, machine: &Config) -> Config {
        let time = |ns: f64| Time((ns.clamp(0.0, 9e9) * 1000.0) as u64);
        let offload = (self.ring > 0).then(|| Offload {
            ring: self.ring.min(65_536) as u32,
            period: time(self.period.clamp(1000.0, 1e9)),
            refill: time(self.refill),
            worker: (!self.own_processor).then_some(0),
        });
        let faults = PageFaults {
            write: time(self.kernel),
            read: time(self.kernel_read),
            locked: time(self.locked),
            free: (self.free != u64::MAX).then_some(self.free),
            reclaim: time(self.reclaim),
            offload,
        };
        let mut config = machine.clone();
        config.cores.count = (self.cores as u32 + 1).min(1024);
        config.sockets = None;
        let tlb = config.tlb.take().unwrap_or_default();
        let page = if self.huge { Size(2 << 20) } else { Size(4096) };
        config.tlb = Some(Tlb { page, faults: Some(faults), ..tlb });
        config
    }
}

/// What came of it. Times are in nanoseconds.
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
    /// A page's first use: walk, fault and access, the mean.
    pub page: f64,
    /// Of it, the engine's part of a fault that it completed: from the entry's lock to the page.
    pub offload: f64,
    /// Bytes that walkers read and wrote for faults, beyond the walks.
    pub bytes: u64,
}

/// A core's memory accesses of a fault by the engine, beyond the walk: it reads the tail (4 B) and an entry's page (8 B),
/// and writes the entry (16 B) and the tail (4 B).
pub const ENGINE_BYTES: u64 = 4 + 8 + 16 + 4;

/// A core that touches pages, each once.
struct Touches {
    setting: Setting,
    first: u64,
    done: u64,
    /// Whether a gap is next.
    rests: bool,
    begun: bool,
}

impl Program for Touches {
    fn next(&mut self, now: Time, events: &mut Vec<Event>) -> Next {
        let gap = |pages: u64| Time((self.setting.gap * pages as f64 * 1000.0) as u64);
        if !self.begun {
            self.begun = true;
            return Next::Idle(Time((self.setting.start * 1000.0) as u64) + gap(1));
        }
        if std::mem::take(&mut self.rests) {
            return Next::Idle(now + gap(self.setting.burst.max(1)));
        }
        if self.done == self.setting.pages {
            return Next::Done;
        }
        let burst = self.setting.burst.max(1).min(self.setting.pages - self.done);
        let bytes = if self.setting.huge { 2 << 20 } else { 4096 };
        for page in self.done..self.done + burst {
            let addr = (self.first + page) * bytes;
            let op = if self.setting.write { Op::Store { addr, len: 1 } } else { Op::Load { addr, len: 1 } };
            for op in [op, Op::Fence(FenceKind::Full)] {
                events.push(Event { op, site: SiteId(0), instructions: 1 });
            }
        }
        self.done += burst;
        // The gap begins when the pages have been used: when it is asked next.
        self.rests = true;
        Next::Run
    }
}

/// Runs it on a machine. The same setting gives the same numbers.
///
/// # Errors
/// If the machine is without timing, or has a value that none can have.
pub fn run(machine: &Config, setting: &Setting) -> Result<Timed, TimingError> {
    let mut simulation = Simulation::new(&setting.config(machine))?;
    let program = |core: usize| {
        let first = (core as u64 + 1) << 20;
        let touches = Touches { setting: *setting, first, done: 0, rests: false, begun: false };
        (ThreadId(core as u32), Box::new(touches) as Box<dyn Program>)
    };
    simulation.run((0..setting.cores).map(program).collect())?;
    let figures = simulation.figures();
    let time = figures.elapsed.ns();
    let idle: f64 = figures.threads.iter().map(|thread| thread.idle.ns()).sum();
    let all: f64 = figures.threads.iter().map(|thread| thread.finished.ns()).sum();
    let seen = figures.translation.unwrap_or_default();
    let touched = (setting.cores as u64 * setting.pages).max(1) as f64;
    Ok(Timed {
        time,
        engine: seen.offloaded,
        kernel: seen.kernel_writes + seen.kernel_reads + seen.kernel_copies,
        background: seen.background.ns(),
        waited: seen.kernel_waited.ns(),
        reserved: seen.reserved,
        page: (all - idle) / touched,
        offload: seen.offload_time.ns() / seen.offloaded.max(1) as f64,
        bytes: seen.offload_bytes,
    })
}

/// Nanoseconds of a page's first use whose fault the engine completes, walk and access included: stores, or loads.
///
/// # Errors
/// As [`run`].
pub fn engine_time(machine: &Config, write: bool) -> Result<f64, TimingError> {
    let pages = 2000;
    let setting = Setting { ring: 2 * pages, pages, write, start: 1e6, ..Setting::new(1000.0, 1.0) };
    Ok(run(machine, &setting)?.page)
}

/// A sweep's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Entries of a core's table.
    Ring,
    /// Between two refills.
    Period,
    /// Cores, which share the pages.
    Cores,
    /// Free pages, by those that are touched.
    Free,
    /// Pages that follow each other without a gap.
    Burst,
    /// The thread on a processor of its own, or on core 0.
    Background,
    /// The thread's work per page, by what it is.
    Work,
    /// Pages of 4 KiB or of 2 MiB, with as many bytes of each.
    Huge,
}

/// Names of the axes.
pub const AXES: [(&str, Axis); 8] = [
    ("ring", Axis::Ring),
    ("period", Axis::Period),
    ("cores", Axis::Cores),
    ("free", Axis::Free),
    ("burst", Axis::Burst),
    ("background", Axis::Background),
    ("work", Axis::Work),
    ("huge", Axis::Huge),
];

/// A point of a sweep: the value, with the engine and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The parameter's value: entries, nanoseconds, cores, share of the pages, pages, times the work; 0 or 1 for `background` and `huge`.
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

/// One parameter over its values, the others as they are. `other` is the setting with pages of the other size.
///
/// # Errors
/// As [`run`].
pub fn sweep(
    machine: &Config,
    setting: &Setting,
    other: &Setting,
    axis: Axis,
) -> Result<Vec<Point>, TimingError> {
    let values: &[f64] = match axis {
        Axis::Ring => &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0],
        Axis::Period => &[50e3, 200e3, 500e3, 1e6, 2e6, 5e6, 20e6],
        Axis::Cores => &[1.0, 2.0, 4.0, 8.0, 16.0],
        Axis::Free => &[0.0, 0.1, 0.25, 0.5, 0.75, 1.0],
        Axis::Burst => &[1.0, 16.0, 64.0, 256.0, 4096.0],
        Axis::Background | Axis::Huge => &[0.0, 1.0],
        Axis::Work => &[0.25, 0.5, 1.0, 2.0, 4.0, 16.0],
    };
    let all = setting.pages * setting.cores as u64;
    let point = |&value: &f64| {
        let mut one = *setting;
        match axis {
            Axis::Ring => one.ring = value as u64,
            Axis::Period => one.period = value,
            Axis::Cores => {
                one.cores = value as usize;
                one.pages = (setting.pages / one.cores as u64).max(100);
            }
            Axis::Free => one.free = (value * all as f64) as u64,
            Axis::Burst => one.burst = value as u64,
            Axis::Background => one.own_processor = value > 0.0,
            Axis::Work => one.refill *= value,
            Axis::Huge => one = if (value > 0.0) == setting.huge { one } else { *other },
        }
        Ok(Point { value, with: run(machine, &one)?, without: run(machine, &Setting { ring: 0, ..one })? })
    };
    values.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Config {
        Config::preset("dram").expect("a preset")
    }

    fn setting() -> Setting {
        Setting { pages: 5_000, ..Setting::new(1000.0, 400.0) }
    }

    fn one(setting: &Setting) -> Timed {
        run(&machine(), setting).expect("it runs")
    }

    fn swept(axis: Axis) -> Vec<Point> {
        let huge = Setting { huge: true, pages: 100, kernel: 100_000.0, ..setting() };
        sweep(&machine(), &Setting { pages: 2000, ..setting() }, &huge, axis).expect("it runs")
    }

    #[test]
    fn every_fault_is_completed_once() {
        for axis in AXES.map(|(_, axis)| axis) {
            for point in swept(axis) {
                let pages = if axis == Axis::Huge && point.value > 0.0 { 100 } else { 2000 };
                assert_eq!(point.with.engine + point.with.kernel, pages, "{axis:?} {point:?}");
                assert_eq!((point.without.engine, point.without.kernel), (0, pages));
                assert_eq!(point.with.bytes, ENGINE_BYTES * point.with.engine);
            }
        }
    }

    #[test]
    fn without_an_engine_time_is_the_sum() {
        let timed = one(&Setting { ring: 0, ..setting() });
        // A gap before each page and one behind the last; a walk before each fault and the store behind it.
        let least = 5_000.0 * 2000.0;
        assert!((least..least * 1.1).contains(&timed.time), "{timed:?}");
    }

    #[test]
    fn a_table_serves_as_many_as_it_holds_in_a_period() {
        let timed = one(&setting());
        let served = timed.engine as f64 / (64.0 * timed.time / 2e6);
        assert!((0.9..1.15).contains(&served), "{served}");
        let large = one(&Setting { ring: 8192, start: 4e6, ..setting() });
        assert_eq!(large.kernel, 0);
    }

    /// A closed sum: a share of the faults costs the engine's time, the others the kernel's.
    #[test]
    fn time_is_what_a_sum_over_the_faults_says() {
        for (ring, gap) in [(16, 500.0), (64, 1000.0), (256, 3000.0), (1024, 10_000.0)] {
            let point = Setting { ring, gap, ..setting() };
            let (timed, without) = (one(&point), one(&Setting { ring: 0, ..point }));
            let engine = engine_time(&machine(), true).expect("it runs");
            let sum = point.gap * (point.pages + 1) as f64
                + timed.engine as f64 * engine
                + timed.kernel as f64 * without.page;
            assert!((timed.time / sum - 1.0).abs() < 0.02, "{ring} {gap}: {timed:?} {sum}");
        }
    }

    #[test]
    fn shorter_periods_and_larger_tables_help() {
        for axis in [Axis::Ring, Axis::Period] {
            let gains: Vec<f64> = swept(axis).iter().map(Point::gain).collect();
            let ordered = gains.windows(2).all(|two| match axis {
                Axis::Ring => two[0] <= two[1] + 5e-3,
                _ => two[0] + 5e-3 >= two[1],
            });
            assert!(ordered, "{axis:?} {gains:?}");
        }
    }

    #[test]
    fn without_free_memory_tables_stay_empty() {
        let timed = one(&Setting { free: 0, ..setting() });
        assert_eq!(timed.engine, 0);
        assert!(timed.time > 5_000.0 * 10_000.0);
    }

    #[test]
    fn a_thread_without_a_processor_takes_the_programs_time() {
        let own = one(&setting());
        let shared = one(&Setting { own_processor: false, ..setting() });
        assert!(shared.time > own.time + 0.5 * shared.background, "{shared:?} {own:?}");
    }

    #[test]
    fn the_engine_is_an_order_below_the_kernel_and_far_memory_makes_it_slower() {
        let near = engine_time(&machine(), true).expect("it runs");
        let far = engine_time(&Config::preset("cxl-dram").expect("a preset"), true).expect("it runs");
        let read = engine_time(&machine(), false).expect("it runs");
        println!("store {near}, load {read}, store on CXL {far}");
        assert!(near > 20.0 && near < 600.0 && far > near, "{near} {far}");
        assert!((read - near).abs() < 100.0, "{read} {near}");
    }
}
