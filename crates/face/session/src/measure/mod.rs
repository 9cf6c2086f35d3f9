//! `measure`: what a memory is really like, measured here or on a modelled machine.

pub(crate) mod error;
mod page;
mod points;
mod target;
mod views;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use device::curve::{Derive, derive};
use machine::Config;
use measure::{Header, Measurement, Parameter, Point, Results, Setting, Study, sweep};
use serde_json::{Value, json};

pub use error::MeasureFault;
pub use target::Memory;

use crate::error::Error;
use crate::files;
use crate::observer::Observer;
use target::Target;

/// Measurements to be made.
#[derive(Clone, Debug)]
pub struct Measure {
    /// What is measured.
    pub memory: Memory,
    /// Names of studies, or `all`; idle latency and bandwidth by threads if none is named.
    pub studies: Vec<String>,
    /// Values that replace the studies' own.
    pub parameters: BTreeMap<Parameter, Vec<Setting>>,
    /// A file that collects the results; points that it has already are not measured again. Without a named
    /// study, the systematic grid is measured.
    pub sweep: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug)]
pub struct Measurements {
    /// The memory.
    pub subject: String,
    /// What a reader has to know before trusting the figures.
    pub cautions: Vec<String>,
    /// The studies, with the parameters that they were made with.
    pub studies: Vec<Study>,
    /// Their points.
    pub measured: Vec<Measurement>,
    /// The file that collects the results.
    pub sweep: Option<PathBuf>,
}

impl Measure {
    /// The usual studies of a memory.
    #[must_use]
    pub fn new(memory: Memory) -> Self {
        Measure { memory, studies: Vec::new(), parameters: BTreeMap::new(), sweep: None }
    }

    /// Adds a study, by its name.
    #[must_use]
    pub fn study(mut self, name: &str) -> Self {
        self.studies.push(name.to_owned());
        self
    }

    /// Measures all points. Modelled points run on all cores; on real memory each point has the machine for
    /// itself.
    ///
    /// # Errors
    /// If there is no such study, a parameter changes nothing in the studies, the memory can't be had, or the file of a
    /// sweep is another sweep's.
    pub fn run(&self, observer: &dyn Observer) -> Result<Measurements, Error> {
        let studies = self.chosen_studies()?;
        let points: Vec<Point> = studies.iter().flat_map(Study::points).collect();
        refuse_impossible(&studies)?;
        let (mut target, parameters) = Target::of(&self.memory)?;
        let subject = target.bench().subject();
        let measured = match &self.sweep {
            Some(file) => {
                let header = Header::new(&subject, self.header(parameters));
                swept(file, &header, &mut target, &points, observer)?
            }
            None => {
                let mut measured = Vec::new();
                points::each(&mut target, &points, observer, |measurement| {
                    measured.push(measurement);
                    Ok(())
                })?;
                measured
            }
        };
        let mut cautions = target.bench().cautions();
        cautions.extend(views::smaller(&measured));
        Ok(Measurements { subject, cautions, studies, measured, sweep: self.sweep.clone() })
    }

    /// The studies with the given parameters.
    fn chosen_studies(&self) -> Result<Vec<Study>, MeasureFault> {
        let all = if self.sweep.is_some() { sweep() } else { Study::all() };
        let named: Vec<&str> = self.studies.iter().map(String::as_str).collect();
        let named = match named.as_slice() {
            [] if self.sweep.is_none() => Study::OVERVIEW.to_vec(),
            [] | ["all"] => all.iter().map(|study| study.name).collect(),
            names => names.to_vec(),
        };
        if let Some(word) = self.studies.iter().find(|name| *name == "all" || *name == "list")
            && self.studies.len() > 1
        {
            return Err(MeasureFault::NotAlone { word: word.clone() });
        }
        let mut used: Vec<Parameter> = Vec::new();
        let mut studies: Vec<Study> = Vec::new();
        for name in named {
            let Some(study) =
                all.iter().find(|study| study.name == name).cloned().or_else(|| Study::find(name))
            else {
                let known = all.iter().map(|study| study.name).collect();
                return Err(MeasureFault::NoStudy { name: name.to_owned(), known });
            };
            if studies.iter().any(|other| other.name == name) {
                return Err(MeasureFault::StudyTwice { name: name.to_owned() });
            }
            let matters =
                |parameter: &Parameter| study.points().iter().any(|point| parameter.matters_to(&point.task));
            let own: BTreeMap<Parameter, Vec<Setting>> = self
                .parameters
                .iter()
                .filter(|(parameter, _)| matters(parameter))
                .map(|(p, values)| (*p, values.clone()))
                .collect();
            used.extend(own.keys());
            studies.push(study.with(&own));
        }
        if let Some(idle) = self.parameters.keys().find(|parameter| !used.contains(parameter)) {
            let studies = studies.iter().map(|study| study.name).collect();
            return Err(MeasureFault::ChangesNothing { parameter: idle.name(), studies });
        }
        Ok(studies)
    }

