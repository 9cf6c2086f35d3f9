//! `strandline litmus` and `strandline check --litmus`: what a crash may leave of a few instructions, by axioms and by a machine.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;
use crash::litmus::{self, Litmus};
use serde_json::json;

use crate::say;

/// Arguments of `strandline litmus`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline litmus crates/model/hardware/litmus/strand-ef.litmus\n  \
                        strandline litmus --json crates/model/crash/litmus/*.litmus\n\n\
                        A file with `design:` is about a persistency design (x86, non-atomic, eadr, epoch, speculative, battery, strandweaver, undo, \
                        redo, ssp, switch, remote, remote-ddio), one with `platform:` about a platform of the crash checker. docs/litmus.md \
                        describes both.")]
pub struct LitmusArgs {
    /// Litmus tests
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints both outcome sets of each test; whether all agree and are as expected.
pub fn both(args: &LitmusArgs) -> anyhow::Result<bool> {
    let mut all = true;
    let mut answers = Vec::new();
    for file in &args.files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| format!("can't read {name}"))?;
        let (report, on) = if hardware::litmus::is_of_designs(&text) {
            let report = hardware::litmus::check(&hardware::litmus::parse(&name, &text)?);
            let design = report.litmus.design.name().to_owned();
            (report, design)
        } else if !text.lines().any(|line| line.trim_start().starts_with("platform:")) {
            bail!(
                "{name}: neither `platform:` (adr, eadr, epoch, strand) nor `design:` (see --help); say one"
            );
        } else {
            let litmus = Litmus::parse(&name, &text)?;
            (of_platform(&litmus), format!("platform {}", litmus.platform))
        };
        all &= report.holds();
        if args.json {
            answers.push(json!({
                "file": name, "on": on, "holds": report.holds(), "faults": report.faults(),
                "locations": report.litmus.locations,
                "axiomatic": report.axioms, "operational": report.machine,
            }));
        } else {
            let mut text = String::new();
            report.write(&mut text, &on)?;
            say(&text)?;
        }
    }
    if args.json {
        say(&format!("{:#}\n", json!(answers)))?;
    }
    Ok(all)
}

/// A platform's test: outcomes by the checker and by its machine, in the form of those of designs.
fn of_platform(litmus: &Litmus) -> hardware::litmus::Report {
    let values = |all: &[litmus::Condition]| all.iter().map(|condition| condition.0.clone()).collect();
    hardware::litmus::Report {
        litmus: hardware::litmus::Litmus {
            name: litmus.name.clone(),
            design: hardware::litmus::Design::X86,
            locations: litmus.locations.clone(),
            locks: Vec::new(),
            threads: Vec::new(),
            exactly: litmus.exactly.clone(),
            allowed: values(&litmus.allowed),
            forbidden: values(&litmus.forbidden),
        },
        axioms: litmus::outcomes(litmus),
        machine: litmus::operational::outcomes(litmus),
    }
}

/// Prints the outcomes of each test; whether all are as expected.
pub fn run(files: &[PathBuf], as_json: bool) -> anyhow::Result<bool> {
    let mut all = true;
    let mut answers = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| format!("can't read {name}"))?;
        let report = litmus::check(&Litmus::parse(&name, &text)?);
        all &= report.holds();
        if as_json {
            answers.push(json!({
                "file": name, "holds": report.holds(), "outcomes": report.outcomes,
                "unexpected": report.unexpected, "missing": report.missing,
            }));
        } else {
            say(&format!("{report}\n"))?;
        }
    }
    if as_json {
        say(&format!("{:#}\n", json!(answers)))?;
    }
    Ok(all)
}
