//! `strandline record`: a program's events into a trace file, or only counted.

use std::path::Path;
use std::process::ExitStatus;

use anyhow::{anyhow, bail};
use capture::{CaptureError, Options, Outcome};
use event::trace::{Compression, Reader};
use serde_json::json;

use crate::cli::{ObserveArgs, RecordArgs};
use crate::files;
use crate::output::Output;
use crate::progress::{Meter, Progress};
use crate::samples;
use crate::say;

/// Runs the verb.
pub fn run(args: &RecordArgs) -> anyhow::Result<()> {
    let mut options = options(&args.program, &args.observe, args.json);
    options.values = args.values;
    options.files = files::absolute(&args.files)?;
    match &args.output {
        Some(output) => to_file(args, &options, output),
        None => count(args, &options),
    }
}

/// The collector's options from the command line's.
pub fn options(program: &[std::ffi::OsString], observe: &ObserveArgs, json: bool) -> Options {
    let mut options = Options::new(program.to_vec());
    options.sampling = observe.sample;
    options.stdout_to_stderr = json;
    options.lingering = Some(|processes| {
        crate::warn(&format!(
            "the program has ended; processes that it left behind ({processes}) are recorded until they end, or until Ctrl-C"
        ));
    });
    // As the kernel calls them; a path that can't be told is left to match or not.
    options.pmem = files::absolute(&observe.pmem).unwrap_or_else(|_| observe.pmem.clone());
    options
}

/// The arguments that say the same again.
pub fn arguments(observe: &ObserveArgs) -> Vec<String> {
    let mut words: Vec<String> =
        observe.pmem.iter().flat_map(|pattern| ["--pmem".to_owned(), pattern.clone()]).collect();
    if let Some((recorded, period)) = observe.sample {
        words.extend(["--sample".to_owned(), format!("{recorded}/{period}")]);
    }
    words
}

fn to_file(args: &RecordArgs, options: &Options, output: &Path) -> anyhow::Result<()> {
    if let Some(name) = args.program.first().filter(|name| samples::find(Path::new(name)).is_none()) {
        bail!("can't run {}: no such program", name.to_string_lossy());
    }
    let compression = if args.small { Compression::Fast } else { Compression::Light };
    let mut trace = Output::open(output, compression)?;
    trace.refuse_standard_streams()?;
    let mut sink = Progress::new("recording", &mut trace);
    let outcome = capture::record(options, &mut sink).map_err(|error| stopped(error, output))?;
    drop(sink);
    if !outcome.attached {
        trace.abandon();
        bail!("{}", not_observed(&outcome));
    }
    trace.complete()?;
    tell(&outcome);
    let bytes = trace.bytes();
    if args.json {
        let answer = json!({
            "file": output, "bytes": bytes, "events": outcome.events, "threads": outcome.threads.len(),
            "processes": outcome.processes.len(), "exit": ending(&outcome),
        });
        say(&format!("{answer:#}\n"))?;
    } else {
        eprintln!(
            "strandline: {} events of {} in {} ({})",
            report::human::grouped(outcome.events),
            report::human::plural(outcome.threads.len(), "thread"),
            output.display(),
            report::human::bytes(bytes)
        );
    }
    Ok(())
}

fn count(args: &RecordArgs, options: &Options) -> anyhow::Result<()> {
    let mut meter = Meter::new("counting");
    let outcome = capture::count(options, &mut |progress| meter.show(progress.events))?;
    drop(meter);
    let Some(counted) = outcome.counted.filter(|_| outcome.attached) else {
        bail!("{}", not_observed(&outcome))
    };
    tell(&outcome);
    if args.json {
        let answer = json!({
            "loads": counted.loads, "stores": counted.stores, "others": counted.others,
            "exit": ending(&outcome),
        });
        say(&format!("{answer:#}\n"))?;
    } else {
        say(&format!(
            "{} loads, {} stores, {} other events\n",
            report::human::grouped(counted.loads),
            report::human::grouped(counted.stores),
            report::human::grouped(counted.others)
        ))?;
    }
    Ok(())
}

/// What became of the program and the trace where the trace can't be written.
fn stopped(error: CaptureError, output: &Path) -> anyhow::Error {
    let CaptureError::Sink(error) = error else { return error.into() };
    let kept = if output.is_file() && Reader::open(output).is_ok() {
        format!("; what was written until then can be read: strandline trace info {}", output.display())
    } else {
        String::new()
    };
    anyhow!("{error}; the program was stopped, if it had not ended{kept}")
}

/// How the program ended, in words: `exit status: 1`, `SIGKILL`.
pub fn ending(outcome: &Outcome) -> String {
    match signal(outcome.status) {
        Some((_, name)) => name,
        None => outcome.status.to_string(),
    }
}

/// The signal that ended the program.
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

/// Warnings, and an ending that was not a success.
pub fn warnings(outcome: &Outcome) -> Vec<String> {
    let failed = (!outcome.status.success())
        .then(|| format!("the program ended with {}; everything it did up to then is kept", ending(outcome)));
    failed.into_iter().chain(outcome.warnings.iter().map(ToString::to_string)).collect()
}

/// The same on standard error.
pub fn tell(outcome: &Outcome) {
    warnings(outcome).iter().for_each(|warning| crate::warn(warning));
}

/// What to say when no process loaded the runtime.
pub fn not_observed(outcome: &Outcome) -> String {
    let words: Vec<String> = outcome.warnings.iter().map(ToString::to_string).collect();
    format!("{} (it ended with {})", words.join("; "), ending(outcome))
}

#[cfg(test)]
mod tests {
    use event::trace::Writer;
    use event::{Sink, SinkError, Source};

    use super::*;

    #[test]
    fn a_trace_that_ends_with_the_disk_is_named_if_it_can_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let [readable, nothing] = ["a.slt", "b.slt"].map(|name| folder.path().join(name));
        let file = std::fs::File::create(&readable).expect("a file");
        let mut writer = Writer::new(file, "a.slt").expect("room for a header");
        writer.begin(&Source::synthetic("test")).expect("it takes all sources");
        writer.flush().expect("it is written");
        std::fs::write(&nothing, "").expect("a file");
        let told = |output| {
            let full =
                SinkError::Io { context: "full".into(), source: std::io::ErrorKind::StorageFull.into() };
            stopped(CaptureError::Sink(full), output).to_string()
        };
        assert!(told(&readable).ends_with(&format!("strandline trace info {}", readable.display())));
        for unreadable in [nothing.as_path(), Path::new("/dev/full")] {
            assert!(told(unreadable).ends_with("if it had not ended"), "{}", told(unreadable));
        }
    }
}
