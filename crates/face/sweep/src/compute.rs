//! Tasks computed: several runs of one input, which is decoded once.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use event::{Batch, Capabilities, Definition, Sink, SinkError};
use hardware::{Mapped, Mapping, Named};
use machine::{Config, ConfigError, Simulation};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use session::{BuiltIn, Input, Silent};
use workload::Workload;
use xxhash_rust::xxh3::Xxh3;

use crate::error::SweepError;
use crate::result;
use crate::run::{Run, Source};
use crate::version::VERSION;

/// What a task is as text.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub version: String,
    /// Addresses, with their runs.
    pub runs: Vec<(String, Run)>,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub results: Vec<(String, Value)>,
}

/// Computes a task of [`crate::Sweep::tasks`], in any process that can read the trace.
///
/// # Errors
/// If the text is no task, the input can't be played, or the trace or the models are other ones than the sweep's.
pub fn compute(task: &str) -> Result<String, SweepError> {
    let task: Task = serde_json::from_str(task)?;
    if task.version != VERSION {
        return Err(SweepError::OtherVersion { wanted: task.version });
    }
    let mut results = Vec::new();
    // Runs of one input stand together.
    for group in task.runs.chunk_by(|one, two| one.1.source == two.1.source) {
        results.extend(together(group)?);
    }
    Ok(serde_json::to_string(&Answer { results })?)
}

fn together(runs: &[(String, Run)]) -> Result<Vec<(String, Value)>, SweepError> {
    let Some((_, first)) = runs.first() else { return Ok(Vec::new()) };
    if let Source::Row { id } = &first.source {
        let value = published(id, first.seed)?;
        return Ok(runs.iter().map(|(address, _)| (address.clone(), value.clone())).collect());
    }
    let input = input_of(&first.source)?;
    let mut bases: HashMap<String, Config> = HashMap::new();
    let mut machines = Vec::new();
    let mut results: Vec<Option<Value>> = vec![None; runs.len()];
    for (at, (_, run)) in runs.iter().enumerate() {
        match simulation(run, &mut bases) {
            Ok(simulation) => machines.push((at, simulation)),
            // Not the machine's fault, and another time or computer may have the file: no result.
            Err(error @ SweepError::Machine(ConfigError::Read { .. })) => return Err(error),
            Err(error) => results[at] = Some(result::of_error(&error)),
        }
    }
    let mut many = Many(machines);
    if !many.0.is_empty() {
        input.play("sweeping", &Silent, &mut many, &mut [])?;
    }
    for (at, simulation) in &many.0 {
        results[*at] = Some(result::of_figures(&simulation.inner.figures()));
    }
    let found = runs.iter().zip(results);
    Ok(found.map(|((address, _), value)| (address.clone(), value.unwrap_or(Value::Null))).collect())
}

/// The machine of a run, ready for events.
fn simulation(run: &Run, bases: &mut HashMap<String, Config>) -> Result<Mapped<Simulation>, SweepError> {
    let label = serde_json::to_string(&run.machine)?;
    if !bases.contains_key(&label) {
        bases.insert(label.clone(), run.machine.config()?);
    }
    let config = run.config(&bases[&label])?;
    let mapping = match &run.persistency {
        Some(name) => mapping(run, Named::find(name)?),
        None => Mapping::AsRecorded,
    };
    Ok(Mapped::new(Simulation::new(&config)?, mapping))
}

/// What is made of the input's regions for a design, as `simulate` does.
fn mapping(run: &Run, design: &Named) -> Mapping {
    let transactions = match &run.source {
        Source::Workload { name, .. } => {
            Workload::find(name).is_some_and(|workload| workload.transactions().is_some())
        }
        Source::Trace { .. } | Source::Row { .. } => false,
    };
    match run.language().or(transactions.then_some(hardware::Language::Transactions)) {
        Some(language) if design.logs_in_software => Mapping::Log(language),
        Some(_) => Mapping::Hardware,
        None => Mapping::AsRecorded,
    }
}

fn input_of(source: &Source) -> Result<Input, SweepError> {
    match source {
        Source::Trace { path, content } => {
            let found = content_hash(path)?;
            if found != *content {
                return Err(SweepError::OtherTrace { path: path.clone(), found, wanted: content.clone() });
            }
            Ok(Input::Trace(path.clone()))
        }
        Source::Workload { name, operations, threads, seed } => Ok(Input::BuiltIn(BuiltIn {
            name: name.clone(),
            operations: Some(*operations),
            threads: *threads,
            seed: Some(*seed),
        })),
        Source::Row { id } => {
            Err(SweepError::Grid { origin: id.clone(), reason: "a published result is no input".to_owned() })
        }
    }
}

/// A published result, measured again.
fn published(id: &str, seed: Option<u64>) -> Result<Value, SweepError> {
    let reproduce = session::Reproduce { names: vec![id.to_owned()], seed };
    match reproduce.run(&Silent, |_| Ok(())) {
        Ok(outcomes) => Ok(outcomes.first().map_or(Value::Null, result::of_outcome)),
        Err(error @ session::Error::Row { .. }) => Ok(result::of_error(&error)),
        Err(error) => Err(error.into()),
    }
}

/// Which file it is, its length, when it was written, and when it was changed, which nobody can set.
type Stamp = [i64; 7];

/// The hash of a file's content. A file that has not changed since it was asked for is not read again.
pub(crate) fn content_hash(path: &Path) -> Result<String, SweepError> {
    static KNOWN: Mutex<Option<HashMap<PathBuf, (Stamp, String)>>> = Mutex::new(None);
    let failed = || SweepError::file("read", path);
    let mut file = File::open(path).map_err(failed())?;
    let about = file.metadata().map_err(failed())?;
    let which = [about.dev() as i64, about.ino() as i64, about.len() as i64];
    let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
    let stamp = [which[0], which[1], which[2], times[0], times[1], times[2], times[3]];
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some((_, hash)) = known.get(path).filter(|(of, _)| *of == stamp) {
        return Ok(hash.clone());
    }
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(failed())? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let hash = format!("{:032x}", hasher.digest128());
    known.insert(path.to_owned(), (stamp, hash.clone()));
    Ok(hash)
}

/// Machines that take the same events one after the other, with the run's number.
struct Many(Vec<(usize, Mapped<Simulation>)>);

impl Sink for Many {
    fn name(&self) -> &'static str {
        "sweep"
    }
    fn needs(&self) -> Capabilities {
        self.0.iter().fold(Capabilities::empty(), |all, (_, one)| all | one.needs())
    }
    fn begin(&mut self, source: &event::Source) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|(_, one)| one.begin(source))
    }
    fn define(&mut self, definition: Definition<'_>) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|(_, one)| one.define(definition))
    }
    fn push(&mut self, batch: Batch<'_>) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|(_, one)| one.push(batch))
    }
    fn pause(&mut self) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|(_, one)| one.pause())
    }
    fn finish(&mut self) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|(_, one)| one.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_of_the_same_length_and_time_has_its_own_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "first").expect("written");
        let first = content_hash(&path).expect("read");
        let time = path.metadata().and_then(|about| about.modified()).expect("a time");
        std::fs::write(&other, "other").expect("written");
        File::options().write(true).open(&other).and_then(|file| file.set_modified(time)).expect("set");
        std::fs::rename(&other, &path).expect("renamed");
        assert_ne!(content_hash(&path).expect("read"), first);
        assert_eq!(path.metadata().and_then(|about| about.modified()).expect("a time"), time);
    }
}
