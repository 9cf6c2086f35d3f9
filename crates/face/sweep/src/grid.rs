//! A grid as the user writes it: words with one value or several.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use hardware::{Language, Named};
use machine::Config;
use serde_json::{Map, Value};
use workload::Workload;

use crate::compute::content_hash;
use crate::error::SweepError;
use crate::run::{Machine, Run, Source, hash_of};

/// Words of a grid, beside keys of machines.
const WORDS: &str = "trace, workload, operations, threads, workload_seed, row, machine, persistency, language, seed, set, store, \
                     output, chunk";
/// Words that say something of one kind of input only, with the kinds.
const OF_INPUTS: [(&str, &[&str]); 7] = [
    ("operations", &["workload"]),
    ("threads", &["workload"]),
    ("workload_seed", &["workload"]),
    ("machine", &["trace", "workload"]),
    ("persistency", &["trace", "workload"]),
    ("language", &["trace", "workload"]),
    ("set", &["trace", "workload"]),
];
/// Runs of a grid, at most: more are a mistake.
const RUNS_MAX: usize = 10_000_000;

/// A set of configurations.
#[derive(Clone, Debug)]
pub struct Grid {
    origin: String,
    /// Where relative paths begin.
    folder: PathBuf,
    words: Map<String, Value>,
}

impl Grid {
    /// The grid in a TOML file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// If it can't be read or is none.
    pub fn load(path: &Path) -> Result<Grid, SweepError> {
        let text = std::fs::read_to_string(path).map_err(SweepError::file("read", path))?;
        let origin = path.display().to_string();
        let words = toml::from_str(&text)
            .map_err(|error| SweepError::Grid { origin: origin.clone(), reason: error.to_string() })?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Grid { origin, folder, words }.checked()
    }

