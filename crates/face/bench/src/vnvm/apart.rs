//! Four record stores that are processes, as they are, and each in namespaces of its own, as the source has
//! containers.
//!
//! A store that is ready says so with a line and waits for one; then all run at once. It ends with the
//! nanoseconds that it took and the pages that it wrote.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use vnvm::Stats;

use super::contest::{VnvmContest, skip};
use super::records::{INSTANCES, Store};
use super::results::VnvmResults;
use crate::Watch;
use crate::clock::Spent;
use crate::error::Error;

/// Namespaces of a container: users, processes, mounts, names, message queues.
const CONTAINER: [&str; 9] =
    ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount", "--uts", "--ipc", "--kill-child"];

/// Runs one store, for a parent that has started it and speaks with it by standard input and output.
pub fn store(contest: &VnvmContest, instance: u32) -> Result<(), Error> {
    let (load, memory) = super::records::apart(contest);
    let store = Store::open(&contest.nvm, &contest.disk, instance, &load, memory)?;
    let failed = |error| Error::of("the store's parent", error);
    let mut out = std::io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).map_err(failed)?;
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).map_err(failed)? == 0 {
        return Ok(());
    }
    let (ran, spent) = Spent::by(|| store.run(&load));
    ran?;
    writeln!(out, "{}", spent.wall_ns).and_then(|()| out.flush()).map_err(failed)?;
    // The others are measured still: what is counted next must not disturb them.
    std::io::stdin().read_line(&mut line).map_err(failed)?;
    let stats = store.finish()?;
    writeln!(out, "{} {}", stats.pages_written, stats.written_through).map_err(failed)
}

/// A store's process, and what it says.
struct Process {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(worker: &Path, contest: &VnvmContest, before: &[&str], instance: u32) -> Result<Process, Error> {
        let mut words: Vec<OsString> = before.iter().map(Into::into).collect();
        words.push(worker.into());
        words.extend(["bench", "vnvm", "--instance"].map(Into::into));
        words.push(instance.to_string().into());
        let numbers =
            [("--scale", contest.scale), ("--service", contest.service_ns / 1000), ("--seed", contest.seed)];
        numbers.iter().for_each(|(name, value)| words.extend([(*name).into(), value.to_string().into()]));
        words.extend(["--path".into(), contest.nvm.clone().into_os_string()]);
        words.extend(["--disk".into(), contest.disk.clone().into_os_string()]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| Error::of("a store's process", error))?;
        let Some(out) = child.stdout.take() else { return Err(Error::of("a store's process", "no output")) };
        Ok(Process { child, said: BufReader::new(out) })
    }

    /// The numbers in its next line: so many.
    fn next<const N: usize>(&mut self) -> Result<[u64; N], Error> {
        let mut line = String::new();
        let read = self.said.read_line(&mut line).map_err(|error| Error::of("a store's process", error))?;
        if read == 0 {
            return Err(Error::of("a store's process", "it ended early"));
        }
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let unexpected = || Error::of("a store's process", format!("it said `{}`", line.trim()));
        numbers.try_into().map_err(|_| unexpected())
    }

    fn go_on(&mut self) -> Result<(), Error> {
        let input = self.child.stdin.as_mut();
        input.map_or(Ok(()), |input| writeln!(input)).map_err(|error| Error::of("a store's process", error))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // At the end of its input it ends.
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

/// Operations per second of all.
fn together(contest: &VnvmContest, worker: &Path, before: &[&str]) -> Result<(f64, Stats), Error> {
    let folder = tempfile::tempdir_in(&contest.nvm).map_err(Error::file("make a folder in", &contest.nvm))?;
    let disk = tempfile::tempdir_in(&contest.disk).map_err(Error::file("make a folder in", &contest.disk))?;
    let inside =
        VnvmContest { nvm: folder.path().to_owned(), disk: disk.path().to_owned(), ..contest.clone() };
    // One after the other, so that the first one makes the NVM.
    let mut all = Vec::new();
    for instance in 0..INSTANCES {
        let mut process = Process::start(worker, &inside, before, instance)?;
        let [] = process.next()?;
        all.push(process);
    }
    all.iter_mut().try_for_each(Process::go_on)?;
    let mut longest = 1;
    for process in &mut all {
        let [took] = process.next()?;
        longest = longest.max(took);
    }
    let mut stats = Stats::default();
    all.iter_mut().try_for_each(Process::go_on)?;
    for process in &mut all {
        let [written, through] = process.next()?;
        stats.pages_written += written;
        stats.written_through += through;
    }
    let (load, _) = super::records::apart(contest);
    Ok(((load.operations * u64::from(INSTANCES)) as f64 * 1e9 / longest as f64, stats))
}

/// Why there are no namespaces here.
fn no_namespaces() -> Option<String> {
    let output = Command::new(CONTAINER[0]).args(&CONTAINER[1..]).arg("true").output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// A study: its name, what stands before the command, and its runs.
type Kind = (&'static str, &'static [&'static str], Vec<(f64, Stats)>);

/// Measures both, over `base` operations per second in NVM alone.
pub fn measure(
    contest: &VnvmContest,
    base: f64,
    watch: &dyn Watch,
    results: &mut VnvmResults,
) -> Result<(), Error> {
    let Some(worker) = &contest.worker else {
        skip(results, "process, spaces", "the program to start is not known".to_owned(), None);
        return Ok(());
    };
    let (load, memory) = super::records::apart(contest);
    let mut kinds: Vec<Kind> = vec![("process", &[], Vec::new())];
    match no_namespaces() {
        None => kinds.push(("spaces", &CONTAINER, Vec::new())),
        Some(why) => skip(results, "spaces", why, None),
    }
    // By turns: what the disk still has to do from one run is met by the next.
    let all = contest.rounds as usize * kinds.len();
    for round in 0..contest.rounds as usize {
        let done = round * kinds.len();
        for (number, (study, before, runs)) in kinds.iter_mut().enumerate() {
            watch.step(done + number, all, &format!("records, {study}"));
            if watch.stopped() {
                return Ok(());
            }
            runs.push(together(contest, worker, before)?);
        }
    }
    for (study, _, mut runs) in kinds {
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (speed, stats) = runs[runs.len() / 2];
        results.records.push(super::records::row(study, &load, memory, speed, base, &stats));
    }
    Ok(())
}
