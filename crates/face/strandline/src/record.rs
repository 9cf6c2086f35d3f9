//! `strandline record`: a program's events into a trace file, or only counted.

use report::human;
use serde_json::json;
use session::Record;

use crate::cli::RecordArgs;
use crate::progress::terminal;
use crate::{say, warn};

/// Runs the verb.
pub fn run(args: &RecordArgs) -> anyhow::Result<()> {
    let mut program = args.observe.program(&args.program, args.json);
    program.values = args.values;
    program.files.clone_from(&args.files);
    let Some(output) = &args.output else {
        let (counted, outcome) = program.count(terminal())?;
        if args.json {
            let answer = json!({
                "loads": counted.loads, "stores": counted.stores, "others": counted.others,
                "exit": session::ending(outcome.status),
            });
            return say(&format!("{answer:#}\n"));
        }
        return say(&format!(
            "{} loads, {} stores, {} other events\n",
            human::grouped(counted.loads),
            human::grouped(counted.stores),
            human::grouped(counted.others)
        ));
    };
    let recorded = Record { small: args.small, ..Record::new(program, output) }.run(terminal())?;
    let outcome = &recorded.outcome;
    if args.json {
        let answer = json!({
            "file": output, "bytes": recorded.bytes, "events": outcome.events, "threads": outcome.threads.len(),
            "processes": outcome.processes.len(), "exit": session::ending(outcome.status),
            "warnings": recorded.warnings,
        });
        return say(&format!("{answer:#}\n"));
    }
    warn(&format!(
        "{} events of {} in {} ({})",
        human::grouped(outcome.events),
        human::plural(outcome.threads.len(), "thread"),
        output.display(),
        human::bytes(recorded.bytes)
    ));
    Ok(())
}
