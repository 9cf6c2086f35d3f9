//! The offload engine in time, over its parameters.

use ::faults::timing::{AXES, Axis, Point, Setting, engine_time, sweep};
use serde_json::json;

use super::{LATENCIES, cost};
use crate::error::Error;

/// A sweep over the engine's parameters.
#[derive(Clone, Debug)]
pub struct Sweeps {
    /// Names of the parameters; all, if none.
    pub axes: Vec<String>,
    /// Nanoseconds of a fault by the kernel; measured here if not given.
    pub kernel: Option<f64>,
    /// Nanoseconds of a fault by the engine; by its accesses if not given.
    pub engine: Option<f64>,
    /// Entries of a table.
    pub ring: u64,
    /// Nanoseconds between two refills.
    pub period: f64,
    /// Cores.
    pub cores: usize,
    /// Nanoseconds between two new pages of a core.
    pub gap: f64,
    /// Pages of 2 MiB.
    pub huge: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct SweptFaults {
    /// What is the same everywhere.
    pub setting: Setting,
    /// By parameter.
    pub sweeps: Vec<(String, Vec<Point>)>,
}

impl Sweeps {
    /// Names of all parameters.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        AXES.iter().map(|(name, _)| *name).collect()
    }

    /// Simulates.
    ///
    /// # Errors
    /// None but for a name that is no parameter.
    pub fn run(&self) -> Result<SweptFaults, Error> {
        let costs = cost::measure();
        let times = if self.huge { costs.huge } else { Some(costs.write) };
        let factor = if self.huge { 512.0 } else { 1.0 };
        let kernel =
            self.kernel.or(times.map(|times| times.mean)).unwrap_or(costs.zero * factor + costs.trap);
        let engine = self.engine.unwrap_or_else(|| engine_time(LATENCIES));
        // What is not the trap moves to the background; half of the trap is accounting, which stays.
        let refill = (costs.zero * factor).min(kernel) + 0.5 * costs.trap;
        let setting = Setting {
            ring: self.ring,
            period: self.period,
            cores: self.cores,
            gap: self.gap * factor,
            pages: if self.huge { 2_000 } else { 50_000 },
            cache: costs.cache.min(kernel / 2.0) * if self.huge { 64.0 } else { 1.0 },
            locked: 0.3 * (kernel - costs.zero * factor).max(0.1 * costs.trap),
            ..Setting::new(kernel, engine, refill)
        };
        let wanted = |name: &str| self.axes.is_empty() || self.axes.iter().any(|axis| axis == name);
        let one = |(name, axis): &(&str, Axis)| ((*name).to_owned(), sweep(&setting, *axis));
        Ok(SweptFaults { setting, sweeps: AXES.iter().filter(|(name, _)| wanted(name)).map(one).collect() })
    }
}

impl SweptFaults {
    /// For a terminal: a line per point, with a bar of the gain.
    #[must_use]
    pub fn text(&self) -> String {
        let setting = &self.setting;
        let mut text = format!(
            "A fault by the kernel {:.0} ns, by the engine {:.0} ns, its page in the background {:.0} ns; {} entries \
             every {} ms, {} cores, a new page every {:.0} ns\n",
            setting.kernel,
            setting.engine,
            setting.refill,
            setting.ring,
            setting.period / 1e6,
            setting.cores,
            setting.gap
        );
        for (name, points) in &self.sweeps {
            text.push_str(&format!("\n{name:>12}   saved  by the engine  background\n"));
            for point in points {
                let value = match name.as_str() {
                    "period" => format!("{} ms", point.value / 1e6),
                    "free" => format!("{:.0} %", 100.0 * point.value),
                    "background" if point.value > 0.0 => "own core".to_owned(),
                    "background" => "core 0".to_owned(),
                    _ => format!("{}", point.value),
                };
                let all = (point.with.engine + point.with.kernel).max(1);
                let bar = "#".repeat((40.0 * point.gain().clamp(0.0, 1.0)).round() as usize);
                text.push_str(&format!(
                    "{value:>12} {:>6.1} % {:>12.1} % {:>9.1} %  {bar}\n",
                    100.0 * point.gain(),
                    100.0 * point.with.engine as f64 / all as f64,
                    100.0 * point.with.background / point.with.time.max(1e-9)
                ));
            }
        }
        text
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
        let setting = serde_json::to_value(self.setting)?;
        let answer = json!({ "schema": "strandline-faults-poe-1", "setting": setting, "sweeps": sweeps });
        Ok(format!("{answer:#}\n"))
    }
}
