//! `strandline check`: does the program survive a crash at any moment?

use anyhow::bail;
use serde_json::Value;
use session::{Check, CheckError, Doubt, Input};

use crate::check_args::CheckArgs;
use crate::progress::terminal;
use crate::{command_line, litmus, say};

/// Runs the verb; whether it found nothing.
pub fn run(args: &CheckArgs) -> anyhow::Result<bool> {
    if !args.litmus.is_empty() {
        return litmus::run(&args.litmus, args.json);
    }
    let check = check(args);
    match (&args.recover, &args.replay) {
        (None, Some(_)) => {
            bail!("to repeat an image, name the command that recovers it: --recover './app --recover POOL'")
        }
        (None, None) => lints(args, &check),
        (Some(_), Some(token)) => {
            let replayed = check.replay(token, terminal())?;
            say(&if args.json { format!("{:#}\n", replayed.json()) } else { replayed.text() })?;
            Ok(replayed.finding.is_none())
        }
        (Some(_), None) => search(args, &check),
    }
}

fn check(args: &CheckArgs) -> Check {
    let input = match (&args.trace, args.program.is_empty()) {
        (Some(trace), _) => Some(Input::Trace(trace.clone())),
        (None, false) => {
            let mut program = args.observe.program(&args.program, args.json);
            program.acks.clone_from(&args.acks);
            program.fail_sync = args.fail_sync;
            Some(Input::Program(program))
        }
        (None, true) => None,
    };
    Check {
        input,
        recover: args.recover.clone(),
        judge: None,
        fail_on: args.fail_on.clone(),
        files: args.files.clone(),
        platform: args.platform,
        sector: args.sector,
        strategy: args.strategy.into(),
        images: args.images,
        findings: args.findings,
        jobs: args.jobs,
        timeout: args.timeout,
        reboot: !args.no_reboot,
        time: args.time,
        seed: args.seed,
        reproducer: args.reproducer.clone(),
        scratch: args.scratch.clone(),
        out: args.out.clone(),
    }
}

fn search(args: &CheckArgs, check: &Check) -> anyhow::Result<bool> {
    let checked = check.run(terminal())?;
    if !checked.is_searched() {
        return no_verdict(args, checked.no_verdict(), || checked.json());
    }
    let mut page = String::new();
    if args.html {
        page = print_page(args, &checked.html(command_line())?)?;
    }
    if args.json {
        say(&format!("{:#}\n", checked.json()))?;
    } else {
        say(&(checked.text() + &page))?;
    }
    match checked.no_verdict() {
        [] => Ok(checked.outcome.findings.is_empty()),
        reasons => Err(CheckError::NoVerdict(reasons.to_vec()).into()),
    }
}

fn lints(args: &CheckArgs, check: &Check) -> anyhow::Result<bool> {
    let linted = check.lints(terminal())?;
    if !linted.no_verdict.is_empty() {
        return no_verdict(args, &linted.no_verdict, || linted.json());
    }
    let mut page = String::new();
    if args.html {
        page = print_page(args, &linted.html(command_line()))?;
    }
    if args.json {
        say(&format!("{:#}\n", linted.json()))?;
    } else {
        say(&(linted.text() + page.trim_start()))?;
    }
    if let Some(reason) = linted.uncovered() {
        return Err(CheckError::NoVerdict(vec![reason.clone()]).into());
    }
    Ok(linted.is_right())
}

/// Says why there is no verdict: as JSON on standard output if that is asked for, and as an error.
fn no_verdict(args: &CheckArgs, doubts: &[Doubt], json: impl FnOnce() -> Value) -> anyhow::Result<bool> {
    if args.json {
        say(&format!("{:#}\n", json()))?;
    }
    Err(CheckError::NoVerdict(doubts.to_vec()).into())
}

/// Writes the page. Returns the line that names it.
fn print_page(args: &CheckArgs, page: &str) -> anyhow::Result<String> {
    let file = args.out.join("check.html");
    session::write(&file, page)?;
    Ok(format!("\nThe page: {}\n", file.display()))
}
