//! `strandline doctor`: what this machine has, and which verbs are limited by what it lacks.

use clap::Args;
use session::Doctor;

use crate::say;

/// Arguments of `strandline doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  strandline doctor\n  \
                        strandline doctor --json | jq '.limits[] | {verb, remedy}'\n\n\
                        It changes nothing. A verb that is limited is no finding: the exit status is 0.")]
pub struct DoctorArgs {
    /// Print JSON (docs/doctor.md says what is in it)
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let found = Doctor::look();
    if args.json {
        return say(&format!("{}\n", serde_json::to_string_pretty(&found.json())?));
    }
    say(&found.text())
}
