//! The designs by the names that the command line has, and what of a machine each changes.

use machine::{Config, ConfigError};

/// A persistency design as a user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Keys and values of a machine's description.
    settings: &'static [(&'static str, &'static str)],
    /// Whether regions need a software log, which [`crate::Mapped`] writes.
    pub logs_in_software: bool,
}

const ORDERING: &str = "cores.pipeline.ordering";
const DOMAIN: &str = "memory.persistence";

macro_rules! named {
    ($($name:literal $summary:literal $ordering:literal $domain:literal $logs:literal),* $(,)?) => {
        /// All designs.
        pub const DESIGNS: &[Named] = &[$(Named {
            name: $name,
            summary: $summary,
            settings: &[(ORDERING, $ordering), (DOMAIN, $domain)],
            logs_in_software: $logs,
        }),*];
    };
}

named! {
    "x86" "flushes and store fences; log and update of each store are fenced apart" "x86" "adr" true,
    "non-atomic" "the same without that fence: nothing can be recovered, a bound for all that follows" "non-atomic" "adr" true,
    "eadr" "caches are durable: no flush, no fence for persists" "tso" "eadr" true,
    "epoch" "epochs after HOPS: persist buffers, a light fence that orders and a heavy one that waits" "hops" "adr" true,
    "speculative" "epochs after ASAP: persists leave before their turn and are undone if a crash comes between" "asap" "adr" true,
    "battery" "battery-backed buffers after BBB: durable as soon as visible" "bbb" "adr" true,
    "strandweaver" "strands: persist queue and strand buffers" "strand" "adr" true,
    "strand-no-queue" "strands without the persist queue: marks and flushes wait in the store queue" "strand-no-queue" "adr" true,
    "undo" "hardware undo logging: a store waits until its old value is in the log" "undo" "adr" false,
    "redo" "hardware redo logging after DHTM: a region waits for its log, data follow" "redo" "adr" false,
    "ssp" "shadow sub-paging: lines go to the other of two pages, a journal commits bitmaps" "ssp" "adr" false,
    "switch" "x86 behind a CXL switch whose buffer is persistent: a line is durable there" "switch" "adr" true,
}

/// No design has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no persistency design; there are {known}")]
pub struct UnknownDesign {
    name: String,
    known: String,
}

impl Named {
    /// The design of that name.
    ///
    /// # Errors
    /// If there is none, with the names there are.
    pub fn find(name: &str) -> Result<&'static Named, UnknownDesign> {
        DESIGNS.iter().find(|design| design.name == name).ok_or_else(|| UnknownDesign {
            name: name.to_owned(),
            known: DESIGNS.iter().map(|design| design.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// A machine with this design, else as described.
    ///
    /// # Errors
    /// If the machine can't have it.
    pub fn on(&self, config: &Config) -> Result<Config, ConfigError> {
        config.with_overrides(self.settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_design_is_built_on_every_machine_of_its_sources() {
        for machine in ["table-3.1", "table-5.1", "xpoint"] {
            let config = Config::preset(machine).expect("a preset");
            for design in DESIGNS {
                let config = design.on(&config).expect(design.name);
                machine::Simulation::new(&config).expect(design.name);
            }
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_names_there_are() {
        let error = Named::find("hops").expect_err("it is called epoch").to_string();
        assert!(error.contains("`hops`") && error.contains("x86, non-atomic, eadr, epoch"), "{error}");
    }
}