    /// Everything that the figures of a sweep depend on.
    fn header(&self, mut parameters: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        parameters.insert("studies".to_owned(), json!(self.studies));
        parameters.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        for (parameter, values) in &self.parameters {
            let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
            parameters.insert(format!("--{}", parameter.name()), json!(texts));
        }
        parameters
    }
}

/// A study of which no point can be done is a mistake; single points that can't are skipped.
fn refuse_impossible(studies: &[Study]) -> Result<(), MeasureFault> {
    for study in studies {
        let faults: Vec<Option<String>> = study.points().iter().map(|point| point.task.fault()).collect();
        if let Some(Some(fault)) = faults.first().filter(|_| faults.iter().all(Option::is_some)) {
            return Err(MeasureFault::Impossible { study: study.name, fault: fault.clone() });
        }
    }
    Ok(())
}

/// Measures what the file does not have yet.
fn swept(
    file: &Path,
    header: &Header,
    target: &mut Target,
    points: &[Point],
    observer: &dyn Observer,
) -> Result<Vec<Measurement>, Error> {
    let mut results = Results::open(file, header)?;
    let left: Vec<Point> = points.iter().filter(|point| !results.has(point)).cloned().collect();
    if left.len() < points.len() {
        observer.warn(&format!(
            "{}: going on; {} of {} points are there",
            file.display(),
            points.len() - left.len(),
            points.len()
        ));
    }
    points::each(target, &left, observer, |measurement| Ok(results.append(&measurement)?))?;
    // In the order of the plan, however often the sweep was interrupted.
    let mut measured = results.measurements().to_vec();
    let place = |m: &Measurement| {
        points.iter().position(|p| p.study == m.study && p.series == m.series && p.x.to_string() == m.at)
    };
    measured.sort_by_cached_key(place);
    Ok(measured)
}

impl Measurements {
    /// What to know about points whose regions were not measured as large as they were asked for.
    #[must_use]
    pub fn smaller(&self) -> Vec<String> {
        views::smaller(&self.measured)
    }

    /// The results for a terminal; of a sweep, only how much there is.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.subject);
        if self.sweep.is_none() {
            for view in self.views().flat_map(|(_, views)| views) {
                text.push('\n');
                text.push_str(&views::text(&view));
            }
        }
        for reason in views::skipped(&self.measured) {
            text.push_str(&format!("\nskipped: {reason}"));
        }
        for caution in &self.cautions {
            text.push_str(&format!("\nnote: {caution}"));
        }
        if let Some(file) = &self.sweep {
            text.push_str(&format!("\n{} points in {}", self.measured.len(), file.display()));
        }
        text
    }

    /// One line of comma-separated values per point.
    #[must_use]
    pub fn csv(&self) -> String {
        views::csv(&self.measured)
    }

    /// The results as `docs/measure-json.md` describes them; `command` is the command line that makes them
    /// again.
    ///
    /// # Errors
    /// [`Error::Json`] if a number has no form in JSON.
    pub fn json(&self, command: Vec<String>) -> Result<String, Error> {
        Ok(serde_json::to_string_pretty(&page::json(self, command))? + "\n")
    }

    /// The results as a self-contained HTML page.
    #[must_use]
    pub fn html(&self, command: Vec<String>) -> String {
        report::page(&page::page(self, command))
    }

    /// Each study with its views.
    fn views(&self) -> impl Iterator<Item = (&Study, Vec<views::View>)> {
        self.studies.iter().map(|study| {
            let own: Vec<&Measurement> = self.measured.iter().filter(|m| m.study == study.name).collect();
            (study, views::views(study, &own))
        })
    }
}

/// Writes the curves of the machine's device into a file for a curve device.
///
/// # Errors
/// If the file can't be written, or the description is none of a machine with a timed device. What an old file holds stays
/// then.
pub fn derive_curve(config: &Config, file: &Path) -> Result<(), Error> {
    let how = Derive { seed: config.seed, ..Derive::default() };
    // Before the long part.
    let new = !file.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(file).map_err(Error::file("write", file))?;
    let curves = config
        .device_timing()
        .map(|timing| derive(&config.device, timing, config.seed, &how))
        .map_err(Error::from);
    let written = curves.and_then(|curves| files::write(file, &curves.text()));
    written.inspect_err(|_| {
        if new {
            // It is empty; the first error is what matters.
            let _ = std::fs::remove_file(file);
        }
    })
}