    /// The grid in a JSON object. Paths are relative to the process's folder.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(json: &str) -> Result<Grid, SweepError> {
        let origin = "the grid".to_owned();
        let words = serde_json::from_str(json)
            .map_err(|error| SweepError::Grid { origin: origin.clone(), reason: error.to_string() })?;
        Grid { origin, folder: PathBuf::new(), words }.checked()
    }

    fn wrong(&self, reason: impl Into<String>) -> SweepError {
        SweepError::Grid { origin: self.origin.clone(), reason: reason.into() }
    }

    fn checked(self) -> Result<Grid, SweepError> {
        for (word, value) in &self.words {
            // What has a dot is a key of machines, and so is a table: TOML makes one of a key with a dot.
            if !is_word(word) && !word.contains('.') && !value.is_object() {
                return Err(self.wrong(format!(
                    "no such word `{word}`; there are {WORDS}, and keys of machines such as device.buffer.lines"
                )));
            }
        }
        let inputs =
            ["trace", "workload", "row"].iter().filter(|word| self.words.contains_key(**word)).count();
        match inputs {
            0 => {
                let inputs = "trace = \"FILE.slt\", workload = [\"NAME\"] or row = [\"ID\"]";
                return Err(self.wrong(format!("nothing to run: give {inputs}")));
            }
            1 => {}
            _ => return Err(self.wrong("trace, workload and row are three kinds of input: give one")),
        }
        self.words.iter().try_for_each(|(word, value)| self.takes(word, value))?;
        Ok(self)
    }

    /// Refuses what would change nothing: a list without values, a word for another input, a value that is
    /// not looked at.
    fn takes(&self, word: &str, value: &Value) -> Result<(), SweepError> {
        if value.as_array().is_some_and(Vec::is_empty) {
            return Err(self.wrong(format!("{word} has no values")));
        }
        let known = OF_INPUTS.iter().find(|(of_input, _)| *of_input == word);
        let inputs: &[&str] = match known {
            Some((_, inputs)) => inputs,
            None if !is_word(word) => &["trace", "workload"],
            None => &["trace", "workload", "row"],
        };
        if !value.is_null() && !inputs.iter().any(|input| self.words.contains_key(*input)) {
            return Err(
                self.wrong(format!("{word} changes nothing here: it is for {}", inputs.join(" and ")))
            );
        }
        match word {
            "store" | "output" if !value.is_null() && !value.is_string() => {
                Err(self.wrong(format!("{word} is the name of a file or folder, not {value}")))
            }
            "chunk" if !value.is_null() && value.as_u64().is_none_or(|number| number == 0) => {
                Err(self.wrong(format!("chunk is a whole number from 1 on, not {value}")))
            }
            _ => Ok(()),
        }
    }

    /// Where results are kept, if the grid says.
    #[must_use]
    pub fn store(&self) -> Option<PathBuf> {
        self.path_of("store")
    }

    /// Where the table goes, if the grid says.
    #[must_use]
    pub fn output(&self) -> Option<PathBuf> {
        self.path_of("output")
    }

    /// Runs of a task, if the grid says.
    #[must_use]
    pub fn chunk(&self) -> Option<usize> {
        self.words.get("chunk")?.as_u64().and_then(|number| usize::try_from(number).ok())
    }

    fn path_of(&self, word: &str) -> Option<PathBuf> {
        Some(self.folder.join(self.words.get(word)?.as_str()?))
    }

    /// One value or several, as a list.
    fn list(&self, word: &str) -> Vec<Value> {
        match self.words.get(word) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(values)) => values.clone(),
            Some(value) => vec![value.clone()],
        }
    }

    fn texts(&self, word: &str) -> Result<Vec<String>, SweepError> {
        let text = |value: &Value| {
            value
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| self.wrong(format!("{word} is a text or a list of texts, not {value}")))
        };
        self.list(word).iter().map(text).collect()
    }

    fn numbers(&self, word: &str) -> Result<Vec<u64>, SweepError> {
        let number = |value: &Value| {
            value
                .as_u64()
                .ok_or_else(|| self.wrong(format!("{word} is a whole number or a list of them, not {value}")))
        };
        self.list(word).iter().map(number).collect()
    }

    /// All combinations, with their addresses. The last word varies fastest.
    ///
    /// # Errors
    /// If a name, a file or a word is wrong.
    pub fn runs(&self) -> Result<Vec<(String, Run)>, SweepError> {
        let seeds = or_none(self.numbers("seed")?);
        let sources = self.sources()?;
        if self.words.contains_key("row") {
            self.refuse_more(sources.len().saturating_mul(seeds.len()))?;
            let row = |source: &Source, seed: &Option<u64>| {
                let (machine, settings) = (Machine::default(), Vec::new());
                Run {
                    source: source.clone(),
                    machine,
                    settings,
                    persistency: None,
                    language: None,
                    seed: *seed,
                }
            };
            let runs = sources.iter().flat_map(|source| seeds.iter().map(move |seed| row(source, seed)));
            return Ok(runs.map(|run| (run.address(&where_measured(&run.source)), run)).collect());
        }
        let designs = self.texts("persistency")?;
        designs.iter().try_for_each(|name| Named::find(name).map(|_| ()))?;
        let designs = or_none(designs);
        let languages = or_none(self.languages()?);
        let settings = self.combinations()?;
        let machines = self.machines()?;
        let lists =
            [sources.len(), machines.len(), settings.len(), designs.len(), languages.len(), seeds.len()];
        let all = lists.into_iter().fold(1, usize::saturating_mul);
        self.refuse_more(all)?;
        let mut runs = Vec::with_capacity(all);
        for source in &sources {
            for (machine, hash) in &machines {
                for settings in &settings {
                    for persistency in &designs {
                        for language in &languages {
                            for seed in &seeds {
                                let run = Run {
                                    source: source.clone(),
                                    machine: machine.clone(),
                                    settings: settings.clone(),
                                    persistency: persistency.clone(),
                                    language: language.clone(),
                                    seed: *seed,
                                };
                                runs.push((run.address(hash), run));
                            }
                        }
                    }
                }
            }
        }
        Ok(runs)
    }

    /// Refuses what is a mistake before it is made.
    fn refuse_more(&self, combinations: usize) -> Result<(), SweepError> {
        if combinations > RUNS_MAX {
            return Err(self.wrong(format!("{combinations} combinations; at most {RUNS_MAX}")));
        }
        Ok(())
    }

    fn languages(&self) -> Result<Vec<String>, SweepError> {
        let languages = self.texts("language")?;
        match languages.iter().find(|name| !Language::ALL.iter().any(|known| known.name() == *name)) {
            Some(name) => Err(self.wrong(format!("no language `{name}`; there are tx, atlas, sfr"))),
            None => Ok(languages),
        }
    }

    fn sources(&self) -> Result<Vec<Source>, SweepError> {
        let traces = self.texts("trace")?;
        if !traces.is_empty() {
            return traces.iter().map(|trace| self.trace(trace)).collect();
        }
        let rows = self.texts("row")?;
        if !rows.is_empty() {
            let chosen = studies::select(&rows).map_err(session::Error::from)?;
            return Ok(chosen.iter().map(|row| Source::Row { id: row.id.to_owned() }).collect());
        }
        let (threads, seeds) = (or(self.numbers("threads")?, 1), or(self.numbers("workload_seed")?, 1));
        let operations = self.numbers("operations")?;
        if operations.contains(&0) {
            return Err(self.wrong("operations = 0: from 1 on"));
        }
        let operations = or_none(operations);
        let names = self.texts("workload")?;
        let lists = [names.len(), operations.len(), threads.len(), seeds.len()];
        self.refuse_more(lists.into_iter().fold(1, usize::saturating_mul))?;
        let mut sources = Vec::new();
        for name in names {
            let workload =
                Workload::find(&name).ok_or_else(|| session::Error::NoWorkload { name: name.clone() })?;
            for operations in &operations {
                for &number in &threads {
                    let threads = u32::try_from(number).ok().filter(|number| (1..=64).contains(number));
                    let threads =
                        threads.ok_or_else(|| self.wrong(format!("threads = {number}: 1 to 64")))?;
                    for &seed in &seeds {
                        let operations = operations.unwrap_or(workload.default_params().operations);
                        sources.push(Source::Workload { name: name.clone(), operations, threads, seed });
                    }
                }
            }
        }
        Ok(sources)
    }

    fn trace(&self, name: &str) -> Result<Source, SweepError> {
        let path = self.folder.join(name);
        let path = path.canonicalize().map_err(SweepError::file("read", &path))?;
        // What is no trace is refused now, not by every worker.
        trace::Reader::open(&path).map_err(session::Error::from)?;
        let content = content_hash(&path)?;
        Ok(Source::Trace { path, content })
    }

    /// The machines, each with the hash of its whole description.
    fn machines(&self) -> Result<Vec<(Machine, String)>, SweepError> {
        let mut named = self.list("machine");
        if named.is_empty() {
            named.push(Value::from("xpoint"));
        }
        let mut machines = Vec::new();
        for value in &named {
            let machine = self.machine(value)?;
            let config = machine.config()?;
            self.try_each_setting(&config)?;
            machines.push((machine, hash_of(&config)?));
        }
        Ok(machines)
    }

    /// A name, or `{ name, text, settings }`.
    fn machine(&self, value: &Value) -> Result<Machine, SweepError> {
        let Value::String(name) = value else {
            return serde_json::from_value(value.clone()).map_err(|error| {
                self.wrong(format!("machine {value}: {error}; use a preset's name or a TOML file's"))
            });
        };
        if Config::preset_text(name).is_some() {
            return Ok(Machine { name: name.clone(), ..Machine::default() });
        }
        let path = self.folder.join(name);
        if !path.exists() {
            // The message lists the presets.
            Config::load(name)?;
        }
        // The text goes with the run: another computer may not have the file.
        let text = std::fs::read_to_string(&path).map_err(SweepError::file("read", &path))?;
        Ok(Machine { name: path.display().to_string(), text: Some(text), settings: Vec::new() })
    }

    /// A key that no description has is a mistake. A value that one machine can't have is a row with an error.
    fn try_each_setting(&self, config: &Config) -> Result<(), SweepError> {
        for (key, values) in self.axes()? {
            // A key is the same for all of its values.
            let first = values.first().map(|value| config.with_timed_overrides(&[(&key, value)]));
            if let Some(Err(error @ machine::ConfigError::Key { .. })) = first {
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Keys of the machine with their values, as the command line would have them.
    fn axes(&self) -> Result<Vec<(String, Vec<String>)>, SweepError> {
        let mut axes = Vec::new();
        for (word, value) in &self.words {
            match value {
                Value::Object(tables) if !is_word(word) => self.flatten(word, tables, &mut axes)?,
                value if word.contains('.') => axes.push((word.clone(), self.values(word, value)?)),
                _ => {}
            }
        }
        match self.words.get("set") {
            None => {}
            Some(Value::Object(tables)) => {
                if let Some(word) = tables.keys().find(|key| is_word(key)) {
                    let reason = format!("{word} is a word of the grid, not of set: give it beside set");
                    return Err(self.wrong(reason));
                }
                self.flatten("", tables, &mut axes)?;
            }
            Some(other) => {
                return Err(self.wrong(format!("set is a table of keys of the machine, not {other}")));
            }
        }
        Ok(axes)
    }

    fn flatten(
        &self,
        before: &str,
        tables: &Map<String, Value>,
        axes: &mut Vec<(String, Vec<String>)>,
    ) -> Result<(), SweepError> {
        if tables.is_empty() && !before.is_empty() {
            return Err(self.wrong(format!("{before} has no keys")));
        }
        for (key, value) in tables {
            let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
            match value {
                Value::Object(inner) => self.flatten(&key, inner, axes)?,
                value => axes.push((key.clone(), self.values(&key, value)?)),
            }
        }
        Ok(())
    }

    fn values(&self, key: &str, value: &Value) -> Result<Vec<String>, SweepError> {
        let one = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            other => Err(self.wrong(format!("{key}: a text, a number, or a list of these, not {other}"))),
        };
        match value {
            Value::Array(values) => values.iter().map(one).collect(),
            value => Ok(vec![one(value)?]),
        }
    }

    fn combinations(&self) -> Result<Vec<Vec<(String, String)>>, SweepError> {
        let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
        let mut seen: HashMap<String, ()> = HashMap::new();
        for (key, values) in self.axes()? {
            if seen.insert(key.clone(), ()).is_some() {
                return Err(self.wrong(format!("{key} is given twice")));
            }
            if values.is_empty() {
                return Err(self.wrong(format!("{key} has no values")));
            }
            self.refuse_more(combinations.len().saturating_mul(values.len()))?;
            combinations = combinations
                .iter()
                .flat_map(|before| {
                    values.iter().map(|value| {
                        let mut settings = before.clone();
                        settings.push((key.clone(), value.clone()));
                        settings
                    })
                })
                .collect();
        }
        Ok(combinations)
    }
}

/// What a published result depends on beside the models: times of this computer are this computer's.
fn where_measured(source: &Source) -> String {
    let Source::Row { id } = source else { return String::new() };
    let here = studies::rows().any(|row| row.id == id && matches!(row.means, studies::Means::Here(_)));
    if here { pmem::probe::conditions(&[]).processor } else { String::new() }
}

/// Whether it is one of a grid's own words, and no key of machines.
fn is_word(word: &str) -> bool {
    WORDS.split(',').any(|known| known.trim() == word)
}

fn or<T>(values: Vec<T>, default: T) -> Vec<T> {
    if values.is_empty() { vec![default] } else { values }
}

fn or_none<T>(values: Vec<T>) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.into_iter().map(Some).collect() }
}
