//! `sweep`: persistency designs, built-in transactions and parameters of a machine, every combination, on all cores; goes on where it stopped.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use event::Sink;
use hardware::{Language, Mapped, Mapping, Named};
use machine::Simulation;
use serde_json::{Value, json};
use workload::{Params, Workload};

use crate::error::Error;
use crate::machines::Chosen;

/// A sweep to be run.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// The machine that parameters change.
    pub machine: Chosen,
    /// Designs by name.
    pub designs: Vec<String>,
    /// Built-in workloads by name; regions of those that are no transactions stay as they are.
    pub workloads: Vec<String>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Keys of the machine, each with its values.
    pub settings: Vec<(String, Vec<String>)>,
    /// Operations of a workload; its own number if not given.
    pub operations: Option<u64>,
    /// Language of software logs.
    pub language: Language,
    /// Combinations at a time.
    pub jobs: usize,
    /// A line of JSON per combination goes to the end of this file; those that it has are not run again.
    pub file: PathBuf,
}

/// A combination.
#[derive(Clone, Debug)]
struct Point {
    design: String,
    workload: String,
    threads: u32,
    settings: Vec<(String, String)>,
}

impl Sweep {
    fn points(&self) -> Vec<Point> {
        let mut all = Vec::new();
        let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for (key, values) in &self.settings {
            let with = |before: &Vec<(String, String)>, value: &String| {
                let mut settings = before.clone();
                settings.push((key.clone(), value.clone()));
                settings
            };
            combinations = combinations
                .iter()
                .flat_map(|before| values.iter().map(move |value| with(before, value)))
                .collect();
        }
        for workload in &self.workloads {
            for &threads in &self.threads {
                for settings in &combinations {
                    for design in &self.designs {
                        let (design, workload) = (design.clone(), workload.clone());
                        all.push(Point { design, workload, threads, settings: settings.clone() });
                    }
                }
            }
        }
        all
    }

    /// What identifies a point in the file.
    fn key(&self, point: &Point) -> Value {
        json!({
            "machine": self.machine.label(), "design": point.design, "workload": point.workload,
            "threads": point.threads, "operations": self.operations, "language": self.language.name(),
            "settings": point.settings,
        })
    }

    /// Runs what the file does not have yet. Returns how many were run, and how many were there.
    ///
    /// # Errors
    /// If a name, a setting or the file can't be used; what was finished before stays in the file.
    pub fn run(&self, done: &(dyn Fn(&str) + Sync)) -> Result<(usize, usize), Error> {
        for design in &self.designs {
            Named::find(design)?;
        }
        for name in &self.workloads {
            Workload::find(name).ok_or_else(|| Error::NoWorkload { name: name.clone() })?;
        }
        let known = known(&self.file)?;
        let all = self.points();
        let open: Vec<&Point> =
            all.iter().filter(|point| !known.contains(&self.key(point).to_string())).collect();
        let doing = |doing: &'static str| {
            let path = self.file.clone();
            move |source| Error::File { doing, path, source }
        };
        let cut_off =
            std::fs::read(&self.file).is_ok_and(|text| text.last().is_some_and(|last| *last != b'\n'));
        let mut file =
            OpenOptions::new().create(true).append(true).open(&self.file).map_err(doing("write"))?;
        if cut_off {
            // What follows gets a line of its own.
            file.write_all(b"\n").map_err(doing("write"))?;
        }
        let file = Mutex::new(file);
        let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    while let Some(point) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = self.measure(point).and_then(|line| {
                            let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            // One write, so that a killed run leaves at most one line that is cut off.
                            file.write_all(format!("{line}\n").as_bytes()).map_err(doing("write"))?;
                            done(&format!(
                                "{} on {}, {} threads",
                                point.workload, point.design, point.threads
                            ));
                            Ok(())
                        });
                        if let Err(error) = result {
                            next.store(open.len(), Ordering::Relaxed);
                            *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok((open.len(), all.len() - open.len())),
        }
    }

    fn measure(&self, point: &Point) -> Result<Value, Error> {
        let design = Named::find(&point.design)?;
        let config = design.on(&self.machine.config(None)?)?.with_timed_overrides(&point.settings)?;
        let workload = Workload::find(&point.workload)
            .ok_or_else(|| Error::NoWorkload { name: point.workload.clone() })?;
        let mapping = match workload.transactions() {
            None => Mapping::AsRecorded,
            Some(_) if design.logs_in_software => Mapping::Log(self.language),
            Some(_) => Mapping::Hardware,
        };
        let operations = self.operations.unwrap_or(workload.default_params().operations);
        let params = Params { operations, threads: point.threads, seed: 1 };
        let sink = Mapped::new(Simulation::new(&config)?, mapping);
        let (_, mut sink) = workload.record(&params, sink, pmem::Os::new)?;
        sink.finish()?;
        let figures = sink.inner.figures();
        let mut line = self.key(point);
        let stalled: f64 = figures.threads.iter().map(|thread| thread.stalls.total().ns()).sum();
        line["result"] = json!({
            "elapsed_ns": figures.elapsed.ns(),
            "stalled_ns": stalled,
            "written_bytes": figures.memories[1].total.controller_write_bytes,
            "persistency": figures.persistency,
        });
        Ok(line)
    }
}

/// The combinations that a file has. A line that was cut off is none.
fn known(path: &Path) -> Result<HashSet<String>, Error> {
    let doing = |source| Error::File { doing: "read", path: path.to_path_buf(), source };
    if !path.exists() {
        return Ok(HashSet::new());
    }
    let mut known = HashSet::new();
    for line in BufReader::new(File::open(path).map_err(doing)?).lines() {
        let Ok(mut line) = serde_json::from_str::<Value>(&line.map_err(doing)?) else { continue };
        let complete = line.as_object_mut().and_then(|line| line.remove("result")).is_some();
        if complete {
            known.insert(line.to_string());
        }
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_where_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sweep.jsonl");
        let sweep = Sweep {
            machine: Chosen::new("table-5.1"),
            designs: vec!["x86".to_owned(), "ssp".to_owned()],
            workloads: vec!["array-swap".to_owned()],
            threads: vec![2],
            settings: vec![("cores.pipeline.store_queue".to_owned(), vec!["32".to_owned(), "64".to_owned()])],
            operations: Some(50),
            language: Language::Transactions,
            jobs: 2,
            file: file.clone(),
        };
        assert_eq!(sweep.run(&|_| {}).expect("it runs"), (4, 0));
        // The last line is cut off, as a killed run leaves it.
        let text = std::fs::read_to_string(&file).expect("a text");
        std::fs::write(&file, &text[..text.len() - 20]).expect("written");
        assert_eq!(sweep.run(&|_| {}).expect("it runs"), (1, 3));
        assert_eq!(sweep.run(&|_| {}).expect("it runs"), (0, 4), "what was run again is known then");
        let wrong = Sweep { designs: vec!["hops".to_owned()], ..sweep };
        assert!(wrong.run(&|_| {}).is_err());
    }
}
