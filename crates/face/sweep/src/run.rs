//! One run: an input, a machine, a design, a seed; and its address.

use std::path::PathBuf;

use hardware::{Language, Named};
use machine::Config;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::SweepError;
use crate::version::VERSION;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A trace file.
    Trace {
        /// Where it is.
        path: PathBuf,
        /// Hash of its content.
        content: String,
    },
    /// A built-in workload.
    Workload {
        /// Its name.
        name: String,
        /// Operations.
        operations: u64,
        /// Threads. With more than one, the order of their events is the computer's.
        threads: u32,
        /// Seed of its choices.
        seed: u64,
    },
    /// A published result.
    Row {
        /// Its id.
        id: String,
    },
}

/// A machine as the grid names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// A preset's name, the path of a TOML file, or what messages call the text.
    pub name: String,
    /// The description as text, if it is no preset's.
    pub text: Option<String>,
    /// Keys and values that replace its own.
    pub settings: Vec<(String, String)>,
}

impl Machine {
    /// The description, without what a sweep varies.
    ///
    /// # Errors
    /// If there is no such machine, or its description or a setting is wrong.
    pub fn config(&self) -> Result<Config, SweepError> {
        let config = match &self.text {
            Some(text) => Config::parse(text, &self.name)?,
            None => Config::load(&self.name)?,
        };
        Ok(config.with_timed_overrides(&self.settings)?)
    }

    /// The name in tables.
    #[must_use]
    pub fn label(&self) -> String {
        let settings: String = self.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("{}{settings}", self.name)
    }
}

/// One configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What is run.
    pub source: Source,
    /// On which machine; of a published result, which has its own, an empty one.
    pub machine: Machine,
    /// What the sweep varies in it.
    pub settings: Vec<(String, String)>,
    /// A persistency design; the machine's own if none.
    pub persistency: Option<String>,
    /// Language of software logs.
    pub language: Option<String>,
    /// Seed of the machine's random choices; its description's if none.
    pub seed: Option<u64>,
}

impl Run {
    /// The machine of the run.
    ///
    /// # Errors
    /// If there can be no such machine.
    pub fn config(&self, base: &Config) -> Result<Config, SweepError> {
        let config = match &self.persistency {
            Some(name) => Named::find(name)?.on(base)?,
            None => base.clone(),
        };
        let mut config = config.with_timed_overrides(&self.settings)?;
        config.seed = self.seed.unwrap_or(config.seed);
        Ok(config)
    }

    /// The language of software logs.
    #[must_use]
    pub fn language(&self) -> Option<Language> {
        let name = self.language.as_deref()?;
        Language::ALL.into_iter().find(|language| language.name() == name)
    }

    /// The hash of everything that the result depends on; `machine` is that of the base description. Where a trace lies does not
    /// count, nor what a machine is called.
    #[must_use]
    pub fn address(&self, machine: &str) -> String {
        let source = match &self.source {
            Source::Trace { content, .. } => json!({ "trace": content }),
            other => serde_json::to_value(other).unwrap_or(Value::Null),
        };
        let whole =
            json!([VERSION, source, machine, self.settings, self.persistency, self.language, self.seed]);
        format!("{:032x}", xxh3_128(whole.to_string().as_bytes()))
    }
}

/// The hash of a description: of all that was read for it, files of curves included.
pub(crate) fn hash_of(config: &Config) -> Result<String, SweepError> {
    let mut config = config.clone();
    config.name.clear();
    // What was read out of other files is in the devices, and not in what a description is written as.
    let whole = format!("{}{:?}{:?}", serde_json::to_string(&config)?, config.device, config.other_memory);
    Ok(format!("{:032x}", xxh3_128(whole.as_bytes())))
}
