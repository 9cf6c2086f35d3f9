//! What CPU and accelerator share: comparisons, litmus tests and measurements of a device.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use unified::litmus::{Seen, Test};
use unified::micro::{Options, Point, STUDIES};
use unified::{Accelerator, Contest, Figures, Info};

use crate::error::Error;
use crate::observer::{Observer, Progress};

/// A comparison of a device with the CPU, to be made.
pub struct BenchUnified {
    /// What is compared, and how.
    pub contest: Contest,
}

impl BenchUnified {
    /// Runs it; what there is when the observer stops it.
    ///
    /// # Errors
    /// If the device has no room or fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<Figures, Error> {
        let figures = self.contest.run(|figures| {
            observer.progress(&Progress::Events { doing: "comparing", events: figures });
            !observer.stopped()
        });
        observer.finished();
        Ok(figures?)
    }
}

/// Litmus tests of synchronisation between CPU and device, to be run.
pub struct LitmusOnDevice {
    /// The device.
    pub accelerator: Arc<dyn Accelerator>,
    /// Files; those that come with the program if there is none.
    pub files: Vec<PathBuf>,
    /// Launches of each test.
    pub rounds: u32,
}

/// What the tests showed.
#[derive(Debug, Serialize)]
pub struct DeviceLitmus {
    /// The device.
    pub device: Info,
    /// The tests.
    pub tests: Vec<Seen>,
}

impl LitmusOnDevice {
    /// Runs the tests.
    ///
    /// # Errors
    /// If a file is no test, or the CPU can't use the device's memory while a kernel runs.
    pub fn run(&self, observer: &dyn Observer) -> Result<DeviceLitmus, Error> {
        let mut tests = Vec::new();
        if self.files.is_empty() {
            tests = Test::all()?;
        }
        for path in &self.files {
            let text = std::fs::read_to_string(path).map_err(|source| Error::File {
                doing: "read",
                path: path.clone(),
                source,
            })?;
            tests.push(Test::parse(&path.display().to_string(), &text)?);
        }
        let mut all = DeviceLitmus { device: self.accelerator.info().clone(), tests: Vec::new() };
        for test in &tests {
            let mut sum: Option<Seen> = None;
            for _ in 0..self.rounds.max(1) {
                observer
                    .progress(&Progress::Events { doing: "litmus tests", events: all.tests.len() as u64 });
                if observer.stopped() {
                    break;
                }
                let seen = test.run(&*self.accelerator, 100, 300)?;
                match &mut sum {
                    None => sum = Some(seen),
                    Some(sum) => sum.add(seen),
                }
            }
            all.tests.extend(sum);
        }
        observer.finished();
        Ok(all)
    }
}

/// Microbenchmarks of a device, to be run.
pub struct MeasureDevice {
    /// The device.
    pub accelerator: Arc<dyn Accelerator>,
    /// Names of studies; all if there is none.
    pub studies: Vec<String>,
    /// How.
    pub options: Options,
}

/// What they showed.
#[derive(Debug, Serialize)]
pub struct MeasuredDevice {
    /// The device.
    pub device: Info,
    /// Points, by study.
    pub measurements: Vec<Point>,
    /// Studies that this device can't have, with the reason.
    pub left_out: Vec<String>,
}

impl MeasureDevice {
    /// Runs them.
    ///
    /// # Errors
    /// If there is no such study, no room, or the device fails.
    pub fn run(&self, observer: &dyn Observer) -> Result<MeasuredDevice, Error> {
        let names: Vec<&str> = match &*self.studies {
            [] => STUDIES.iter().map(|(name, _)| *name).collect(),
            [all] if all == "all" => STUDIES.iter().map(|(name, _)| *name).collect(),
            some => some.iter().map(String::as_str).collect(),
        };
        let mut all = MeasuredDevice {
            device: self.accelerator.info().clone(),
            measurements: Vec::new(),
            left_out: Vec::new(),
        };
        for name in names {
            observer
                .progress(&Progress::Events { doing: "measuring", events: all.measurements.len() as u64 });
            if observer.stopped() {
                break;
            }
            match unified::micro::run(&self.accelerator, name, self.options) {
                Ok(points) => all.measurements.extend(points),
                Err(error @ unified::Error::NotMapped { .. }) => {
                    all.left_out.push(format!("{name}: {error}"))
                }
                Err(error) => return Err(error.into()),
            }
        }
        observer.finished();
        Ok(all)
    }
}
