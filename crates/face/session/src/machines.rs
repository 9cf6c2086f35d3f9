//! A modelled machine as a user names it: a preset or a file, and values that replace its own.

use machine::{Config, ConfigError};

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// A preset's name, or the path of a TOML file.
    pub machine: String,
    /// Keys and values that replace the machine's own, as `("llc.size", "16MiB")`.
    pub settings: Vec<(String, String)>,
}

impl Chosen {
    /// The machine as its preset or file describes it.
    #[must_use]
    pub fn new(machine: impl Into<String>) -> Self {
        Chosen { machine: machine.into(), settings: Vec::new() }
    }

    /// The machine's name in tables: its own, and what was set.
    #[must_use]
    pub fn label(&self) -> String {
        let settings: String = self.settings.iter().map(|(key, value)| format!(" {key}={value}")).collect();
        format!("{}{settings}", self.machine)
    }

    /// The machine's description; `seed` replaces the one of its file.
    ///
    /// # Errors
    /// If there is no such machine, or its description or a setting is wrong.
    pub fn config(&self, seed: Option<u64>) -> Result<Config, ConfigError> {
        let mut config = crate::host::load(&self.machine)?.with_timed_overrides(&self.settings)?;
        config.seed = seed.unwrap_or(config.seed);
        Ok(config)
    }

    /// The options of the command line that name the machine again.
    #[must_use]
    pub fn arguments(&self) -> Vec<String> {
        let mut words = vec!["--machine".to_owned(), self.machine.clone()];
        for (key, value) in &self.settings {
            words.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        words
    }
}
