//! How an observed program ended.

use std::process::ExitStatus;

use capture::Outcome;
use report::Exit;

/// How a program ended.
#[must_use]
pub fn exit(status: ExitStatus) -> Exit {
    match signal(status) {
        Some((number, name)) => Exit::Signal { number, name },
        None => Exit::Status { code: status.code().unwrap_or(0) },
    }
}

/// The signal that ended the program: its number and name.
#[must_use]
pub fn signal(status: ExitStatus) -> Option<(i32, String)> {
    use std::os::unix::process::ExitStatusExt;
    let number = status.signal()?;
    let names = [
        (1, "SIGHUP"),
        (2, "SIGINT"),
        (3, "SIGQUIT"),
        (4, "SIGILL"),
        (6, "SIGABRT"),
        (7, "SIGBUS"),
        (8, "SIGFPE"),
        (9, "SIGKILL"),
        (11, "SIGSEGV"),
        (13, "SIGPIPE"),
        (14, "SIGALRM"),
        (15, "SIGTERM"),
    ];
    let name = names
        .iter()
        .find(|(n, _)| *n == number)
        .map_or_else(|| format!("signal {number}"), |n| n.1.to_owned());
    Some((number, name))
}

/// How the program ended, in words: `exit status: 1`, `SIGKILL`.
#[must_use]
pub fn ending(status: ExitStatus) -> String {
    match signal(status) {
        Some((_, name)) => name,
        None => status.to_string(),
    }
}

/// The recording's warnings, behind one about an ending that was not a success.
pub fn warnings(outcome: &Outcome, warnings: &[String]) -> Vec<String> {
    let failed = (!outcome.status.success()).then(|| {
        format!("the program ended with {}; everything it did up to then is kept", ending(outcome.status))
    });
    failed.into_iter().chain(warnings.iter().cloned()).collect()
}

/// Why no process loaded the runtime.
pub fn not_observed(outcome: &Outcome) -> String {
    let words: Vec<String> = outcome.warnings.iter().map(ToString::to_string).collect();
    format!("{} (it ended with {})", words.join("; "), ending(outcome.status))
}
