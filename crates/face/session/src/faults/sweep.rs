//! The offload engine in time, over its parameters.

use ::faults::timing::{AXES, Point, Setting, TimingError, run, sweep};
use report::{Axis as Ruler, Block, Cell, Curve, Curves, Page, Section, Table, Unit};
use serde_json::json;

use super::cost;
use crate::error::Error;

/// A sweep over the engine's parameters.
#[derive(Clone, Debug)]
pub struct Sweeps {
    /// Names of the parameters; all, if none.
    pub axes: Vec<String>,
    /// The modelled machine: `host`, a preset, a file.
    pub machine: String,
    /// Nanoseconds of a first store by the kernel; measured here if not given.
    pub kernel: Option<f64>,
    /// Nanoseconds of the thread's work per page; zeroing and half of the trap, measured here, if not given.
    pub refill: Option<f64>,
    /// Entries of a table.
    pub ring: u64,
    /// Nanoseconds between two refills.
    pub period: f64,
    /// Cores.
    pub cores: usize,
    /// Nanoseconds between two new pages of a core.
    pub gap: f64,
    /// First uses are loads.
    pub reads: bool,
    /// Pages of 2 MiB.
    pub huge: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct SweptFaults {
    /// The machine's name.
    pub machine: String,
    /// What is the same everywhere.
    pub setting: Setting,
    /// The setting itself, with the engine and without.
    pub here: Point,
    /// By parameter.
    pub sweeps: Vec<(String, Vec<Point>)>,
}

/// New pages of a run.
const PAGES: u64 = 12_000;

impl Sweeps {
    /// Names of all parameters.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        AXES.iter().map(|(name, _)| *name).collect()
    }

    /// The setting with pages of 4 KiB or of 2 MiB.
    fn setting(&self, costs: &::faults::cost::Costs, huge: bool) -> Setting {
        let times = if huge { costs.huge } else { Some(costs.write) };
        let factor = if huge { 512.0 } else { 1.0 };
        let given = self.kernel.filter(|_| huge == self.huge);
        let kernel = given.or(times.map(|times| times.mean)).unwrap_or(costs.zero * factor + costs.trap);
        // What is not the trap moves to the background; half of the trap is accounting, which stays.
        let refill = self.refill.filter(|_| huge == self.huge);
        let refill = refill.unwrap_or_else(|| (costs.zero * factor).min(kernel) + 0.5 * costs.trap);
        let by = if huge == self.huge {
            1.0
        } else if huge {
            512.0
        } else {
            1.0 / 512.0
        };
        let pages = PAGES / self.cores.max(1) as u64;
        Setting {
            ring: self.ring,
            period: self.period,
            cores: self.cores,
            gap: self.gap * by,
            pages: if huge { (pages / 8).max(50) } else { pages.max(200) },
            write: !self.reads,
            huge,
            kernel_read: if huge { kernel } else { costs.read.mean.min(kernel) },
            locked: 0.3 * (kernel - costs.zero * factor).max(0.1 * costs.trap),
            ..Setting::new(kernel, refill)
        }
    }

    /// Simulates.
    ///
    /// # Errors
    /// If there is no such machine, or it is without timing.
    pub fn run(&self) -> Result<SweptFaults, Error> {
        let machine = crate::host::load(&self.machine)?;
        let costs = cost::measure();
        let (setting, other) = (self.setting(&costs, self.huge), self.setting(&costs, !self.huge));
        let wanted = |name: &str| self.axes.is_empty() || self.axes.iter().any(|axis| axis == name);
        let mut sweeps = Vec::new();
        for (name, axis) in AXES.iter().filter(|(name, _)| wanted(name)) {
            sweeps.push(((*name).to_owned(), sweep(&machine, &setting, &other, *axis).map_err(refused)?));
        }
        let here = |ring| run(&machine, &Setting { ring, ..setting }).map_err(refused);
        let here = Point { value: self.ring as f64, with: here(self.ring)?, without: here(0)? };
        Ok(SweptFaults { machine: machine.name.clone(), setting, here, sweeps })
    }
}

fn refused(error: TimingError) -> Error {
    match error {
        TimingError::Machine(error) => Error::Machine(error),
        TimingError::Run(error) => Error::Sink(error),
    }
}

/// A value of a parameter in words.
fn value(name: &str, value: f64) -> String {
    match name {
        "period" => format!("{} ms", value / 1e6),
        "free" => format!("{:.0} %", 100.0 * value),
        "background" if value > 0.0 => "own core".to_owned(),
        "background" => "core 0".to_owned(),
        "huge" if value > 0.0 => "2 MiB".to_owned(),
        "huge" => "4 KiB".to_owned(),
        "work" => format!("x {value}"),
        _ => format!("{value}"),
    }
}

