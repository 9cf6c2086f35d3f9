//! `strandline reproduce`: every published result beside ours.

use session::Reproduce;
use studies::Verdict;

use crate::cli::ReproduceArgs;
use crate::progress::terminal;
use crate::{print, profile, say};

/// Runs the verb. Returns whether no row missed.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<bool> {
    let reproduce = Reproduce { names: args.names.clone(), seed: args.seed };
    let width = profile::width();
    if args.list {
        let rows = reproduce.rows()?;
        let lines: String = rows.iter().map(|row| studies::list(row, width)).collect();
        say(&lines)?;
        return Ok(true);
    }
    let quiet = args.json || args.html;
    let outcomes = reproduce.run(terminal(), |outcome| {
        if quiet {
            return Ok(());
        }
        terminal().aside(|| print(&(studies::entry(outcome, width) + "\n")))
    })?;
    let page = || studies::page(&outcomes, command(args));
    if let Some(folder) = &args.out {
        session::make_folder(folder)?;
        session::write(&folder.join("reproduce.html"), &page())?;
        session::write(&folder.join("reproduce.json"), &studies::json(&outcomes))?;
        session::write(&folder.join("reproduce.md"), &studies::markdown(&outcomes))?;
    }
    if args.json {
        say(&studies::json(&outcomes))?;
    } else if args.html {
        say(&page())?;
    } else {
        say(&format!("{}\n", studies::summary(&outcomes)))?;
    }
    Ok(outcomes.iter().all(|outcome| outcome.verdict != Verdict::Missed))
}

/// The command that makes the same page.
fn command(args: &ReproduceArgs) -> Vec<String> {
    let mut words: Vec<String> = ["strandline", "reproduce"].map(str::to_owned).into();
    words.extend(args.names.clone());
    if let Some(seed) = args.seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    words.push("--html".to_owned());
    words
}