/// What a parameter is.
fn title(name: &str) -> &str {
    match name {
        "ring" => "Entries of each core's table",
        "period" => "Time between two refills",
        "cores" => "Cores, which share the pages",
        "free" => "Free memory, by what is touched",
        "burst" => "New pages without a gap between them",
        "background" => "The thread on core 0, or on a core of its own",
        "work" => "The thread's work per page",
        _ => "Pages of 4 KiB or of 2 MiB",
    }
}

/// Share of the faults that the engine completes.
fn completed(point: &Point) -> f64 {
    point.with.engine as f64 / (point.with.engine + point.with.kernel).max(1) as f64
}

/// Share of a processor that the thread takes.
fn background(point: &Point) -> f64 {
    point.with.background / point.with.time.max(1e-9)
}

impl SweptFaults {
    fn head(&self) -> String {
        let Setting { kernel, refill, ring, period, cores, gap, .. } = self.setting;
        let Point { with, without, .. } = &self.here;
        format!(
            "Machine {}: a new page takes {:.0} ns with the kernel (of which {kernel:.0} ns are given), {:.0} ns with the engine \
             on the whole; the engine's part of a fault is {:.0} ns, its page in the background {refill:.0} ns; {ring} entries \
             every {} ms, {cores} cores, a new page every {gap:.0} ns",
            self.machine,
            without.page,
            with.page,
            with.offload,
            period / 1e6,
        )
    }

    /// For a terminal: a line per point, with a bar of the gain.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.head() + "\n";
        for (name, points) in &self.sweeps {
            text.push_str(&format!("\n{name:>12}   saved  by the engine  background\n"));
            for point in points {
                let bar = "#".repeat((40.0 * point.gain().clamp(0.0, 1.0)).round() as usize);
                text.push_str(&format!(
                    "{:>12} {:>6.1} % {:>12.1} % {:>9.1} %  {bar}\n",
                    value(name, point.value),
                    100.0 * point.gain(),
                    100.0 * completed(point),
                    100.0 * background(point)
                ));
            }
        }
        text
    }

    /// A page with a plot and a table per parameter.
    #[must_use]
    pub fn html(&self) -> String {
        report::page(&Page {
            verb: "faults".to_owned(),
            title: "A page-fault offload engine".to_owned(),
            headline: format!(
                "Saves {:.1} % of the time, and completes {:.1} % of the faults",
                100.0 * self.here.gain(),
                100.0 * completed(&self.here)
            ),
            story: vec![self.head()],
            cautions: vec![
                "The kernel's times and the thread's work are given or measured here; all else is modelled."
                    .to_owned(),
            ],
            sections: self.sweeps.iter().map(|(name, points)| section(name, points)).collect(),
            ..Page::default()
        })
    }

    /// All numbers.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self) -> Result<String, Error> {
        let sweeps: serde_json::Map<String, serde_json::Value> = self
            .sweeps
            .iter()
            .map(|(name, points)| Ok((name.clone(), serde_json::to_value(points)?)))
            .collect::<Result<_, Error>>()?;
        let answer = json!({
            "schema": "strandline-faults-poe-2",
            "machine": self.machine,
            "setting": serde_json::to_value(self.setting)?,
            "here": serde_json::to_value(&self.here)?,
            "sweeps": sweeps,
        });
        Ok(format!("{answer:#}\n"))
    }
}

fn section(name: &str, points: &[Point]) -> Section {
    let curve = |title: &str, of: fn(&Point) -> f64| Curve {
        name: title.to_owned(),
        points: points.iter().map(|point| (point.value, 100.0 * of(point))).collect(),
        published: Vec::new(),
    };
    let chart = Curves {
        title: title(name).to_owned(),
        x: if points.len() > 2 && name != "free" {
            Ruler::log(name, Unit::Number)
        } else {
            Ruler::linear(name)
        },
        y: Ruler::linear("percent"),
        curves: vec![curve("time saved", Point::gain), curve("faults by the engine", completed)],
    };
    let row = |point: &Point| {
        vec![
            Cell::Number(value(name, point.value), point.value),
            Cell::share(point.gain()),
            Cell::share(completed(point)),
            Cell::share(background(point)),
            Cell::Number(format!("{:.0}", point.with.page), point.with.page),
            Cell::Number(format!("{:.0}", point.without.page), point.without.page),
        ]
    };
    let head = ["", "saved", "by the engine", "background", "ns a page", "without"];
    let table = Table {
        caption: title(name).to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows: points.iter().map(row).collect(),
    };
    Section {
        id: name.to_owned(),
        title: title(name).to_owned(),
        blocks: vec![Block::Curves(chart), Block::Table(table)],
    }
}
